// Web couriers' URLs carry their own credentials: gateways make them, notifiers verify them, nobody stores them.

public import Records

/// The user's client that a web courier delivers to (docs/protocol/record-plane.md#web-courier), in one container and
/// environment.
///
/// It is valid as long as the credentials of its request, which `grant` names, and never beyond its expiry.
public struct CourierToken: Hashable, Sendable {
  public let container: ContainerID
  public let environment: Environment
  public let userRecordName: String
  /// The client's name for itself, or an identifier that the gateway drew for it; 0 to 255 bytes.
  public let clientID: String
  /// The directory's name of the credentials (`Authenticate.Reply.grant`).
  public let grant: String
  /// Milliseconds since 1970; the token is refused from then on.
  public let expiry: Int64

  public init(
    container: ContainerID, environment: Environment, userRecordName: String, clientID: String, grant: String,
    expiry: Int64
  ) {
    self.container = container
    self.environment = environment
    self.userRecordName = userRecordName
    self.clientID = clientID
    self.grant = grant
    self.expiry = expiry
  }

  /// The expiry of a token made now, five to six weeks ahead. It is the same for a whole week, so that a client that
  /// asks again gets the same token.
  /// - Parameter now: milliseconds since 1970.
  public static func expiry(at now: Int64) -> Int64 { (now / week + 6) * week }
  private static let week: Int64 = 7 * 86_400_000

  /// Keeps texts that the same key signed for other purposes from being valid here.
  private static let purpose = Array("aquifer courier".utf8)

  /// The token's text, fit for a path without escapes.
  /// - Parameter key: the installation's signing key (`FetchSecrets`).
  /// - Precondition: each part has at most 65 535 bytes.
  public func text(signedWith key: [UInt8]) -> String {
    SignedText.make(
      of: [container.rawValue, environment.rawValue, userRecordName, clientID, grant, String(expiry)],
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
      container: container, environment: environment, userRecordName: parts[2], clientID: parts[3], grant: parts[4],
      expiry: expiry)
  }
}
