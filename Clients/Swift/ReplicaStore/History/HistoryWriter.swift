// Writes history transactions, of saves and of imports alike.

import FoundationEssentials
import SQLite

/// Writes one transaction with its changes, as one row.
final class HistoryWriter {
  /// Changes of one transaction.
  private static let changeLimit = 1 << 20

  let number: Int64
  private let connection: Connection
  private var changes = PackedChanges()

  init(_ connection: Connection, number: Int64) {
    self.connection = connection
    self.number = number
  }

  var isEmpty: Bool { changes.count == 0 }

  func change(
    _ object: Int64, _ kind: HistoryChange.Kind, _ properties: [Int64] = [], tombstone: [String: Literal] = [:]
  ) throws {
    guard changes.count < Self.changeLimit else {
      throw StoreError.invalid("a save has at most \(Self.changeLimit) changes")
    }
    changes.append(
      PackedChanges.Change(
        object: object, kind: kind, properties: properties,
        tombstone: tombstone.isEmpty ? [] : [UInt8](try JSONEncoder().encode(tombstone))))
  }

  func finish(
    timestamp: Int64, author: String?, contextName: String?, bundleID: String?, processID: String?,
    _ tables: ObjectTables
  ) throws {
    try connection.statement(Self.insert).binding(
      number, timestamp, try tables.word(author), try tables.word(contextName), try tables.word(bundleID),
      try tables.word(processID), changes.bytes
    ).run()
  }

  private static let insert = SQL("insert transaction", "INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?)")
}
