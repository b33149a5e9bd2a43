// What the page of a share remembers of a visitor who gave his password: in its form, and nowhere else.

/// That somebody is a user, for the page of one share and a short time.
public struct ShareTicket: Hashable, Sendable {
  public let userRecordName: String
  /// As it was typed.
  public let userName: String
  public let shortGUID: String
  /// Milliseconds since 1970; refused from then on.
  public let expiry: Int64

  public init(userRecordName: String, userName: String, shortGUID: String, expiry: Int64) {
    self.userRecordName = userRecordName
    self.userName = userName
    self.shortGUID = shortGUID
    self.expiry = expiry
  }

  /// So that a text made for another purpose with the same key is none of ours.
  private static let purpose = Array("aquifer share page".utf8)

  /// Fits into a form as it is.
  /// - Parameter key: the installation's signing key.
  public func text(signedWith key: [UInt8]) -> String {
    SignedText.make(of: [userRecordName, userName, shortGUID, String(expiry)], for: Self.purpose, signedWith: key)
  }

  /// nil for anything that was not made by `text(signedWith:)` with this key, or has expired.
  /// - Parameter now: milliseconds since 1970.
  public init?(text: String, verifiedWith key: [UInt8], now: Int64) {
    guard let parts = SignedText.parts(of: text, for: Self.purpose, verifiedWith: key), parts.count == 4, let expiry = Int64(parts[3]), now < expiry else {
      return nil
    }
    self.init(userRecordName: parts[0], userName: parts[1], shortGUID: parts[2], expiry: expiry)
  }
}
