// Runs the exports of a shard that no save runs itself: backlogs and retries. It also sends the pings after commits.

import RecordStore
import Records
import ServiceBus
import ServiceKit
import Synchronization

/// An export batch that a save has queued.
struct ExportStart: Sendable {
  let mirrorKey: Int64
  let commit: PendingCommit<ExportOutcome>
  /// The trace of the save, for the logs.
  var traceID = RequestTrace.id
}

/// Lets calls reach the loops of the shards open here. It is no actor, because a save would change threads to ask one.
final class ShardExports: Sendable {
  /// The stores whose exports are under way or failing.
  let runs = ExportRuns()

  private struct StoreKey: Hashable {
    let shard: Int
    let mirror: Int64
  }

  private let loops = Mutex<[Int: AsyncStream<ExportSignal>.Continuation]>([:])
  /// Stores whose exports have to wait, with the end of the wait: milliseconds since 1970.
  private let throttled = Mutex<[StoreKey: Int64]>([:])

  /// The signals for a shard's loop; they end when its task is cancelled.
  func open(_ shard: Int) -> AsyncStream<ExportSignal> {
    let (signals, continuation) = AsyncStream.makeStream(of: ExportSignal.self)
    loops.withLock { $0[shard] = continuation }
    return signals
  }

  func close(_ shard: Int) {
    loops.withLock { $0[shard] = nil }
    throttled.withLock { throttled in throttled = throttled.filter { $0.key.shard != shard } }
  }

  /// Reports an export that is already in the writer's queue; without a loop no ping follows it.
  func started(_ export: ExportStart, on shard: Int) { signal(.started(export), on: shard) }

  func signal(_ signal: ExportSignal, on shard: Int) { _ = loops.withLock { $0[shard] }?.yield(signal) }

  func signalAll(_ signal: ExportSignal) {
    for (_, loop) in loops.withLock({ $0.sorted { $0.key < $1.key } }) { loop.yield(signal) }
  }

  /// Until when a store's exports have to wait, in milliseconds since 1970; nil when they need not.
  func throttledUntil(_ mirrorKey: Int64, on shard: Int, at now: Int64) -> Int64? {
    throttled.withLock { throttled in
      if throttled.isEmpty { return nil }
      return throttled[StoreKey(shard: shard, mirror: mirrorKey)].flatMap { $0 > now ? $0 : nil }
    }
  }

  /// - Parameter waits: all waiting stores of the shard, with the end of each wait; they replace the earlier ones.
  func throttle(_ waits: [Int64: Int64], on shard: Int) {
    throttled.withLock { throttled in
      throttled = throttled.filter { $0.key.shard != shard }
      for (mirror, until) in waits { throttled[StoreKey(shard: shard, mirror: mirror)] = until }
    }
  }

  var throttledCount: Int { throttled.withLock { $0.count } }
}

/// The background work of the object plane on one shard.
struct ExportLoop: Sendable {
  let store: any ShardStore
  let context: PlaneContext
  let exports: ShardExports

  /// Runs until its task is cancelled, and returns when all its work has ended.
  func run() async {
    let signals = exports.open(store.shard)
    await withDiscardingTaskGroup { group in
      group.addTask { await begin() }
      group.addTask { await RunEvents(store: store, context: context).endAbandoned() }
      var schedule = ExportSchedule()
      var armedFor: Int64?
      for await signal in signals {
        if case .tick = signal { armedFor = nil }
        if case .started(let export) = signal { group.addTask { await RequestTrace.$id.withValue(export.traceID) { _ = await follow(export) } } }
        if case .schemaChanged = signal { group.addTask { await begin() } }
        let now = context.clock.now
        for drain in schedule.drains(after: signal, at: now, jitter: jitter()) { group.addTask { await self.drain(drain) } }
        if schedule.takeThrottlesChange() { exports.throttle(schedule.throttled, on: store.shard) }
        if schedule.takeRetryIsDue(at: now) { group.addTask { await findDueRetries() } }
        if let wakeAt = schedule.wakeAt, wakeAt < armedFor ?? .max {
          armedFor = wakeAt
          group.addTask {
            await context.pause(.milliseconds(max(wakeAt - now, 0)))
            exports.signal(.tick, on: store.shard)
          }
        }
      }
    }
    exports.close(store.shard)
  }

  private func jitter() -> UInt64 { context.random.bytes(4).reduce(0) { $0 << 8 | UInt64($1) } }

  /// Work due when this worker takes the shard, or when the schema changes.
  private func begin() async {
    await retryForSchema()
    await findBacklog()
  }

  /// Tries again the changes that were held back under another schema version (T-S09).
  private func retryForSchema() async {
    await insisting("what is held back can't be looked over") {
      for key in try await store.read({ snapshot in try snapshot.mirrorsWithQuarantine(afterKey: 0, limit: .max) }) {
        guard let run = try await exportRun(key) else { continue }
        let (version, now) = (run.schema.version, context.clock.now)
        let count = try await store.enqueue { transaction in
          try transaction.mirror(key: key) == nil ? 0 : transaction.retryQuarantined(.otherSchema(than: version), of: key, at: now)
        }.value
        if count > 0 { exports.signal(.backlog(mirrorKey: key), on: store.shard) }
      }
    }
    await findDueRetries()
  }

  /// Repeats work that no later event would trigger, after a pause, while its failure is transient.
  private func insisting(_ complaint: StaticString, _ work: () async throws -> Void) async {
    while !Task.isCancelled {
      do {
        return try await work()
      } catch {
        log(complaint, error)
        guard case .transient(let seconds) = ExportFailure(error) else { return }
        await context.pause(.seconds(seconds ?? 30))
      }
    }
  }

  /// Wakes the stores that have a retry due.
  private func findDueRetries() async {
    await insisting("what is held back can't be looked over") {
      let now = context.clock.now
      let (due, next) = try await store.read { snapshot -> ([Int64], Int64?) in
        let keys = try snapshot.mirrorsWithQuarantine(afterKey: 0, limit: .max)
        return (try keys.filter { try !snapshot.quarantined(of: $0, dueBy: now, limit: 1).isEmpty }, try snapshot.nextQuarantineDue())
      }
      for key in due { exports.signal(.backlog(mirrorKey: key), on: store.shard) }
      // A store whose retry is due reports its next one when its drain ends.
      if let next, next != StoredQuarantine.never { exports.signal(.retryDue(at: max(next, now + Self.retryPause)), on: store.shard) }
    }
  }

  /// Milliseconds between two looks for due retries.
  private static let retryPause: Int64 = 60_000

  /// Finds the stores that an earlier holder of the shard left with transactions to export.
  private func findBacklog() async {
    var last: Int64 = 0
    await insisting("stores awaiting export can't be listed") {
      while !Task.isCancelled {
        let key = last
        let keys = try await store.read { snapshot in try snapshot.mirrorsAwaitingExport(afterKey: key, limit: Self.backlogPage) }
        for key in keys { exports.signal(.backlog(mirrorKey: key), on: store.shard) }
        guard keys.count == Self.backlogPage, let next = keys.last else { return }
        last = next
      }
    }
  }

  private static let backlogPage = 100

  /// Waits for a batch that a save queued, publishes it and signals the work that is left.
  /// - Returns: the outcome of the batch; nil when it failed.
  func follow(_ export: ExportStart) async -> ExportOutcome? {
    let id = MirrorID(shard: store.shard, key: export.mirrorKey)
    exports.runs.begin(id)
    defer { exports.runs.end(id) }
    do {
      let outcome = try await export.commit.value
      exports.runs.succeeded(id)
      outcome.publish(by: context)
      log(outcome, of: export.mirrorKey)
      if outcome.moreComing || outcome.retryAt != nil {
        exports.signal(
          .finished(mirrorKey: export.mirrorKey, moreComing: outcome.moreComing, running: outcome.running, retryAt: outcome.retryAt), on: store.shard)
      }
      return outcome
    } catch {
      await fail(export.mirrorKey, ExportFailure(error), error, running: nil, isDrain: false)
      return nil
    }
  }

  /// Exports or forwards batch after batch until nothing is left.
  private func drain(_ drain: ExportSchedule.Drain) async {
    let mirrorKey = drain.mirrorKey
    let id = MirrorID(shard: store.shard, key: mirrorKey)
    exports.runs.begin(id)
    defer { exports.runs.end(id) }
    var running = drain.running
    do {
      let (isHome, store) = try await place(of: mirrorKey)
      if isHome {
        let retryAt = try await forward(mirrorKey, id, store)
        return exports.signal(.drained(mirrorKey: mirrorKey, retryAt: retryAt), on: store.shard)
      }
      var retryAt: Int64?
      if var run = try await exportRun(mirrorKey) {
        run.running = drain.running
        while !Task.isCancelled {
          let outcome = try await run.commit(to: store)
          exports.runs.succeeded(id)
          outcome.publish(by: context)
          log(outcome, of: mirrorKey)
          retryAt = [retryAt, outcome.retryAt].compactMap(\.self).min()
          running = outcome.running
          guard outcome.moreComing else { break }
          run.advance(after: outcome)
        }
      }
      exports.signal(.drained(mirrorKey: mirrorKey, retryAt: retryAt), on: store.shard)
    } catch {
      await fail(mirrorKey, ExportFailure(error), error, running: running, isDrain: true)
    }
  }

  /// Whether the store is a home, with its objects in others' databases; and the shard, with the turns of its user.
  private func place(of mirrorKey: Int64) async throws -> (isHome: Bool, store: any ShardStore) {
    let found = try await store.read { snapshot -> (StoredMirror, StoredDatabase)? in
      guard let mirror = try snapshot.mirror(key: mirrorKey), let database = try snapshot.database(key: mirror.databaseKey) else { return nil }
      return (mirror, database)
    }
    guard let (mirror, database) = found else { return (false, store) }
    return (mirror.isHome, store.turns(of: Caller(userRecordName: mirror.userRecordName).party(in: database.id.container)))
  }

  /// Forwards batch after batch, until all that is left waits for an owner.
  /// - Returns: the time of the next try, in milliseconds since 1970.
  private func forward(_ mirrorKey: Int64, _ id: MirrorID, _ store: any ShardStore) async throws -> Int64? {
    let forwarding = SharedForward(store: store, context: context, mirrorKey: mirrorKey)
    while !Task.isCancelled, let outcome = try await forwarding.run() {
      exports.runs.succeeded(id)
      if !outcome.moreComing { return outcome.retryAt }
    }
    return nil
  }

  /// - Returns: nil when the store is gone or its model is unknown.
  private func exportRun(_ mirrorKey: Int64) async throws -> ExportRun? {
    let found = try await store.read { snapshot -> (StoredMirror, StoredDatabase)? in
      guard let mirror = try snapshot.mirror(key: mirrorKey), let database = try snapshot.database(key: mirror.databaseKey) else { return nil }
      return (mirror, database)
    }
    guard let (mirror, database) = found else { return nil }
    let schema = try await context.schemas.schema(of: database.id.container, database.id.environment)
    guard let model = schema.mirrorModels[mirror.modelHash] else {
      context.log.warning("a store's model is unknown: it is not exported until it is set up again", ["mirror": .integer(mirrorKey)])
      return nil
    }
    let standing =
      database.id.isPublic ? nil : await context.schemas.standing(of: database.id.owner, database.id.container, database.id.environment)
    return ExportRun(
      mirrorKey: mirrorKey, shard: store.shard, database: database.id, model: model, schema: schema, context: context,
      quota: StorageQuota(standing, in: database.id, standard: context.userQuota))
  }

  /// Logs the failure and signals it. A shard that was fenced or closed is another worker's to export.
  private func fail(_ mirrorKey: Int64, _ failure: ExportFailure, _ error: any Error, running: RunningExport?, isDrain: Bool) async {
    // The drain that looks for a poisoned batch's cause reports it; the save's batch does not.
    if failure != .poisoned || isDrain {
      log("an export failed", error, mirror: mirrorKey)
      if failure != .gone, exports.runs.failed(MirrorID(shard: store.shard, key: mirrorKey)) {
        await RunEvents(store: store, context: context).noteFailure(error, of: mirrorKey)
      }
    }
    exports.signal(.failed(mirrorKey: mirrorKey, failure, running: running, isDrain: isDrain), on: store.shard)
  }

  private func log(_ outcome: ExportOutcome, of mirrorKey: Int64) {
    context.log.debug(
      "exported",
      [
        "mirror": .integer(mirrorKey), "shard": .integer(Int64(store.shard)), "through": .integer(outcome.exportedNumber),
        "zones": .integer(Int64(outcome.effects.changes.count)), "moreComing": .flag(outcome.moreComing),
      ])
  }

  private func log(_ message: StaticString, _ error: any Error, mirror: Int64 = 0) {
    if ExportFailure(error) == .gone { return }
    context.log.error(message, ["mirror": .integer(mirror), "shard": .integer(Int64(store.shard)), "error": .text(String(describing: error))])
  }
}
