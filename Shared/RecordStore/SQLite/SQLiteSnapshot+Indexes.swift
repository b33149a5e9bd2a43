// Reads of field indexes, their rows and their entries.

import Indexing
import Records
import SQLite

/// The work state of an index. Numbers are stored: never renumber.
enum IndexState: Int64 {
  /// Records from before the index was made are still missing.
  case filling = 0
  case ready = 1
  /// Out of use. Its entries are being removed.
  case dropping = 2
}

struct IndexRow {
  let key: Int64
  let databaseKey: Int64
  let index: FieldIndex
  var state: IndexState
  /// The progress of filling or removing: through `afterZone` up to `afterName`, or the whole zone when that is nil.
  /// `""` is before all zones.
  var afterZone = ""
  var afterName: String?

  var stored: StoredIndex { StoredIndex(key: key, databaseKey: databaseKey, index: index, isReady: state == .ready) }
}

extension SQLiteSnapshot {
  func recordCount(in zone: Int64) throws -> Int { Int(try zoneRow(key: zone)?.liveCount ?? 0) }

  func indexes(in database: Int64) throws -> [StoredIndex] {
    let statement = try statement(IndexQuery.inDatabase)
    try statement.bind(1, database)
    return try statement.all(indexRow).filter { $0.state != .dropping }.map(\.stored)
  }

  func indexes(afterKey key: Int64, limit: Int) throws -> [StoredIndex] {
    guard limit > 0 else { return [] }
    let rows = try own(after: key, limit, placeOf: \.key, isOther: { others.contains($0.databaseKey) }) { key in
      let statement = try statement(IndexQuery.after)
      try statement.bind(1, key)
      try statement.bind(2, limit)
      return try statement.all(indexRow)
    }
    return rows.map(\.stored)
  }

  func indexRow(_ row: StoreStatement) throws -> IndexRow {
    guard let kind = FieldIndex.Kind(rawValue: row.int(4)), let state = IndexState(rawValue: row.int64(5)) else {
      throw StoreError.corrupt("shard \(shard): index \(row.int64(0)) is of no known kind or state")
    }
    return IndexRow(
      key: row.int64(0), databaseKey: row.int64(1),
      index: FieldIndex(recordType: row.text(2), key: RecordKey(schemaName: row.text(3)), kind: kind), state: state,
      afterZone: row.text(6),
      afterName: row.recordName(7))
  }

  func indexedRecords(_ scan: IndexScan, limit: Int, byteLimit: Int) throws -> RowPage<IndexedRecord> {
    guard limit > 0 else { return RowPage() }
    if try isDoomed(scan.zone) { return RowPage(isAtEnd: true) }
    let statement = try statement(scan.isDescending ? IndexQuery.entriesDown : .entriesUp)
    try statement.bind(1, scan.zone)
    try statement.bind(2, scan.index)
    if let after = scan.after {
      try statement.bind(3, after.key)
      try statement.bind(4, recordName: after.recordName)
    } else {
      try statement.bind(3, scan.isDescending ? scan.range.upper : scan.range.lower)
      try statement.bind(4, afterRecordName: nil)
    }
    try statement.bind(5, scan.isDescending ? scan.range.lower : scan.range.upper)
    try statement.bind(6, limit)
    try statement.bind(7, byteLimit: byteLimit)
    return try page(statement, upTo: limit, byteLimit: byteLimit) { row in
      IndexedRecord(key: row.blob(10), stored: try record(row, named: recordName(row, 9), zone: scan.zone))
    } byteCount: {
      $0.stored.record.fields.byteCount
    }
  }

  func sharedKeys(of index: Int64, in zone: Int64, after key: [UInt8], limit: Int) throws -> [[UInt8]] {
    guard limit > 0, try !isDoomed(zone) else { return [] }
    let statement = try statement(IndexQuery.sharedKeys)
    try statement.bind(1, zone)
    try statement.bind(2, index)
    try statement.bind(3, key)
    try statement.bind(4, limit)
    return try statement.all { $0.blob(0) }
  }

  func indexedNames(of index: Int64, in zone: Int64, range: IndexRange, limit: Int) throws -> [String] {
    guard limit > 0, try !isDoomed(zone) else { return [] }
    return try bound(.names, index, zone, range, limit).all { try recordName($0, 0) }
  }

  func entryCount(of index: Int64, in zone: Int64, range: IndexRange, limit: Int) throws -> Int {
    guard limit > 0, try !isDoomed(zone) else { return 0 }
    return try bound(.countEntries, index, zone, range, limit).first { $0.int(0) } ?? 0
  }

  private func bound(_ query: IndexQuery, _ index: Int64, _ zone: Int64, _ range: IndexRange, _ limit: Int) throws
    -> StoreStatement
  {
    let statement = try statement(query)
    try statement.bind(1, zone)
    try statement.bind(2, index)
    try statement.bind(3, range.lower)
    try statement.bind(4, range.upper)
    try statement.bind(5, limit)
    return statement
  }
}
