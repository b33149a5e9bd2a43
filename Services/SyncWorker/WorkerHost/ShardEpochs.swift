// The directory keeps the last known epoch of each shard, so that no worker makes a missing shard anew or serves an
// older copy.

import RecordStore
import Records
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
  /// An opening of a shard by this worker.
  private struct Opening {
    let epoch: Int64
    let part: ShardPart?
    /// The last division of the shard, if its new shard was not opened before this worker opened the shard.
    let pending: PendingSplit?
    /// The request for a division that was known as taken back before.
    let takenBack: Int64?
  }

  /// The last opening of each shard.
  private var openings: [Int: Opening] = [:]
  /// The shards that are told of anew.
  private var toldAnew: Set<Int> = []
  /// Openings that the next message reports; one message carries all that wait.
  private var waiting: [NoteShardEpochs.Opened] = []
  private var waiters: [CheckedContinuation<Bool, Never>] = []
  private var isSending = false

  private static let deadline = Duration.seconds(2)
  private static let retryPause = Duration.milliseconds(200)
  private static let latePause = Duration.seconds(2)
  private static let pendingPause = Duration.milliseconds(500)

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
  /// - Parameter takenBack: the request for a division that was known as taken back before the opening.
  func noteFirst(_ store: any ShardStore, knowing takenBack: Int64? = nil) async {
    let accepted = known[store.shard]?.accepted ?? 0
    known[store.shard] = Known(least: store.epoch)
    // The directory may not have heard of a division before the note of it went.
    let earlier = openings[store.shard].flatMap { $0.part == store.part ? $0.pending : nil }
    openings[store.shard] = Opening(
      epoch: store.epoch, part: store.part, pending: store.pendingSplit ?? earlier, takenBack: takenBack)
    let opened = NoteShardEpochs.Opened(shard: store.shard, epoch: store.epoch)
    let isRenewed = accepted > 0 && opened.isRenewed(since: accepted)
    if store.isEpochStored, store.epoch == 1 || isRenewed { await noteUntilKnown(store, pending(of: store)) }
  }

  /// Reports the epoch of any other shard in the background. Until then the directory knows a slightly lower one. Then
  /// waits for the end of a division, and reports it.
  nonisolated func run(on store: any ShardStore) async {
    let pending = await pending(of: store)
    await noteUntilKnown(store, pending)
    if pending == nil { return }
    while !Task.isCancelled, store.pendingSplit != nil { await pause(Self.pendingPause) }
    await noteUntilKnown(store, nil)
  }

  /// Reports an open shard once more, because the directory does not know its part. It may have come from a backup.
  func noteAgain(_ store: any ShardStore) async {
    guard toldAnew.insert(store.shard).inserted else { return }
    defer { toldAnew.remove(store.shard) }
    let pending = pending(of: store)
    await noteUntilKnown(store, pending)
    if pending != nil, store.pendingSplit == nil { await noteUntilKnown(store, nil) }
  }

  private func pending(of store: any ShardStore) -> PendingSplit? {
    openings[store.shard].flatMap { $0.epoch == store.epoch ? $0.pending : nil }
  }

  private func noteUntilKnown(_ store: any ShardStore, _ pending: PendingSplit?) async {
    var wait = Self.retryPause
    while !Task.isCancelled {
      if !store.isEpochStored { await storeEpoch(of: store) }
      if store.isEpochStored, await note(store, pending) { return }
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
  private func note(_ store: any ShardStore, _ pending: PendingSplit?) async -> Bool {
    let shard = store.shard
    let opened = NoteShardEpochs.Opened(
      shard: shard, epoch: store.epoch, cluster: cluster(shard), part: store.part, pending: pending,
      takenBack: openings[shard].flatMap { $0.epoch == store.epoch ? $0.takenBack : nil })
    if !waiting.contains(opened) { waiting.append(opened) }
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
        NoteShardEpochs(epochs: waiting),
        waiters
      )
      waiting = []
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
