// The upgrade to format 8, which adds actions to the keys of references. The keys of earlier releases do not tell which
// references bind.

import Records
import SQLite

/// Gives the references of existing records the actions of their fields, so that cascades and validation find them.
struct ReferenceUpgrade {
  private typealias Entry = StoredReferences.Entry

  private let connection: Connection
  /// Deleted zones whose rows are being removed, table by table.
  private let doomed: Set<Int64>
  private var symbols: [Int64: String] = [:]
  private var bindsReferences = false

  init(_ connection: Connection) throws {
    self.connection = connection
    doomed = Set(try connection.statement(SQL("upgradeDoomed", "SELECT zone FROM doomed")).all { $0.int64(0) })
    for (number, text) in try connection.statement(SQL("upgradeSymbols", "SELECT id, text FROM symbol")).all({
      ($0.int64(0), $0.text(1))
    }) {
      symbols[number] = text
    }
  }

  func run() throws {
    var upgrade = self
    var last: Int64? = 0
    while let row = last { last = try upgrade.page(after: row) }
    guard upgrade.bindsReferences else { return }
    try connection.statement(SQL("upgradeMeta", "INSERT OR REPLACE INTO meta(key, value) VALUES (?1, 1)")).binding(
      MetaKey.bindsReferences.rawValue
    ).run()
  }

  private static let pageCount = 500

  /// - Returns: the last row of the page; nil when no rows are left.
  private mutating func page(after row: Int64) throws -> Int64? {
    // Not a `Query`, because those match the latest format.
    let rows = try connection.statement(
      SQL(
        "upgradeReferences",
        """
        SELECT id, zone, seq, type, origin, others, sum, refs, data, name FROM record
        WHERE id > ?1 AND refs IS NOT NULL AND deleted = 0 ORDER BY id LIMIT \(Self.pageCount)
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
      zone: row.int64(1), sequence: row.int64(2), type: row.int64(3), isDeleted: false, origin: row.int64(4),
      sequenceOfOthers: row.int64(5))
    let references = row.blob(7)
    guard !doomed.contains(header.zone), let name = row.recordName(9), let type = symbols[header.type],
      let earlier = StoredReferences.decode(references)
    else { return nil }
    let record = row.withBytes(8) { data -> Record? in
      guard header.checksum(name: name, references: references, data: data) == row.int64(6) else { return nil }
      // Dropped because the read of a damaged record reports it.
      return try? Record(decoding: data, recordName: name, recordType: type)
    }
    guard let record else { return nil }
    let later = earlier.flatMap { entry in
      keys(of: entry, in: record).map { Entry(field: $0.rawValue, target: entry.target) }
    }
    if later.contains(where: { ReferenceKey(rawValue: $0.field).action != .none }) { bindsReferences = true }
    let encoded = try StoredReferences.encode(later)
    guard encoded != references else { return nil }
    let sum = row.withBytes(8) { header.checksum(name: name, references: encoded, data: $0) }
    return ReferenceChange(
      row: row.int64(0), zone: header.zone, sum: sum, earlier: earlier, later: later, references: encoded)
  }

  /// The keys for this target, by the actions in the record's field. A relationship's field has no actions, so its
  /// entry stays.
  private func keys(of entry: Entry, in record: Record) -> [ReferenceKey] {
    let key = ReferenceKey(rawValue: entry.field)
    guard let name = symbols[key.symbol] else { return [key] }
    let references: [Reference] =
      switch record.fields[name]?.value {
      case .reference(let reference): [reference]
      case .list(element: .reference, let values):
        values.compactMap { if case .reference(let reference) = $0 { reference } else { nil } }
      default: []
      }
    let actions = Set(references.filter { $0.zoneID == nil && $0.recordName == entry.target }.map(\.action))
    if actions.isEmpty { return [key] }
    return Reference.Action.allCases.filter(actions.contains).map { ReferenceKey(symbol: key.symbol, action: $0) }
  }
}
