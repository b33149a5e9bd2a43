// The shards that this worker holds: opens those that the cluster map assigns, closes moved ones, gives out stores.

import RecordStore
import Records
import ServiceBus
import ServiceKit
import ZoneCommit

/// Holds the shards that the map assigns to this worker.
///
/// An assigned shard is opening (its previous owner may still hold it), open, or failed (tried again after a pause).
/// Requests wait for an opening shard; an unassigned shard answers `notMine`. A failing disk closes only its own shard,
/// which is reopened after a pause. After damage the host first checks its whole structure.
actor ShardHost: OpenShards {
  /// A message from an opening shard to its waiting requests.
  enum Opening: Sendable {
    /// Finds out whether the waiter is still there.
    case underWay
    case done(any ShardStore)
    case refused(any Error)
  }

  struct Shard {
    var isAssigned = true
    var store: (any ShardStore)?
    /// The answer to requests while the shard is not open and a wait is useless.
    var failure: RecordError?
    /// Why it could not be opened, for operators. Kept during further tries.
    var problem: String?
    /// Why it is out of service, as the store reported. Kept until it serves again.
    var outage: StoreError?
    /// An outage that the store reported and `hold` has not processed yet.
    var news: StoreError?
    /// True once it has served for `steadyTime`.
    var isSteady = false
    /// The request for a division that was known as taken back when the last opening began.
    var takenBack: Int64?
    var waiters: [AsyncStream<Opening>.Continuation] = []
    /// Wakes the task that holds the shard.
    var wake: AsyncStream<Never>.Continuation?
  }

  /// The worker's name in cluster maps.
  let name: String
  let recordStore: any RecordStore
  /// nil: epochs are not tracked.
  let epochs: ShardEpochs?
  private let work: [any ShardWork]
  let log: Log
  private let checksFirst: Bool
  private let pause, patience: @Sendable (Duration) async -> Void
  /// Where databases are, as the last map tells it.
  var layout: ShardLayout?
  /// The numbers of requests for divisions that were taken back, as the last map has them, by shard.
  var takenBack: [Int: Int64] = [:]
  /// The assigned shards, and those that are being closed.
  var shards: [Int: Shard] = [:]
  /// The counts of closed shards, because totals must never fall.
  var departed = ShardTotals()
  /// The number of outages, by cause.
  private(set) var outageCounts: (damaged: Int, failing: Int) = (0, 0)

  /// The most requests that wait for one shard to open.
  static let waiterLimit = 2048
  private static let firstPause = Duration.milliseconds(100)
  private static let longestPause = Duration.seconds(5)
  private static let slowOpening = Duration.seconds(5)
  /// The longest pause after an outage: the fault may return, and a check of all pages is costly.
  private static let longestOutagePause = Duration.seconds(60)
  /// A shard that serves for this long counts as recovered.
  private static let steadyTime = Duration.seconds(120)
  /// A full disk and a silent database are tried more often, so that clients are served soon afterwards.
  private static let recoveryPause = Duration.seconds(1)

  /// - Parameters:
  ///   - epochs: the least epochs that shards may have.
  ///   - work: runs on every open shard.
  ///   - checksFirst: checks every shard before it serves. A shard with a damaged structure does not serve.
  ///   - pause: pauses for that time, or until its task is cancelled.
  ///   - patience: the same, for the time after which a slow opening is logged.
  init(
    name: String, store: any RecordStore, epochs: ShardEpochs? = nil, work: [any ShardWork], log: Log,
    checksFirst: Bool = false,
    pause: @escaping @Sendable (Duration) async -> Void,
    patience: @escaping @Sendable (Duration) async -> Void
  ) {
    self.name = name
    recordStore = store
    self.epochs = epochs
    self.work = work
    self.log = log
    self.checksFirst = checksFirst
    self.pause = pause
    self.patience = patience
  }

  // MARK: Requests

  /// The store of the shard that holds a database.
  /// - Throws: `BusError.notMine` for an unassigned shard, or one that has not that database any more; `.overloaded` if
  ///   too many requests wait for it to open; `RecordError` if it can't be opened.
  func store(of database: DatabaseID) async throws -> any ShardStore {
    guard let layout else { throw BusError(.notMine, "this worker has no cluster map yet") }
    let hash = database.placeHash
    let store = try await store(ofShard: layout.shard(ofHash: hash))
    // The caller's map may be older than the shard, and so may this worker's.
    if let part = store.part, !part.contains(hash: hash) { throw Self.notMine(store.shard) }
    return store
  }

  /// The store of a shard that has what a caller expects in it.
  /// - Parameter part: nil for a shard that was never divided.
  /// - Throws: as `store(of:)`.
  func store(ofShard number: Int, having part: ShardPart?) async throws -> any ShardStore {
    let store = try await store(ofShard: number)
    guard store.part == part else { throw Self.notMine(number) }
    return store
  }

  func openStore(of database: DatabaseID) -> (any ShardStore)? {
    guard let number = layout?.shard(of: database), let shard = shards[number], shard.isAssigned,
      let store = shard.store, store.part?.contains(database) ?? true
    else { return nil }
    return store
  }

  /// The store of a shard by its number.
  func store(ofShard number: Int) async throws -> any ShardStore {
    guard let shard = shards[number], shard.isAssigned else { throw Self.notMine(number) }
    if let store = shard.store { return store }
    if let failure = shard.failure { throw failure }
    for await opening in try wait(for: number) {
      switch opening {
      case .underWay: continue
      case .done(let store): return store
      case .refused(let error): throw error
      }
    }
    throw CancellationError()
  }

  private func wait(for number: Int) throws -> AsyncStream<Opening> {
    if let count = shards[number]?.waiters.count, count >= Self.waiterLimit {
      shards[number]?.waiters.removeAll { if case .terminated = $0.yield(.underWay) { true } else { false } }
    }
    guard let count = shards[number]?.waiters.count, count < Self.waiterLimit else {
      throw BusError(.overloaded, "too many requests wait for shard \(number) to open")
    }
    let (stream, continuation) = AsyncStream.makeStream(of: Opening.self, bufferingPolicy: .bufferingNewest(1))
    shards[number]?.waiters.append(continuation)
    return stream
  }

  /// Closes a store that is closed or belongs to another worker. It is reopened if it is still assigned.
  func lost(_ store: any ShardStore) {
    guard shards[store.shard]?.store?.epoch == store.epoch else { return }
    shards[store.shard]?.store = nil
    shards[store.shard]?.wake?.finish()
  }

  /// Takes a store out of service after it reported a failure, or a check found damage.
  func failed(_ store: any ShardStore, _ failure: StoreError) {
    guard shards[store.shard]?.store?.epoch == store.epoch else { return }
    if case .fenced = failure { return lost(store) }
    shards[store.shard]?.news = failure
    shards[store.shard]?.failure = .outOfService
    lost(store)
  }

  private func noteSteady(_ store: any ShardStore) async {
    await pause(Self.steadyTime)
    if !Task.isCancelled, shards[store.shard]?.store?.epoch == store.epoch { shards[store.shard]?.isSteady = true }
  }

  static func notMine(_ number: Int) -> BusError { BusError(.notMine, "shard \(number) is not held here") }

  func tellWaiters(of number: Int, _ opening: Opening) {
    for waiter in shards[number]?.waiters ?? [] {
      waiter.yield(opening)
      waiter.finish()
    }
    shards[number]?.waiters = []
  }

  // MARK: Assignment

  /// Follows the maps until they end or the task is cancelled; then lets go of every shard and returns.
  func run(_ maps: AsyncStream<ClusterMap>) async {
    await withDiscardingTaskGroup { group in
      for await map in maps {
        for number in follow(map) { group.addTask { await self.hold(number) } }
        for store in unknownToDirectory { group.addTask { await self.epochs?.noteAgain(store) } }
      }
      group.cancelAll()
    }
  }

  /// Opens a shard, serves it and closes it, again and again for as long as it is assigned.
  private func hold(_ number: Int) async {
    var wait = Self.firstPause
    while !Task.isCancelled, shards[number]?.isAssigned == true {
      do {
        guard let store = try await openWatched(number) else { continue }
        do {
          try checkPart(of: store)
        } catch {
          await store.close()
          throw error
        }
        await epochs?.noteFirst(store, knowing: shards[number]?.takenBack)
        do {
          try await checkIfDue(store)
        } catch {
          await store.close()
          throw error
        }
        let isSteady = await serve(store)
        // Before the close, which takes a while: totals must not fall meanwhile.
        departed.add(store, isOpen: false)
        await store.close()
        log.info("shard closed", ["shard": .integer(Int64(number)), "epoch": .integer(store.epoch)])
        if isSteady || shards[number]?.news == nil { wait = Self.firstPause }
        if let failure = shards[number]?.news {
          shards[number]?.news = nil
          throw failure
        }
      } catch {
        await pause(refuse(number, error, wait))
        wait = min(wait * 2, shards[number]?.outage == nil ? Self.longestPause : Self.longestOutagePause)
        if shards[number]?.outage == nil { shards[number]?.failure = nil }
      }
    }
    tellWaiters(of: number, .refused(Self.notMine(number)))
    shards[number] = nil
  }

  /// Opens a shard, and logs a warning if that takes long.
  private func openWatched(_ number: Int) async throws -> (any ShardStore)? {
    // Cancelled when this returns.
    async let _: Void = warnIfSlow(number)
    return try await open(number)
  }

  private func warnIfSlow(_ number: Int) async {
    await patience(Self.slowOpening)
    guard !Task.isCancelled else { return }
    log.warning(
      "a shard can't be opened yet: another worker holds it",
      ["shard": .integer(Int64(number)), "holder": .text(recordStore.holder(ofShard: number) ?? "")])
  }

  /// Records why a shard is not served.
  /// - Returns: the pause before the next try.
  private func refuse(_ number: Int, _ error: any Error, _ wait: Duration) -> Duration {
    let log = log.with(["shard": .integer(Int64(number))])
    let failure: RecordError
    switch error {
    case let former as FormerShard:
      failure = .outOfService
      if shards[number]?.outage != former.outage {
        log.error("a shard is refused: it was brought back to before a division", ["reason": .text("\(former)")])
      }
      shards[number]?.outage = former.outage
    case StoreError.foreign(let reason):
      failure = .outOfService
      if shards[number]?.outage != error as? StoreError {
        log.error("a shard is refused: its file is not the one that was in use", ["reason": .text(reason)])
      }
      shards[number]?.outage = error as? StoreError
    case StoreError.corrupt(let reason), StoreError.io(let reason):
      failure = .outOfService
      if shards[number]?.outage == nil { countOutage(error) }
      shards[number]?.outage = error as? StoreError
      log.error(
        "a shard is out of service; it is tried again",
        ["reason": .text(reason), "seconds": .number(wait / .seconds(1))])
    default: failure = RecordError(storing: error, log: log)
    }
    shards[number]?.failure = failure
    shards[number]?.problem = String(describing: error)
    tellWaiters(of: number, .refused(failure))
    switch error {
    case is FormerShard: return max(wait, Self.longestPause)
    case StoreError.full, StoreError.unreachable: return min(wait, Self.recoveryPause)
    case StoreError.foreign: return min(wait, Self.longestPause)
    default: return wait
    }
  }

  private func countOutage(_ error: any Error) {
    if case StoreError.corrupt = error { outageCounts.damaged += 1 } else { outageCounts.failing += 1 }
  }

  /// - Throws: `StoreError` for a shard that must not be served.
  private func checkIfDue(_ store: any ShardStore) async throws {
    var isDamaged = false
    if case .corrupt = shards[store.shard]?.outage { isDamaged = true }
    guard checksFirst || isDamaged else { return }
    let report = try await verify(store)
    for problem in report.problems.prefix(Self.reportedProblemLimit) {
      log.error("a check found a problem", ["shard": .integer(Int64(store.shard)), "problem": .text(problem)])
    }
    if report.isStructureDamaged {
      throw StoreError.corrupt("shard \(store.shard): \(report.problems.first ?? "damaged"); restore it from a backup")
    }
  }

  private static let reportedProblemLimit = 10

  /// Checks a shard. If another worker gets the shard meanwhile, the shard is closed, which ends the check.
  private func verify(_ store: any ShardStore) async throws -> VerificationReport {
    let (wakes, wake) = AsyncStream.makeStream(of: Never.self)
    shards[store.shard]?.wake = wake
    if shards[store.shard]?.isAssigned != true { wake.finish() }
    return try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask {
        for await _ in wakes {}
        // Cancelled because the check is done.
        if Task.isCancelled { return }
        await store.close()
      }
      defer { group.cancelAll() }
      return try await store.verify(readsAssets: false)
    }
  }

  /// Waits until the previous owner closes the shard, unless another worker gets the shard meanwhile.
  /// - Returns: nil if the shard is not this worker's any more.
  private func open(_ number: Int) async throws -> (any ShardStore)? {
    let (wakes, wake) = AsyncStream.makeStream(of: Never.self)
    shards[number]?.wake = wake
    shards[number]?.takenBack = takenBack[number]
    return try await withThrowingTaskGroup(of: (any ShardStore)?.self) { group in
      group.addTask { [recordStore, epochs] in
        let known = await epochs?.known(ofShard: number) ?? ShardEpochs.Known()
        return try await recordStore.open(
          shard: number, knownEpoch: known.least, renewingBelow: known.accepted)
      }
      group.addTask {
        for await _ in wakes {}
        return nil
      }
      var opened: (any ShardStore)?
      do {
        while let result = try await group.next() {
          opened = result ?? opened
          group.cancelAll()
        }
      } catch is CancellationError {
        // Dropped because the wait was given up from here.
      }
      return opened
    }
  }

  /// Gives the store to requests and runs the background work until it is lost or moved, or the task is cancelled.
  /// - Returns: true if it served for `steadyTime`.
  private func serve(_ store: any ShardStore) async -> Bool {
    let number = store.shard
    guard shards[number]?.isAssigned == true, !isOutdated(store) else { return false }
    let (wakes, wake) = AsyncStream.makeStream(of: Never.self)
    shards[number]?.wake = wake
    shards[number]?.store = store
    shards[number]?.failure = nil
    shards[number]?.problem = nil
    shards[number]?.outage = nil
    shards[number]?.isSteady = false
    tellWaiters(of: number, .done(store))
    log.info("shard opened", ["shard": .integer(Int64(number)), "epoch": .integer(store.epoch)])
    await withDiscardingTaskGroup { group in
      for work in work { group.addTask { await work.run(on: store) } }
      group.addTask { for await failure in store.failures { await self.failed(store, failure) } }
      group.addTask { await self.noteSteady(store) }
      for await _ in wakes {}
      group.cancelAll()
    }
    if shards[number]?.store?.epoch == store.epoch { shards[number]?.store = nil }
    return shards[number]?.isSteady ?? false
  }
}
