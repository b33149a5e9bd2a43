// Reads of a shard's file within one transaction of one connection.

import CSQLite
import Records
import SQLite

/// What a snapshot keeps from one transaction to the next, beside its connection: prepared statements and symbols, which never change
/// once they are committed.
final class ShardSession {
  let shard: Int
  let connection: Connection
  private var prepared: [Statement?] = Array(repeating: nil, count: Query.allCases.count)
  /// By number; the numbers are small and dense.
  private(set) var symbolTexts: [Int64: String] = [:]

  init(shard: Int, connection: Connection) {
    self.shard = shard
    self.connection = connection
  }

  func statement(_ query: Query) throws(SQLiteError) -> Statement {
    if let statement = prepared[query.rawValue] { return statement }
    let statement = try connection.statement(SQL("\(query)", query.text))
    prepared[query.rawValue] = statement
    return statement
  }

  func symbol(_ number: Int64) throws -> String {
    if let text = symbolTexts[number] { return text }
    let statement = try statement(.symbolText)
    try statement.bind(1, number)
    guard let text = try statement.first({ $0.text(0) }) else { throw StoreError.corrupt("shard \(shard): symbol \(number) is missing") }
    symbolTexts[number] = text
    return text
  }

  /// After a rollback numbers may be given to other texts.
  func forgetSymbols() { symbolTexts = [:] }
}

/// A zone's row with what only the store needs of it.
struct ZoneRow {
  var zone: StoredZone
  /// Its live records.
  var liveCount: Int64
}

/// One transaction's view of a shard; `SQLiteTransaction` adds the writes and answers from its caches what it can.
class SQLiteSnapshot: ShardSnapshot {
  let session: ShardSession
  /// Deleted zones whose rows are still being removed: nobody may see those. nil until asked for.
  final var doomed: Set<Int64>?

  init(_ session: ShardSession) { self.session = session }

  final var shard: Int { session.shard }
  final func statement(_ query: Query) throws(SQLiteError) -> Statement { try session.statement(query) }

  /// Makes cached changes visible to statements; a snapshot has none.
  func flush() throws {}

  // MARK: Databases

  func database(_ id: DatabaseID) throws -> StoredDatabase? {
    let statement = try statement(.databaseByID)
    try statement.bind(1, id.container.rawValue)
    try statement.bind(2, id.environment.rawValue)
    try statement.bind(3, id.owner)
    return try statement.first(database)
  }

  func database(key: Int64) throws -> StoredDatabase? {
    let statement = try statement(.databaseByKey)
    try statement.bind(1, key)
    return try statement.first(database)
  }

  private func database(_ row: Statement) throws -> StoredDatabase {
    guard let container = ContainerID(rawValue: row.text(1)), let environment = Environment(rawValue: row.text(2)) else {
      throw StoreError.corrupt("shard \(shard): database \(row.int64(0)) has no such container or environment")
    }
    return StoredDatabase(
      key: row.int64(0), id: DatabaseID(container: container, environment: environment, owner: row.text(3)),
      incarnation: UInt64(bitPattern: row.int64(4)), sequence: row.int64(5))
  }

  // MARK: Zones

  func zone(named zoneName: String, in database: Int64) throws -> StoredZone? { try zoneRow(named: zoneName, in: database)?.zone }
  func zone(key: Int64) throws -> StoredZone? { try zoneRow(key: key)?.zone }

  func zoneRow(named zoneName: String, in database: Int64) throws -> ZoneRow? {
    let statement = try statement(.zoneByName)
    try statement.bind(1, database)
    try statement.bind(2, zoneName)
    return try statement.first(Self.zoneRow)
  }

  func zoneRow(key: Int64) throws -> ZoneRow? {
    let statement = try statement(.zoneByKey)
    try statement.bind(1, key)
    return try statement.first(Self.zoneRow)
  }

  final func zones(in database: Int64, after sequence: Int64, limit: Int) throws -> [StoredZone] {
    guard limit > 0 else { return [] }
    try flush()
    let statement = try statement(.zonesAfter)
    try statement.bind(1, database)
    try statement.bind(2, sequence)
    try statement.bind(3, limit)
    return try statement.all { Self.zoneRow($0).zone }
  }

  private static func zoneRow(_ row: Statement) -> ZoneRow {
    ZoneRow(
      zone: StoredZone(
        key: row.int64(0), databaseKey: row.int64(1), zoneName: row.text(2), incarnation: UInt64(bitPattern: row.int64(3)),
        sequence: row.int64(4), isDeleted: row.bool(5)),
      liveCount: row.int64(6))
  }

  final func isDoomed(_ zone: Int64) throws -> Bool {
    if let doomed { return doomed.contains(zone) }
    let zones = Set(try statement(.doomedZones).all { $0.int64(0) })
    doomed = zones
    return zones.contains(zone)
  }

  // MARK: Records

  func record(named recordName: String, in zone: Int64) throws -> StoredRecord? {
    if try isDoomed(zone) { return nil }
    let statement = try statement(.recordByName)
    try statement.bind(1, zone)
    try statement.bind(2, recordName: recordName)
    return try statement.first { try record($0, named: recordName, zone: zone) }
  }

  final func changes(in zone: Int64, after sequence: Int64, limit: Int) throws -> [StoredRecord] {
    guard limit > 0, try !isDoomed(zone) else { return [] }
    let statement = try statement(.changes)
    try statement.bind(1, zone)
    try statement.bind(2, sequence)
    try statement.bind(3, limit)
    return try statement.all { try record($0, named: recordName($0, 9), zone: zone) }
  }

  final func records(ofType recordType: String, in zone: Int64, afterName recordName: String?, limit: Int) throws -> [StoredRecord] {
    guard limit > 0, try !isDoomed(zone), let type = try symbolNumber(recordType) else { return [] }
    let texts = try statement(.recordsByText)
    try texts.bind(1, zone)
    // Every text sorts after every number.
    if let recordName { try texts.bind(2, recordName) } else { try texts.bind(2, 0) }
    try texts.bind(3, type)
    try texts.bind(4, limit)
    let named = try texts.all { try record($0, named: self.recordName($0, 9), zone: zone) }
    guard let first = recordName.map(StoredName.firstUUID) ?? StoredName.UUIDBytes(high: 0, low: 0) else { return named }
    let uuids = try statement(.recordsByUUID)
    try uuids.bind(1, zone)
    try first.withBytes { bytes throws(SQLiteError) in try uuids.bind(2, bytes) }
    try uuids.bind(3, type)
    try uuids.bind(4, limit)
    let numbered = try uuids.all { try record($0, named: self.recordName($0, 9), zone: zone) }
    return Self.merge(named, numbered, limit: limit)
  }

  /// Two lists in name order as one.
  private static func merge(_ a: [StoredRecord], _ b: [StoredRecord], limit: Int) -> [StoredRecord] {
    if a.isEmpty { return b }
    if b.isEmpty { return a }
    var merged: [StoredRecord] = []
    var (i, j) = (0, 0)
    while merged.count < limit && (i < a.count || j < b.count) {
      if j == b.count || i < a.count && a[i].record.recordName.precedes(b[j].record.recordName) {
        merged.append(a[i])
        i += 1
      } else {
        merged.append(b[j])
        j += 1
      }
    }
    return merged
  }

  final func references(to target: String, in zone: Int64) throws -> [IncomingReference] {
    if try isDoomed(zone) { return [] }
    let statement = try statement(.references)
    try statement.bind(1, zone)
    try statement.bind(2, recordName: target)
    // Sorted here: names are kept in two forms, fields by number.
    return try statement.all { IncomingReference(field: $0.text(0), source: try recordName($0, 1)) }
      .sorted { $0.field == $1.field ? $0.source.precedes($1.source) : $0.field.precedes($1.field) }
  }

  // MARK: Mirrors

  func mirror(_ identifier: String, in database: Int64) throws -> StoredMirror? {
    let statement = try statement(.mirrorByIdentifier)
    try statement.bind(1, database)
    try statement.bind(2, identifier)
    return try statement.first { try Self.mirror($0, shard: shard) }
  }

  func mirror(key: Int64) throws -> StoredMirror? {
    let statement = try statement(.mirrorByKey)
    try statement.bind(1, key)
    return try statement.first { try Self.mirror($0, shard: shard) }
  }

  // MARK: Counts

  final func counts() throws -> ShardCounts {
    try flush()
    let counts = try statement(.counts).first {
      ShardCounts(databases: $0.int(0), zones: $0.int(1), records: $0.int(2), mirrors: $0.int(3))
    }
    guard let counts else { throw StoreError.corrupt("shard \(shard): no counts") }
    return counts
  }

  // MARK: Pieces

  /// The number of a symbol that exists, nil for one that no row uses.
  func symbolNumber(_ text: String) throws -> Int64? {
    let statement = try statement(.symbolID)
    try statement.bind(1, text)
    return try statement.first { $0.int64(0) }
  }

  final func recordName(_ row: Statement, _ column: Int32) throws -> String {
    guard let name = row.recordName(column) else { throw StoreError.corrupt("shard \(shard): a record's name has neither form") }
    return name
  }

  /// The record of a row of `Query.recordColumns`, verified.
  final func record(_ row: Statement, named recordName: String, zone: Int64) throws -> StoredRecord {
    let header = RecordRowHeader(
      zone: zone, sequence: row.int64(1), type: row.int64(2), isDeleted: row.bool(3), origin: row.int64(4), sequenceOfOthers: row.int64(5))
    let sum = row.int64(6)
    let references = row.blob(7)
    let type = try session.symbol(header.type)
    let record = try row.withBytes(8) { data in
      guard header.checksum(name: recordName, references: references, data: data) == sum else { throw corruptRecord(zone, header.sequence) }
      do {
        return try RecordBlob.decode(data, recordName: recordName, recordType: type)
      } catch {
        throw corruptRecord(zone, header.sequence)
      }
    }
    return StoredRecord(
      record: record, isDeleted: header.isDeleted, sequence: header.sequence, origin: header.origin, sequenceOfOthers: header.sequenceOfOthers)
  }

  private func corruptRecord(_ zone: Int64, _ sequence: Int64) -> StoreError {
    .corrupt("shard \(shard): the record with sequence \(sequence) in zone \(zone) is not what was written; restore it from a backup")
  }
}
