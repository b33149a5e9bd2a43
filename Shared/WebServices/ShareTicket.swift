// The sign-in that a share's page remembers, in its form only, after a visitor gave their password.

/// States that a visitor is a user, for the page of one share and a short time.
public struct ShareTicket: Hashable, Sendable {
  public let userRecordName: String
  /// The user's name as typed.
  public let userName: String
  public let shortGUID: String
  /// Milliseconds since 1970; the ticket is refused from then on.
  public let expiry: Int64

  public init(userRecordName: String, userName: String, shortGUID: String, expiry: Int64) {
    self.userRecordName = userRecordName
    self.userName = userName
    self.shortGUID = shortGUID
    self.expiry = expiry
  }

  /// Keeps texts that the same key signed for other purposes from being valid here.
  private static let purpose = Array("aquifer share page".utf8)

  /// The ticket's text, fit for a form without escapes.
  /// - Parameter key: the installation's signing key.
  public func text(signedWith key: [UInt8]) -> String {
    SignedText.make(of: [userRecordName, userName, shortGUID, String(expiry)], for: Self.purpose, signedWith: key)
  }

  /// nil unless `text(signedWith:)` made the text with this key, and it has not expired.
  /// - Parameter now: milliseconds since 1970.
  public init?(text: String, verifiedWith key: [UInt8], now: Int64) {
    guard let parts = SignedText.parts(of: text, for: Self.purpose, verifiedWith: key), parts.count == 4,
      let expiry = Int64(parts[3]), now < expiry
    else {
      return nil
    }
    self.init(userRecordName: parts[0], userName: parts[1], shortGUID: parts[2], expiry: expiry)
  }
}
