// Holds up a shard's writer, so that the test controls the queue behind it.

import Dispatch
import RecordStore

/// A body that keeps the writer busy until the gate is opened. It does nothing in the in-memory store, which runs
/// bodies at once.
struct Gate {
  private let semaphore = DispatchSemaphore(value: 0)
  private let passage: PendingCommit<Void>

  /// Returns when the writer waits at the gate.
  init(_ kind: StoreKind, in shard: any ShardStore) async {
    guard kind != .inMemory else {
      passage = shard.enqueue { _ in }
      return
    }
    let (arrivals, arrived) = AsyncStream.makeStream(of: Void.self)
    passage = shard.enqueue { [semaphore] _ in
      arrived.finish()
      semaphore.wait()
    }
    for await _ in arrivals {}
  }

  func open() async throws {
    semaphore.signal()
    try await passage.value
  }
}

extension ShardStore {
  func statistic(_ name: String) -> Double { statistics.first { $0.name == name }?.value ?? -1 }
}
