// Time and randomness as parameters, so that tests and simulations can control them.

internal import Crypto
internal import Glibc

/// The wall clock. Unit: milliseconds since 1970.
public protocol WallClock: Sendable {
  var now: Int64 { get }
}

public struct SystemClock: WallClock {
  public init() {}

  public var now: Int64 {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
  }
}

/// A monotonic clock and a way to wait.
public struct Timing: Sendable {
  public let now: @Sendable () -> ContinuousClock.Instant
  /// Throws `CancellationError` when the task is cancelled first.
  public let sleep: @Sendable (Duration) async throws -> Void

  public init(
    now: @escaping @Sendable () -> ContinuousClock.Instant, sleep: @escaping @Sendable (Duration) async throws -> Void
  ) {
    self.now = now
    self.sleep = sleep
  }

  public static let system = Timing(now: { .now }, sleep: { try await Task.sleep(for: $0) })
}

/// The source of random identifiers.
public protocol RandomSource: Sendable {
  /// Cryptographically strong in production, seeded in tests.
  func bytes(_ count: Int) -> [UInt8]
}

public struct SystemRandom: RandomSource {
  public init() {}
  public func bytes(_ count: Int) -> [UInt8] { SecureRandom.bytes(count) }
}

extension RandomSource {
  /// A random (version 4) UUID in upper case.
  public func uuid() -> String {
    var bytes = bytes(16)
    bytes[6] = bytes[6] & 0x0f | 0x40
    bytes[8] = bytes[8] & 0x3f | 0x80
    return String(unsafeUninitializedCapacity: 36) { text in
      var end = 0
      for (index, byte) in bytes.enumerated() {
        if index == 4 || index == 6 || index == 8 || index == 10 {
          text[end] = UInt8(ascii: "-")
          end += 1
        }
        text[end] = Self.hexDigit(byte >> 4)
        text[end + 1] = Self.hexDigit(byte & 15)
        end += 2
      }
      return end
    }
  }

  private static func hexDigit(_ nibble: UInt8) -> UInt8 {
    nibble < 10 ? UInt8(ascii: "0") + nibble : UInt8(ascii: "A") + nibble - 10
  }

  public func hex(byteCount: Int) -> String {
    bytes(byteCount).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
  }
}
