// The signed `state` of `redirectURL`: it carries the sign-in that was requested, so that the page stores nothing and
// cannot be redirected.

public import Records

/// A sign-in that was asked for (docs/protocol/record-plane.md#sign-in).
public struct SignInState: Hashable, Sendable {
  public let container: ContainerID
  public let environment: Environment
  /// The origin of the page that asked, as its API token allows it; nil if no page asked.
  public let origin: String?
  /// The callback URL of the API token; nil if it has none.
  public var callbackURL: String?
  /// Milliseconds since 1970; the state is refused from then on.
  public let expiry: Int64
  /// The directory's name of the API token; empty if the directory gave none.
  public let grant: String

  public init(
    container: ContainerID, environment: Environment, origin: String?, callbackURL: String?, expiry: Int64,
    grant: String = ""
  ) {
    self.grant = grant
    self.container = container
    self.environment = environment
    self.origin = origin
    self.callbackURL = callbackURL
    self.expiry = expiry
  }

  /// Keeps texts that the same key signed for other purposes from being valid here.
  private static let purpose = Array("aquifer sign-in".utf8)

  /// The state's text, fit for a query without escapes.
  /// - Parameter key: the installation's signing key.
  /// - Precondition: origin and callback URL have at most 65 535 bytes.
  public func text(signedWith key: [UInt8]) -> String {
    SignedText.make(
      of: [container.rawValue, environment.rawValue, origin ?? "", callbackURL ?? "", String(expiry), grant],
      for: Self.purpose, signedWith: key)
  }

  /// nil unless `text(signedWith:)` made the text with this key, and it has not expired.
  /// - Parameter now: milliseconds since 1970.
  public init?(text: String, verifiedWith key: [UInt8], now: Int64) {
    guard let parts = SignedText.parts(of: text, for: Self.purpose, verifiedWith: key), parts.count == 6,
      let container = ContainerID(rawValue: parts[0]),
      let environment = Environment(rawValue: parts[1]), let expiry = Int64(parts[4]), now < expiry
    else { return nil }
    self.init(
      container: container, environment: environment, origin: parts[2].isEmpty ? nil : parts[2],
      callbackURL: parts[3].isEmpty ? nil : parts[3], expiry: expiry,
      grant: parts[5])
  }
}
