// The oracle's rows and reads: linear scans and sorts.

import Indexing
import RecordStore
import Records
import Sharing

/// The whole content of a shard as one value. A copy of it is a snapshot, and dropping a changed copy is a rollback.
struct InMemoryRows {
  struct RecordRow {
    var stored: StoredRecord
    var references: Set<OutgoingReference>
  }
  struct HistoryPlace: Hashable {
    let mirror: Int64
    let number: Int64
  }
  struct PastRow {
    let zone: Int64
    let state: PastState
  }
  struct EventRow {
    var mirror: Int64
    var event: StoredEvent
    /// The event's place among the shard's events. The end of the event does not change it.
    let order: Int64
  }
  struct QuarantineRow {
    var object: StoredQuarantine
    var changes: [UInt8]
    var assets: Set<Asset>
  }
  struct JournalUser: Hashable {
    let database: Int64
    let user: String
  }
  struct JournalRow {
    var conflict: StoredConflict
    var content: [UInt8]
    var assets: Set<Asset>
  }
  struct MemberRow {
    let databaseKey: Int64
    let member: ShareMember
  }
  struct OutcomeRow {
    var payload: [UInt8]
    var at: Int64
    /// Outcomes with the same `at` are forgotten in the order of their numbers.
    var number: Int
  }

  var databases: [Int64: StoredDatabase] = [:]
  var zones: [Int64: StoredZone] = [:]
  /// By zone, then by name.
  var records: [Int64: [String: RecordRow]] = [:]
  /// The names in `records` by zone and sequence. They keep tests with thousands of records fast.
  var names: [Int64: [Int64: String]] = [:]
  /// In the order of the replacements.
  var past: [PastRow] = []
  /// By zone.
  var horizons: [Int64: Int64] = [:]
  /// The zones of each object by database and object name. The value says whether the object is assigned to the zone.
  var placements: [Int64: [String: [Int64: Bool]]] = [:]
  var subscriptions: [StoredSubscription] = []
  var indexes: [Int64: StoredIndex] = [:]
  /// The counted bytes of each live record, by zone and name.
  var byteCounts: [Int64: [String: Int64]] = [:]
  /// By hash.
  var assets: [[UInt8]: StoredAsset] = [:]
  /// By mirror and transaction number.
  var historyAssets: [HistoryPlace: Set<Asset>] = [:]
  var mirrors: [Int64: StoredMirror] = [:]
  /// By mirror, ascending by number.
  var history: [Int64: [StoredTransaction]] = [:]
  struct FormerMirrorRow {
    var mirror: StoredMirror
    let removedAt: Int64
    let order: Int64
  }
  /// By lineage, ascending by number.
  var settled: [Int64: [SettledTransaction]] = [:]
  /// By lineage.
  var formerMirrors: [Int64: FormerMirrorRow] = [:]
  /// By mirror, then by name.
  var consumers: [Int64: [String: StoredConsumer]] = [:]
  /// Ascending by key.
  var quarantine: [QuarantineRow] = []
  /// By mirror.
  var syncStates: [Int64: StoredSyncState] = [:]
  /// By mirror, then by zone name.
  var zoneHolds: [Int64: [String: StoredZoneHold]] = [:]
  /// Ascending by key.
  var unimported: [StoredUnimported] = []
  /// In the order of the commits, so ascending by number within a database.
  var journal: [JournalRow] = []
  var evictedConflicts: [JournalUser: Int] = [:]
  /// In the order of the commits, so ascending by number within a database.
  var events: [EventRow] = []
  var outcomes: [String: OutcomeRow] = [:]
  /// By zone, then by the duplicate's name.
  var redirects: [Int64: [String: StoredRedirect]] = [:]
  /// By zone, then by name.
  var shares: [Int64: [String: StoredShare]] = [:]
  var members: [MemberRow] = []
  /// Ascending by number.
  var shareNews: [StoredShareNews] = []
  /// By zone, name and root.
  var departures: [Int64: [String: [String: Int64]]] = [:]
  var lastKey: Int64 = 0
  var lastEventOrder: Int64 = 0
  /// The value of `lastEventOrder` when the current owner opened the shard.
  var inheritedEventOrder: Int64 = 0
  var lastOutcomeNumber = 0
}

final class InMemoryTransaction {
  var rows: InMemoryRows
  let makeIncarnation: () -> UInt64
  let now: () -> Int64
  let keepsPastStates: Bool
  /// True when an asset's content was uploaded.
  let hasUpload: (Asset) -> Bool
  /// The error of the first refused write. The body fails with it even if it catches the error.
  var refusal: (any Error)?

  init(_ rows: InMemoryRows, _ world: InMemoryRecordStore.World) {
    self.rows = rows
    makeIncarnation = world.makeIncarnation
    now = world.now
    keepsPastStates = world.keepsPastStates
    hasUpload = world.hasUpload
  }
}

extension InMemoryTransaction: ShardSnapshot {
  /// Does nothing, because reads here use no shared thread.
  func checkWanted() {}
  func expect(_ lookups: [ExpectedLookup]) {}

  func database(_ id: DatabaseID) throws -> StoredDatabase? { rows.databases.values.first { $0.id == id } }
  func database(key: Int64) throws -> StoredDatabase? { rows.databases[key] }

  func databases(afterKey key: Int64, limit: Int) throws -> [StoredDatabase] {
    rows.databases.values.filter { $0.key > key }.sorted { $0.key < $1.key }.first(limit)
  }

  func zone(named zoneName: String, in database: Int64) throws -> StoredZone? {
    rows.zones.values.first { $0.databaseKey == database && $0.zoneName == zoneName }
  }

  func zone(key: Int64) throws -> StoredZone? { rows.zones[key] }

  func zones(in database: Int64, after sequence: Int64, limit: Int) throws -> [StoredZone] {
    rows.zones.values.filter { $0.databaseKey == database && $0.sequence > sequence }
      .sorted { $0.sequence < $1.sequence }.first(limit)
  }

  func liveZones(in database: Int64, afterName zoneName: String?, limit: Int) throws -> [StoredZone] {
    rows.zones.values.filter {
      $0.databaseKey == database && !$0.isDeleted && zoneName?.precedes($0.zoneName) ?? true
    }.sorted { $0.zoneName.precedes($1.zoneName) }.first(limit)
  }

  func liveZoneCount(in database: Int64) throws -> Int {
    rows.zones.values.count { $0.databaseKey == database && !$0.isDeleted }
  }

  func record(named recordName: String, in zone: Int64) throws -> StoredRecord? {
    rows.records[zone]?[recordName]?.stored
  }

  func readRecord(named recordName: String, into page: inout RecordRows) throws -> Bool {
    guard let stored = try record(named: recordName, in: page.zone) else { return false }
    page.append(stored)
    return true
  }

  func readChanges(after sequence: Int64, limit: Int, byteLimit: Int, into page: inout RecordRows) throws -> Bool {
    let found = changes(in: page.zone, after: sequence).page(limit, byteLimit)
    for stored in found.rows { page.append(stored) }
    return found.isAtEnd
  }

  /// Ascending by sequence.
  func changes(in zone: Int64, after sequence: Int64) -> [StoredRecord] {
    (rows.records[zone] ?? [:]).values.map(\.stored).filter { $0.sequence > sequence }
      .sorted { $0.sequence < $1.sequence }
  }

  func readChangesBackwards(
    after sequence: Int64, before end: Int64, limit: Int, byteLimit: Int, into page: inout RecordRows
  ) throws -> Bool {
    let found = (rows.records[page.zone] ?? [:]).values.map(\.stored)
      .filter { $0.sequence > sequence && $0.sequence < end }
      .sorted(by: { $0.sequence > $1.sequence }).page(limit, byteLimit)
    for stored in found.rows { page.append(stored) }
    return found.isAtEnd
  }

  func records(
    ofType recordType: String, in zone: Int64, afterName recordName: String?, limit: Int, byteLimit: Int
  ) throws -> RowPage<StoredRecord> {
    (rows.records[zone] ?? [:]).values.map(\.stored)
      .filter { stored in
        !stored.isDeleted && stored.record.recordType == recordType
          && recordName.map { RecordNameOrder.precedes($0, stored.record.recordName) } ?? true
      }
      .sorted { RecordNameOrder.precedes($0.record.recordName, $1.record.recordName) }.page(limit, byteLimit)
  }

  func recordCount(in zone: Int64) throws -> Int { (rows.records[zone] ?? [:]).values.count { !$0.stored.isDeleted } }

  func indexes(in database: Int64) throws -> [StoredIndex] {
    rows.indexes.values.filter { $0.databaseKey == database }.sorted { $0.key < $1.key }
  }

  func indexes(afterKey key: Int64, limit: Int) throws -> [StoredIndex] {
    rows.indexes.values.filter { $0.key > key }.sorted { $0.key < $1.key }.first(limit)
  }

  func indexedRecords(_ scan: IndexScan, limit: Int, byteLimit: Int) throws -> RowPage<IndexedRecord> {
    let found = entries(of: scan.index, in: scan.zone, range: scan.range).filter { entry in
      guard let after = scan.after else { return true }
      let end = IndexedRecord(key: after.key, stored: entry.stored.renamed(after.recordName))
      return scan.isDescending ? entry.precedes(end) : end.precedes(entry)
    }
    return found.sorted { scan.isDescending ? $1.precedes($0) : $0.precedes($1) }.page(limit, byteLimit) { $0.stored }
  }

  func entryCount(of index: Int64, in zone: Int64, range: IndexRange, limit: Int) throws -> Int {
    min(entries(of: index, in: zone, range: range).count, max(limit, 0))
  }

  /// The entries of an index in a range, computed from the records.
  func entries(of index: Int64, in zone: Int64, range: IndexRange) -> [IndexedRecord] {
    guard let index = rows.indexes[index]?.index else { return [] }
    return (rows.records[zone] ?? [:]).values.map(\.stored).filter {
      !$0.isDeleted && $0.record.recordType == index.recordType
    }
    .flatMap { stored in
      index.keys(of: stored.record).filter(range.contains).map { IndexedRecord(key: $0, stored: stored) }
    }
  }

  func references(to target: String, in zone: Int64, limit: Int) throws -> [IncomingReference] {
    (rows.records[zone] ?? [:]).values
      .flatMap { row in
        row.references.filter { $0.target == target }
          .map { IncomingReference(field: $0.field, source: row.stored.record.recordName, action: $0.action) }
      }
      .sorted { $0.precedes($1) }.first(limit)
  }

  func presence(of recordName: String, in zone: Int64) throws -> RecordPresence {
    rows.records[zone]?[recordName].map { $0.stored.isDeleted ? .tombstone : .alive } ?? .unused
  }

  func place(of recordName: String, in zone: Int64) throws -> HierarchyPlace? {
    rows.records[zone]?[recordName].map { row in
      HierarchyPlace(
        parent: row.references.first { $0.field == ReservedName.parentReference }?.target,
        isDeleted: row.stored.isDeleted)
    }
  }

  func children(of recordName: String, in zone: Int64, limit: Int) throws -> [String] {
    let pointer = OutgoingReference(field: ReservedName.parentReference, target: recordName)
    return (rows.records[zone] ?? [:]).filter { $0.value.references.contains(pointer) }.keys.sorted { $0.precedes($1) }
      .first(limit)
  }

  func sources(boundTo target: String, by action: Reference.Action, in zone: Int64, limit: Int) throws -> [String] {
    if action == .none { return [] }
    return (rows.records[zone] ?? [:])
      .filter { $0.value.references.contains { $0.target == target && $0.action == action } }
      .keys.sorted { $0.precedes($1) }.first(limit)
  }

  func sourceCount(boundTo target: String, by action: Reference.Action, in zone: Int64) throws -> Int {
    try sources(boundTo: target, by: action, in: zone, limit: .max).count
  }

  func record(withShortGUID shortGUID: String) throws -> (zone: Int64, record: StoredRecord)? {
    for (zone, records) in rows.records {
      for row in records.values where !row.stored.isDeleted && row.stored.record.shortGUID == shortGUID {
        return (zone, row.stored)
      }
    }
    return nil
  }

  func mirror(_ identifier: String, in database: Int64) throws -> StoredMirror? {
    rows.mirrors.values.first { $0.identifier == identifier && $0.databaseKey == database }
  }

  func mirror(key: Int64) throws -> StoredMirror? { rows.mirrors[key] }

  func mirrors(afterKey key: Int64, limit: Int) throws -> [StoredMirror] {
    rows.mirrors.values.filter { $0.key > key }.sorted { $0.key < $1.key }.first(limit)
  }

  func mirrorCount(of userRecordName: String, in database: Int64) throws -> Int {
    rows.mirrors.values.count { $0.userRecordName == userRecordName && $0.databaseKey == database }
  }

  func mirrorsAwaitingExport(afterKey key: Int64, limit: Int) throws -> [Int64] {
    rows.mirrors.values.filter { $0.key > key && $0.exportedTransactionNumber < $0.lastTransactionNumber }.map(\.key)
      .sorted().first(limit)
  }

  func transaction(withID transactionID: String, of mirror: Int64) throws -> StoredTransaction? {
    rows.history[mirror]?.first { $0.transactionID == transactionID }
  }

  func keptTransactionNumber(of transactionID: String, in mirror: Int64) throws -> Int64? {
    try transaction(withID: transactionID, of: mirror)?.number
  }

  func settledTransaction(withID transactionID: String, of mirror: Int64) throws -> SettledTransaction? {
    rows.mirrors[mirror].flatMap { rows.settled[$0.lineage]?.first { $0.transactionID == transactionID } }
  }

  func transactions(of mirror: Int64, after number: Int64, limit: Int, byteLimit: Int) throws -> [StoredTransaction] {
    var found: [StoredTransaction] = []
    var byteCount = 0
    for transaction in (rows.history[mirror] ?? []).filter({ $0.number > number }).first(limit) {
      byteCount += transaction.payload.count
      if !found.isEmpty, byteCount > byteLimit { break }
      found.append(transaction)
    }
    return found
  }

  func consumers(of mirror: Int64) throws -> [StoredConsumer] {
    (rows.consumers[mirror] ?? [:]).values.sorted { $0.name.precedes($1.name) }
  }

  func firstTransaction(of mirror: Int64, appendedAtOrAfter time: Int64) throws -> Int64? {
    rows.history[mirror]?.first { $0.appendedAt >= time }?.number
  }

  func events(of mirror: Int64, after number: Int64, kind: StoredEvent.Kind?, limit: Int) throws -> [StoredEvent] {
    rows.events.filter { $0.mirror == mirror && $0.event.number > number && (kind == nil || $0.event.kind == kind) }
      .map(\.event).first(limit)
  }

  func latestEvent(of mirror: Int64, kind: StoredEvent.Kind) throws -> StoredEvent? {
    rows.events.filter { $0.mirror == mirror && $0.event.kind == kind }.map(\.event).max { $0.number < $1.number }
  }

  func outcome(of idempotencyKey: String) throws -> [UInt8]? { rows.outcomes[idempotencyKey]?.payload }

  func counts() throws -> ShardCounts {
    ShardCounts(
      databases: rows.databases.count, zones: rows.zones.values.count { !$0.isDeleted },
      records: rows.records.values.reduce(0) { $0 + $1.values.count { !$0.stored.isDeleted } },
      mirrors: rows.mirrors.count)
  }

  /// A kilobyte for each name of a record.
  func byteCount() throws -> Int64 { Int64(rows.records.values.reduce(0) { $0 + $1.count }) * 1024 }
}

extension Array {
  /// The first `limit` elements; none for a limit below 1.
  func first(_ limit: Int) -> [Element] { Array(prefix(Swift.max(limit, 0))) }
}

extension IndexedRecord {
  /// The order of an index's entries.
  func precedes(_ other: IndexedRecord) -> Bool {
    key == other.key
      ? RecordNameOrder.precedes(stored.record.recordName, other.stored.record.recordName)
      : key.lexicographicallyPrecedes(other.key)
  }
}

extension StoredRecord {
  fileprivate func renamed(_ recordName: String) -> StoredRecord {
    var copy = self
    copy.record.recordName = recordName
    return copy
  }
}
