// The web courier's URLs carry their own credentials: gateways mint them, notifiers verify them, nobody stores them.

import Crypto
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

  private static let version: UInt8 = 1
  private static let codeByteCount = 32
  /// So that a code made for another purpose with the same key is none of ours.
  private static let purpose = Array("aquifer courier".utf8)

  /// Base64url (no padding) of `version, 4 × (length, bytes), HMAC-SHA256`: fits into a path as it is.
  /// - Parameter key: the installation's signing key (`FetchSecrets`).
  /// - Precondition: each part has at most 65 535 bytes.
  public func text(signedWith key: [UInt8]) -> String {
    var bytes = [Self.version]
    for part in [container.rawValue, environment.rawValue, userRecordName, clientID] {
      let utf8 = Array(part.utf8)
      bytes += [UInt8(utf8.count >> 8), UInt8(utf8.count & 0xff)] + utf8
    }
    bytes += HMACSHA256.code(for: Self.purpose + bytes, key: key)
    return String(decoding: Base64.encode(bytes).utf8.filter { $0 != UInt8(ascii: "=") }.map(Self.urlByte), as: UTF8.self)
  }

  /// nil for anything that was not made by `text(signedWith:)` with this key.
  public init?(text: String, verifiedWith key: [UInt8]) {
    guard text.utf8.count <= 4096, !text.utf8.contains(where: { "+/=".utf8.contains($0) }) else { return nil }
    let standard = text.utf8.map(Self.standardByte) + [UInt8](repeating: UInt8(ascii: "="), count: (4 - text.utf8.count % 4) % 4)
    guard let bytes = Base64.decode(String(decoding: standard, as: UTF8.self)), bytes.count > Self.codeByteCount else { return nil }
    let body = Array(bytes.dropLast(Self.codeByteCount))
    guard HMACSHA256.isValid(Array(bytes.suffix(Self.codeByteCount)), for: Self.purpose + body, key: key) else { return nil }
    guard let parts = Self.parts(body), let container = ContainerID(rawValue: parts[0]), let environment = Environment(rawValue: parts[1]) else { return nil }
    self.init(container: container, environment: environment, userRecordName: parts[2], clientID: parts[3])
  }

  private static func parts(_ body: [UInt8]) -> [String]? {
    guard body.first == version else { return nil }
    var parts: [String] = []
    var rest = body.dropFirst()
    while !rest.isEmpty {
      guard let high = rest.popFirst(), let low = rest.popFirst() else { return nil }
      let count = Int(high) << 8 | Int(low)
      guard rest.count >= count, let part = String(validating: rest.prefix(count), as: UTF8.self) else { return nil }
      parts.append(part)
      rest = rest.dropFirst(count)
    }
    return parts.count == 4 ? parts : nil
  }

  private static func urlByte(_ byte: UInt8) -> UInt8 {
    switch byte {
    case UInt8(ascii: "+"): UInt8(ascii: "-")
    case UInt8(ascii: "/"): UInt8(ascii: "_")
    default: byte
    }
  }

  private static func standardByte(_ byte: UInt8) -> UInt8 {
    switch byte {
    case UInt8(ascii: "-"): UInt8(ascii: "+")
    case UInt8(ascii: "_"): UInt8(ascii: "/")
    default: byte
    }
  }
}
