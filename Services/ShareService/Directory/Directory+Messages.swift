// The bus's questions to the directory, answered.

import Crypto
import Records
import ServiceBus

extension Directory {
  /// How long gateways may keep an answer when `DirectoryChanged` does not reach them. Unit: seconds.
  private static let answerLifetimeSeconds = 60

  func authenticate(_ message: Authenticate) throws -> Authenticate.Reply {
    func refuse(_ refusal: Authenticate.Reply.Refusal) -> Authenticate.Reply { .init(refusal: refusal, lifetimeSeconds: Self.answerLifetimeSeconds) }
    let isOperator = message.userToken.map(isOperatorToken) ?? false
    guard let container = message.container else {
      return isOperator ? .init(isOperator: true, lifetimeSeconds: Self.answerLifetimeSeconds) : refuse(.userToken)
    }
    guard try keyIfPresent(of: container) != nil else { return refuse(.container) }
    var allowedOrigins: [String] = []
    if let apiToken = message.apiToken {
      guard let environment = message.environment, let origins = try self.allowedOrigins(forAPIToken: apiToken, container, environment) else {
        return refuse(.apiToken)
      }
      allowedOrigins = origins
    } else if message.userToken == nil {
      return refuse(.apiToken)
    }
    if isOperator { return .init(isOperator: true, allowedOrigins: allowedOrigins, lifetimeSeconds: Self.answerLifetimeSeconds) }
    guard let userToken = message.userToken else { return .init(allowedOrigins: allowedOrigins, lifetimeSeconds: Self.answerLifetimeSeconds) }
    guard let recordName = try userRecordName(forWebAuthToken: userToken) else { return refuse(.userToken) }
    return .init(
      userRecordName: recordName, allowedOrigins: allowedOrigins, lifetimeSeconds: Self.answerLifetimeSeconds,
      standing: try standing(ofUser: recordName, container, message.environment))
  }

  /// - Throws: `notFound`, for a disabled user too: he is nobody to others, and nothing is told him.
  func lookUp(_ message: LookUpUser) throws -> LookUpUser.Reply {
    guard let user = try user(recordName: message.userRecordName), !user.isDisabled else {
      throw RecordError(.notFound, "There is no user '\(message.userRecordName)'")
    }
    return LookUpUser.Reply(userRecordName: user.recordName, givenName: user.givenName, familyName: user.familyName, emailAddress: user.emailAddress)
  }

  /// - Throws: `notFound` for the container.
  func fetchSchema(_ message: FetchSchema) throws -> FetchSchema.Reply {
    let state = try environment(EnvironmentKey(container: message.container, environment: message.environment))
    return FetchSchema.Reply(version: state.version, models: state.models, latestModelHash: state.latestModelHash, schema: state.schema)
  }

  nonisolated private func isOperatorToken(_ token: String) -> Bool { ConstantTime.areEqual(SHA256.hash(token), operatorTokenHash) }
}
