// Writes history transactions, of saves and of imports alike.

import FoundationEssentials
import SQLite

/// Writes one transaction and its changes.
final class HistoryWriter {
  /// Changes of one transaction; their place is in the lower bits of a change's number.
  static let changeLimit: Int64 = 1 << 20

  let number: Int64
  private let connection: Connection
  private var place: Int64 = 0

  init(_ connection: Connection, number: Int64) {
    self.connection = connection
    self.number = number
  }

  var isEmpty: Bool { place == 0 }

  func change(
    _ object: Int64, _ kind: HistoryChange.Kind, _ properties: [Int64] = [], tombstone: [String: Literal] = [:]
  ) throws {
    guard place < Self.changeLimit else { throw StoreError.invalid("a save has at most \(Self.changeLimit) changes") }
    let statement = try connection.statement(Self.insertChange)
    try statement.bind(1, number << 20 | place)
    try statement.bind(2, object)
    try statement.bind(3, Int64(kind.rawValue))
    try statement.bind(4, properties.isEmpty ? nil : Self.encode(properties))
    try statement.bind(5, tombstone.isEmpty ? nil : [UInt8](try JSONEncoder().encode(tombstone)))
    try statement.run()
    place += 1
  }

  func finish(
    timestamp: Int64, author: String?, contextName: String?, bundleID: String?, processID: String?,
    _ tables: ObjectTables
  ) throws {
    try connection.statement(Self.insertTransaction).binding(
      number, timestamp, try tables.word(author), try tables.word(contextName), try tables.word(bundleID),
      try tables.word(processID)
    ).run()
  }

  /// Property keys as bytes, two for each.
  static func encode(_ properties: [Int64]) -> [UInt8] {
    properties.flatMap { [UInt8(truncatingIfNeeded: $0 >> 8), UInt8(truncatingIfNeeded: $0)] }
  }

  static func decode(_ bytes: [UInt8]) -> [Int64] {
    stride(from: 0, to: bytes.count - 1, by: 2).map { Int64(bytes[$0]) << 8 | Int64(bytes[$0 + 1]) }
  }

  private static let insertChange = SQL(
    "insert change", "INSERT INTO hchange(id, object, kind, properties, tombstone) VALUES (?, ?, ?, ?, ?)")
  private static let insertTransaction = SQL("insert transaction", "INSERT INTO htransaction VALUES (?, ?, ?, ?, ?, ?)")
}
