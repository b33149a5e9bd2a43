// The directory keeps the last known epoch of each shard, so that no worker makes a missing shard anew or serves an
// older copy.

import RecordStore
import ServiceBus
import ServiceKit
import ZoneCommit

/// Asks the directory for a shard's epoch before the shard is opened, and reports the new epoch afterwards.
actor ShardEpochs: ShardWork {
  private let bus: any Bus
  /// The cluster in which a shard was opened; nil without clusters.
  private let cluster: @Sendable (_ shard: Int) -> String?
  private let log: Log
  private let pause: @Sendable (Duration) async -> Void
  /// What the directory knows of a shard.
  struct Known: Hashable {
    /// The least epoch that it may have; 0: it may never have been opened, and may be made.
    var least: Int64 = 0
    /// The epoch before an operator accepted it as it is found; 0 for any other.
    var accepted: Int64 = 0
  }

  /// As the directory last told, or as a shard was opened here.
  private var known: [Int: Known] = [:]
  /// Epochs that the next message reports; one message carries all that wait.
  private var waiting: [Int: NoteShardEpochs.Opened] = [:]
  private var waiters: [CheckedContinuation<Bool, Never>] = []
  private var isSending = false

  private static let deadline = Duration.seconds(2)
  private static let retryPause = Duration.milliseconds(200)
  private static let latePause = Duration.seconds(2)

  init(
    bus: any Bus, cluster: @escaping @Sendable (_ shard: Int) -> String? = { _ in nil }, log: Log,
    pause: @escaping @Sendable (Duration) async -> Void
  ) {
    self.bus = bus
    self.cluster = cluster
    self.log = log
    self.pause = pause
  }

  /// Fetches the epochs of all shards. Returns when the directory answered, or the task is cancelled.
  func fetch() async {
    while !Task.isCancelled {
      if let answer = await ask(nil) {
        for (shard, known) in answer.enumerated() { self.known[shard] = known }
        return
      }
      await pause(Self.retryPause)
    }
  }

  /// What to open a shard with. Without an answer the last one counts.
  func known(ofShard shard: Int) async -> Known {
    if let answer = await ask(shard) { known[shard] = answer.first ?? Known() }
    return known[shard] ?? Known()
  }

  /// nil: the share service does not answer.
  private func ask(_ shard: Int?) async -> [Known]? {
    do throws(BusError) {
      let reply = try await bus.call(FetchShardEpochs(shard: shard), to: .role(.share), within: Self.deadline)
      return reply.epochs.enumerated().map { index, epoch in
        // An earlier release tells of no acceptance.
        let accepted = reply.accepted ?? []
        return Known(least: epoch, accepted: accepted.indices.contains(index) ? accepted[index] : 0)
      }
    } catch {
      // A share service of an earlier release keeps no epochs.
      return error.code == .unknownMessage ? [] : nil
    }
  }

  /// A shard that was made, or renewed because an operator accepted it, serves only after the directory knows it.
  /// Otherwise another worker could make the same shard, or renew it again. A full disk allows neither: what it has is
  /// served.
  func noteFirst(_ store: any ShardStore) async {
    let accepted = known[store.shard]?.accepted ?? 0
    known[store.shard] = Known(least: store.epoch)
    let opened = NoteShardEpochs.Opened(shard: store.shard, epoch: store.epoch)
    let isRenewed = accepted > 0 && opened.isRenewed(since: accepted)
    if store.isEpochStored, store.epoch == 1 || isRenewed { await noteUntilKnown(store) }
  }

  /// Reports the epoch of any other shard in the background. Until then the directory knows a slightly lower one.
  nonisolated func run(on store: any ShardStore) async { await noteUntilKnown(store) }

  private func noteUntilKnown(_ store: any ShardStore) async {
    var wait = Self.retryPause
    while !Task.isCancelled {
      if !store.isEpochStored { await storeEpoch(of: store) }
      if store.isEpochStored, await note(store) { return }
      await pause(wait)
      wait = Self.latePause
    }
  }

  /// Stores the epoch after a full disk prevented it: an empty commit does so once there is space.
  private func storeEpoch(of store: any ShardStore) async {
    do {
      let pending: PendingCommit<Void> = store.enqueue { _ in }
      try await pending.value
    } catch {
      // Dropped because it is tried again.
    }
  }

  /// - Returns: true if the directory knows the epoch.
  private func note(_ store: any ShardStore) async -> Bool {
    let shard = store.shard
    if waiting[shard]?.epoch ?? 0 <= store.epoch {
      waiting[shard] = NoteShardEpochs.Opened(
        shard: shard, epoch: store.epoch, cluster: cluster(shard), part: store.part)
    }
    return await withCheckedContinuation { continuation in
      waiters.append(continuation)
      if !isSending {
        isSending = true
        // Ends once nothing waits.
        Task { await self.send() }
      }
    }
  }

  private func send() async {
    while !waiters.isEmpty {
      let (message, asking) = (
        NoteShardEpochs(epochs: waiting.sorted { $0.key < $1.key }.map(\.value)),
        waiters
      )
      waiting = [:]
      waiters = []
      var isKnown = true
      do throws(BusError) {
        _ = try await bus.call(message, to: .role(.share), within: Self.deadline)
      } catch {
        isKnown = error.code == .unknownMessage
        if !isKnown { log.debug("epochs could not be saved", ["reason": .text(error.reason)]) }
      }
      for waiter in asking { waiter.resume(returning: isKnown) }
    }
    isSending = false
  }
}
