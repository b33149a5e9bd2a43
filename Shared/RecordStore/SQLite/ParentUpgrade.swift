// The upgrade to format 21, which adds pointers to parents. Earlier releases stored parents in the records only.

import Crypto
import Records
import SQLite

/// Adds the parents of existing records and tombstones to the index of references, so that the descendants of a record
/// are found, even below deleted ones.
struct ParentUpgrade {
  private let connection: Connection
  private let file: ShardFile
  /// Deleted zones whose rows are being removed, table by table.
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

  /// - Returns: the last row of the page; nil when no rows are left.
  private mutating func page(after row: Int64) throws -> Int64? {
    // Not a `Query`, because those match the latest format.
    let rows = try connection.statement(
      SQL(
        "upgradeParents",
        """
        SELECT r.id, r.zone, r.seq, r.type, r.origin, r.others, r.sum, r.refs, r.data, r.name, s.text, r.deleted \
        FROM record r JOIN symbol s ON s.id = r.type
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

  /// - Returns: nil for a row that stays unchanged. A damaged row does, because reads report it.
  private mutating func change(_ row: Statement) throws -> ReferenceChange? {
    let header = RecordRowHeader(
      zone: row.int64(1), sequence: row.int64(2), type: row.int64(3), isDeleted: row.bool(11), origin: row.int64(4),
      sequenceOfOthers: row.int64(5))
    let references = row.blob(7)
    guard !doomed.contains(header.zone), let name = row.recordName(9), let earlier = StoredReferences.decode(references)
    else { return nil }
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
    return ReferenceChange(
      row: row.int64(0), zone: header.zone, sum: sum, earlier: earlier, later: later, references: encoded)
  }

  /// The parent in a record's stored form; nil when there is none or the record is damaged.
  /// - Throws: `StoreError.missingKey`, because the shard cannot be read completely then.
  private func parent(inBlob blob: UnsafeRawBufferPointer, recordName: String, recordType: String) throws -> String? {
    // Dropped because the read of a damaged record reports it.
    guard KeyRing.isSealed(blob) else {
      return try? Record(decoding: blob, recordName: recordName, recordType: recordType).parent
    }
    do throws(SealingError) {
      let opened = try file.configuration.keys.open(blob, for: .record)
      return try? Record(decoding: opened, recordName: recordName, recordType: recordType).parent
    } catch {
      guard case .missingKey(let id) = error else { return nil }
      throw StoreError.missingKey(id, shard: file.shard)
    }
  }

  private mutating func parentSymbol() throws -> Int64 {
    if let symbol { return symbol }
    try connection.statement(SQL("upgradeMakeSymbol", "INSERT OR IGNORE INTO symbol(text) VALUES (?1)")).binding(
      ReservedName.parentReference
    ).run()
    let found = try connection.statement(SQL("upgradeSymbol", "SELECT id FROM symbol WHERE text = ?1")).binding(
      ReservedName.parentReference
    ).first { $0.int64(0) }
    guard let found else { throw StoreError.corrupt("shard \(file.shard): a symbol was not stored") }
    symbol = found
    return found
  }
}
