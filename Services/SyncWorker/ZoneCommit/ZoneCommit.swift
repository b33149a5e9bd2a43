// The one way to write to zones: a commit of one kind, by one author, under the rules that the table has for it.

import Mirroring
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Sharing

/// The author of a commit's writes.
struct WriteAuthor: Hashable, Sendable {
  /// nil: the server by itself.
  let userRecordName: String?
  /// The author's device, which hears nothing of its own writes; nil: none, or one without a name.
  let device: String?
  /// The key of the mirrored store whose export this is, or 0 (`StoredRecord.origin`).
  var mirror: Int64 = 0

  /// The server, for a user: every device hears of it.
  static let server = WriteAuthor(userRecordName: nil, device: nil)
}

/// The part of a commit that is known before its transaction begins.
struct CommitTerms: Sendable {
  let write: ZoneWrite
  let author: WriteAuthor
  /// Of writes that the server adds by itself.
  var stamp: Stamp
  let schema: EnvironmentSchema
  /// Of the database's owner; nil: any number of bytes.
  var quota: StorageQuota?
  let shard: Int
  let random: any RandomSource
  private let watch: SubscriptionWatch

  /// - Parameter stamp: its user is the one who asks for the write, also where the author is the server.
  init(
    _ write: ZoneWrite, by author: WriteAuthor = .server, _ stamp: Stamp, _ schema: EnvironmentSchema, quota: StorageQuota? = nil, shard: Int,
    _ context: PlaneContext
  ) {
    self.write = write
    self.author = author
    self.stamp = stamp
    self.schema = schema
    self.quota = quota
    self.shard = shard
    random = context.random
    watch = context.watch(schema, by: author.userRecordName ?? stamp.userRecordName)
  }

  /// Begins a commit within a store transaction.
  /// - Parameter database: as it is before the first write: growth counts from there.
  func begin(in database: StoredDatabase, _ transaction: any ShardTransaction) throws -> ZoneCommit {
    let rules = WriteRules.rules(of: write)
    return try ZoneCommit(terms: self, rules: rules, database: database, firing: watch.firing(in: database.key, transaction), transaction)
  }
}

/// One store transaction's writes to zones of one database.
///
/// `writer(to:)` saves and deletes; `finish()` merges duplicates, checks the growth, fires subscriptions and returns what is to be published.
/// A class because its writers note in it what they write.
final class ZoneCommit {
  let terms: CommitTerms
  let rules: WriteRules
  let transaction: any ShardTransaction
  /// As it was before the first write.
  let database: StoredDatabase
  private let firing: SubscriptionFiring?

  /// Zones in the order of their first writes.
  private var zones: [ChangedZone] = []
  private var effects = ZoneEffects()
  /// Records that were written, in order, while duplicates are of any interest.
  private var touched: [(zone: Int64, item: DuplicateMerge.Touched)]?
  private var checks: [Int64: UniqueCheck] = [:]
  private var rewritten: Set<String> = []
  /// Records that duplicates may be merged into; all, where everybody who writes at all may write to all.
  var mayMerge: (Record) -> Bool = { _ in true }

  private struct ChangedZone {
    var zone: StoredZone
    /// The author's device made all of it.
    var isAuthors: Bool
  }

  fileprivate init(
    terms: CommitTerms, rules: WriteRules, database: StoredDatabase, firing: SubscriptionFiring?, _ transaction: any ShardTransaction
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

  var schema: EnvironmentSchema { terms.schema }

  // MARK: Writers

  /// The author's writer to a zone.
  func writer(to zone: StoredZone) -> ZoneWriter { ZoneWriter(commit: self, zone: zone, author: terms.author, isAuthors: true) }

  /// A writer to a zone on the server's own account: every device hears of its writes.
  func serversWriter(to zone: StoredZone) -> ZoneWriter { ZoneWriter(commit: self, zone: zone, author: .server, isAuthors: isServers) }

  /// A writer on the server's own account whose writes make no duplicates: of records that leave the zone, or are merged.
  func plainWriter(to zone: StoredZone) -> ZoneWriter {
    ZoneWriter(commit: self, zone: zone, author: .server, isAuthors: isServers, tracksDuplicates: false)
  }

  private var isServers: Bool { terms.author == .server }

  // MARK: Noted by writers

  /// A record was written; subscriptions to it fire.
  /// - Parameters:
  ///   - earlier: as it was; nil: there was none alive.
  ///   - record: as it is; nil: it is deleted.
  func fire(from earlier: Record?, to record: Record?, _ stored: StoredRecord, in zone: StoredZone, by author: WriteAuthor) {
    firing?.record(changedFrom: earlier, to: record, sequence: stored.sequence, inZone: zone.zoneName, by: author.device)
  }

  /// A row of a zone was written.
  func note(_ stored: StoredRecord, in zone: StoredZone, isAuthors: Bool) { note(zone.advanced(to: stored.sequence), isAuthors: isAuthors) }

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

  /// Refuses a record that a rule of the kind `whole` does not allow beside those that are there.
  /// - Throws: `UNIQUE_FIELD_ERROR`.
  func admit(_ record: Record, to zone: StoredZone) throws {
    guard rules.uniqueness == .whole, let unique = schema.uniqueRules, unique.rejecting.contains(record.recordType) else { return }
    var check = checks[zone.key] ?? UniqueCheck(unique, planned: [:], in: zone, transaction)
    if let conflict = try check.conflict(of: record, replacing: nil) { throw conflict.error }
    checks[zone.key] = check
  }

  /// Notes the name of a record that was written again because something above it moved.
  func noteRewritten(_ recordName: String) { rewritten.insert(recordName) }

  /// - Returns: the names noted since the last time.
  func takeRewritten() -> Set<String> {
    if rewritten.isEmpty { return [] }
    defer { rewritten = [] }
    return rewritten
  }

  /// Access of some people to a zone began, changed or ended.
  func note(accessOf users: [String], to zoneName: String) {
    if users.isEmpty { return }
    effects.add(ZoneEffects.Access(users: users, zoneName: zoneName, database: database.id, shard: terms.shard))
  }

  // MARK: Zones

  /// Makes a zone, or returns the one that is there.
  func makeZone(named name: String) throws -> StoredZone {
    let former = try transaction.zone(named: name, in: database.key)
    let zone = try transaction.makeZone(named: name, in: database.key)
    if former == nil || former?.isDeleted == true { note(made: zone) }
    return zone
  }

  /// A zone was made that had not been there.
  func note(made zone: StoredZone) {
    firing?.zone(changed: zone.zoneName, sequence: zone.sequence, by: terms.author.device)
    note(zone, isAuthors: true)
  }

  /// Ends a zone with all its records.
  /// - Returns: the zone as it is then.
  @discardableResult func end(_ zone: StoredZone, as end: ZoneEnd) throws -> StoredZone {
    if database.hasShares { note(accessOf: try transaction.audience(ofZone: zone.zoneName, of: database.key), to: zone.zoneName) }
    try transaction.deleteZone(zone.key, as: end)
    // A purge leaves nothing: not what the journal keeps, either. What stores had not exported by then is written down after it.
    if end == .purged { try transaction.deleteConflicts(of: zone.databaseKey, inZone: zone.zoneName) }
    guard let ended = try transaction.zone(key: zone.key) else { throw StoreError.corrupt("zone \(zone.key) is gone with its deletion") }
    firing?.zone(deleted: zone.zoneName, sequence: ended.sequence, by: terms.author.device)
    note(ended, isAuthors: true)
    return ended
  }

  // MARK: The end

  /// A zone as it is after the writes so far.
  func current(_ zone: StoredZone) -> StoredZone { zones.first { $0.zone.key == zone.key }?.zone ?? zone }

  var hasWritten: Bool { !zones.isEmpty }

  /// Merges duplicates among the records written to a zone so far. `finish()` does it for the zones that are left.
  func mergeDuplicates(in zone: StoredZone) throws -> DuplicateMerge.Outcome {
    guard let touched, touched.contains(where: { $0.zone == zone.key }) else { return DuplicateMerge.Outcome() }
    self.touched = touched.filter { $0.zone != zone.key }
    var merge = DuplicateMerge(in: zone, of: self)
    merge.mayWrite = mayMerge
    let outcome = try merge.run(DuplicateMerge.Touched.lastOfEach(touched.lazy.filter { $0.zone == zone.key }.map(\.item)))
    if outcome.isUnfinished { effects.addUnmerged(on: terms.shard) }
    return outcome
  }

  /// Ends the commit; to be called after the last write.
  /// - Throws: `QUOTA_EXCEEDED` where the whole of it is too much.
  /// - Returns: what is to be published once the transaction is durable.
  func finish() throws -> ZoneEffects {
    if touched?.isEmpty == false { for changed in zones { _ = try mergeDuplicates(in: changed.zone) } }
    if rules.quota == .whole, hasWritten { try terms.quota?.checkGrowth(since: database, in: transaction) }
    for changed in zones {
      effects.add(changed.zone, of: database.id, by: changed.isAuthors ? terms.author : nil, hasSubscriptions: database.subscriptionEdition != 0)
    }
    // Subscriptions to zones that ended are deleted, also where none is told.
    if let firing {
      let fired = try firing.finish()
      if rules.firing.applies { effects.add(fired) }
    }
    return effects
  }
}

extension ShardSnapshot {
  /// The database that another row of the shard names by its key.
  func row(ofDatabase key: Int64) throws -> StoredDatabase {
    guard let row = try database(key: key) else { throw StoreError.corrupt("database \(key) is not there") }
    return row
  }
}
