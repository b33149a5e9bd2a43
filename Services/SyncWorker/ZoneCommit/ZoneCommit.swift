// The one way to write to zones: a commit of one kind, by one author, under the rules of the table in `WriteRules`.

import Mirroring
package import RecordStore
package import Records
import ServiceBus
package import ServiceKit
import Sharing

/// The part of a commit that is known before its transaction begins.
package struct CommitTerms: Sendable {
  let write: ZoneWrite
  let author: WriteAuthor
  /// The stamp of writes that the server adds on its own.
  package var stamp: Stamp
  package let schema: EnvironmentSchema
  /// The quota of the database's owner; nil: no limit.
  package var quota: StorageQuota?
  package let shard: Int
  package let random: any RandomSource
  private let watch: SubscriptionWatch

  /// - Parameter stamp: its user asked for the write, even if the server is the author.
  package init(
    _ write: ZoneWrite, by author: WriteAuthor = .server, _ stamp: Stamp, _ schema: EnvironmentSchema,
    quota: StorageQuota? = nil, shard: Int,
    _ context: some CommittingContext
  ) {
    self.write = write
    self.author = author
    self.stamp = stamp
    self.schema = schema
    self.quota = quota
    self.shard = shard
    random = context.random
    watch = context.commits.watch(schema, by: author.userRecordName ?? stamp.userRecordName)
  }

  /// Begins a commit within a store transaction.
  /// - Parameter database: its state before the first write, from which the growth counts.
  package func begin(in database: StoredDatabase, _ transaction: any ShardTransaction) throws -> ZoneCommit {
    let rules = WriteRules.rules(of: write)
    return try ZoneCommit(
      terms: self, rules: rules, database: database, firing: watch.firing(in: database.key, transaction), transaction)
  }
}

/// One store transaction's writes to zones of one database.
///
/// `writer(to:)` saves and deletes; `finish()` merges duplicates, checks the growth, fires subscriptions and returns
/// the effects. This is a class because its writers note their writes in it.
package final class ZoneCommit {
  package let terms: CommitTerms
  let rules: WriteRules
  package let transaction: any ShardTransaction
  /// The database before the first write.
  package let database: StoredDatabase
  private let firing: SubscriptionFiring?

  /// Zones in the order of their first writes.
  private var zones: [ChangedZone] = []
  private var effects = ZoneEffects()
  /// Written records in order; nil if duplicates don't matter to this commit.
  private var touched: [(zone: Int64, item: DuplicateMerge.Touched)]?
  private var checks: [Int64: UniqueCheck] = [:]
  private var rewritten: Set<String> = []
  let walk = HierarchyWalk()
  /// True for records that duplicates may be merged into; all, unless the caller's permissions restrict it.
  package var mayMerge: (Record) -> Bool = { _ in true }

  /// Restricts merges to records that the author may write; nil: they may write all.
  package func restrictMerges(to access: (any RecordAccess)?) {
    // Dropped because a record that can't be judged is not merged.
    mayMerge = access.map { access in { (try? access.mayWrite($0)) ?? false } } ?? { _ in true }
  }

  private struct ChangedZone {
    var zone: StoredZone
    /// True if the author's device made all of the zone's changes.
    var isAuthors: Bool
  }

  fileprivate init(
    terms: CommitTerms, rules: WriteRules, database: StoredDatabase, firing: SubscriptionFiring?,
    _ transaction: any ShardTransaction
  ) throws {
    self.terms = terms
    self.rules = rules
    self.database = database
    self.firing = firing
    self.transaction = transaction
    guard rules.merge.applies, try DuplicateMerge.concerns(database.key, terms.schema, in: transaction) else { return }
    try DuplicateMerge.prepare(database.key, terms.schema, in: transaction)
    touched = []
  }

  package var schema: EnvironmentSchema { terms.schema }

  // MARK: Writers

  /// The author's writer to a zone.
  package func writer(to zone: StoredZone) -> ZoneWriter {
    ZoneWriter(commit: self, zone: zone, author: terms.author, isAuthors: true)
  }

  /// A writer to a zone on the server's own account: every device hears of its writes.
  package func serversWriter(to zone: StoredZone) -> ZoneWriter {
    ZoneWriter(commit: self, zone: zone, author: .server, isAuthors: isServers)
  }

  /// A writer on the server's account without checks for duplicates, for records that leave the zone or are merged.
  package func plainWriter(to zone: StoredZone) -> ZoneWriter {
    ZoneWriter(commit: self, zone: zone, author: .server, isAuthors: isServers, tracksDuplicates: false)
  }

  private var isServers: Bool { terms.author == .server }

  // MARK: Noted by writers

  /// Fires the subscriptions to a written record.
  /// - Parameters:
  ///   - earlier: its former state; nil if none was alive.
  ///   - record: its later state; nil if it is deleted.
  func fire(
    from earlier: Record?, to record: Record?, _ stored: StoredRecord, in zone: StoredZone, by author: WriteAuthor
  ) {
    firing?.record(
      changedFrom: earlier, to: record, sequence: stored.sequence, inZone: zone.zoneName, by: author.device)
  }

  /// Notes a written row of a zone.
  func note(_ stored: StoredRecord, in zone: StoredZone, isAuthors: Bool) {
    note(zone.advanced(to: stored.sequence), isAuthors: isAuthors)
  }

  private func note(_ zone: StoredZone, isAuthors: Bool) {
    guard let place = zones.firstIndex(where: { $0.zone.key == zone.key }) else {
      zones.append(ChangedZone(zone: zone, isAuthors: isAuthors))
      return
    }
    zones[place].zone = zone
    zones[place].isAuthors = zones[place].isAuthors && isAuthors
  }

  /// Notes a record for the merge of duplicates.
  func touch(from earlier: Record?, to later: Record?, in zone: StoredZone) {
    touched?.append((zone.key, DuplicateMerge.Touched(earlier: earlier, later: later)))
  }

  /// Refuses a record that breaks a unique constraint, if the rules judge the commit as a whole.
  /// - Throws: `UNIQUE_FIELD_ERROR`.
  func admit(_ record: Record, to zone: StoredZone) throws {
    guard rules.uniqueness == .whole, let unique = schema.uniqueRules, unique.rejecting.contains(record.recordType)
    else { return }
    var check = checks[zone.key] ?? UniqueCheck(unique, planned: [:], in: zone, transaction)
    if let conflict = try check.conflict(of: record, replacing: nil) { throw conflict.error }
    checks[zone.key] = check
  }

  /// Notes the name of a record that was written again because one of its ancestors moved.
  func noteRewritten(_ recordName: String) { rewritten.insert(recordName) }

  /// - Returns: the names noted since the last time.
  package func takeRewritten() -> Set<String> {
    if rewritten.isEmpty { return [] }
    defer { rewritten = [] }
    return rewritten
  }

  /// Notes that the access of some users to a zone began, changed or ended.
  func note(accessOf users: [String], to zoneName: String) {
    if users.isEmpty { return }
    effects.add(ZoneEffects.Access(users: users, zoneName: zoneName, database: database.id, shard: terms.shard))
  }

  // MARK: Zones

  /// Makes a zone, or returns the existing one.
  package func makeZone(named name: String) throws -> StoredZone {
    let former = try transaction.zone(named: name, in: database.key)
    let zone = try transaction.makeZone(named: name, in: database.key)
    if former?.isDeleted == false { return zone }
    firing?.zone(changed: zone.zoneName, sequence: zone.sequence, by: terms.author.device)
    note(zone, isAuthors: true)
    return zone
  }

  /// Ends a zone with all its records. Before a purge, its conflicts go (`ShardTransaction.clearConflicts`).
  /// - Returns: the zone after its end.
  @discardableResult package func end(_ zone: StoredZone, as end: ZoneEnd) throws -> StoredZone {
    if database.hasShares {
      note(accessOf: try transaction.audience(ofZone: zone.zoneName, of: database.key), to: zone.zoneName)
    }
    try transaction.deleteZone(zone.key, as: end)
    guard let ended = try transaction.zone(key: zone.key) else {
      throw StoreError.corrupt("zone \(zone.key) is gone with its deletion")
    }
    firing?.zone(deleted: zone.zoneName, sequence: ended.sequence, by: terms.author.device)
    note(ended, isAuthors: true)
    return ended
  }

  // MARK: The end

  /// The zone's state after the writes so far.
  package func current(_ zone: StoredZone) -> StoredZone { zones.first { $0.zone.key == zone.key }?.zone ?? zone }

  package var hasWritten: Bool { !zones.isEmpty }

  /// Merges duplicates among the records written to a zone so far. `finish()` does so for the remaining zones.
  package func mergeDuplicates(in zone: StoredZone) throws -> DuplicateMerge.Outcome {
    guard let touched, touched.contains(where: { $0.zone == zone.key }) else { return DuplicateMerge.Outcome() }
    self.touched = touched.filter { $0.zone != zone.key }
    var merge = DuplicateMerge(in: zone, of: self)
    merge.mayWrite = mayMerge
    let outcome = try merge.run(
      DuplicateMerge.Touched.lastOfEach(touched.lazy.filter { $0.zone == zone.key }.map(\.item)))
    if outcome.isUnfinished { effects.addUnmerged(on: terms.shard) }
    return outcome
  }

  /// Ends the commit after its last write.
  /// - Throws: `QUOTA_EXCEEDED` if the commit as a whole exceeds the quota.
  /// - Returns: the effects to publish once the transaction is durable.
  package func finish() throws -> ZoneEffects {
    if touched?.isEmpty == false { for changed in zones { _ = try mergeDuplicates(in: changed.zone) } }
    if rules.quota == .whole, hasWritten { try terms.quota?.checkGrowth(since: database, in: transaction) }
    for changed in zones {
      effects.add(
        changed.zone, of: database.id, by: changed.isAuthors ? terms.author : nil,
        hasSubscriptions: database.subscriptionEdition != 0)
    }
    // Subscriptions to ended zones are deleted even if no notification is sent.
    if let firing {
      try effects.noteEndedAccesses(of: database.key, in: transaction)
      let fired = try firing.finish()
      if rules.firing.applies { effects.add(fired) }
    }
    return effects
  }
}

extension ShardTransaction {
  /// Entries of a journal that one commit removes.
  private static var clearedCount: Int { 100 }

  /// Deletes conflicts of a zone that is about to end, a slice of them, because other saves wait for this thread. Only
  /// a purge takes them along. Changes that stores had not exported are recorded after it.
  /// - Returns: true when none is left, so that the zone may end in this commit.
  package func clearConflicts(of zone: StoredZone, before end: ZoneEnd) throws -> Bool {
    guard end == .purged else { return true }
    return try deleteConflicts(of: zone.databaseKey, inZone: zone.zoneName, limit: Self.clearedCount)
  }
}

extension ShardSnapshot {
  /// The database row with this key, which another row of the shard refers to.
  package func row(ofDatabase key: Int64) throws -> StoredDatabase {
    guard let row = try database(key: key) else { throw StoreError.corrupt("database \(key) is not there") }
    return row
  }
}
