// The one source of unpredictable bytes: credentials, incarnations and share names come from here.

import COpenSSL
import Synchronization

/// Bytes nobody can guess, from libcrypto's generator.
public enum SecureRandom {
  /// Bytes that were drawn and not given out. An identifier needs sixteen, and asking libcrypto costs as much for them as for all of these.
  private static let drawn = Mutex<[UInt8]>([])
  private static let drawnCount = 1024
  /// What is longer, keys and tokens, is drawn for itself.
  private static let longestShare = 16

  /// - Parameter count: how many bytes, ≥ 0.
  public static func bytes(_ count: Int) -> [UInt8] {
    if count > longestShare { return draw(count) }
    return drawn.withLock { drawn in
      if drawn.count < count { drawn = draw(drawnCount) }
      let share = Array(drawn.suffix(count))
      // Not left behind in memory.
      for index in drawn.count - count..<drawn.count { drawn[index] = 0 }
      drawn.removeLast(count)
      return share
    }
  }

  private static func draw(_ count: Int) -> [UInt8] {
    precondition(count >= 0 && count <= Int(Int32.max), "\(count) random bytes can't be drawn")
    return [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
      guard count > 0 else { return }
      // Without entropy no secret may be made: better no process than one with guessable tokens.
      guard RAND_bytes(buffer.baseAddress, Int32(count)) == 1 else { fatalError("the system has no randomness to offer") }
      initialized = count
    }
  }

  public static func uint64() -> UInt64 {
    bytes(8).reduce(0) { $0 << 8 | UInt64($1) }
  }
}
