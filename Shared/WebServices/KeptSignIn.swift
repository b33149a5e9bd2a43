// The cookies of a browser whose user is signed in to pages of the server: those of shares, and the account.

public import Records

/// States that a browser's user signed in to a container; valid as long as that session.
public struct KeptSignIn: Hashable, Sendable {
  /// The pages that a sign-in is for; it counts for no others.
  public enum Pages: Sendable {
    /// Shares open without another sign-in, for a user who asked to stay signed in.
    case shares
    /// The user's own account.
    case account

    public var cookieName: String {
      switch self {
      case .shares: "aquifer-signed-in"
      case .account: "aquifer-account"
      }
    }

    /// The path to which browsers send the cookie.
    public var path: String {
      switch self {
      case .shares: "/share/"
      case .account: "/account"
      }
    }

    /// Keeps texts that the same key signed for other purposes from being valid here.
    fileprivate var purpose: [UInt8] {
      switch self {
      case .shares: Array("aquifer kept sign-in".utf8)
      case .account: Array("aquifer account".utf8)
      }
    }
  }

  public let pages: Pages
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
    for pages: Pages, container: ContainerID, environment: Environment, userRecordName: String, userName: String,
    grant: String,
    expiry: Int64
  ) {
    self.pages = pages
    self.container = container
    self.environment = environment
    self.userRecordName = userRecordName
    self.userName = userName
    self.grant = grant
    self.expiry = expiry
  }

  /// The cookie's text, fit for a cookie without escapes.
  /// - Parameter key: the installation's signing key.
  /// - Precondition: each part has at most 65 535 bytes.
  public func text(signedWith key: [UInt8]) -> String {
    SignedText.make(
      of: [container.rawValue, environment.rawValue, userRecordName, userName, grant, String(expiry)],
      for: pages.purpose, signedWith: key)
  }

  /// nil unless `text(signedWith:)` made the text for these pages with this key, and it has not expired.
  /// - Parameter now: milliseconds since 1970.
  public init?(text: String, for pages: Pages, verifiedWith key: [UInt8], now: Int64) {
    guard let parts = SignedText.parts(of: text, for: pages.purpose, verifiedWith: key), parts.count == 6,
      let container = ContainerID(rawValue: parts[0]),
      let environment = Environment(rawValue: parts[1]), let expiry = Int64(parts[5]), now < expiry
    else { return nil }
    self.init(
      for: pages, container: container, environment: environment, userRecordName: parts[2], userName: parts[3],
      grant: parts[4],
      expiry: expiry)
  }
}
