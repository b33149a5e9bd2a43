// Runs the exports of a shard that no save runs itself: backlogs and retries. It also sends the pings after commits.

package import RecordStore
import Records
import ServiceBus
import ServiceKit
import Synchronization
import ZoneCommit

/// The progress of a shared store's forwarding after a batch.
package struct ForwardProgress: Sendable {
  package let moreComing: Bool
  /// When waiting parts are tried again, in milliseconds since 1970.
  package let retryAt: Int64?

  package init(moreComing: Bool, retryAt: Int64?) {
    self.moreComing = moreComing
    self.retryAt = retryAt
  }
}

/// The background work of the object plane on one shard.
package struct ExportLoop: Sendable {
  /// Forwards a batch of a shared store; nil when the store is gone or its model is unknown.
  package typealias Forward = @Sendable (_ mirrorKey: Int64, _ store: any ShardStore) async throws -> ForwardProgress?

  let store: any ShardStore
  let context: ObjectContext
  let exports: ShardExports
  let forward: Forward

  private var report: ExportReport { ExportReport(store: store, context: context, exports: exports) }

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
        if case .started(let export) = signal {
          group.addTask { await RequestTrace.$id.withValue(export.traceID) { _ = await report.follow(export) } }
        }
        if case .schemaChanged = signal { group.addTask { await begin() } }
        let now = context.clock.now
        for drain in schedule.drains(after: signal, at: now, jitter: jitter()) {
          group.addTask { await self.drain(drain) }
        }
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
    await insisting("held-back changes can't be searched") {
      for key in try await store.read({ snapshot in try snapshot.mirrorsWithQuarantine(afterKey: 0, limit: .max) }) {
        guard let run = try await exportRun(key) else { continue }
        let (version, now) = (run.schema.version, context.clock.now)
        let count = try await store.enqueue { transaction in
          try transaction.mirror(key: key) == nil
            ? 0 : transaction.retryQuarantined(.otherSchema(than: version), of: key, at: now)
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
        report.log(complaint, error)
        guard case .transient(let seconds) = ExportFailure(error) else { return }
        await context.pause(.seconds(seconds ?? 30))
      }
    }
  }

  /// Wakes the stores that have a retry due.
  private func findDueRetries() async {
    await insisting("held-back changes can't be searched") {
      let now = context.clock.now
      let (due, next) = try await store.read { snapshot -> ([Int64], Int64?) in
        let keys = try snapshot.mirrorsWithQuarantine(afterKey: 0, limit: .max)
        return (
          try keys.filter { try !snapshot.quarantined(of: $0, dueBy: now, limit: 1).isEmpty },
          try snapshot.nextQuarantineDue()
        )
      }
      for key in due { exports.signal(.backlog(mirrorKey: key), on: store.shard) }
      // A store whose retry is due reports its next one when its drain ends.
      if let next, next != StoredQuarantine.never {
        exports.signal(.retryDue(at: max(next, now + Self.retryPause)), on: store.shard)
      }
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
        let keys = try await store.read { snapshot in
          try snapshot.mirrorsAwaitingExport(afterKey: key, limit: Self.backlogPage)
        }
        for key in keys { exports.signal(.backlog(mirrorKey: key), on: store.shard) }
        guard keys.count == Self.backlogPage, let next = keys.last else { return }
        last = next
      }
    }
  }

  private static let backlogPage = 100

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
        let retryAt = try await forwardAll(mirrorKey, id, store)
        return exports.signal(.drained(mirrorKey: mirrorKey, retryAt: retryAt), on: store.shard)
      }
      var retryAt: Int64?
      if var run = try await exportRun(mirrorKey) {
        run.running = drain.running
        while !Task.isCancelled {
          let outcome = try await run.commit(to: store)
          exports.runs.succeeded(id)
          outcome.publish(by: context)
          report.log(outcome, of: mirrorKey)
          retryAt = [retryAt, outcome.retryAt].compactMap(\.self).min()
          running = outcome.running
          guard outcome.moreComing else { break }
          run.advance(after: outcome)
        }
      }
      exports.signal(.drained(mirrorKey: mirrorKey, retryAt: retryAt), on: store.shard)
    } catch {
      await report.fail(mirrorKey, ExportFailure(error), error, running: running, isDrain: true)
    }
  }

  /// True if the store is a home, with its objects in others' databases; and the shard, with the turns of its user.
  private func place(of mirrorKey: Int64) async throws -> (isHome: Bool, store: any ShardStore) {
    let found = try await store.read { snapshot -> (StoredMirror, StoredDatabase)? in
      guard let mirror = try snapshot.mirror(key: mirrorKey),
        let database = try snapshot.database(key: mirror.databaseKey)
      else { return nil }
      return (mirror, database)
    }
    guard let (mirror, database) = found else { return (false, store) }
    return (
      mirror.isHome, store.turns(of: Caller(userRecordName: mirror.userRecordName).party(in: database.id.container))
    )
  }

  /// Forwards batch after batch, until all that is left waits for an owner.
  /// - Returns: the time of the next try, in milliseconds since 1970.
  private func forwardAll(_ mirrorKey: Int64, _ id: MirrorID, _ store: any ShardStore) async throws -> Int64? {
    while !Task.isCancelled, let outcome = try await forward(mirrorKey, store) {
      exports.runs.succeeded(id)
      if !outcome.moreComing { return outcome.retryAt }
    }
    return nil
  }

  /// - Returns: nil when the store is gone or its model is unknown.
  private func exportRun(_ mirrorKey: Int64) async throws -> ExportRun? {
    let found = try await store.read { snapshot -> (StoredMirror, StoredDatabase)? in
      guard let mirror = try snapshot.mirror(key: mirrorKey),
        let database = try snapshot.database(key: mirror.databaseKey)
      else { return nil }
      return (mirror, database)
    }
    guard let (mirror, database) = found else { return nil }
    let schema = try await context.schemas.schema(of: database.id.container, database.id.environment)
    guard let model = schema.mirrorModels[mirror.modelHash] else {
      context.log.warning(
        "a store's model is unknown; the store is not exported until it is set up again",
        ["mirror": .integer(mirrorKey)])
      return nil
    }
    let standing =
      database.id.isPublic
      ? nil : await context.schemas.standing(of: database.id.owner, database.id.container, database.id.environment)
    return ExportRun(
      mirrorKey: mirrorKey, shard: store.shard, database: database.id, model: model, schema: schema, context: context,
      quota: StorageQuota(standing, in: database.id, standard: context.commits.userQuota))
  }
}
