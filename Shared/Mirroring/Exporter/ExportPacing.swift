// When a store exports its next batch, and how much of it: decided from what became of the last one, without a clock (E10, T-E09, T-E11).

/// The pace of one store's exports. There is one for each store, and whoever wants to export asks it: so there is exactly one retrier.
public struct ExportPacing: Hashable, Sendable {
  public enum Outcome: Hashable, Sendable {
    case committed(moreComing: Bool)
    /// The batch was too large for whoever was to take it.
    case limitExceeded
    /// It may go well later; seconds, where it was said how much later.
    case transient(retryAfter: Int?)
    /// Something in it never goes well.
    case poisoned
    /// The shard is somebody else's.
    case fenced
  }

  public enum Step: Hashable, Sendable {
    case run(ExportLimits)
    /// Nothing before that time: milliseconds since 1970.
    case wait(until: Int64)
    /// Every change and record by itself, so that what can't be exported is held back alone.
    case isolate
    case idle
  }

  /// Apple's: the full batch, a half, a quarter.
  static let ladder = [
    ExportLimits.standard, ExportLimits(itemCount: 200, byteCount: 512_000), ExportLimits(itemCount: 100, byteCount: 256_000),
  ]
  private static let longestDelay: Int64 = 300_000

  private var rung = 0
  private var failureCount = 0
  private var waitsUntil: Int64?

  public init() {}

  public var limits: ExportLimits { Self.ladder[rung] }

  /// Until when nothing may run; nil: it may.
  public func throttledUntil(at now: Int64) -> Int64? { waitsUntil.flatMap { $0 > now ? $0 : nil } }

  /// - Parameters:
  ///   - now: milliseconds since 1970.
  ///   - jitter: any number: spreads those who failed together.
  public mutating func next(after outcome: Outcome, at now: Int64, jitter: UInt64) -> Step {
    switch outcome {
    case .committed(let moreComing):
      (failureCount, waitsUntil) = (0, nil)
      if moreComing { return .run(limits) }
      rung = 0
      return .idle
    case .limitExceeded:
      guard rung + 1 < Self.ladder.count else { return .isolate }
      rung += 1
      return .run(limits)
    case .poisoned: return .isolate
    case .fenced: return .idle
    case .transient(let retryAfter):
      failureCount += 1
      let backoff = min(1000 << Int64(min(failureCount - 1, 20)), Self.longestDelay)
      let delay = retryAfter.map { Int64($0) * 1000 } ?? backoff
      // After the time that was asked for, never before it.
      let until = now + delay + Int64(jitter % UInt64(max(min(delay / 10, 10_000), 1)))
      waitsUntil = until
      return .wait(until: until)
    }
  }
}
