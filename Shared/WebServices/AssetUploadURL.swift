// Signed, expiring paths that take one upload's content, without credentials.

import Records

/// The path on a gateway to which content is posted: `/assets/1/upload/{signed text}`.
///
/// It names no zone, record or field, because CloudKit JS does not always tell where the record will be.
public struct AssetUploadURL: Hashable, Sendable {
  /// The user who gets the receipt.
  public let user: AssetUser
  /// Seconds since 1970; the path is refused from then on.
  public let expiry: Int64

  public init(user: AssetUser, expiry: Int64) {
    self.user = user
    self.expiry = expiry
  }

  /// The path's first segments.
  public static let prefix = AssetURL.prefix + ["upload"]
  private static let purpose = Array("aquifer asset upload".utf8)

  /// - Parameter key: the installation's signing key.
  public func path(signedWith key: [UInt8]) -> String {
    let text = SignedText.make(
      of: [user.container.rawValue, user.environment.rawValue, user.userRecordName, String(expiry)], for: Self.purpose,
      signedWith: key)
    return "/\(Self.prefix.joined(separator: "/"))/\(text)"
  }

  /// Checks the path of a request.
  /// - Parameters:
  ///   - segments: the whole path, percent-decoded.
  ///   - now: seconds since 1970.
  /// - Returns: nil if the path was not signed with this key, was altered, or has expired.
  public init?(segments: [String], signedWith key: [UInt8], now: Int64) {
    guard segments.count == Self.prefix.count + 1, segments.starts(with: Self.prefix), let text = segments.last,
      let parts = SignedText.parts(of: text, for: Self.purpose, verifiedWith: key), parts.count == 4,
      let container = ContainerID(rawValue: parts[0]),
      let environment = Environment(rawValue: parts[1]), let expiry = Int64(parts[3]), now < expiry
    else { return nil }
    self.init(user: AssetUser(container: container, environment: environment, userRecordName: parts[2]), expiry: expiry)
  }
}
