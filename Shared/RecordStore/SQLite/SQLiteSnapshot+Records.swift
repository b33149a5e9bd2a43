// Reads of records, in the order of their changes or of their names.

import Records
import SQLite

extension SQLiteSnapshot {
  func readChanges(after sequence: Int64, limit: Int, byteLimit: Int, into rows: inout RecordRows) throws -> Bool {
    guard limit > 0 else { return false }
    if try isDoomed(rows.zone) { return true }
    let statement = try boundChanges(in: rows.zone, after: sequence, limit: limit, byteLimit: byteLimit)
    return try append(statement, upTo: limit, byteLimit: byteLimit, to: &rows)
  }

  func boundChanges(in zone: Int64, after sequence: Int64, limit: Int, byteLimit: Int) throws -> StoreStatement {
    let statement = try statement(StoredRecordQuery.changes)
    try statement.bind(1, zone)
    try statement.bind(2, sequence)
    try statement.bind(3, limit)
    try statement.bind(4, byteLimit: byteLimit)
    return statement
  }

  func readChangesBackwards(
    after sequence: Int64, before end: Int64, limit: Int, byteLimit: Int, into rows: inout RecordRows
  ) throws -> Bool {
    guard limit > 0 else { return false }
    if try isDoomed(rows.zone) { return true }
    let statement = try statement(StoredRecordQuery.changesBackwards)
    try statement.bind(1, rows.zone)
    try statement.bind(2, sequence)
    try statement.bind(3, limit)
    try statement.bind(4, end)
    try statement.bind(5, byteLimit: byteLimit)
    return try append(statement, upTo: limit, byteLimit: byteLimit, to: &rows)
  }

  /// Appends the rows of a statement with `StoredRecordQuery.columns`.
  /// - Parameter appendName: appends the record's name to the buffer; false: the row has none. Without it, the name is
  ///   in the column behind the others.
  /// - Returns: false when a limit ended the rows.
  @discardableResult
  func append(
    _ statement: StoreStatement, upTo limit: Int, byteLimit: Int = .max, to rows: inout RecordRows,
    name appendName: (StoreStatement, inout [UInt8]) -> Bool = { $0.appendRecordName(9, to: &$1) }
  ) throws -> Bool {
    let earlierCount = rows.count
    rows.shard = shard
    var bytes = ReadBytes(limit: byteLimit)
    let row = statement
    defer { statement.reset() }
    while try statement.step() {
      let header = recordHeader(row, zone: rows.zone)
      let type = try session.symbol(header.type)
      try row.withBytes(8) { data in
        if limit > 1, rows.count == earlierCount { rows.reserve(limit, byteCount: data.count + StoredName.textLength) }
        try rows.append(header, recordType: type) { bytes in
          let start = bytes.count
          guard appendName(row, &bytes) else { throw namelessRecord }
          let middle = bytes.count
          let sum = bytes.withUnsafeBytes { bytes in
            row.withBytes(7) {
              header.checksum(name: UnsafeRawBufferPointer(rebasing: bytes[start..<middle]), references: $0, data: data)
            }
          }
          guard sum == row.int64(6) else {
            throw StoreError.corruptRecord(header.sequence, zone: header.zone, shard: shard)
          }
          try session.append(contentOf: data, to: &bytes)
          return middle
        }
        bytes.add(stored: data.count, content: rows[rows.count - 1].contentByteCount)
      }
      if bytes.arePassed { return false }
    }
    return rows.count - earlierCount < limit
  }

  /// The rows of a statement with `StoredRecordQuery.columns`.
  /// - Parameter byteCount: the length of a row's content in memory.
  func page<Row>(
    _ statement: StoreStatement, upTo limit: Int, byteLimit: Int, _ transform: (StoreStatement) throws -> Row,
    byteCount: (Row) -> Int
  ) throws -> RowPage<Row> {
    var page = RowPage<Row>()
    var bytes = ReadBytes(limit: byteLimit)
    defer { statement.reset() }
    while try statement.step() {
      let row = try transform(statement)
      page.rows.append(row)
      if byteLimit == .max { continue }
      bytes.add(stored: statement.withBytes(8) { $0.count }, content: byteCount(row))
      if bytes.arePassed { return page }
    }
    page.isAtEnd = page.rows.count < limit
    return page
  }

  func records(
    ofType recordType: String, in zone: Int64, afterName recordName: String?, limit: Int, byteLimit: Int
  ) throws -> RowPage<StoredRecord> {
    guard limit > 0 else { return RowPage() }
    guard try !isDoomed(zone), let type = try symbolNumber(recordType) else { return RowPage(isAtEnd: true) }
    let statement = try statement(StoredRecordQuery.ofType)
    try statement.bind(1, zone)
    try statement.bind(2, afterRecordName: recordName)
    try statement.bind(3, type)
    try statement.bind(4, limit)
    try statement.bind(5, byteLimit: byteLimit)
    return try recordPage(statement, in: zone, upTo: limit, byteLimit: byteLimit)
  }

  /// The records of a statement with `StoredRecordQuery.columns` and the name.
  func recordPage(_ statement: StoreStatement, in zone: Int64, upTo limit: Int, byteLimit: Int) throws
    -> RowPage<StoredRecord>
  {
    try page(statement, upTo: limit, byteLimit: byteLimit) { row in
      try record(row, named: recordName(row, 9), zone: zone)
    } byteCount: {
      $0.record.fields.byteCount
    }
  }

  func references(to target: String, in zone: Int64, limit: Int) throws -> [IncomingReference] {
    guard limit > 0, try !isDoomed(zone) else { return [] }
    let statement = try statement(ReferenceQuery.toTarget)
    try statement.bind(1, zone)
    try statement.bind(2, recordName: target)
    try statement.bind(3, limit)
    // Sorted here, because names are stored in two forms and fields by number.
    return try statement.all { row in
      let key = ReferenceKey(rawValue: row.int64(0))
      return IncomingReference(
        field: try session.symbol(key.symbol), source: try recordName(row, 1), action: key.action)
    }
    .sorted { $0.precedes($1) }
  }

  func sources(boundTo target: String, by action: Reference.Action, in zone: Int64, limit: Int) throws -> [String] {
    guard limit > 0, let statement = try bound(.sources, to: target, by: action, in: zone) else { return [] }
    try statement.bind(5, limit)
    return try statement.all { try recordName($0, 0) }.sorted { $0.precedes($1) }
  }

  func sourceCount(boundTo target: String, by action: Reference.Action, in zone: Int64) throws -> Int {
    try bound(.sourceCount, to: target, by: action, in: zone)?.first { $0.int(0) } ?? 0
  }

  /// - Returns: nil when no such reference can exist.
  private func bound(_ query: ReferenceQuery, to target: String, by action: Reference.Action, in zone: Int64) throws
    -> StoreStatement?
  {
    guard mayHoldBindingReferences, let keys = ReferenceKey.range(of: action), try !isDoomed(zone) else { return nil }
    let statement = try statement(query)
    try statement.bind(1, zone)
    try statement.bind(2, recordName: target)
    try statement.bind(3, keys.lowerBound)
    try statement.bind(4, keys.upperBound)
    return statement
  }

  func record(withShortGUID shortGUID: String) throws -> (zone: Int64, record: StoredRecord)? {
    guard mayHave(shortGUID) else { return nil }
    let found = try boundShortGUID(shortGUID).first { row in
      let zone = row.int64(10)
      return (zone: zone, record: try record(row, named: recordName(row, 9), zone: zone))
    }
    guard let found, !found.record.isDeleted, found.record.record.shortGUID == shortGUID, try !isDoomed(found.zone),
      try !isOther(zone: found.zone)
    else { return nil }
    return found
  }

  func boundShortGUID(_ shortGUID: String) throws -> StoreStatement {
    let statement = try statement(StoredRecordQuery.byShortGUID)
    try statement.bind(1, shortGUID)
    return statement
  }

  // MARK: Rows

  func recordName(_ row: StoreStatement, _ column: Int32) throws -> String {
    guard let name = row.recordName(column) else { throw namelessRecord }
    return name
  }

  private var namelessRecord: StoreError { .corrupt("shard \(shard): a record's name has neither form") }

  private func recordHeader(_ row: StoreStatement, zone: Int64) -> RecordRowHeader {
    RecordRowHeader(
      zone: zone, sequence: row.int64(1), type: row.int64(2), isDeleted: row.bool(3), origin: row.int64(4),
      sequenceOfOthers: row.int64(5))
  }

  /// The record in a row of `StoredRecordQuery.columns`. Verifies its checksum.
  func record(_ row: StoreStatement, named recordName: String, zone: Int64) throws -> StoredRecord {
    let header = recordHeader(row, zone: zone)
    let sum = row.int64(6)
    let references = row.blob(7)
    let type = try session.symbol(header.type)
    let record = try row.withBytes(8) { data in
      guard header.checksum(name: recordName, references: references, data: data) == sum else {
        throw StoreError.corruptRecord(header.sequence, zone: zone, shard: shard)
      }
      do {
        return try session.record(inBlob: data, recordName: recordName, recordType: type)
      } catch let error as StoreError {
        throw error
      } catch {
        throw StoreError.corruptRecord(header.sequence, zone: zone, shard: shard)
      }
    }
    return StoredRecord(
      record: record, isDeleted: header.isDeleted, sequence: header.sequence, origin: header.origin,
      sequenceOfOthers: header.sequenceOfOthers)
  }
}
