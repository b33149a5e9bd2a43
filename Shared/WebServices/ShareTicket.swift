// The sign-in that a share's page remembers, in its form only.

public import Records

/// States that a visitor is a user, for the page of one share and a short time.
public struct ShareTicket: Hashable, Sendable {
  /// The ticket counts as long as this.
  public enum Ground: Hashable, Sendable {
    case session(Session)
    /// A typed password, until all sessions of the user are ended: how often they had been then.
    case password(signOutCount: Int64)
  }

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
  /// nil for a password that a share service of an earlier release has checked: the ticket counts until its expiry.
  public let ground: Ground?

  public init(userRecordName: String, userName: String, shortGUID: String, expiry: Int64, ground: Ground? = nil) {
    self.userRecordName = userRecordName
    self.userName = userName
    self.shortGUID = shortGUID
    self.expiry = expiry
    self.ground = ground
  }

  /// Keeps texts that the same key signed for other purposes from being valid here.
  private static let purpose = Array("aquifer share page".utf8)

  /// The ticket's text, fit for a form without escapes.
  /// - Parameter key: the installation's signing key.
  public func text(signedWith key: [UInt8]) -> String {
    let ground: [String] =
      switch ground {
      case .session(let session): [session.container.rawValue, session.environment.rawValue, session.grant]
      case .password(let signOutCount): [String(signOutCount)]
      case nil: []
      }
    return SignedText.make(
      of: [userRecordName, userName, shortGUID, String(expiry)] + ground, for: Self.purpose, signedWith: key)
  }

  /// nil unless `text(signedWith:)` made the text with this key, and it has not expired.
  /// - Parameter now: milliseconds since 1970.
  public init?(text: String, verifiedWith key: [UInt8], now: Int64) {
    guard let parts = SignedText.parts(of: text, for: Self.purpose, verifiedWith: key), parts.count >= 4,
      let expiry = Int64(parts[3]), now < expiry
    else { return nil }
    var ground: Ground?
    switch parts.count {
    case 4: break
    case 5:
      guard let signOutCount = Int64(parts[4]) else { return nil }
      ground = .password(signOutCount: signOutCount)
    case 7:
      guard let container = ContainerID(rawValue: parts[4]), let environment = Environment(rawValue: parts[5]) else {
        return nil
      }
      ground = .session(Session(container: container, environment: environment, grant: parts[6]))
    default: return nil
    }
    self.init(userRecordName: parts[0], userName: parts[1], shortGUID: parts[2], expiry: expiry, ground: ground)
  }
}
