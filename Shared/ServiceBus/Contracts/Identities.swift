// Sign-in by other providers of identities: the gateways' knowledge of them, and sessions for their people.

public import Records

/// A small picture that the sign-in page shows beside a provider's name.
public struct ProviderIcon: Hashable, Codable, Sendable {
  public enum Kind: String, Codable, Sendable { case png, svg }

  public let kind: Kind
  public let bytes: [UInt8]

  public init(kind: Kind, bytes: [UInt8]) {
    self.kind = kind
    self.bytes = bytes
  }
}

/// A provider of OpenID Connect, as the operator registered the installation with it.
public struct IdentityProviderEntry: Hashable, Codable, Sendable {
  public enum Secret: Hashable, Codable, Sendable {
    /// A public client.
    case none
    case text(String)
    /// A private key in PEM, which signs short-lived secrets.
    case apple(teamID: String, keyID: String, privateKey: String)
  }

  /// The operator's name for it; part of addresses.
  public let name: String
  /// The name on the sign-in page.
  public let displayName: String
  public let issuer: String
  public let clientID: String
  public let secret: Secret
  /// Clients of native apps, whose ID tokens are exchanged.
  public let nativeClientIDs: [String]
  public let scopes: [String]
  /// True for a provider that answers by a form of its own.
  public let answersByForm: Bool
  /// nil: the page shows the first letter of the name.
  public var icon: ProviderIcon?

  public init(
    name: String, displayName: String, issuer: String, clientID: String, secret: Secret, nativeClientIDs: [String],
    scopes: [String], answersByForm: Bool, icon: ProviderIcon? = nil
  ) {
    self.icon = icon
    self.name = name
    self.displayName = displayName
    self.issuer = issuer
    self.clientID = clientID
    self.secret = secret
    self.nativeClientIDs = nativeClientIDs
    self.scopes = scopes
    self.answersByForm = answersByForm
  }
}

/// The providers with which people sign in to a container's app. Gateways cache them until a `DirectoryChanged` with
/// stale credentials.
public struct FetchIdentityProviders: Message {
  public static let name = "directory.identity-providers/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// Ascending by name.
    public let providers: [IdentityProviderEntry]

    public init(providers: [IdentityProviderEntry]) { self.providers = providers }
  }

  /// nil: all providers.
  public let container: ContainerID?

  public init(container: ContainerID?) { self.container = container }
}

/// Opens a session for a person whom a provider has identified; the first time it makes the user, if the provider's
/// rule for sign-up allows that.
public struct SignInByIdentity: Message {
  public static let name = "directory.sign-in-by-identity/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = false

  public enum Refusal: String, Codable, Sendable {
    /// The provider was removed meanwhile, or is not for this container.
    case provider
    /// The app's API token no longer holds.
    case apiToken
    /// The user was disabled.
    case disabled
    /// New people can't sign up.
    case closed
    /// Only invited people sign up, and nobody invited this verified address or number.
    case uninvited
    /// Another user has the address or number. Only that user can add the identity.
    case addressTaken
    /// The claim was made before.
    case used
  }

  public struct Reply: Codable, Sendable {
    /// The first token of a session; nil if the sign-in was refused.
    public var webAuthToken: String?
    public var userRecordName: String?
    /// The operator's name for the user.
    public var userName: String?
    public var refusal: Refusal?

    public init(webAuthToken: String? = nil, userRecordName: String? = nil, userName: String? = nil) {
      self.webAuthToken = webAuthToken
      self.userRecordName = userRecordName
      self.userName = userName
    }

    public init(refusal: Refusal) { self.refusal = refusal }
  }

  /// A person as the provider identified them.
  public struct Person: Hashable, Codable, Sendable {
    public let issuer: String
    public let subject: String
    /// Only an address that the provider has verified.
    public let emailAddress: String?
    /// Only a number that the provider has verified, in the form that `PhoneNumber` writes.
    public let phoneNumber: String?
    public let givenName: String?
    public let familyName: String?
    /// The provider's name for the session there; nil for a provider that names none.
    public let sessionID: String?

    public init(
      issuer: String, subject: String, emailAddress: String?, phoneNumber: String? = nil, givenName: String?,
      familyName: String?, sessionID: String? = nil
    ) {
      self.phoneNumber = phoneNumber
      self.sessionID = sessionID
      self.issuer = issuer
      self.subject = subject
      self.emailAddress = emailAddress
      self.givenName = givenName
      self.familyName = familyName
    }
  }

  /// The session is valid only in this container and environment.
  public let container: ContainerID
  public let environment: Environment
  /// The provider's name.
  public let provider: String
  public let person: Person
  /// True for a session of two weeks, false for one of half an hour.
  public let isKept: Bool
  /// The app's credentials: the session ends with them. nil: it depends on none.
  public let grant: String?
  /// nil from a gateway of an earlier release.
  public let source: SignInSource?

  public init(
    container: ContainerID, environment: Environment, provider: String, person: Person, isKept: Bool, grant: String?,
    source: SignInSource? = nil
  ) {
    self.container = container
    self.environment = environment
    self.provider = provider
    self.person = person
    self.isKept = isKept
    self.grant = grant
    self.source = source
  }
}

/// Opens a session as `SignInByIdentity` does, and uses the provider's token up in the same change. A share service of
/// an earlier release does not know the message: the gateway claims the token before it asks for the session there.
public struct SignInByIdentityOnce: Message {
  public static let name = "directory.sign-in-by-identity/2"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = false

  public typealias Reply = SignInByIdentity.Reply

  public let signIn: SignInByIdentity
  public let claim: ClaimSignature

  public init(_ signIn: SignInByIdentity, claim: ClaimSignature) {
    self.signIn = signIn
    self.claim = claim
  }
}

/// Ends the sessions that began with a session at a provider, because that one has ended. A repetition has no further
/// effect.
public struct EndIdentitySessions: Message {
  public static let name = "directory.identity-logout/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// False if the provider's token was used before; then nothing has ended.
    public let isFresh: Bool

    public init(isFresh: Bool) { self.isFresh = isFresh }
  }

  public let issuer: String
  /// nil: the session alone tells whose it is.
  public let subject: String?
  /// The provider's name for its session; nil: all of the subject's.
  public let sessionID: String?
  /// Uses the provider's token up, in the change that ends the sessions.
  public let claim: ClaimSignature

  public init(issuer: String, subject: String?, sessionID: String?, claim: ClaimSignature) {
    self.issuer = issuer
    self.subject = subject
    self.sessionID = sessionID
    self.claim = claim
  }
}
