// Reads all rows of a shard, writes them into another one, and sums them up, so that both can be compared.

import Crypto

/// The rows of a table: their number and a digest of all values.
struct TableTally: Hashable, Sendable {
  let table: String
  let rowCount: Int
  let digest: [UInt8]
}

struct RowCopy {
  let shard: Int
  let tables: [StoredTable]
  /// Called now and then with the number of rows since the last call. Ends the copy by an error.
  let report: (Int) throws -> Void

  /// Rows between two reports. So many may be on their way to a server.
  private static let stretch = 1000

  /// - Parameter target: gets the rows; nil: they are only read.
  /// - Returns: the tallies of all tables, in their order.
  func run(from source: StoreConnection, into target: StoreConnection? = nil) throws -> [TableTally] {
    try tables.map { try run($0, try source.statement($0.select), into: target) }
  }

  /// Copies some rows of a table.
  /// - Parameter rows: reads them, with all columns of the table.
  func run(_ table: StoredTable, _ rows: StoreStatement, into target: StoreConnection? = nil) throws -> TableTally {
    let digest = RowDigest()
    let insert = try target?.statement(table.insert(target?.dialect ?? .sqlite))
    var count = 0
    try rows.forEach { row in
      for (index, column) in table.columns.enumerated() {
        try move(column.kind, at: Int32(index), of: row, into: insert, digest, table.name)
      }
      try insert?.run()
      count += 1
      if count % Self.stretch == 0 {
        try target?.finish()
        try report(Self.stretch)
      }
    }
    try target?.finish()
    try report(count % Self.stretch)
    return TableTally(table: table.name, rowCount: count, digest: digest.finish())
  }

  /// Compares what was written with what was read back.
  /// - Parameters:
  ///   - source: where the rows are from, for the message.
  ///   - target: where they are now.
  /// - Throws: `StoreError.io` for a table that differs.
  func compare(_ written: [TableTally], of source: String, with stored: [TableTally], in target: String) throws {
    for (sent, found) in zip(written, stored) where sent != found {
      throw StoreError.io(
        """
        shard \(shard): the table \(found.table) in \(target) has \(found.rowCount) rows that differ from the \
        \(sent.rowCount) in \(source); the copy counts for nothing
        """)
    }
  }

  private func move(
    _ kind: StoredTable.Kind, at column: Int32, of row: StoreStatement, into insert: StoreStatement?,
    _ digest: RowDigest, _ table: String
  ) throws {
    switch kind {
    case .integer:
      let value = row.optionalInt64(column)
      digest.add(value)
      try insert?.bind(column + 1, value)
    case .text:
      let text = row.optionalText(column)
      digest.add(text.map { Array($0.utf8) })
      try insert?.bind(column + 1, text)
    case .bytes:
      let bytes = row.optionalBlob(column)
      digest.add(bytes)
      try insert?.bind(column + 1, bytes)
    case .recordName:
      let name = row.recordName(column)
      if name == nil, row.optionalBlob(column) != nil {
        throw StoreError.corrupt("shard \(shard): a name in the table \(table) is damaged; restore it from a backup")
      }
      digest.add(name.map { Array($0.utf8) })
      try insert?.bind(column + 1, optionalRecordName: name)
    }
  }
}

/// A digest of values in their order.
private final class RowDigest {
  private let stream = SHA256.Stream()
  private var buffer: [UInt8] = []

  private static let bufferLimit = 64 << 10

  func add(_ value: Int64?) {
    buffer.append(value == nil ? 0 : 1)
    if let value { append(value) }
    flush(above: Self.bufferLimit)
  }

  func add(_ bytes: [UInt8]?) {
    buffer.append(bytes == nil ? 0 : 1)
    if let bytes {
      append(Int64(bytes.count))
      buffer += bytes
    }
    flush(above: Self.bufferLimit)
  }

  private func append(_ value: Int64) { withUnsafeBytes(of: value.littleEndian) { buffer += $0 } }

  private func flush(above limit: Int) {
    guard buffer.count > limit else { return }
    stream.update(buffer)
    buffer.removeAll(keepingCapacity: true)
  }

  func finish() -> [UInt8] {
    flush(above: 0)
    return stream.finish()
  }
}
