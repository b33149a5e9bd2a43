// What a browser keeps of a sign-in whose user asked to be kept signed in: a cookie for the pages of shares.

public import Records

/// That a browser's user signed in to a container, for as long as the session lives that they signed in to.
public struct KeptSignIn: Hashable, Sendable {
  /// The cookie's name.
  public static let cookieName = "aquifer-signed-in"

  public let container: ContainerID
  public let environment: Environment
  public let userRecordName: String
  /// As it was typed.
  public let userName: String
  /// What the directory calls the session (`VerifyGrant`): no credential.
  public let grant: String
  /// Milliseconds since 1970; refused from then on.
  public let expiry: Int64

  public init(container: ContainerID, environment: Environment, userRecordName: String, userName: String, grant: String, expiry: Int64) {
    self.container = container
    self.environment = environment
    self.userRecordName = userRecordName
    self.userName = userName
    self.grant = grant
    self.expiry = expiry
  }

  /// So that a text made for another purpose with the same key is none of ours.
  private static let purpose = Array("aquifer kept sign-in".utf8)

  /// Fits into a cookie as it is.
  /// - Parameter key: the installation's signing key.
  /// - Precondition: no part has more than 65 535 bytes.
  public func text(signedWith key: [UInt8]) -> String {
    SignedText.make(
      of: [container.rawValue, environment.rawValue, userRecordName, userName, grant, String(expiry)], for: Self.purpose, signedWith: key)
  }

  /// nil for anything that was not made by `text(signedWith:)` with this key, or has expired.
  /// - Parameter now: milliseconds since 1970.
  public init?(text: String, verifiedWith key: [UInt8], now: Int64) {
    guard let parts = SignedText.parts(of: text, for: Self.purpose, verifiedWith: key), parts.count == 6, let container = ContainerID(rawValue: parts[0]),
      let environment = Environment(rawValue: parts[1]), let expiry = Int64(parts[5]), now < expiry
    else { return nil }
    self.init(container: container, environment: environment, userRecordName: parts[2], userName: parts[3], grant: parts[4], expiry: expiry)
  }
}
