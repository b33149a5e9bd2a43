// What gateways ask of the share service about people: signing them in, keeping them signed in, and finding others.

public import Records

/// A name and a password from the sign-in page. Not repeatable: every attempt counts.
public struct SignIn: Message {
  public static let name = "directory.sign-in/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = false

  public struct Reply: Codable, Sendable {
    /// The first token of a session; nil when there is none.
    public let webAuthToken: String?
    /// Seconds after which the next attempt is looked at; nil: the name or the password is wrong.
    public let retryAfter: Int?
    /// The app that asked has no API token any more: there is nothing to sign in to.
    public let isOver: Bool?

    public init(webAuthToken: String? = nil, retryAfter: Int? = nil, isOver: Bool? = nil) {
      self.webAuthToken = webAuthToken
      self.retryAfter = retryAfter
      self.isOver = isOver
    }
  }

  /// The session is good for nothing else.
  public let container: ContainerID
  public let environment: Environment
  /// The operator's name for the user, as it was typed.
  public let userName: String
  public let password: String
  /// Two weeks instead of half an hour.
  public let isKept: Bool
  /// Whose attempts are counted together.
  public let clientAddress: String
  /// What the app asked with (`Authenticate.Reply.grant`): the session ends with it. nil: nothing.
  public let grant: String?

  public init(
    container: ContainerID, environment: Environment, userName: String, password: String, isKept: Bool, clientAddress: String, grant: String? = nil
  ) {
    self.grant = grant
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
    /// nil when the name or the password is wrong.
    public let userRecordName: String?
    /// Seconds after which the next attempt is looked at.
    public let retryAfter: Int?

    public init(userRecordName: String? = nil, retryAfter: Int? = nil) {
      self.userRecordName = userRecordName
      self.retryAfter = retryAfter
    }
  }

  /// The operator's name for the user, as it was typed.
  public let userName: String
  public let password: String
  /// Whose attempts are counted together.
  public let clientAddress: String

  public init(userName: String, password: String, clientAddress: String) {
    self.userName = userName
    self.password = password
    self.clientAddress = clientAddress
  }
}

/// Asks for the successor of a session's token, which is on disk when this is answered. Whoever asks has authenticated the token.
public struct RotateSession: Message {
  public static let name = "directory.rotate-session/1"
  public static let senders: Set<Role> = [.gateway, .notifier]
  /// The same token has the same successor.
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// nil: it is not due, or the session has ended.
    public let successor: String?

    public init(successor: String?) { self.successor = successor }
  }

  public let token: String

  public init(token: String) { self.token = token }
}

/// Asks whether the credentials that somebody once came by still hold: API token and session or web-auth token, neither revoked nor expired,
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

/// Takes note, durably, that a signature was used.
public struct ClaimSignature: Message {
  public static let name = "directory.claim-signature/1"
  public static let senders: Set<Role> = [.gateway]
  /// By the same request.
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// false: another request had it.
    public let isFresh: Bool

    public init(isFresh: Bool) { self.isFresh = isFresh }
  }

  /// 32 bytes that stand for key and signature.
  public let digest: [UInt8]
  /// The HTTP request: a gateway that asks again for the same one is told the same.
  public let requestID: String
  /// Milliseconds since 1970; from then on the signature's date is refused anyway.
  public let expiry: Int64

  public init(digest: [UInt8], requestID: String, expiry: Int64) {
    self.digest = digest
    self.requestID = requestID
    self.expiry = expiry
  }
}

/// Looks people up as a user may: himself, and those who are discoverable.
public struct DiscoverUsers: Message {
  public static let name = "directory.discover/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true

  /// By what somebody is looked up; one of them is set.
  public struct Lookup: Codable, Hashable, Sendable {
    public let userRecordName: String?
    public let emailAddress: String?
    /// However it is written.
    public let phoneNumber: String?

    public init(userRecordName: String? = nil, emailAddress: String? = nil, phoneNumber: String? = nil) {
      self.userRecordName = userRecordName
      self.emailAddress = emailAddress
      self.phoneNumber = phoneNumber
    }
  }

  public struct Reply: Codable, Sendable {
    /// As many as were looked up, in their order; nil: nobody, or nobody to be found.
    public let users: [LookUpUser.Reply?]

    public init(users: [LookUpUser.Reply?]) { self.users = users }
  }

  /// The user who asks, by record name.
  public let caller: String
  public let lookups: [Lookup]

  public init(caller: String, lookups: [Lookup]) {
    self.caller = caller
    self.lookups = lookups
  }
}
