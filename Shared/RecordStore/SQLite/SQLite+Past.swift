// Past states in a shard's file: copies of rows from before an update, in the order of the replacements.

import Records
import SQLite

extension SQLiteSnapshot {
  func horizon(of zone: Int64) throws -> Int64? {
    guard let row = try zoneRow(key: zone), !row.zone.isDeleted else { return nil }
    return row.horizon
  }

  func pastStates(of recordName: String, in zone: Int64, after sequence: Int64, limit: Int, byteLimit: Int) throws
    -> [PastState]
  {
    guard limit > 0, try !isDoomed(zone) else { return [] }
    let select = try statement(PastQuery.ofRecord)
    try select.bind(1, zone)
    try select.bind(2, recordName: recordName)
    try select.bind(3, sequence)
    try select.bind(4, limit)
    try select.bind(5, byteLimit: byteLimit)
    defer { select.reset() }
    var states: [PastState] = []
    var byteCount = 0
    while try select.step() {
      byteCount += select.withBytes(8) { $0.count }
      if !states.isEmpty, byteCount > byteLimit { break }
      states.append(try past(select, of: recordName, in: zone))
    }
    return states
  }

  func pastState(of recordName: String, in zone: Int64, replacedAfter time: Int64) throws -> PastState? {
    if try isDoomed(zone) { return nil }
    let select = try statement(PastQuery.ofRecordAtTime)
    try select.bind(1, zone)
    try select.bind(2, recordName: recordName)
    try select.bind(3, time)
    return try select.first { try past($0, of: recordName, in: zone) }
  }

  private func past(_ row: StoreStatement, of recordName: String, in zone: Int64) throws -> PastState {
    PastState(stored: try record(row, named: recordName, zone: zone), until: row.int64(9), replacedAt: row.int64(10))
  }

  func firstReplacement(in zone: Int64, after time: Int64) throws -> Int64? {
    if try isDoomed(zone) { return nil }
    let select = try statement(PastQuery.firstReplacement)
    try select.bind(1, zone)
    try select.bind(2, time)
    return try select.first { $0.optionalInt64(0) } ?? nil
  }

  func oldestReplacement() throws -> Int64? {
    let select = try statement(PastQuery.oldest)
    try select.bind(1, 1)
    return try select.first { $0.int64(1) }
  }

  func records(in zone: Int64, afterName recordName: String?, limit: Int, byteLimit: Int) throws
    -> RowPage<StoredRecord>
  {
    guard limit > 0 else { return RowPage() }
    if try isDoomed(zone) { return RowPage(isAtEnd: true) }
    let select = try statement(StoredRecordQuery.afterName)
    try select.bind(1, zone)
    try select.bind(2, afterRecordName: recordName)
    try select.bind(3, limit)
    try select.bind(4, byteLimit: byteLimit)
    return try recordPage(select, in: zone, upTo: limit, byteLimit: byteLimit)
  }
}

extension SQLiteTransaction {
  /// Copies a row before it is updated. The copy is not decoded and keeps its checksum, which covers the same columns.
  func archive(rowID: Int64, until sequence: Int64) throws {
    let insert = try writing(PastQuery.archive)
    try insert.bind(1, rowID)
    try insert.bind(2, sequence)
    try insert.bind(3, now())
    try insert.run()
  }

  func forgetPast(replacedBefore cutoff: Int64, limit: Int) throws -> Int {
    try write {
      guard limit > 0 else { return 0 }
      let select = try statement(PastQuery.oldest)
      try select.bind(1, limit)
      // Takes the rows at the front only: clocks can go back, and no row should be read again and again.
      guard let last = try select.all({ ($0.int64(0), $0.int64(1)) }).prefix(while: { $0.1 < cutoff }).last?.0 else {
        return 0
      }
      let delete = try writing(PastQuery.forget)
      try delete.bind(1, last)
      var horizons: [Int64: Int64] = [:]
      let assets = try delete.all { row in
        horizons[row.int64(0)] = max(horizons[row.int64(0)] ?? 0, row.int64(1))
        return row.bool(2) ? [] : row.withBytes(3) { session.assets(inBlob: $0) }
      }
      try use([], insteadOf: assets.flatMap(\.self))
      for (zone, horizon) in horizons.sorted(by: { $0.key < $1.key }) {
        guard var row = try zoneRow(key: zone), row.horizon < horizon else { continue }
        row.horizon = horizon
        setZone(row)
      }
      return assets.count
    }
  }

  /// Removes up to `limit` past states of a deleted zone. Returns their number.
  func sweepPast(of zone: Int64, _ limit: Int) throws -> Int {
    let delete = try writing(SweepQuery.past)
    try delete.bind(1, zone)
    try delete.bind(2, limit)
    let assets = try delete.all { row in row.bool(0) ? [] : row.withBytes(1) { session.assets(inBlob: $0) } }
    try use([], insteadOf: assets.flatMap(\.self))
    return assets.count
  }
}
