// Passkeys: keys in people's own devices, made and used by browsers (WebAuthn).

public import Records

/// The server as browsers know it.
public struct RelyingParty: Hashable, Codable, Sendable {
  /// The host, for which passkeys are made.
  public let id: String
  /// Scheme, host and port, of the pages that may use them.
  public let origin: String

  public init(id: String, origin: String) {
    self.id = id
    self.origin = origin
  }
}

/// The answer of an authenticator that has made a key.
public struct PasskeyRegistration: Hashable, Codable, Sendable {
  /// The name by which the person knows it.
  public let name: String
  /// JSON, as the browser wrote it.
  public let clientData: [UInt8]
  public let authenticatorData: [UInt8]
  /// SubjectPublicKeyInfo in DER.
  public let publicKey: [UInt8]
  public let relyingParty: RelyingParty

  public init(
    name: String, clientData: [UInt8], authenticatorData: [UInt8], publicKey: [UInt8], relyingParty: RelyingParty
  ) {
    self.name = name
    self.clientData = clientData
    self.authenticatorData = authenticatorData
    self.publicKey = publicKey
    self.relyingParty = relyingParty
  }
}

/// The answer of an authenticator that has signed a challenge.
public struct PasskeyAssertion: Hashable, Codable, Sendable {
  public let credentialID: [UInt8]
  public let clientData: [UInt8]
  public let authenticatorData: [UInt8]
  /// ECDSA in DER, over the authenticator's data and the SHA-256 of the client's.
  public let signature: [UInt8]
  public let relyingParty: RelyingParty
  /// The record name of the user for whom the authenticator keeps the key; nil when it tells none.
  public let userHandle: [UInt8]?

  public init(
    credentialID: [UInt8], clientData: [UInt8], authenticatorData: [UInt8], signature: [UInt8],
    relyingParty: RelyingParty, userHandle: [UInt8]? = nil
  ) {
    self.userHandle = userHandle
    self.credentialID = credentialID
    self.clientData = clientData
    self.authenticatorData = authenticatorData
    self.signature = signature
    self.relyingParty = relyingParty
  }
}

/// Opens a session for the owner of a passkey. Not repeatable: a challenge counts once.
public struct SignInByPasskey: Message {
  public static let name = "directory.sign-in-by-passkey/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = false

  public struct Reply: Codable, Sendable {
    /// The first token of a session; nil if the sign-in failed.
    public let webAuthToken: String?
    /// The operator's name for the user.
    public let userName: String?
    /// Seconds until the next attempt counts.
    public let retryAfter: Int?
    /// The API token of the app that asked no longer holds.
    public let isOver: Bool

    public init(
      webAuthToken: String? = nil, userName: String? = nil, retryAfter: Int? = nil, isOver: Bool = false
    ) {
      self.webAuthToken = webAuthToken
      self.userName = userName
      self.retryAfter = retryAfter
      self.isOver = isOver
    }
  }

  public let container: ContainerID
  public let environment: Environment
  public let assertion: PasskeyAssertion
  public let isKept: Bool
  /// The app's credentials: the session ends with them. nil: it depends on none.
  public let grant: String?
  public let source: SignInSource

  public init(
    container: ContainerID, environment: Environment, assertion: PasskeyAssertion, isKept: Bool, grant: String?,
    source: SignInSource
  ) {
    self.container = container
    self.environment = environment
    self.assertion = assertion
    self.isKept = isKept
    self.grant = grant
    self.source = source
  }
}
