// The steps that every content takes on its way into a spool, whatever keeps it.

import Crypto
import Records

/// Hashes content that arrives in pieces and, with a key, seals it. One thread at a time may use it.
struct ContentIntake {
  private let digest = SHA256.Stream()
  private var byteCount: Int64 = 0
  /// nil when the content is stored in clear.
  private var sealer: FileSealer?

  init(_ keys: KeyRing) { sealer = FileSealer(keys) }

  /// - Returns: the bytes to store next; may be empty.
  mutating func add(_ content: [UInt8]) -> [UInt8] {
    digest.update(content)
    byteCount += Int64(content.count)
    return sealer?.add(content) ?? content
  }

  /// Called once.
  /// - Returns: the last bytes to store, and the name and length of the whole content.
  mutating func finish() -> (end: [UInt8], asset: Asset) {
    (sealer?.finish() ?? [], Asset(hash: digest.finish(), byteCount: byteCount))
  }
}

/// The hours in which spooled contents expire, counted from 1970. A spool keeps contents of one hour together.
enum SpoolHour {
  private static let seconds: Int64 = 3600
  /// The tolerated difference between the clocks of two machines.
  private static let marginHours: Int64 = 1

  /// - Parameter expiry: seconds since 1970.
  static func hour(of expiry: Int64) -> Int64 { max(expiry, 0) / seconds }

  /// The hour for contents of a shard that others may adopt until then: one for half a day, so that a repeated offer
  /// finds what the earlier ones copied.
  /// - Parameter expiry: seconds since 1970.
  static func hour(ofOffer expiry: Int64) -> Int64 { (hour(of: expiry) + offerHours - 1) / offerHours * offerHours }
  private static let offerHours: Int64 = 12

  /// The place of a content in the spool.
  static func name(_ hour: Int64, _ name: String) -> String { "uploads/\(hour)/\(name)" }

  /// True when no shard may adopt contents of that hour any more.
  /// - Parameter now: seconds since 1970.
  static func isOver(_ hour: Int64, at now: Int64) -> Bool { (hour + 1 + marginHours) * seconds <= now }
}
