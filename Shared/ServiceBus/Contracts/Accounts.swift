// A person's own account: their sessions and their ways to sign in, as the account page shows and changes them.

public import Records

/// Carries out an act of a person who has just signed in on the account page. A repetition has no further effect.
public struct UseAccount: Message {
  public static let name = "directory.account/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true

  /// The time for which a sign-in on the account page counts. Unit: milliseconds.
  public static let sessionTime: Int64 = 1_800_000

  public enum Act: Hashable, Codable, Sendable {
    case look
    case endSession(String)
    /// All sessions but the one of the page, also those in the console.
    case endOtherSessions
    /// Makes a person whom a provider has just identified the user's, as one more way to sign in.
    case link(provider: String, person: SignInByIdentity.Person)
    case addPasskey(PasskeyRegistration)
    /// By `Way.name`.
    case removeWay(String)
    /// Signs the device with this code in as the user, or turns it away.
    case allowDevice(UserCode)
    case refuseDevice(UserCode)

    public var endsSessions: Bool {
      switch self {
      case .endSession, .endOtherSessions: true
      case .look, .link, .addPasskey, .removeWay, .allowDevice, .refuseDevice: false
      }
    }

    /// True for acts by which somebody could guess at codes of devices.
    public var namesDevice: Bool {
      switch self {
      case .allowDevice, .refuseDevice: true
      case .look, .endSession, .endOtherSessions, .link, .addPasskey, .removeWay: false
      }
    }
  }

  public struct Session: Hashable, Codable, Sendable {
    public let name: String
    public let container: ContainerID
    public let environment: Environment
    /// nil for one that tells none.
    public let client: String?
    /// The provider's name; nil without one.
    public let provider: String?
    /// Milliseconds since 1970.
    public let created: Int64
    public let lastUsed: Int64
    /// True for the session of the page itself.
    public let isOwn: Bool

    public init(
      name: String, container: ContainerID, environment: Environment, client: String?, provider: String?,
      created: Int64, lastUsed: Int64, isOwn: Bool
    ) {
      self.name = name
      self.container = container
      self.environment = environment
      self.client = client
      self.provider = provider
      self.created = created
      self.lastUsed = lastUsed
      self.isOwn = isOwn
    }
  }

  /// A way to sign in that the person added, and may remove.
  public struct Way: Hashable, Codable, Sendable {
    public enum Kind: String, Codable, Sendable {
      case identity
      case passkey
    }

    public let kind: Kind
    /// Stands for issuer and subject, or for the credential.
    public let name: String
    /// An identity's is the provider's name on the sign-in page, without a provider the issuer. A passkey's is that of
    /// the client that made it.
    public let displayName: String
    /// Milliseconds since 1970.
    public let added: Int64

    public init(kind: Kind, name: String, displayName: String, added: Int64) {
      self.kind = kind
      self.name = name
      self.displayName = displayName
      self.added = added
    }
  }

  public struct Account: Hashable, Codable, Sendable {
    /// Latest first.
    public let sessions: [Session]
    /// Identities, then passkeys; oldest first.
    public let ways: [Way]
    public let hasPassword: Bool

    public init(sessions: [Session], ways: [Way], hasPassword: Bool) {
      self.sessions = sessions
      self.ways = ways
      self.hasPassword = hasPassword
    }
  }

  public enum Refusal: String, Codable, Sendable {
    /// The provider was removed, or is not for this container.
    case provider
    /// Another user signs in with this identity.
    case taken
    /// The user has as many identities, or passkeys, as one may have.
    case tooMany
    /// Without this way the user could not sign in any more.
    case lastWay
    /// The authenticator's answer proves no new key for this page.
    case passkey
    /// No device waits with this code any more.
    case device
  }

  public struct Reply: Codable, Sendable {
    /// The account after the act; nil when the page's sign-in no longer counts, or the client has to wait.
    public let account: Account?
    public let refusal: Refusal?
    /// Seconds until the client may name another device; nil: nothing has to wait.
    public let retryAfter: Int?

    public init(account: Account? = nil, refusal: Refusal? = nil, retryAfter: Int? = nil) {
      self.account = account
      self.refusal = refusal
      self.retryAfter = retryAfter
    }
  }

  /// Those of the page's session.
  public let container: ContainerID
  public let environment: Environment
  public let userRecordName: String
  /// `Authenticate.Reply.grant` of the page's session.
  public let grant: String
  public let act: Act
  /// nil from a gateway of an earlier release.
  public let clientAddress: String?

  public init(
    container: ContainerID, environment: Environment, userRecordName: String, grant: String, act: Act,
    clientAddress: String? = nil
  ) {
    self.container = container
    self.environment = environment
    self.userRecordName = userRecordName
    self.grant = grant
    self.act = act
    self.clientAddress = clientAddress
  }
}
