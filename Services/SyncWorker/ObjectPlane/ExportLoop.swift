// The exporters of a shard: every save brings its export along, and this sees to the rest: pings after commits, backlogs, retries.

import RecordStore
import Records
import ServiceBus
import ServiceKit

/// An export batch that a save has queued.
struct ExportStart: Sendable {
  let mirrorKey: Int64
  let commit: PendingCommit<ExportOutcome>
}

/// How calls reach the loops of the shards that are open here.
actor ShardExports {
  private var loops: [Int: AsyncStream<ExportSignal>.Continuation] = [:]

  /// The signals for a shard's loop; they end when its task is cancelled.
  func open(_ shard: Int) -> AsyncStream<ExportSignal> {
    let (signals, continuation) = AsyncStream.makeStream(of: ExportSignal.self)
    loops[shard] = continuation
    return signals
  }

  func close(_ shard: Int) { loops[shard] = nil }

  /// Without a loop nobody is pinged; the export itself is in the writer's queue already.
  func started(_ export: ExportStart, on shard: Int) { loops[shard]?.yield(.started(export)) }

  func signal(_ signal: ExportSignal, on shard: Int) { loops[shard]?.yield(signal) }
}

enum ExportSignal: Sendable {
  case started(ExportStart)
  /// A save's batch is committed.
  case finished(mirrorKey: Int64, moreComing: Bool, running: RunningExport?)
  case failed(mirrorKey: Int64)
  /// A save's batch failed for something in it: a drain looks what that is.
  case poisoned(mirrorKey: Int64)
  /// Transactions wait since before this worker held the shard.
  case backlog(mirrorKey: Int64)
  case drained(mirrorKey: Int64)
}

/// Which stores are to be drained, decided without doing anything: one drain a store at a time, and a failed one again when the shard
/// shows signs of life, ever more rarely.
struct ExportSchedule {
  struct Drain: Hashable, Sendable {
    let mirrorKey: Int64
    var running: RunningExport?
  }

  private struct Failure {
    var attempts = 0
    /// Commits to let pass before the next attempt.
    var patience = 0
  }

  private var draining: Set<Int64> = []
  private var again: Set<Int64> = []
  private var failures: [Int64: Failure] = [:]

  private static let longestPatience = 1024

  /// The drains to begin, ascending by store.
  mutating func drains(after signal: ExportSignal) -> [Drain] {
    switch signal {
    case .started: return []
    case .finished(let key, let moreComing, let running):
      var drains = retries()
      if moreComing { drains += begin(Drain(mirrorKey: key, running: running)) }
      return drains
    case .backlog(let key), .poisoned(let key): return begin(Drain(mirrorKey: key))
    case .drained(let key):
      draining.remove(key)
      failures[key] = nil
      return again.remove(key) == nil ? [] : begin(Drain(mirrorKey: key))
    case .failed(let key):
      draining.remove(key)
      again.remove(key)
      var failure = failures[key] ?? Failure()
      failure.patience = min(1 << min(failure.attempts, 16), Self.longestPatience)
      failure.attempts += 1
      failures[key] = failure
      return []
    }
  }

  /// A commit went through: what failed before may go through, too.
  private mutating func retries() -> [Drain] {
    var drains: [Drain] = []
    for key in failures.keys.sorted() where !draining.contains(key) {
      failures[key]?.patience -= 1
      if failures[key]?.patience == 0 { drains += begin(Drain(mirrorKey: key)) }
    }
    return drains
  }

  private mutating func begin(_ drain: Drain) -> [Drain] {
    if draining.insert(drain.mirrorKey).inserted { return [drain] }
    again.insert(drain.mirrorKey)
    return []
  }
}

/// The background work of the object plane on one shard.
struct ExportLoop: Sendable {
  let store: any ShardStore
  let context: PlaneContext
  let exports: ShardExports

  /// Runs until its task is cancelled; returns when nothing of it runs any more.
  func run() async {
    let signals = await exports.open(store.shard)
    await withDiscardingTaskGroup { group in
      group.addTask { await findBacklog() }
      var schedule = ExportSchedule()
      for await signal in signals {
        if case .started(let export) = signal { group.addTask { await follow(export) } }
        for drain in schedule.drains(after: signal) { group.addTask { await self.drain(drain) } }
      }
    }
    await exports.close(store.shard)
  }

  /// Stores that a predecessor left with transactions to export.
  private func findBacklog() async {
    var last: Int64 = 0
    while !Task.isCancelled {
      do {
        let key = last
        let keys = try await store.read { snapshot in try snapshot.mirrorsAwaitingExport(afterKey: key, limit: Self.backlogPage) }
        for key in keys { await exports.signal(.backlog(mirrorKey: key), on: store.shard) }
        guard keys.count == Self.backlogPage, let next = keys.last else { return }
        last = next
      } catch {
        context.log.error("stores awaiting export can't be listed", ["shard": .integer(Int64(store.shard)), "error": .text(String(describing: error))])
        return
      }
    }
  }

  private static let backlogPage = 100

  /// Waits for a batch that a save queued.
  private func follow(_ export: ExportStart) async {
    do {
      let outcome = try await export.commit.value
      outcome.publish(by: context)
      await exports.signal(.finished(mirrorKey: export.mirrorKey, moreComing: outcome.moreComing, running: outcome.running), on: store.shard)
    } catch  where ExportFailure(error) == .poisoned {
      await exports.signal(.poisoned(mirrorKey: export.mirrorKey), on: store.shard)
    } catch {
      await fail(export.mirrorKey, error)
    }
  }

  /// Exports batch after batch until nothing is left.
  private func drain(_ drain: ExportSchedule.Drain) async {
    let mirrorKey = drain.mirrorKey
    do {
      guard var run = try await exportRun(mirrorKey) else { return await exports.signal(.drained(mirrorKey: mirrorKey), on: store.shard) }
      run.running = drain.running
      while !Task.isCancelled {
        let outcome = try await run.commit(to: store)
        outcome.publish(by: context)
        guard outcome.moreComing else { break }
        run.running = outcome.running
      }
      await exports.signal(.drained(mirrorKey: mirrorKey), on: store.shard)
    } catch {
      await fail(mirrorKey, error)
    }
  }

  /// nil when the store is gone.
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
    return ExportRun(mirrorKey: mirrorKey, shard: store.shard, database: database.id, model: model, schema: schema, context: context)
  }

  /// A shard that was fenced or closed is somebody else's to export; anything else is tried again after the shard's next commit.
  private func fail(_ mirrorKey: Int64, _ error: any Error) async {
    switch error {
    case is CancellationError, StoreError.fenced, StoreError.closed: break
    default:
      context.log.error("an export failed", ["mirror": .integer(mirrorKey), "shard": .integer(Int64(store.shard)), "error": .text(String(describing: error))])
    }
    await exports.signal(.failed(mirrorKey: mirrorKey), on: store.shard)
  }
}
