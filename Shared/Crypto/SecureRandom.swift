// The one source of unpredictable bytes, for credentials, incarnations and share names.

import COpenSSL
import Synchronization

/// Unpredictable bytes from libcrypto's generator.
public enum SecureRandom {
  /// Drawn bytes that no caller has received. One call of libcrypto for 1024 bytes costs as much as one for sixteen.
  private static let drawn = Mutex<[UInt8]>([])
  private static let drawnCount = 1024
  /// Longer requests (keys, tokens) bypass the stock.
  private static let longestShare = 16

  /// - Parameter count: the number of bytes, ≥ 0.
  public static func bytes(_ count: Int) -> [UInt8] {
    if count > longestShare { return draw(count) }
    return drawn.withLock { drawn in
      if drawn.count < count { drawn = draw(drawnCount) }
      let share = Array(drawn.suffix(count))
      // Erases the bytes, so that memory holds no copy.
      for index in drawn.count - count..<drawn.count { drawn[index] = 0 }
      drawn.removeLast(count)
      return share
    }
  }

  private static func draw(_ count: Int) -> [UInt8] {
    precondition(count >= 0 && count <= Int(Int32.max), "\(count) random bytes can't be drawn")
    return [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
      guard count > 0 else { return }
      // Without entropy the process ends: guessable tokens are worse than no process.
      guard RAND_bytes(buffer.baseAddress, Int32(count)) == 1 else {
        fatalError("the system has no randomness to offer")
      }
      initialized = count
    }
  }

  public static func uint64() -> UInt64 {
    bytes(8).reduce(0) { $0 << 8 | UInt64($1) }
  }
}
