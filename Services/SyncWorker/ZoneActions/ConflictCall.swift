// Lists and settles conflicts. A change of the server's own brings lost values back, and every device imports it.

package import History
import JSON
import Mirroring
import ObjectModel
package import ObjectPlane
package import RecordStore
package import Records
import ServiceBus
import ServiceKit
import Sharing
import WebServices
package import ZoneCommit

/// A call on a database's conflict journal, for one of its stores or for a zone.
package struct ConflictCall: ShardCall {
  let request: DatabaseRequest
  package let store: any ShardStore
  package let context: ObjectContext
  let model: MirrorModel
  let schema: EnvironmentSchema
  /// The user with the visible entries; nil: the entries of all users.
  let visibleUser: String?
  /// nil: entries of all zones.
  let zoneName: String?
  /// True for a shared store, which sees only its losses in zones of others. Any other store sees only the rest.
  var isShared = false
  /// The user and device that settle a conflict.
  let stamp: Stamp
  /// Writes values into answers.
  let values: MirrorValueWriter
  /// The quota of the database's owner; nil: none.
  var quota: StorageQuota?
  /// The participant that a guest writes for; nil: the database is the caller's.
  var guest: String?

  // MARK: Listing

  private static let pageLimit = 200

  func list(after: Int64, limit: Int?, objectID: String?, state: ConflictState?) async throws(RecordError)
    -> PlaneAnswer
  {
    let limit = min(limit ?? Self.pageLimit, Self.pageLimit)
    let filter = ConflictFilter(recordName: objectID, state: state?.rawValue, userRecordName: visibleUser)
    return PlaneAnswer(
      body: try await read { snapshot in
        guard let database = try snapshot.database(request.database) else {
          return StoreAnswer.conflicts([], last: after, moreComing: false, evicted: 0)
        }
        let evicted = try snapshot.conflictUse(in: database.key, of: stamp.userRecordName).evictedCount
        var (entries, byteCount, last) = ([[UInt8]](), 0, after)
        while true {
          let page = try snapshot.conflicts(in: database.key, afterNumber: last, filter, limit: Self.pageLimit)
          for stored in page {
            guard entries.count < limit, byteCount < StoreCall.pageByteCount else {
              return StoreAnswer.conflicts(entries, last: last, moreComing: true, evicted: evicted)
            }
            last = stored.number
            guard zoneName == nil || stored.zoneName == zoneName,
              (SharedZoneName.zone(stored.zoneName) != nil) == isShared, let entry = try entry(stored, in: snapshot)
            else { continue }
            entries.append(entry.json(values: values))
            byteCount += entries.last?.count ?? 0
          }
          if page.count < Self.pageLimit {
            return StoreAnswer.conflicts(entries, last: last, moreComing: false, evicted: evicted)
          }
        }
      })
  }

  private func entry(_ stored: StoredConflict, in snapshot: any ShardSnapshot) throws -> ConflictEntry? {
    guard let loss = try ConflictLoss(stored, in: snapshot) else { return nil }
    return ConflictEntry(
      number: stored.number, loss: loss, state: ConflictState(rawValue: stored.state) ?? .lost,
      zoneID: SharedZoneName.zone(stored.zoneName)
        ?? Zone.ID(zoneName: stored.zoneName, ownerName: request.database.owner), at: stored.at,
      settledAt: stored.settledAt)
  }

  // MARK: Settling

  /// Brings lost values back under the same name. A second call changes nothing.
  func restore(_ number: Int64, startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    try await settle(number, as: .restored, startNext: startNext) { $0.lost }
  }

  /// Makes a new object, lost to another owner's zone, in a zone of the caller's own, with its links to objects there.
  package func restore(_ number: Int64, to zoneName: String, startNext: @Sendable () -> Void) async throws(RecordError)
    -> PlaneAnswer
  {
    try await settle(number, as: .restored, to: zoneName, startNext: startNext) { $0.lost }
  }

  /// Marks an entry as restored without writing anything.
  package func noteRestored(_ number: Int64, startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    try await settle(number, as: .restored, startNext: startNext) { _ in [] }
  }

  /// The changes that an entry lost; empty if it is settled.
  package func lost(_ number: Int64) async throws(RecordError) -> [HistoryChange] {
    try await read { snapshot in
      let entry = try find(number, in: snapshot).entry
      return entry.isSettled ? [] : entry.loss.lost
    }
  }

  private func find(_ number: Int64, in snapshot: any ShardSnapshot) throws -> (
    database: StoredDatabase, stored: StoredConflict, entry: ConflictEntry
  ) {
    guard let database = try snapshot.database(request.database),
      let stored = try snapshot.conflict(number, in: database.key),
      visibleUser.map({ $0 == stored.userRecordName }) ?? true,
      (SharedZoneName.zone(stored.zoneName) != nil) == isShared,
      zoneName.map({ $0 == stored.zoneName }) ?? true, let entry = try entry(stored, in: snapshot)
    else { throw RecordError(.notFound, "There is no conflict \(number) in this database") }
    return (database, stored, entry)
  }

  /// Decides between two values.
  func resolve(
    _ number: Int64, _ asked: ResolveConflictRequest, _ reader: TransactionReader, startNext: @Sendable () -> Void
  ) async throws(RecordError) -> PlaneAnswer {
    try await settle(number, as: .resolved, startNext: startNext) { loss in
      guard loss.kind == .undecided else {
        throw RecordError(.badRequest, "Conflict \(number) needs no decision: restore the loss instead")
      }
      switch asked.decision {
      case .pick(.client): return loss.lost
      case .pick(.server): return []
      case .pick(.ancestor):
        guard let ancestor = loss.ancestor else {
          throw RecordError(.badRequest, "The value before conflict \(number) is not known")
        }
        return [ancestor]
      case .value(let json):
        guard let name = loss.lost.first?.attributes.first?.name, let entity = model.index.entity(named: loss.entity)
        else {
          throw RecordError(.badRequest, "value: the model has no entity \(loss.entity)")
        }
        let value = try reader.value(json, ofAttribute: name, of: entity)
        return [
          HistoryChange(
            changeType: .update, entity: loss.entity, objectID: loss.objectID,
            attributes: [NamedValue(name: name, value: value)])
        ]
      }
    }
  }

  private struct Settled: Sendable {
    let entry: [UInt8]
    let effects: ZoneEffects
  }

  private func settle(
    _ number: Int64, as state: ConflictState, to ownZone: String? = nil, startNext: @Sendable () -> Void,
    _ changes: @escaping @Sendable (ConflictLoss) throws -> [HistoryChange]
  ) async throws(RecordError) -> PlaneAnswer {
    let at = context.clock.now
    let restoration = RestoredChanges(call: self, at: at)
    let commit = store.enqueue { transaction -> Settled in
      let (database, stored, entry) = try find(number, in: transaction)
      let wanted = entry.isSettled ? [] : try changes(entry.loss)
      let effects =
        wanted.isEmpty
        ? ZoneEffects()
        : try restoration.write(
          wanted, to: ownZone ?? stored.zoneName, makesZone: ownZone != nil, of: database, in: transaction)
      if !entry.isSettled { try transaction.settleConflict(number, in: database.key, as: state.rawValue, at: at) }
      let settled =
        try transaction.conflict(number, in: database.key).flatMap { try self.entry($0, in: transaction) } ?? entry
      return Settled(entry: settled.json(values: values), effects: effects)
    }
    startNext()
    let settled = try await value(of: commit)
    settled.effects.publish(by: context)
    return PlaneAnswer(body: settled.entry)
  }
}

extension ConflictEntry {
  fileprivate var isSettled: Bool { state == .restored || state == .resolved }
}

/// Changes that the server makes on behalf of a caller: all of them or none.
package struct RestoredChanges: Sendable {
  package let call: ConflictCall
  /// Milliseconds since 1970.
  package let at: Int64
  private let contents: ContentsAtHand

  package init(call: ConflictCall, at: Int64) {
    self.call = call
    self.at = at
    contents = call.context.contents(on: call.store.shard)
  }

  /// The changes, with references only to each other and to objects that exist in the zone.
  static func connected(_ changes: [HistoryChange], in zone: StoredZone, _ snapshot: any ShardSnapshot) throws
    -> [HistoryChange]
  {
    let made = Set(changes.map(\.objectID))
    var present: Set<String> = []
    for name in Set(changes.flatMap(\.names)).subtracting(made)
    where try snapshot.record(named: name, in: zone.key)?.isDeleted == false { present.insert(name) }
    let kept = made.union(present)
    return changes.map { change in change.without { !kept.contains($0) } }
  }

  /// The caller's permissions in a zone; nil: unrestricted.
  private func access(to zone: StoredZone, in snapshot: any ShardSnapshot) throws -> (any RecordAccess)? {
    guard let guest = call.guest else {
      return call.schema.permissions(of: call.request.caller, in: call.request.database)
    }
    return VisibleRecords(
      ZoneAccess(try snapshot.members(guest, inZone: zone.zoneName, of: zone.databaseKey)), to: zone.key, in: snapshot)
  }

  /// - Throws: the reason why one of the changes can't be written; then none is.
  /// - Returns: the effects to publish once the commit is durable.
  package func write(
    _ changes: [HistoryChange], to zoneName: String, makesZone: Bool = false, of database: StoredDatabase,
    in transaction: any ShardTransaction
  ) throws -> ZoneEffects {
    var stamp = call.stamp
    stamp.timestamp = at
    let commit = try CommitTerms(
      .conflictRestore, stamp, call.schema, quota: call.quota, shard: call.store.shard, call.context
    ).begin(in: database, transaction)
    let changes = makesZone ? try Self.connected(changes, in: commit.makeZone(named: zoneName), transaction) : changes
    let former = try transaction.zone(named: zoneName, in: database.key).flatMap { $0.isDeleted ? nil : $0 }
    // Objects that have moved are restored in their present zone.
    guard
      let zone = try former.map({ former in
        try changes.first.map { try transaction.presentZone(of: $0.objectID, from: former) } ?? former
      })
    else {
      throw RecordError(.zoneNotFound, "The object's zone '\(zoneName)' no longer exists")
    }
    let (schema, random) = (call.schema, call.context.random)
    let source = ZoneSource(zone, in: transaction)
    var exporter = Exporter(
      model: call.model.index, links: call.model.links, source: source,
      serializer: Serializer(contents: contents),
      stamp: stamp,
      // A caller who decides has seen all changes, so the judge finds no conflict.
      judge: ConflictJudge(rules: schema.conflictRules, store: 0, stamp: stamp), makeRecordName: { random.uuid() })
    var restored = HistoryTransaction(transactionID: "", timestamp: at, changes: changes)
    restored.edit = HistoryTransaction.Edit(base: .max, time: at)
    try exporter.apply(restored)
    let plan = exporter.plan()
    if let problem = plan.problems.first { throw RecordError(problem.code, "\(problem.recordName): \(problem.reason)") }
    let access = try access(to: zone, in: transaction)
    let verdict = try ExportWrites(
      .conflictRestore, zone: zone, source: source, transaction: transaction, permissions: access, schema: schema,
      database: call.request.database
    ).verdict(on: plan.writes)
    if let problem = verdict.refused.first?.problem {
      throw RecordError(problem.code, "\(problem.recordName): \(problem.reason)")
    }
    commit.restrictMerges(to: access)
    let writer = commit.serversWriter(to: zone)
    let going = Set(verdict.cascade)
    for write in verdict.writes where !going.contains(write.item.recordName) {
      let existing = try source.row(named: write.item.recordName)
      switch write.item {
      case .save(let record, _): _ = try writer.save(record, replacing: existing)
      case .delete: if let existing { _ = try writer.delete(existing, modified: stamp) }
      }
    }
    for name in verdict.cascade {
      guard let stored = try transaction.record(named: name, in: zone.key), !stored.isDeleted else { continue }
      _ = try writer.delete(stored, modified: stamp)
    }
    let effects = try commit.finish()
    try contents.complete()
    return effects
  }
}
