// Questions of gateways to the share service about people: sign-in, sessions, and finding other users.

public import Records

/// A name and a password from the sign-in page. Not repeatable: every attempt counts.
public struct SignIn: Message {
  public static let name = "directory.sign-in/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = false

  public struct Reply: Codable, Sendable {
    /// The first token of a session; nil if the sign-in failed.
    public let webAuthToken: String?
    /// Seconds until the next attempt counts; nil: the name or the password is wrong.
    public let retryAfter: Int?
    /// The API token of the app that asked no longer holds, so no sign-in is possible.
    public let isOver: Bool?

    public init(webAuthToken: String? = nil, retryAfter: Int? = nil, isOver: Bool? = nil) {
      self.webAuthToken = webAuthToken
      self.retryAfter = retryAfter
      self.isOver = isOver
    }
  }

  /// The session is valid only in this container and environment.
  public let container: ContainerID
  public let environment: Environment
  /// The operator's name for the user, as typed.
  public let userName: String
  public let password: String
  /// True for a session of two weeks, false for one of half an hour.
  public let isKept: Bool
  /// The address whose attempts are counted together.
  public let clientAddress: String
  /// The app's credentials (`Authenticate.Reply.grant`): the session ends with them. nil: it depends on none.
  public let grant: String?
  /// The client's short name; nil if it tells none.
  public let client: String?

  public init(
    container: ContainerID, environment: Environment, userName: String, password: String, isKept: Bool,
    clientAddress: String, grant: String? = nil, client: String? = nil
  ) {
    self.grant = grant
    self.client = client
    self.container = container
    self.environment = environment
    self.userName = userName
    self.password = password
    self.isKept = isKept
    self.clientAddress = clientAddress
  }
}

/// A name and a password from the page of a share, which signs in to no app. Not repeatable: every attempt counts.
public struct CheckPassword: Message {
  public static let name = "directory.password/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = false

  public struct Reply: Codable, Sendable {
    /// nil if the name or the password is wrong.
    public let userRecordName: String?
    /// Seconds until the next attempt counts.
    public let retryAfter: Int?
    /// For `VerifyVisit`; nil also from a share service of an earlier release.
    public let signOutCount: Int64?

    public init(userRecordName: String? = nil, retryAfter: Int? = nil, signOutCount: Int64? = nil) {
      self.userRecordName = userRecordName
      self.retryAfter = retryAfter
      self.signOutCount = signOutCount
    }
  }

  /// The operator's name for the user, as typed.
  public let userName: String
  public let password: String
  /// The address whose attempts are counted together.
  public let clientAddress: String

  public init(userName: String, password: String, clientAddress: String) {
    self.userName = userName
    self.password = password
    self.clientAddress = clientAddress
  }
}

/// Asks for the successor of a session's token; the answer comes after the successor is on disk. The caller has
/// authenticated the token.
public struct RotateSession: Message {
  public static let name = "directory.rotate-session/1"
  public static let senders: Set<Role> = [.gateway, .notifier]
  /// A repetition gets the same successor.
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// nil if rotation is not due, or if the session has ended.
    public let successor: String?

    public init(successor: String?) { self.successor = successor }
  }

  public let token: String

  public init(token: String) { self.token = token }
}

/// Asks whether earlier credentials still hold: API token and session or web-auth token, neither revoked nor expired,
/// and the user not disabled.
public struct VerifyGrant: Message, Hashable {
  public static let name = "directory.grant/1"
  public static let senders: Set<Role> = [.gateway, .notifier]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    public let holds: Bool

    public init(holds: Bool) { self.holds = holds }
  }

  public let container: ContainerID
  public let environment: Environment
  public let userRecordName: String
  /// `Authenticate.Reply.grant`.
  public let grant: String

  public init(container: ContainerID, environment: Environment, userRecordName: String, grant: String) {
    self.container = container
    self.environment = environment
    self.userRecordName = userRecordName
    self.grant = grant
  }
}

/// Asks whether a visitor of a share, whose password was right, may go on: no, once all sessions of the user were ended
/// or the user was disabled.
public struct VerifyVisit: Message, Hashable {
  public static let name = "directory.visit/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    public let holds: Bool

    public init(holds: Bool) { self.holds = holds }
  }

  public let userRecordName: String
  /// `CheckPassword.Reply.signOutCount`: how often all sessions of the user had been ended.
  public let signOutCount: Int64

  public init(userRecordName: String, signOutCount: Int64) {
    self.userRecordName = userRecordName
    self.signOutCount = signOutCount
  }
}

/// Notes durably that a signature was used.
public struct ClaimSignature: Message {
  public static let name = "directory.claim-signature/1"
  public static let senders: Set<Role> = [.gateway]
  /// A repetition of the same request gets the same answer.
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// False if another request used the signature.
    public let isFresh: Bool

    public init(isFresh: Bool) { self.isFresh = isFresh }
  }

  /// 32 bytes that stand for key and signature.
  public let digest: [UInt8]
  /// The HTTP request's ID: a gateway that asks again for the same request gets the same answer.
  public let requestID: String
  /// Milliseconds since 1970; the signature's date is refused from then on.
  public let expiry: Int64

  public init(digest: [UInt8], requestID: String, expiry: Int64) {
    self.digest = digest
    self.requestID = requestID
    self.expiry = expiry
  }
}

/// Looks up users on behalf of a user, who may find themselves and discoverable users.
public struct DiscoverUsers: Message {
  public static let name = "directory.discover/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true

  /// The key of a lookup; exactly one member is set.
  public struct Lookup: Codable, Hashable, Sendable {
    public let userRecordName: String?
    public let emailAddress: String?
    /// In any notation.
    public let phoneNumber: String?

    public init(userRecordName: String? = nil, emailAddress: String? = nil, phoneNumber: String? = nil) {
      self.userRecordName = userRecordName
      self.emailAddress = emailAddress
      self.phoneNumber = phoneNumber
    }
  }

  public struct Reply: Codable, Sendable {
    /// One entry per lookup, in their order; nil if there is no such user, or none that may be found.
    public let users: [LookUpUser.Reply?]

    public init(users: [LookUpUser.Reply?]) { self.users = users }
  }

  /// The record name of the user who asks.
  public let caller: String
  public let lookups: [Lookup]

  public init(caller: String, lookups: [Lookup]) {
    self.caller = caller
    self.lookups = lookups
  }
}
