// The part of a mail's link by which its receiver asks for no more mail.

/// Names the receiver; only the installation can make it, and it does not expire.
public struct MailStop: Hashable, Sendable {
  /// The path of the page, before the text.
  public static let path = "/mail/stop"

  public let emailAddress: String

  public init(emailAddress: String) { self.emailAddress = emailAddress }

  /// Keeps texts that the same key signed for other purposes from being valid here.
  private static let purpose = Array("aquifer mail stop".utf8)

  /// The text, fit for a path without escapes.
  /// - Parameter key: the installation's signing key.
  /// - Precondition: the address has at most 65 535 bytes.
  public func text(signedWith key: [UInt8]) -> String {
    SignedText.make(of: [emailAddress], for: Self.purpose, signedWith: key)
  }

  /// nil unless `text(signedWith:)` made the text with this key.
  public init?(text: String, verifiedWith key: [UInt8]) {
    guard let parts = SignedText.parts(of: text, for: Self.purpose, verifiedWith: key), parts.count == 1 else {
      return nil
    }
    self.init(emailAddress: parts[0])
  }
}
