// Decides from a request's head whether its body is read: only a known caller may send one to a route that takes it.

import Authentication
import HTTPServer
import Records
import ServiceBus
import ServiceKit

extension Route.Target {
  /// The longest body that a call can need. Unit: bytes.
  var bodyByteLimit: Int {
    switch self {
    case .signIn, .account, .verifyDevice, .beginDevice, .deviceToken, .endIdentitySessions, .sharePage, .stopMail,
      .consoleSession:
      BodyIntake.smallByteCount
    case .operatorCall, .operatorZone, .operatorRecord(.modifyRecords): Limit.requestByteCount
    case .record(.modifyRecords), .record(.modifyZones), .record(.modifySubscriptions): Limit.requestByteCount
    // Saved objects, the model in a store's set-up, and a zone's lines.
    case .store(.saveTransactions), .store(.setUp), .store(.registerConsumer), .zone(.importLines):
      Limit.requestByteCount
    default: BodyIntake.callByteLimit
    }
  }
}

enum BodyIntake {
  /// Bodies up to this length are read without a check: reading costs less than authenticating, which follows anyway.
  static let smallByteCount = 16 * 1024
  /// Limit for calls that carry names and no records.
  static let callByteLimit = 1024 * 1024
}

extension Gateway {
  /// Decides by path, method and credentials whether a body is collected or refused.
  func bodyIntake(of request: HTTPRequest) -> HTTPBodyIntake {
    if let length = request.header("content-length").flatMap({ Int($0) }), length <= BodyIntake.smallByteCount {
      return .collect()
    }
    let consoleCall = consoleSite == nil ? nil : request.consoleCall
    let credentials = consoleCall == nil ? Credentials(of: request) : Credentials(ofConsole: request)
    let request = consoleCall ?? request
    do throws(RecordError) {
      let match: RouteMatch
      switch table.outcome(of: request.method, request.pathSegments) {
      case .match(let found): match = found
      case .wrongMethod(let found): throw Self.wrongMethod(found)
      case .unknown: throw Self.unknownPath
      }
      let target = match.route.target
      let limit = target.bodyByteLimit
      let address = try Address(match)
      let need = target.need(in: address.scope)
      let question = try Access.question(
        need: need, takesServerKeys: target.takesServerKeys(in: address.scope), address: address,
        credentials: credentials)
      guard let question else { return .collect(byteLimit: limit) }
      if let reply = state.authenticator.known(question),
        // Dropped because refused credentials are asked about below, and get their full answer there.
        let caller = try? Access.caller(reply, need: need, credentials: credentials, origin: request.header("origin"))
      {
        return .collect(byteLimit: limit, party: Self.party(of: caller, in: address, by: credentials))
      }
      return .ask { await asked(question, credentials, need, address, request, limit) }
    } catch {
      return .refuse(refusal(error, showsCKErrorCode: IncomingRequest.isMirror(request)))
    }
  }

  static let unknownPath = RecordError(.notFound, "There is no such endpoint")

  static func wrongMethod(_ found: WrongMethod) -> RecordError {
    RecordError(
      .badRequest, "This endpoint takes \(found.allowed.map(\.rawValue).joined(separator: ", "))", httpStatus: 405)
  }

  /// Asks the directory about credentials that are unknown here or were refused.
  private func asked(
    _ question: Authenticator.Question, _ credentials: Credentials, _ need: Need, _ address: Address,
    _ request: HTTPRequest, _ limit: Int
  ) async -> HTTPBodyIntake {
    let uuid = random.uuid()
    var exchange = IncomingRequest(request: request, uuid: uuid, traceID: request.clientTraceID ?? uuid)
    do throws(RecordError) {
      if limiter.isActive, state.authenticator.known(question) == nil { try take(.address(request.clientNetwork)) }
      let caller = try await check(question, credentials, need, &exchange)
      return .collect(byteLimit: limit, party: Self.party(of: caller, in: address, by: credentials))
    } catch {
      return .refuse(refusal(error, showsCKErrorCode: exchange.isMirror))
    }
  }

  /// The party whose memory budget pays for a body under way. The sender's address pays for a signed one: anybody who
  /// knows the key's ID can send it, and only the whole body shows whether the signature holds.
  private static func party(of caller: Caller, in address: Address, by credentials: Credentials) -> String? {
    credentials.signature == nil ? party(of: caller, in: address) : nil
  }

  /// The party whose memory budget pays for the caller's requests; nil: the sender's address pays.
  static func party(of caller: Caller, in address: Address) -> String? {
    guard caller.userRecordName != nil, let container = address.container else { return nil }
    return caller.party(in: container)
  }
}
