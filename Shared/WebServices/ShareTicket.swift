// The sign-in that a share's page remembers, in its form only.

public import Records

/// States that a visitor is a user, for the page of one share and a short time.
public struct ShareTicket: Hashable, Sendable {
  /// The session of an app by which a visitor came who typed no password.
  public struct Session: Hashable, Sendable {
    public let container: ContainerID
    public let environment: Environment
    /// The directory's name of the session (`VerifyGrant`); it is no credential.
    public let grant: String

    public init(container: ContainerID, environment: Environment, grant: String) {
      self.container = container
      self.environment = environment
      self.grant = grant
    }
  }

  public let userRecordName: String
  /// The user's name as typed.
  public let userName: String
  public let shortGUID: String
  /// Milliseconds since 1970; the ticket is refused from then on.
  public let expiry: Int64
  /// The ticket counts as long as this session; nil: the visitor typed their password.
  public let session: Session?

  public init(
    userRecordName: String, userName: String, shortGUID: String, expiry: Int64, session: Session? = nil
  ) {
    self.userRecordName = userRecordName
    self.userName = userName
    self.shortGUID = shortGUID
    self.expiry = expiry
    self.session = session
  }

  /// Keeps texts that the same key signed for other purposes from being valid here.
  private static let purpose = Array("aquifer share page".utf8)

  /// The ticket's text, fit for a form without escapes.
  /// - Parameter key: the installation's signing key.
  public func text(signedWith key: [UInt8]) -> String {
    let session = session.map { [$0.container.rawValue, $0.environment.rawValue, $0.grant] } ?? []
    return SignedText.make(
      of: [userRecordName, userName, shortGUID, String(expiry)] + session, for: Self.purpose, signedWith: key)
  }

  /// nil unless `text(signedWith:)` made the text with this key, and it has not expired.
  /// - Parameter now: milliseconds since 1970.
  public init?(text: String, verifiedWith key: [UInt8], now: Int64) {
    guard let parts = SignedText.parts(of: text, for: Self.purpose, verifiedWith: key), [4, 7].contains(parts.count),
      let expiry = Int64(parts[3]), now < expiry
    else { return nil }
    var session: Session?
    if parts.count == 7 {
      guard let container = ContainerID(rawValue: parts[4]), let environment = Environment(rawValue: parts[5]) else {
        return nil
      }
      session = Session(container: container, environment: environment, grant: parts[6])
    }
    self.init(
      userRecordName: parts[0], userName: parts[1], shortGUID: parts[2], expiry: expiry, session: session)
  }
}
