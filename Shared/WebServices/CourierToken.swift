// The web courier's URLs carry their own credentials: gateways mint them, notifiers verify them, nobody stores them.

public import Records

/// Who a web courier delivers to (wire-protocol section 9.3): a user's client in one container and environment.
public struct CourierToken: Hashable, Sendable {
  public let container: ContainerID
  public let environment: Environment
  public let userRecordName: String
  /// What the client calls itself, or an identifier drawn for it; 0…255 bytes.
  public let clientID: String

  public init(container: ContainerID, environment: Environment, userRecordName: String, clientID: String) {
    self.container = container
    self.environment = environment
    self.userRecordName = userRecordName
    self.clientID = clientID
  }

  /// So that a code made for another purpose with the same key is none of ours.
  private static let purpose = Array("aquifer courier".utf8)

  /// Fits into a path as it is.
  /// - Parameter key: the installation's signing key (`FetchSecrets`).
  /// - Precondition: each part has at most 65 535 bytes.
  public func text(signedWith key: [UInt8]) -> String {
    SignedText.make(of: [container.rawValue, environment.rawValue, userRecordName, clientID], for: Self.purpose, signedWith: key)
  }

  /// nil for anything that was not made by `text(signedWith:)` with this key.
  public init?(text: String, verifiedWith key: [UInt8]) {
    guard let parts = SignedText.parts(of: text, for: Self.purpose, verifiedWith: key), parts.count == 4, let container = ContainerID(rawValue: parts[0]),
      let environment = Environment(rawValue: parts[1])
    else { return nil }
    self.init(container: container, environment: environment, userRecordName: parts[2], clientID: parts[3])
  }
}
