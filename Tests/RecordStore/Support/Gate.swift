// Holds a shard's writer up, so that a test decides what waits behind it.

import Dispatch
import RecordStore

/// A body that keeps the writer busy until it is opened. The in-memory store runs bodies where they are enqueued: there it does nothing.
struct Gate {
  private let semaphore = DispatchSemaphore(value: 0)
  private let passage: PendingCommit<Void>

  /// Returns when the writer stands at the gate.
  init(_ kind: StoreKind, in shard: any ShardStore) async {
    guard kind == .sqlite else {
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
