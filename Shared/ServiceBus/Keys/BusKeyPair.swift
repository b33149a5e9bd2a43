// A process's own key on the bus: a key of libzmq's CURVE, in the text form of its file.

import CZeroMQ

/// A CURVE key pair (X25519), each half as 40 characters of Z85.
///
/// Only the secret half is kept; the public one follows from it. Descriptions show the public half alone.
public struct BusKeyPair: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable
{
  /// The length of a key's text.
  static let textByteCount = 40

  let secretKey: String
  /// The half by which other processes know this one.
  public let publicKey: String

  /// Draws a new pair from the system's randomness.
  /// - Throws: `BusError.refused` if libzmq was built without CURVE.
  public static func generate() throws(BusError) -> BusKeyPair {
    var publicKey = [CChar](repeating: 0, count: textByteCount + 1)
    var secretKey = publicKey
    guard zmq_curve_keypair(&publicKey, &secretKey) == 0 else {
      throw BusError(.refused, "libzmq makes no key: \(ZeroMQSocket.lastError)")
    }
    return BusKeyPair(secretKey: text(secretKey), publicKey: text(publicKey))
  }

  /// Reads a key file: the secret half, with spaces and line ends around it.
  /// - Throws: `BusError.refused` with a reason that never quotes the file.
  public init(parsing text: String) throws(BusError) {
    let words = text.split(whereSeparator: \.isWhitespace)
    guard words.count == 1, KnownPeers.isKey(words[0]) else {
      throw BusError(
        .refused,
        "it holds no key of the bus: one line of \(Self.textByteCount) characters, as `aquifer bus-key add` writes it")
    }
    var publicKey = [CChar](repeating: 0, count: Self.textByteCount + 1)
    guard zmq_curve_public(&publicKey, String(words[0])) == 0 else {
      throw BusError(.refused, "libzmq takes no key: \(ZeroMQSocket.lastError)")
    }
    self.init(secretKey: String(words[0]), publicKey: Self.text(publicKey))
  }

  private init(secretKey: String, publicKey: String) {
    self.secretKey = secretKey
    self.publicKey = publicKey
  }

  /// The text that `init(parsing:)` reads. It is a secret.
  public var fileText: String { secretKey + "\n" }
  public var description: String { "the key \(publicKey)" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: ["publicKey": publicKey]) }

  private static func text(_ characters: [CChar]) -> String {
    String(decoding: characters.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}
