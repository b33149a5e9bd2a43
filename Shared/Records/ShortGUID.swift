// Names of share URLs: nobody can guess one, and each tells in which shard its record lies.

/// The last path component of a share's URL: `0` and 24 characters of `[0-9A-Za-z]`. The first three of those name the
/// shard that holds the record; the other 21 are random (125 bits).
public struct ShortGUID: Hashable, Sendable {
  public let text: String
  public let shard: Int

  private static let alphabet = Array("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".utf8)
  private static let first = UInt8(ascii: "0")
  private static let shardCount = 3
  private static let chanceCount = 21

  /// - Parameter random: returns `count` unpredictable bytes.
  /// - Precondition: `shard` is at least 0 and less than 62³.
  public init(shard: Int, random: (_ count: Int) -> [UInt8]) {
    precondition(
      shard >= 0 && shard < Self.alphabet.count * Self.alphabet.count * Self.alphabet.count,
      "there is no shard \(shard)")
    var text = [Self.first]
    var rest = shard
    for _ in 0..<Self.shardCount {
      text.append(Self.alphabet[rest % Self.alphabet.count])
      rest /= Self.alphabet.count
    }
    // Bytes of the last, incomplete round of the alphabet would favour its first characters.
    let fair = 256 - 256 % Self.alphabet.count
    while text.count < 1 + Self.shardCount + Self.chanceCount {
      for byte in random(Self.chanceCount) where byte < fair && text.count < 1 + Self.shardCount + Self.chanceCount {
        text.append(Self.alphabet[Int(byte) % Self.alphabet.count])
      }
    }
    self.text = String(decoding: text, as: UTF8.self)
    self.shard = shard
  }

  /// nil unless the text has the shape of a short GUID.
  public init?(_ text: String) {
    let bytes = Array(text.utf8)
    guard bytes.count == 1 + Self.shardCount + Self.chanceCount, bytes[0] == Self.first else { return nil }
    var shard = 0
    for (index, byte) in bytes.enumerated().reversed() {
      guard let digit = Self.alphabet.firstIndex(of: byte) else { return nil }
      if (1...Self.shardCount).contains(index) { shard = shard * Self.alphabet.count + digit }
    }
    self.text = text
    self.shard = shard
  }
}
