// The one source of unpredictable bytes: credentials, incarnations and share names come from here.

import COpenSSL

/// Bytes nobody can guess, from libcrypto's generator.
public enum SecureRandom {
  /// - Parameter count: how many bytes, ≥ 0.
  public static func bytes(_ count: Int) -> [UInt8] {
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
