// What epochs shards are known to have: the directory keeps them, so that no worker makes a shard anew that is missing, or serves an older copy.

import RecordStore
import ServiceBus
import ServiceKit

/// Asks the directory before a shard is opened, and tells it afterwards.
actor ShardEpochs: ShardWork {
  private let bus: any Bus
  private let log: Log
  private let pause: @Sendable (Duration) async -> Void
  /// As the directory said last, or as they were opened here.
  private var known: [Int: Int64] = [:]
  /// Told to the directory with the next message, which is one for all that wait.
  private var waiting: [Int: Int64] = [:]
  private var waiters: [CheckedContinuation<Bool, Never>] = []
  private var isSending = false

  private static let deadline = Duration.seconds(2)
  private static let retryPause = Duration.milliseconds(200)
  private static let latePause = Duration.seconds(2)

  init(bus: any Bus, log: Log, pause: @escaping @Sendable (Duration) async -> Void) {
    self.bus = bus
    self.log = log
    self.pause = pause
  }

  /// Learns of all shards; while the share service is away what is known then counts. Returns when the directory answered, or the task is cancelled.
  func fetch() async {
    while !Task.isCancelled {
      if let epochs = await ask(nil) {
        for (shard, epoch) in epochs.enumerated() { known[shard] = epoch }
        return
      }
      await pause(Self.retryPause)
    }
  }

  /// The epoch below which a shard's file is not the one that was in use; 0: it was never opened.
  func least(ofShard shard: Int) async -> Int64 {
    if let answer = await ask(shard) { known[shard] = answer.first ?? 0 }
    return known[shard] ?? 0
  }

  /// nil: the share service is away.
  private func ask(_ shard: Int?) async -> [Int64]? {
    do throws(BusError) {
      return try await bus.call(FetchShardEpochs(shard: shard), to: .role(.share), within: Self.deadline).epochs
    } catch {
      // A share service of an earlier release keeps no epochs.
      return error.code == .unknownMessage ? [] : nil
    }
  }

  /// A shard that was just made serves nobody before the directory knows: another one could be made for it elsewhere.
  func noteFirst(_ store: any ShardStore) async {
    known[store.shard] = store.epoch
    if store.epoch == 1 { await noteUntilKnown(store) }
  }

  /// Any other is told of beside the requests: until then its epoch is known to be one less, or so.
  nonisolated func run(on store: any ShardStore) async { await noteUntilKnown(store) }

  private func noteUntilKnown(_ store: any ShardStore) async {
    var wait = Self.retryPause
    while !Task.isCancelled {
      if !store.isEpochStored { await storeEpoch(of: store) }
      if store.isEpochStored, await note(store.shard, store.epoch) { return }
      await pause(wait)
      wait = Self.latePause
    }
  }

  /// On a disk that was full: a commit of nothing says it, if there is space.
  private func storeEpoch(of store: any ShardStore) async {
    do {
      let pending: PendingCommit<Void> = store.enqueue { _ in }
      try await pending.value
    } catch {
      // Dropped because it is tried again.
    }
  }

  /// - Returns: whether the directory knows.
  private func note(_ shard: Int, _ epoch: Int64) async -> Bool {
    waiting[shard] = max(waiting[shard] ?? 0, epoch)
    return await withCheckedContinuation { continuation in
      waiters.append(continuation)
      if !isSending {
        isSending = true
        // Ends with what waits.
        Task { await self.send() }
      }
    }
  }

  private func send() async {
    while !waiters.isEmpty {
      let (message, asking) = (NoteShardEpochs(epochs: waiting.sorted { $0.key < $1.key }.map { .init(shard: $0.key, epoch: $0.value) }), waiters)
      waiting = [:]
      waiters = []
      var isKnown = true
      do throws(BusError) {
        _ = try await bus.call(message, to: .role(.share), within: Self.deadline)
      } catch {
        isKnown = error.code == .unknownMessage
        if !isKnown { log.debug("epochs could not be noted", ["reason": .text(error.reason)]) }
      }
      for waiter in asking { waiter.resume(returning: isKnown) }
    }
    isSending = false
  }
}
