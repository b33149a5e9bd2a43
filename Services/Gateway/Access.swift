// Access decisions as pure functions of a route, the request's credentials and the directory's answer.

import Authentication
import Records
import ServiceBus

/// The kind of caller that a route requires.
enum Need: Hashable, Sendable {
  /// The request carries its own authority.
  case nothing
  /// An app: its API token, or a user's bearer token in its place.
  case app
  /// A signed-in user.
  case user
  /// An operator or a developer: the operator token, or a session of the console.
  case operatorToken
}

extension Route.Target {
  func need(in scope: DatabaseScope?) -> Need {
    switch self {
    case .record, .resolveShares: scope == .public ? .app : .user
    case .exchangeIdentity, .beginDevice, .deviceToken, .pushKey: .app
    // Stores belong to the user who set them up, in the public database, too.
    case .store, .zone, .acceptShares, .declineShares, .requestShareAccess, .userCaller, .userCurrent, .userDiscovery,
      .userLookup, .createPushToken, .registerPushToken, .unregisterPushToken, .assetTokens:
      .user
    case .operatorCall, .operatorZone, .operatorUnshare, .operatorRecord, .operatorStore, .live, .livePings:
      .operatorToken
    case .assetUpload, .asset, .signIn, .account, .beginLink, .verifyDevice, .beginIdentity, .finishIdentity,
      .endIdentitySessions, .providerIcon, .sharePage, .stopMail, .consoleSession, .welcome, .openAPI:
      .nothing
    }
  }

  /// True if people read the answer in a browser.
  var isPage: Bool {
    switch self {
    case .signIn, .account, .beginLink, .verifyDevice, .beginIdentity, .finishIdentity, .sharePage, .stopMail: true
    default: false
    }
  }

  /// True if a server's signature stands in for tokens (docs/protocol/record-plane.md#server-keys).
  func takesServerKeys(in scope: DatabaseScope?) -> Bool {
    switch self {
    case .record, .assetTokens, .resolveShares, .userCaller, .userCurrent: scope == .public
    default: false
    }
  }
}

/// The container, environment and scope that a path names.
struct Address: Hashable, Sendable {
  let container: ContainerID?
  let environment: Environment?
  let scope: DatabaseScope?

  /// - Throws: `badRequest` with the rule for the first segment that breaks its rule.
  init(_ match: RouteMatch) throws(RecordError) {
    container = try Self.read(
      match.container, "The container identifier has 1 to 255 characters of A-Z, a-z, 0-9, '.', '_' and '-'",
      ContainerID.init(rawValue:))
    environment = try Self.read(
      match.environment, "The environment is 'development' or 'production'", Environment.init(rawValue:))
    scope = try Self.read(
      match.database, "The database is 'public', 'private' or 'shared'", DatabaseScope.init(rawValue:))
  }

  private static func read<Value>(_ text: String?, _ rule: String, _ parse: (String) -> Value?) throws(RecordError)
    -> Value?
  {
    guard let text else { return nil }
    guard let value = parse(text) else { throw RecordError(.badRequest, rule) }
    return value
  }
}

enum Access {
  /// The question for the directory; nil when the route needs no credentials.
  /// - Parameter takesServerKeys: true when the route accepts a server's signature.
  /// - Throws: `authenticationFailed` when the request lacks the credentials that the route requires.
  static func question(
    need: Need, takesServerKeys: Bool = false, address: Address, credentials: Credentials
  ) throws(RecordError) -> Authenticator.Question? {
    if need != .nothing, let signature = credentials.signature {
      guard takesServerKeys, credentials.apiToken == nil, credentials.userToken == nil, signature.isPlausible else {
        throw signatureRefusal
      }
      return Authenticator.Question(
        container: address.container, environment: address.environment, apiToken: nil, userToken: nil,
        keyID: signature.keyID)
    }
    switch need {
    case .nothing: return nil
    case .operatorToken:
      guard let token = credentials.userToken, credentials.isBearer || credentials.isCookie else {
        throw RecordError(.authenticationFailed, "This call needs an operator token: Authorization: Bearer <token>")
      }
      // The question names no container: operators create containers, and the directory tells them which ones exist.
      return Authenticator.Question(container: nil, environment: nil, apiToken: nil, userToken: token)
    case .app, .user:
      guard credentials.apiToken != nil || credentials.isBearer else {
        throw RecordError(
          .authenticationFailed,
          "The request has no API token: send ckAPIToken, or Authorization: Bearer <web auth token>")
      }
      return Authenticator.Question(
        container: address.container, environment: address.environment, apiToken: credentials.apiToken,
        userToken: credentials.userToken)
    }
  }

  /// One reason for every refused signature: a more precise one would help somebody who guesses.
  static let signatureRefusal = RecordError(.authenticationFailed, "Authentication failed")

  /// Judges the directory's answer. Verifying a signature is left to the caller.
  /// - Throws: `authenticationRequired` where a user could sign in; the calling function adds the address of the page.
  static func caller(_ reply: Authenticate.Reply, need: Need, credentials: Credentials, origin: String?)
    throws(RecordError) -> Caller
  {
    if credentials.signature != nil, reply.refusal != nil { throw signatureRefusal }
    // This check comes first, so that a page of a foreign origin is never offered a sign-in.
    guard CORS.allows(origin, allowed: reply.allowedOrigins) else {
      throw RecordError(.accessDenied, "The API token is not for pages of this origin")
    }
    switch reply.refusal {
    case .container: throw RecordError(.notFound, "The container does not exist")
    case .apiToken:
      throw RecordError(.authenticationFailed, "The API token is not valid for this container and environment")
    // A browser keeps a session's token for two weeks. This answer sends it to sign in again instead of failing for
    // good.
    case .userToken where !credentials.isBearer && credentials.userToken?.hasPrefix(Credentials.sessionPrefix) == true:
      throw RecordError(.authenticationRequired, "The session has ended")
    case .userToken:
      throw RecordError(
        .authenticationFailed,
        need == .operatorToken
          ? "The operator token or the session is not valid" : "The web auth token is not valid")
    case nil: break
    }
    switch need {
    case .operatorToken:
      guard reply.isOperator || reply.member != nil else {
        throw RecordError(.accessDenied, "This call needs an operator token")
      }
      // A session outside of its cookie would escape the console's rule against forged requests.
      guard credentials.isCookie == (reply.member != nil) else {
        throw RecordError(
          .authenticationFailed,
          "A session counts as the console's cookie alone, an operator token as a bearer token alone")
      }
    case .user:
      if reply.isOperator {
        throw RecordError(
          .authenticationFailed, "The call needs the token of a user of the app, not an operator's token")
      }
      guard reply.userRecordName != nil else {
        throw RecordError(.authenticationRequired, "request needs authorization")
      }
    case .app, .nothing: break
    }
    return Caller(
      userRecordName: reply.userRecordName, isOperator: reply.isOperator, standing: reply.standing,
      member: reply.isOperator ? .tokenHolder : reply.member)
  }
}
