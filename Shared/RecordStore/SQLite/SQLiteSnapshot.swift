// Reads a shard's file within one transaction of one connection.

import CSQLite
import Crypto
import Records
import SQLite

/// The state that outlives a connection's transactions: prepared statements, and symbols, which never change once they
/// are committed.
final class ShardSession {
  let shard: Int
  private(set) var connection: StoreConnection
  let keys: KeyRing
  let extent: ShardExtent
  /// nil for a shard that was never divided.
  let part: ShardPart?
  /// The rows that bodies have announced; nil for engines that fetch nothing.
  let fetched: FetchedRows?
  /// Of a session for reads whose engine fetches rows.
  var knownKeys: KnownKeys?
  /// Of a session for reads: that of `IdleSessions` when it began to connect.
  var generation = 0
  private var prepared: [StoreStatement?] = Array(
    repeating: nil, count: QuerySubject.allCases.count * QuerySubject.statementLimit)
  /// The texts by number. Numbers are small and dense.
  private(set) var symbolTexts: [Int64: String] = [:]

  init(
    shard: Int, connection: StoreConnection, keys: KeyRing, fetched: FetchedRows? = nil,
    extent: ShardExtent = ShardExtent()
  ) {
    self.shard = shard
    self.connection = connection
    self.keys = keys
    self.fetched = fetched
    self.extent = extent
    part = extent.part
  }

  /// Goes on with another connection after the earlier one was lost.
  func reconnect(_ connection: StoreConnection) {
    self.connection = connection
    prepared = Array(repeating: nil, count: prepared.count)
    // A server that has lost the transaction gives them out again.
    recordKeys = 0..<0
  }

  /// Ends the connection's statements early.
  var watch: StatementWatch {
    if case .sqlite(let connection) = connection { return connection.watch }
    return ownWatch
  }

  /// PostgreSQL's statements ask before they run.
  private let ownWatch = StatementWatch()

  /// True when writes cost nothing until their answers are awaited.
  var queuesWrites: Bool {
    if case .postgreSQL = connection { true } else { false }
  }

  /// Keys of records that a sequence of PostgreSQL gave out and no record has.
  private var recordKeys: Range<Int64> = 0..<0

  /// The key of the next record; nil when SQLite gives it out.
  func nextRecordKey() throws -> Int64? {
    guard queuesWrites else { return nil }
    if recordKeys.isEmpty {
      let first = try statement(StoredRecordQuery.nextKeys).first { $0.int64(0) } ?? 0
      recordKeys = first..<first + StoredRecordQuery.keyCount
    }
    return recordKeys.popFirst()
  }

  /// A statement that is no query of the store's.
  func statement(_ sql: SQL) throws -> StoreStatement {
    // A cursor's wait would drop their answers.
    if case .postgreSQL(let session) = connection { try fetched?.finish(session) }
    return try connection.statement(sql)
  }

  /// Ends a transaction that wrote nothing.
  func endRead() throws {
    fetched?.removeAll()
    try connection.endRead()
  }

  func statement(_ query: some Query) throws -> StoreStatement {
    if case .postgreSQL = connection, ownWatch.mustEnd() { throw StoreError.tooSlow(shard: shard) }
    if let statement = prepared[query.place] { return statement }
    let statement = try connection.statement(query, fetched)
    prepared[query.place] = statement
    return statement
  }

  func symbol(_ number: Int64) throws -> String {
    if let text = symbolTexts[number] { return text }
    let statement = try statement(ShardQuery.symbolText)
    try statement.bind(1, number)
    guard let text = try statement.first({ $0.text(0) }) else {
      throw StoreError.corrupt("shard \(shard): symbol \(number) is missing")
    }
    symbolTexts[number] = text
    return text
  }

  /// Forgets the symbols after a rollback, because their numbers may be given to other texts.
  func forgetSymbols() { symbolTexts = [:] }
}

/// A zone's row with the columns that only the store needs.
struct ZoneRow {
  var zone: StoredZone
  /// The number of its live records.
  var liveCount: Int64
  /// The bytes that they count for.
  var byteCount: Int64
  /// The sequence from which on every state of its records is known.
  var horizon: Int64
}

/// One transaction's view of a shard. `SQLiteTransaction` adds the writes and reads from its caches where it can.
class SQLiteSnapshot: ShardSnapshot {
  let session: ShardSession
  /// Deleted zones whose rows are still being removed; no read may return those rows. nil until the first use.
  final var doomed: Set<Int64>?
  /// The row that the read has looked up by its ID, if a look-up costs a round trip; never set in a writer.
  private final var readDatabase: StoredDatabase?

  /// Databases of other shards whose rows the read's state may still have.
  private let hidden: Set<Int64>

  /// - Parameter hidden: `ShardExtent.others` of before the transaction began.
  init(_ session: ShardSession, hiding hidden: Set<Int64> = []) {
    self.session = session
    self.hidden = hidden
  }

  /// The keys of databases whose rows are not found without their database.
  var others: Set<Int64> { hidden }

  final var shard: Int { session.shard }
  final func statement(_ query: some Query) throws -> StoreStatement { try session.statement(query) }

  /// Makes cached changes visible to statements. A snapshot has none.
  func flush() throws {}

  final func checkWanted() throws {
    if session.watch.mustEnd() { throw StoreError.tooSlow(shard: shard) }
  }

  // MARK: Databases

  /// - Throws: `StoreError.closed` for a database that another shard has.
  func database(_ id: DatabaseID) throws -> StoredDatabase? {
    if let part = session.part, !part.contains(id) { throw StoreError.closed(shard: shard) }
    let row: StoredDatabase? = try boundDatabase(id).first(database)
    if let row, session.knownKeys != nil {
      session.knownKeys?.note(row.key, of: id)
      readDatabase = row
    }
    return row
  }

  final func boundDatabase(_ id: DatabaseID) throws -> StoreStatement {
    let statement = try statement(DatabaseQuery.byID)
    try statement.bind(1, id.container.rawValue)
    try statement.bind(2, id.environment.rawValue)
    try statement.bind(3, id.owner)
    return statement
  }

  func database(key: Int64) throws -> StoredDatabase? {
    if let readDatabase, readDatabase.key == key { return readDatabase }
    let statement = try statement(DatabaseQuery.byKey)
    try statement.bind(1, key)
    return try statement.first(database)
  }

  final func databases(afterKey key: Int64, limit: Int) throws -> [StoredDatabase] {
    guard limit > 0 else { return [] }
    try flush()
    return try own(after: key, limit, placeOf: \.key, isOther: { others.contains($0.key) }) { key in
      let statement = try statement(DatabaseQuery.after)
      try statement.bind(1, key)
      try statement.bind(2, limit)
      return try statement.all(database)
    }
  }

  private func database(_ row: StoreStatement) throws -> StoredDatabase {
    guard let container = ContainerID(rawValue: row.text(1)), let environment = Environment(rawValue: row.text(2))
    else {
      throw StoreError.corrupt("shard \(shard): database \(row.int64(0)) has no such container or environment")
    }
    guard let placements = PlacementState(rawValue: row.int(9)) else {
      throw StoreError.corrupt("shard \(shard): database \(row.int64(0)) has no such state of placements")
    }
    return StoredDatabase(
      key: row.int64(0), id: DatabaseID(container: container, environment: environment, owner: row.text(3)),
      incarnation: UInt64(bitPattern: row.int64(4)), sequence: row.int64(5),
      subscriptionEdition: UInt64(bitPattern: row.int64(6)),
      byteCount: row.int64(7), generation: row.int64(8), placementState: placements, hasShares: row.bool(10),
      lastEventNumber: row.int64(11), lastConflictNumber: row.int64(12),
      gap: row.int64(13)..<max(row.int64(13), row.int64(14)))
  }

  // MARK: Zones

  func zone(named zoneName: String, in database: Int64) throws -> StoredZone? {
    try zoneRow(named: zoneName, in: database)?.zone
  }
  func zone(key: Int64) throws -> StoredZone? { try zoneRow(key: key)?.zone }

  func zoneRow(named zoneName: String, in database: Int64) throws -> ZoneRow? {
    guard mayHave(zoneName) else { return nil }
    let row = try boundZone(zoneName, in: database).first(Self.zoneRow)
    if let row { session.knownKeys?.note(row.zone) }
    return row
  }

  final func boundZone(_ zoneName: String, in database: Int64) throws -> StoreStatement {
    let statement = try statement(ZoneQuery.byName)
    try statement.bind(1, database)
    try statement.bind(2, zoneName)
    return statement
  }

  func zoneRow(key: Int64) throws -> ZoneRow? {
    let statement = try statement(ZoneQuery.byKey)
    try statement.bind(1, key)
    return try statement.first(Self.zoneRow)
  }

  final func zones(in database: Int64, after sequence: Int64, limit: Int) throws -> [StoredZone] {
    guard limit > 0 else { return [] }
    try flush()
    let statement = try statement(ZoneQuery.after)
    try statement.bind(1, database)
    try statement.bind(2, sequence)
    try statement.bind(3, limit)
    return try statement.all { Self.zoneRow($0).zone }
  }

  final func liveZones(in database: Int64, afterName zoneName: String?, limit: Int) throws -> [StoredZone] {
    guard limit > 0 else { return [] }
    try flush()
    let statement = try statement(ZoneQuery.live)
    try statement.bind(1, database)
    try statement.bind(2, zoneName ?? "")
    try statement.bind(3, limit)
    return try statement.all { Self.zoneRow($0).zone }
  }

  final func liveZoneCount(in database: Int64) throws -> Int {
    try flush()
    return try boundLiveZoneCount(in: database).first { $0.int(0) } ?? 0
  }

  final func boundLiveZoneCount(in database: Int64) throws -> StoreStatement {
    let statement = try statement(ZoneQuery.liveCount)
    try statement.bind(1, database)
    return statement
  }

  static func zoneRow(_ row: StoreStatement) -> ZoneRow {
    ZoneRow(
      zone: StoredZone(
        key: row.int64(0), databaseKey: row.int64(1), zoneName: row.text(2),
        incarnation: UInt64(bitPattern: row.int64(3)),
        sequence: row.int64(4), isDeleted: row.bool(5), end: ZoneEnd(rawValue: row.int(9)) ?? .deleted,
        endSequence: row.int64(10)),
      liveCount: row.int64(6), byteCount: row.int64(7), horizon: row.int64(8))
  }

  func hasRedirects(in database: Int64) throws -> Bool {
    let statement = try statement(RedirectQuery.anyInDatabase)
    try statement.bind(1, database)
    return try statement.first { _ in true } ?? false
  }

  final func isDoomed(_ zone: Int64) throws -> Bool {
    if let doomed { return doomed.contains(zone) }
    let zones = Set(try statement(SweepQuery.zones).all { $0.int64(0) })
    doomed = zones
    return zones.contains(zone)
  }

  // MARK: Records

  func record(named recordName: String, in zone: Int64) throws -> StoredRecord? {
    if try isDoomed(zone) { return nil }
    return try boundRecord(recordName, in: zone).first { try record($0, named: recordName, zone: zone) }
  }

  final func presence(of recordName: String, in zone: Int64) throws -> RecordPresence {
    let isDeleted = try look(at: recordName, in: zone, { $0.bool(3) }, else: { $0.bool(0) })
    return isDeleted.map { $0 ? .tombstone : .alive } ?? .unused
  }

  final func recordByteCount(of recordName: String, in zone: Int64) throws -> Int {
    try look(at: recordName, in: zone, { $0.withBytes(8, \.count) }, else: { $0.int(1) }) ?? 0
  }

  /// What the row of a fetched record says, or else that of `StoredRecordQuery.presence`; nil when there is none.
  private func look<Value>(
    at recordName: String, in zone: Int64, _ ofRecord: (StoreStatement) -> Value,
    else ofPresence: (StoreStatement) -> Value
  ) throws -> Value? {
    if try isDoomed(zone) { return nil }
    if session.fetched != nil {
      let record = try boundRecord(recordName, in: zone)
      if record.isFetched { return try record.first(ofRecord) }
    }
    return try boundPresence(recordName, in: zone).first(ofPresence)
  }

  func readRecord(named recordName: String, into rows: inout RecordRows) throws -> Bool {
    if try isDoomed(rows.zone) { return false }
    let earlierCount = rows.count
    try append(boundRecord(recordName, in: rows.zone), upTo: 1, to: &rows) { _, bytes in
      bytes.append(contentsOf: recordName.utf8)
      return true
    }
    return rows.count > earlierCount
  }

  final func boundRecord(_ recordName: String, in zone: Int64) throws -> StoreStatement {
    let statement = try statement(StoredRecordQuery.byName)
    try statement.bind(1, zone)
    try statement.bind(2, recordName: recordName)
    return statement
  }

  final func boundPresence(_ recordName: String, in zone: Int64) throws -> StoreStatement {
    let statement = try statement(StoredRecordQuery.presence)
    try statement.bind(1, zone)
    try statement.bind(2, recordName: recordName)
    return statement
  }

  func expect(_ lookups: [ExpectedLookup]) throws { try sendAhead(lookups) }

  // MARK: Assets

  final func asset(withHash hash: [UInt8]) throws -> StoredAsset? {
    let statement = try statement(AssetQuery.byHash)
    try statement.bind(1, hash)
    return try statement.first {
      StoredAsset(
        asset: Asset(hash: hash, byteCount: $0.int64(0)), useCount: $0.int(1), orphanedAt: $0.optionalInt64(2))
    }
  }

  // MARK: Mirrors

  func mirror(_ identifier: String, in database: Int64) throws -> StoredMirror? {
    let statement = try statement(MirrorQuery.byIdentifier)
    try statement.bind(1, database)
    try statement.bind(2, identifier)
    return try statement.first { try Self.mirror($0, shard: shard) }
  }

  func mirror(key: Int64) throws -> StoredMirror? {
    let statement = try statement(MirrorQuery.byKey)
    try statement.bind(1, key)
    return try statement.first { try Self.mirror($0, shard: shard) }
  }

  // MARK: Counts

  final func counts() throws -> ShardCounts {
    try flush()
    let counts = try statement(ShardQuery.counts).first {
      ShardCounts(databases: $0.int(0), zones: $0.int(1), records: $0.int(2), mirrors: $0.int(3))
    }
    guard let counts else { throw StoreError.corrupt("shard \(shard): no counts") }
    return counts
  }

  final func byteCount() throws -> Int64 { try statement(ShardQuery.byteCount).first { $0.int64(0) } ?? 0 }

  // MARK: Pieces

  /// False when no reference of the shard has an action other than `none`.
  var mayHoldBindingReferences: Bool { true }

  /// False for a text that no row has: PostgreSQL's texts are without NUL, and it refuses to look one up.
  final func mayHave(_ text: String) -> Bool {
    session.connection.dialect == .sqlite || !text.utf8.contains(0)
  }

  /// The number of a symbol; nil when it does not exist.
  func symbolNumber(_ text: String) throws -> Int64? {
    guard mayHave(text) else { return nil }
    let statement = try statement(ShardQuery.symbolID)
    try statement.bind(1, text)
    return try statement.first { $0.int64(0) }
  }
}
