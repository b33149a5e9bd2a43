// Format 21's references, taken from the records: earlier releases stored what hangs below what without them.

import Crypto
import Records
import SQLite

/// Puts the parents of records and tombstones that are there already into the index of references, so that what hangs below a record is found: also over
/// what was deleted in between.
struct ParentUpgrade {
  private let connection: Connection
  private let file: ShardFile
  /// Rows of deleted zones are on their way out, table by table.
  private let doomed: Set<Int64>
  private var symbol: Int64?

  init(_ connection: Connection, _ file: ShardFile) throws {
    self.connection = connection
    self.file = file
    doomed = Set(try connection.statement(SQL("upgradeDoomed", "SELECT zone FROM doomed")).all { $0.int64(0) })
  }

  func run() throws {
    var upgrade = self
    var last: Int64? = 0
    while let row = last { last = try upgrade.page(after: row) }
  }

  private static let pageCount = 500

  /// - Returns: the last row it looked at; nil when there are no more.
  private mutating func page(after row: Int64) throws -> Int64? {
    // Its own text, not a `Query`: those are of the latest format.
    let rows = try connection.statement(
      SQL(
        "upgradeParents",
        """
        SELECT r.id, r.zone, r.seq, r.type, r.origin, r.others, r.sum, r.refs, r.data, r.name, s.text, r.deleted FROM record r JOIN symbol s ON s.id = r.type
        WHERE r.id > ?1 ORDER BY r.id LIMIT \(Self.pageCount)
        """)
    ).binding(row)
    var last: Int64?
    var changes: [ReferenceChange] = []
    try rows.forEach { row in
      last = row.int64(0)
      if let change = try change(row) { changes.append(change) }
    }
    for change in changes { try change.apply(to: connection) }
    return last
  }

  /// - Returns: nil for a row that stays as it is. A damaged one does: it is reported where it is read.
  private mutating func change(_ row: Statement) throws -> ReferenceChange? {
    let header = RecordRowHeader(
      zone: row.int64(1), sequence: row.int64(2), type: row.int64(3), isDeleted: row.bool(11), origin: row.int64(4), sequenceOfOthers: row.int64(5))
    let references = row.blob(7)
    guard !doomed.contains(header.zone), let name = row.recordName(9), let earlier = StoredReferences.decode(references) else { return nil }
    let found = try row.withBytes(8) { data -> String? in
      guard header.checksum(name: name, references: references, data: data) == row.int64(6) else { return nil }
      return try parent(inBlob: data, recordName: name, recordType: row.text(10))
    }
    guard let target = found else { return nil }
    let entry = StoredReferences.Entry(field: try parentSymbol(), target: target)
    if earlier.contains(entry) { return nil }
    let later = earlier + [entry]
    let encoded = try StoredReferences.encode(later)
    let sum = row.withBytes(8) { header.checksum(name: name, references: encoded, data: $0) }
    return ReferenceChange(row: row.int64(0), zone: header.zone, sum: sum, earlier: earlier, later: later, references: encoded)
  }

  /// - Throws: `StoreError.missingKey`: the shard could not be read whole.
  private func parent(inBlob blob: UnsafeRawBufferPointer, recordName: String, recordType: String) throws -> String? {
    // Dropped because a record that can't be read is reported where it is read.
    guard KeyRing.isSealed(blob) else { return try? Record(decoding: blob, recordName: recordName, recordType: recordType).parent }
    do throws(SealingError) {
      let opened = try file.keys.open(blob, for: .record)
      return try? Record(decoding: opened, recordName: recordName, recordType: recordType).parent
    } catch {
      guard case .missingKey(let id) = error else { return nil }
      throw StoreError.missingKey(id, shard: file.shard)
    }
  }

  private mutating func parentSymbol() throws -> Int64 {
    if let symbol { return symbol }
    try connection.statement(SQL("upgradeMakeSymbol", "INSERT OR IGNORE INTO symbol(text) VALUES (?1)")).binding(ReservedName.parentReference).run()
    let found = try connection.statement(SQL("upgradeSymbol", "SELECT id FROM symbol WHERE text = ?1")).binding(ReservedName.parentReference).first { $0.int64(0) }
    guard let found else { throw StoreError.corrupt("shard \(file.shard): a symbol was not stored") }
    symbol = found
    return found
  }
}
