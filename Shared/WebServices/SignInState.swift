// What `redirectURL` says in its `state`: for whom somebody signs in, so that the page needs no memory and can't be pointed elsewhere.

public import Records

/// A sign-in that was asked for (docs/protocol/record-plane.md#sign-in).
public struct SignInState: Hashable, Sendable {
  public let container: ContainerID
  public let environment: Environment
  /// Of the page that asked, as its API token allows it; nil: it was no page.
  public let origin: String?
  /// Of the API token.
  public let callbackURL: String?
  /// Milliseconds since 1970; refused from then on.
  public let expiry: Int64
  /// What the directory calls the API token; empty: it did not say.
  public let grant: String

  public init(container: ContainerID, environment: Environment, origin: String?, callbackURL: String?, expiry: Int64, grant: String = "") {
    self.grant = grant
    self.container = container
    self.environment = environment
    self.origin = origin
    self.callbackURL = callbackURL
    self.expiry = expiry
  }

  /// So that a text made for another purpose with the same key is none of ours.
  private static let purpose = Array("aquifer sign-in".utf8)

  /// Fits into a query as it is.
  /// - Parameter key: the installation's signing key.
  /// - Precondition: origin and callback URL have at most 65 535 bytes.
  public func text(signedWith key: [UInt8]) -> String {
    SignedText.make(
      of: [container.rawValue, environment.rawValue, origin ?? "", callbackURL ?? "", String(expiry), grant], for: Self.purpose, signedWith: key)
  }

  /// nil for anything that was not made by `text(signedWith:)` with this key, or has expired.
  /// - Parameter now: milliseconds since 1970.
  public init?(text: String, verifiedWith key: [UInt8], now: Int64) {
    guard let parts = SignedText.parts(of: text, for: Self.purpose, verifiedWith: key), parts.count == 6, let container = ContainerID(rawValue: parts[0]),
      let environment = Environment(rawValue: parts[1]), let expiry = Int64(parts[4]), now < expiry
    else { return nil }
    self.init(
      container: container, environment: environment, origin: parts[2].isEmpty ? nil : parts[2], callbackURL: parts[3].isEmpty ? nil : parts[3], expiry: expiry,
      grant: parts[5])
  }
}
