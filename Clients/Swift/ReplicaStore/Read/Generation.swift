// Pinned states of a store: read transactions that stay open.

import Synchronization

/// One state of a store for as long as it is held (`NSQueryGenerationToken`). It keeps the write-ahead log from
/// beginning anew, so the store ends the oldest ones when the log grows too long.
package final class Generation: Sendable {
  package let number: Int64
  private let position: MirrorPosition
  private let lane: Lane<Reader>
  private let hub: CommitHub
  private let hasEnded = Mutex(false)
  private let ended: @Sendable () -> Void

  init(
    number: Int64, _ position: MirrorPosition, _ lane: Lane<Reader>, _ hub: CommitHub,
    ended: @escaping @Sendable () -> Void
  ) {
    self.number = number
    self.position = position
    self.lane = lane
    self.hub = hub
    self.ended = ended
  }

  deinit { release() }

  /// The token of what it shows, which a save names that is based on it.
  /// - Parameter present: of the store now.
  /// - Returns: nil: the server knows none. One that was restored since refuses those of its former life.
  func token(at present: MirrorPosition) -> String? {
    position.restoreCount == present.restoreCount ? position.shownToken : nil
  }

  /// History transactions that it does not see.
  package var age: Int { Int(hub.lastNumber - number) }
  package var isExpired: Bool { hasEnded.withLock { $0 } }

  /// Ends it; reads that run end first, and later ones throw `generationExpired`.
  package func release() {
    let isFirst = hasEnded.withLock { hasEnded in
      defer { hasEnded = true }
      return !hasEnded
    }
    guard isFirst else { return }
    let ended = ended
    lane.post { reader in
      reader.end()
      ended()
    }
  }

  package func read<Value: Sendable>(_ body: @escaping @Sendable (Snapshot) throws -> Value) async throws -> Value {
    try await lane.run { reader in try self.read(reader, body) }
  }

  package func readNow<Value>(_ body: (Snapshot) throws -> Value) throws -> Value {
    try lane.runNow { reader in try read(reader, body) }
  }

  private func read<Value>(_ reader: Reader, _ body: (Snapshot) throws -> Value) throws -> Value {
    guard !isExpired else { throw StoreError.generationExpired }
    return try body(reader.snapshot)
  }
}

/// The generations that are pinned, oldest first.
final class PinBoard: Sendable {
  private struct Pin {
    /// Counts from 1.
    let number: Int
    weak var generation: Generation?
  }

  private struct State {
    var pins: [Pin] = []
    var pinCount = 0
    /// When a log was found too long: its length, and the pins until then.
    var foundByteCount = 0
    var foundPinCount = 0

    mutating func removeEnded() { pins.removeAll { $0.generation?.isExpired ?? true } }
  }

  private let state = Mutex(State())

  func add(_ generation: Generation) {
    state.withLock { state in
      state.removeEnded()
      state.pinCount += 1
      state.pins.append(Pin(number: state.pinCount, generation: generation))
    }
  }

  var isEmpty: Bool { state.withLock { $0.pins.allSatisfy { $0.generation?.isExpired ?? true } } }

  /// A log of so many times the limit ends young generations as well.
  private static let longestLog = 4

  /// Ends the oldest generation when the log is longer than `limit`. It stays so long until the ended one has let go of
  /// it, and a younger one keeps nothing of that: one that was pinned after the log was found too long may keep as much
  /// again.
  func endOldest(logByteCount: Int, limit: Int) {
    let oldest = state.withLock { state -> Generation? in
      // The log has begun anew.
      if logByteCount < state.foundByteCount { state.foundByteCount = 0 }
      guard logByteCount > limit else { return nil }
      state.removeEnded()
      guard let first = state.pins.first else { return nil }
      if first.number > state.foundPinCount {
        guard logByteCount > min(state.foundByteCount + limit, Self.longestLog * limit) else { return nil }
        (state.foundByteCount, state.foundPinCount) = (logByteCount, state.pinCount)
      }
      return first.generation
    }
    oldest?.release()
  }
}
