// The origin of a sign-in, as the audit of sign-ins and the lists of sessions show it.

public import Records

/// The way by which a person signs in, and the client's place.
public struct SignInSource: Hashable, Codable, Sendable {
  public enum Way: String, Codable, Sendable {
    /// A name and a password on the sign-in page.
    case password
    /// A provider of identities, in a browser.
    case provider
    /// An ID token that a native app got itself.
    case exchange
    /// A code that a person who is signed in allowed, for a device without a keyboard.
    case device
    /// A key in the person's own device.
    case passkey
    /// A name and a password on the page of a share, which begins no session.
    case share
    /// The console.
    case console
  }

  public let way: Way
  /// The provider's name; nil without one.
  public let provider: String?
  /// The client's address.
  public let address: String
  /// The client's short name, such as "Firefox on Linux"; nil if it tells none.
  public let client: String?

  public init(way: Way, provider: String? = nil, address: String, client: String? = nil) {
    self.way = way
    self.provider = provider
    self.address = address
    self.client = client
  }
}

/// Notes a sign-in that a gateway refused before the share service heard of it.
public struct NoteRefusedSignIn: Message {
  public static let name = "directory.refused-sign-in/1"
  public static let senders: Set<Role> = [.gateway]
  /// A repetition is noted once more.
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public enum Refusal: String, Codable, Sendable {
    /// The provider answered that the person is not signed in, or its answer proves nothing.
    case provider
    /// The answer, or the ID token, was used before.
    case used
  }

  public let container: ContainerID
  public let environment: Environment
  public let source: SignInSource
  public let refusal: Refusal

  public init(container: ContainerID, environment: Environment, source: SignInSource, refusal: Refusal) {
    self.container = container
    self.environment = environment
    self.source = source
    self.refusal = refusal
  }
}
