// Sign-in of televisions and command lines by a code that a person allows elsewhere (RFC 8628).

public import Records

/// A code that people type, in one spelling for all that they type.
public struct UserCode: Hashable, Codable, Sendable {
  /// Consonants, so that no code is a word and no letter looks like a digit.
  public static let alphabet = Array("BCDFGHJKLMNPQRSTVWXZ")
  public static let letterCount = 8

  /// The letters alone.
  public let letters: String

  /// Takes lower case, and skips what separates groups; nil for a text that is no code.
  public init?(_ text: String) {
    let letters = text.uppercased().filter { !" -\u{2010}\u{2011}.".contains($0) }
    guard letters.count == Self.letterCount, letters.allSatisfy(Self.alphabet.contains) else { return nil }
    self.letters = letters
  }

  /// `WDJB-MJHT`
  public var shown: String { "\(letters.prefix(Self.letterCount / 2))-\(letters.suffix(Self.letterCount / 2))" }
}

/// A device asks for a code. Not repeatable: each makes another.
public struct BeginDeviceSignIn: Message {
  public static let name = "directory.device-begin/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = false

  /// Unit: milliseconds.
  public static let lifetime: Int64 = 600_000
  /// The least time between two questions of a device. Unit: milliseconds.
  public static let interval: Int64 = 5000

  public struct Reply: Codable, Sendable {
    /// The device's secret, 64 hexadecimal digits; nil while too many wait.
    public let deviceCode: String?
    public let userCode: UserCode?

    public init(deviceCode: String? = nil, userCode: UserCode? = nil) {
      self.deviceCode = deviceCode
      self.userCode = userCode
    }
  }

  public let container: ContainerID
  public let environment: Environment
  /// The app's credentials, with an API token.
  public let grant: String
  /// The device's name is its client.
  public let source: SignInSource

  public init(container: ContainerID, environment: Environment, grant: String, source: SignInSource) {
    self.container = container
    self.environment = environment
    self.grant = grant
    self.source = source
  }
}

/// A device asks whether somebody has allowed its code. Not repeatable: the token is told once.
public struct PollDeviceSignIn: Message {
  public static let name = "directory.device-poll/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = false

  public enum Reply: Hashable, Codable, Sendable {
    case pending
    /// The device asks too often; from now on it waits 5 s longer.
    case slowDown
    case refused
    /// Unknown, too old, or used.
    case expired
    case signedIn(webAuthToken: String)
  }

  public let container: ContainerID
  public let environment: Environment
  public let deviceCode: String

  public init(container: ContainerID, environment: Environment, deviceCode: String) {
    self.container = container
    self.environment = environment
    self.deviceCode = deviceCode
  }
}

/// Looks up the device behind a code that somebody typed. Wrong codes count as guesses.
public struct LookUpDeviceSignIn: Message {
  public static let name = "directory.device/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = false

  public struct Device: Hashable, Codable, Sendable {
    public let container: ContainerID
    public let environment: Environment
    /// The app's credentials.
    public let grant: String
    /// The device's own words, and the address that it asked from.
    public let name: String?
    public let address: String
    /// Milliseconds since 1970.
    public let created: Int64

    public init(
      container: ContainerID, environment: Environment, grant: String, name: String?, address: String, created: Int64
    ) {
      self.container = container
      self.environment = environment
      self.grant = grant
      self.name = name
      self.address = address
      self.created = created
    }
  }

  public struct Reply: Codable, Sendable {
    /// nil for a code that nobody waits with.
    public let device: Device?
    /// Seconds until the next code is looked up.
    public let retryAfter: Int?

    public init(device: Device? = nil, retryAfter: Int? = nil) {
      self.device = device
      self.retryAfter = retryAfter
    }
  }

  public let userCode: UserCode
  /// The address whose guesses are counted together.
  public let clientAddress: String

  public init(userCode: UserCode, clientAddress: String) {
    self.userCode = userCode
    self.clientAddress = clientAddress
  }
}
