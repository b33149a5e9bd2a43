// The cookie of a browser whose user asked to stay signed in, for the pages of shares.

public import Records

/// States that a browser's user signed in to a container; valid as long as that session.
public struct KeptSignIn: Hashable, Sendable {
  public static let cookieName = "aquifer-signed-in"

  public let container: ContainerID
  public let environment: Environment
  public let userRecordName: String
  /// The user's name as typed.
  public let userName: String
  /// The directory's name of the session (`VerifyGrant`); it is no credential.
  public let grant: String
  /// Milliseconds since 1970; the cookie is refused from then on.
  public let expiry: Int64

  public init(
    container: ContainerID, environment: Environment, userRecordName: String, userName: String, grant: String,
    expiry: Int64
  ) {
    self.container = container
    self.environment = environment
    self.userRecordName = userRecordName
    self.userName = userName
    self.grant = grant
    self.expiry = expiry
  }

  /// Keeps texts that the same key signed for other purposes from being valid here.
  private static let purpose = Array("aquifer kept sign-in".utf8)

  /// The cookie's text, fit for a cookie without escapes.
  /// - Parameter key: the installation's signing key.
  /// - Precondition: each part has at most 65 535 bytes.
  public func text(signedWith key: [UInt8]) -> String {
    SignedText.make(
      of: [container.rawValue, environment.rawValue, userRecordName, userName, grant, String(expiry)],
      for: Self.purpose, signedWith: key)
  }

  /// nil unless `text(signedWith:)` made the text with this key, and it has not expired.
  /// - Parameter now: milliseconds since 1970.
  public init?(text: String, verifiedWith key: [UInt8], now: Int64) {
    guard let parts = SignedText.parts(of: text, for: Self.purpose, verifiedWith: key), parts.count == 6,
      let container = ContainerID(rawValue: parts[0]),
      let environment = Environment(rawValue: parts[1]), let expiry = Int64(parts[5]), now < expiry
    else { return nil }
    self.init(
      container: container, environment: environment, userRecordName: parts[2], userName: parts[3], grant: parts[4],
      expiry: expiry)
  }
}
