// Pinned states of a store: read transactions that stay open.

import Synchronization

/// One state of a store for as long as it is held (`NSQueryGenerationToken`). It keeps the write-ahead log from
/// beginning anew, so the store ends the oldest ones when the log grows too long.
package final class Generation: Sendable {
  package let number: Int64
  /// What the store had imported then.
  let importToken: String?
  private let lane: Lane<Reader>
  private let hub: CommitHub
  private let hasEnded = Mutex(false)
  private let ended: @Sendable () -> Void

  init(
    number: Int64, importToken: String?, _ lane: Lane<Reader>, _ hub: CommitHub, ended: @escaping @Sendable () -> Void
  ) {
    self.number = number
    self.importToken = importToken
    self.lane = lane
    self.hub = hub
    self.ended = ended
  }

  deinit { release() }

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
  private struct Pin { weak var generation: Generation? }

  private let pins = Mutex<[Pin]>([])

  func add(_ generation: Generation) {
    pins.withLock { pins in
      pins.removeAll { $0.generation?.isExpired ?? true }
      pins.append(Pin(generation: generation))
    }
  }

  var isEmpty: Bool { pins.withLock { $0.allSatisfy { $0.generation?.isExpired ?? true } } }

  /// Ends the oldest one.
  func expireOldest() {
    let oldest = pins.withLock { pins in
      pins.removeAll { $0.generation?.isExpired ?? true }
      return pins.first?.generation
    }
    oldest?.release()
  }
}
