// Merges duplicates in the background: older than their rule, in groups too large for a commit, or due for removal.

import Indexing
import ObjectModel
import ObjectPlane
package import RecordStore
import Records
import ServiceBus
import ServiceKit
import Synchronization
package import ZoneCommit

/// Processes a shard's duplicates between saves, a few in each commit.
///
/// The stored data says what is left to do, so a restarted worker continues. The list of finished indexes is in memory
/// only; the next worker looks through them again.
package final class DuplicateKeeper: ShardWork {
  private struct State {
    var settled: Set<Settled> = []
    /// Rises when rules may have changed.
    var edition = 0
  }

  /// An index that was searched for a rule.
  private struct Settled: Hashable {
    let shard: Int
    let epoch: Int64
    let index: Int64
    let schemaVersion: Int64
    let rule: String
  }

  private let context: CommitContext
  /// Returns after that time, or early when its task is cancelled.
  private let pause: @Sendable (Duration) async -> Void
  private let state = Mutex(State())

  private static let roundPause = Duration.seconds(2)
  private static let slicePause = Duration.milliseconds(20)
  /// Rounds after which databases are looked at even without a change of rules.
  private static let longRound = 30
  private static let pageCount = 200
  private static let keyCount = 50
  /// Above this number of finished indexes, all are searched again.
  private static let settledLimit = 100_000

  package init(_ context: CommitContext, pause: @escaping @Sendable (Duration) async -> Void) {
    self.context = context
    self.pause = pause
  }

  /// Called when environments may have other rules.
  package func schemasChanged() { state.withLock { $0.edition += 1 } }

  package func run(on store: any ShardStore) async {
    var round = 0
    var seen = -1
    var isDone = false
    while !Task.isCancelled {
      let edition = state.withLock { $0.edition }
      if context.effects.duplicates.take(store.shard) {
        forget(store.shard)
        isDone = false
      }
      isDone = await advance(store, looksAtDatabases: !isDone || edition != seen || round % Self.longRound == 0)
      seen = edition
      round += 1
      await pause(Self.roundPause)
    }
  }

  /// Makes the next round search all indexes of a shard again.
  private func forget(_ shard: Int) {
    state.withLock { state in state.settled = state.settled.filter { $0.shard != shard } }
  }

  /// Runs one round.
  /// - Returns: true if nothing is left that could be done now.
  @discardableResult func advance(_ store: any ShardStore, looksAtDatabases: Bool = true) async -> Bool {
    var isDone = true
    do {
      if looksAtDatabases { isDone = try await sweep(store) }
    } catch {
      report("duplicates can't be merged", error, on: store, to: context.log)
      isDone = false
    }
    do {
      try await advancePending(in: store, releases: looksAtDatabases)
    } catch {
      report("merged duplicates can't be removed", error, on: store, to: context.log)
    }
    return isDone
  }

  // MARK: Pending redirects

  /// - Parameter releases: also handles databases without stores.
  private func advancePending(in store: any ShardStore, releases: Bool) async throws {
    var last: Int64 = 0
    while !Task.isCancelled {
      let after = last
      let page = try await store.read { snapshot in
        try snapshot.zonesWithPendingRedirects(in: nil, afterKey: after, limit: Self.pageCount).map { zone in
          let isFree = try releases && !Self.hasStore(zone.databaseKey, snapshot)
          return (
            zone: zone, database: try snapshot.database(key: zone.databaseKey)?.id, isFree: isFree,
            isDue: try isFree || Self.isAnythingDue(in: zone, snapshot)
          )
        }
      }
      for (zone, database, isFree, isDue) in page where isDue {
        // Without a store there is nobody to wait for: a record client's duplicate goes once nothing points to it.
        if isFree {
          try await store.enqueue { try $0.note([.exported, .imported], ofPendingRedirectsBefore: .max, in: zone.key) }
            .value
        }
        if let database, let schema = try await schema(of: database) {
          try await advance(zone, schema.merging(database, on: store.shard, context), in: store)
        }
      }
      guard page.count == Self.pageCount, let end = page.last else { return }
      last = end.zone.key
    }
  }

  /// True if a commit for the zone would find work.
  private static func isAnythingDue(in zone: StoredZone, _ snapshot: any ShardSnapshot) throws -> Bool {
    var last: String?
    while true {
      let page = try snapshot.pendingRedirects(in: zone.key, afterName: last, limit: pageCount)
      if page.contains(where: \.isDue) { return true }
      guard page.count == pageCount else { return false }
      last = page.last?.loser
    }
  }

  private func advance(_ zone: StoredZone, _ removal: DuplicateRemoval, in store: any ShardStore) async throws {
    var last: String?
    while !Task.isCancelled {
      let after = last
      let step = try await store.enqueue { transaction -> DuplicateRemoval.Step in
        guard let zone = try transaction.zone(key: zone.key), !zone.isDeleted else { return DuplicateRemoval.Step() }
        return try removal.advance(zone, after: after, in: transaction)
      }.value
      step.effects.publish(by: context)
      if !step.moreComing { return }
      last = step.last
      await pause(Self.slicePause)
    }
  }

  // MARK: Indexes

  /// Makes and drops unique indexes as the rules demand, and searches those that are ready.
  /// - Returns: true if all are ready and were searched.
  private func sweep(_ store: any ShardStore) async throws -> Bool {
    var last: Int64 = 0
    var isDone = true
    let indexed = try await store.read { try Self.databasesWithUniqueIndexes($0) }
    while !Task.isCancelled {
      let after = last
      let rows = try await store.read { try $0.databases(afterKey: after, limit: Self.pageCount) }
      for row in rows {
        guard let schema = try await schema(of: row.id), schema.uniqueRules != nil || indexed.contains(row.key) else {
          continue
        }
        do {
          if try await !sweep(row, schema, in: store) { isDone = false }
        } catch StoreError.corrupt(let reason) {
          // The other databases are still processed.
          context.log.error(
            "duplicates of a database can't be merged",
            ["shard": .integer(Int64(store.shard)), "reason": .text(reason)])
        }
      }
      guard rows.count == Self.pageCount, let end = rows.last else { return isDone }
      last = end.key
    }
    return false
  }

  private static func databasesWithUniqueIndexes(_ snapshot: any ShardSnapshot) throws -> Set<Int64> {
    var found: Set<Int64> = []
    var last: Int64 = 0
    while case let indexes = try snapshot.indexes(afterKey: last, limit: pageCount), let end = indexes.last {
      for index in indexes where index.index.kind == .unique { found.insert(index.databaseKey) }
      last = end.key
    }
    return found
  }

  /// - Returns: nil if the schema is not known; the next round asks again.
  private func schema(of database: DatabaseID) async throws -> EnvironmentSchema? {
    do {
      return try await context.schemas.schema(of: database.container, database.environment)
    } catch {
      // Dropped because nobody uses a container that is gone, and the next round asks a silent directory again.
      return nil
    }
  }

  private func sweep(_ database: StoredDatabase, _ schema: EnvironmentSchema, in store: any ShardStore) async throws
    -> Bool
  {
    let known = try await store.read { try $0.indexes(in: database.key) }.filter { $0.index.kind == .unique }
    let wanted = schema.uniqueRules?.indexes ?? []
    let stale = known.filter { !wanted.contains($0.index) }.map(\.key)
    let missing = wanted.subtracting(known.map(\.index))
    if !stale.isEmpty || !missing.isEmpty {
      try await store.enqueue { transaction in
        for key in stale { try transaction.dropIndex(key) }
        for index in missing { _ = try transaction.makeIndex(index, in: database.key) }
      }.value
    }
    var isDone = missing.isEmpty
    // In the public database a merge needs a caller with write access to the records.
    for rule in schema.uniqueRules?.all ?? [] where rule.policy == .mergeLowestUUID && !database.id.isPublic {
      guard let index = known.first(where: { $0.index == rule.index }) else { continue }
      let settled = Settled(
        shard: store.shard, epoch: store.epoch, index: index.key, schemaVersion: schema.version,
        rule: rule.declaration.text)
      if state.withLock({ $0.settled.contains(settled) }) { continue }
      guard index.isReady else {
        isDone = false
        continue
      }
      if try await merge(by: rule, index, schema.merging(database.id, on: store.shard, context), in: store) {
        state.withLock { state in
          if state.settled.count >= Self.settledLimit { state.settled.removeAll() }
          state.settled.insert(settled)
        }
      } else {
        isDone = false
      }
    }
    return isDone
  }

  private static func hasStore(_ database: Int64, _ snapshot: any ShardSnapshot) throws -> Bool {
    var last: Int64 = 0
    while case let mirrors = try snapshot.mirrors(afterKey: last, limit: pageCount), let end = mirrors.last {
      if mirrors.contains(where: { $0.databaseKey == database }) { return true }
      last = end.key
    }
    return false
  }

  /// Merges the records of every zone that share a key.
  /// - Returns: false if duplicates are left.
  private func merge(by rule: UniqueRule, _ index: StoredIndex, _ removal: DuplicateRemoval, in store: any ShardStore)
    async throws -> Bool
  {
    let zones = try await store.read { try $0.liveZones(of: index.databaseKey) }
    var isDone = true
    for zone in zones {
      var last: [UInt8] = []
      while !Task.isCancelled {
        let after = last
        let keys = try await store.read {
          try $0.sharedKeys(of: index.key, in: zone.key, after: after, limit: Self.keyCount)
        }
        for key in keys {
          let (effects, moreComing) = try await store.enqueue { transaction -> (ZoneEffects, Bool) in
            guard let zone = try transaction.zone(key: zone.key), !zone.isDeleted else { return (ZoneEffects(), false) }
            return try removal.mergeGroup(key, by: rule, in: zone, transaction)
          }.value
          effects.publish(by: context)
          if moreComing { isDone = false }
        }
        guard keys.count == Self.keyCount, let end = keys.last else { break }
        last = end
        await pause(Self.slicePause)
      }
    }
    return isDone && !Task.isCancelled
  }
}

extension EnvironmentSchema {
  /// Merges and removes in the owner's name.
  fileprivate func merging(_ database: DatabaseID, on shard: Int, _ context: CommitContext) -> DuplicateRemoval {
    DuplicateRemoval(database: database, shard: shard, schema: self, context: context, userRecordName: database.owner)
  }
}
