// The web courier's URLs carry their own credentials: gateways mint them, notifiers verify them, nobody stores them.

public import Records

/// The user's client that a web courier delivers to (docs/protocol/record-plane.md#web-courier), in one container and
/// environment.
///
/// It is good no longer than the credentials it was asked for with, which `grant` names, and in no case beyond its expiry.
public struct CourierToken: Hashable, Sendable {
  public let container: ContainerID
  public let environment: Environment
  public let userRecordName: String
  /// What the client calls itself, or an identifier drawn for it; 0…255 bytes.
  public let clientID: String
  /// What the directory calls the credentials (`Authenticate.Reply.grant`).
  public let grant: String
  /// Milliseconds since 1970; refused from then on.
  public let expiry: Int64

  public init(container: ContainerID, environment: Environment, userRecordName: String, clientID: String, grant: String, expiry: Int64) {
    self.container = container
    self.environment = environment
    self.userRecordName = userRecordName
    self.clientID = clientID
    self.grant = grant
    self.expiry = expiry
  }

  /// When a token ends that is made now: in five to six weeks. The same for a whole week, so that a client that asks again gets the same token.
  /// - Parameter now: milliseconds since 1970.
  public static func expiry(at now: Int64) -> Int64 { (now / week + 6) * week }
  private static let week: Int64 = 7 * 86_400_000

  /// So that a code made for another purpose with the same key is none of ours.
  private static let purpose = Array("aquifer courier".utf8)

  /// Fits into a path as it is.
  /// - Parameter key: the installation's signing key (`FetchSecrets`).
  /// - Precondition: each part has at most 65 535 bytes.
  public func text(signedWith key: [UInt8]) -> String {
    SignedText.make(of: [container.rawValue, environment.rawValue, userRecordName, clientID, grant, String(expiry)], for: Self.purpose, signedWith: key)
  }

  /// nil for anything that was not made by `text(signedWith:)` with this key, or has expired.
  /// - Parameter now: milliseconds since 1970.
  public init?(text: String, verifiedWith key: [UInt8], now: Int64) {
    guard let parts = SignedText.parts(of: text, for: Self.purpose, verifiedWith: key), parts.count == 6, let container = ContainerID(rawValue: parts[0]),
      let environment = Environment(rawValue: parts[1]), let expiry = Int64(parts[5]), now < expiry
    else { return nil }
    self.init(container: container, environment: environment, userRecordName: parts[2], clientID: parts[3], grant: parts[4], expiry: expiry)
  }
}
