// Rejected transactions: kept as the user's, sent again, or forgotten (K14).

import FoundationEssentials
import MirrorWire
import SQLite

extension Replica {
  package func keep(_ identifier: String) async throws(StoreError) {
    try await write { writer, _ in
      guard let kept = try RejectedRow(identifier, writer) else { return }
      for change in kept.transaction.changes { try kept.marks.add(change) }
    }
  }

  package func retry(_ identifier: String) async throws(StoreError) {
    let isSent = try await write { writer, outcome in
      guard let row = try RejectedRow(identifier, writer), try row.isKept else { return false }
      outcome.hasExports = try row.enqueue()
      return true
    }
    if isSent { return }
    do {
      let body = try await read { snapshot in
        try snapshot.connection.statement(RejectedRow.find).binding(identifier).first { $0.blob(1) }
      }
      guard let body else { return }
      let transaction = try Transaction(json: body)
      var options = SaveOptions()
      (options.author, options.contextName) = (transaction.author, transaction.contextName)
      // What it did is done again, to the objects as they are now.
      _ = try await save(options) { save in
        for change in transaction.changes { try save.apply(change) }
        try save.tables.connection.statement(RejectedRow.delete).binding(identifier).run()
      }
    } catch { throw storeError(error) }
  }

  package func discard(_ identifier: String) async throws(StoreError) {
    try await write { writer, _ in try RejectedRow(identifier, writer)?.discard() }
  }
}

/// Not Sendable: it lives within the writer's transaction.
private struct RejectedRow {
  let identifier: String
  let number: Int64
  let transaction: Transaction
  let marks: PendingMarks
  private let writer: Writer
  private var connection: Connection { writer.connection }

  /// - Returns: nil: it was retried or discarded.
  init?(_ identifier: String, _ writer: Writer) throws {
    let found = try writer.connection.statement(Self.find).binding(identifier).first { ($0.int64(0), $0.blob(1)) }
    guard let found else { return nil }
    self.identifier = identifier
    self.writer = writer
    number = found.0
    transaction = try Transaction(json: found.1)
    marks = PendingMarks(writer, number: PendingMarks.number(ofRejected: number))
  }

  var isKept: Bool { get throws { try transaction.changes.contains { try marks.remaining(of: $0) != nil } } }

  /// Puts what no later save changed behind all that waits. The server stored nothing under the identifier.
  /// - Returns: whether something is to be sent.
  func enqueue() throws -> Bool {
    var rest = transaction
    rest.changes = try transaction.changes.compactMap(marks.remaining)
    rest.importToken = writer.position.importToken
    try connection.statement(Self.delete).binding(identifier).run()
    guard !rest.changes.isEmpty else { return false }
    let deletedCount = rest.changes.count { $0.changeType == .delete }
    try connection.statement(Self.enqueue).binding(
      number, try rest.json(), rest.changes.count - deletedCount, deletedCount
    ).run()
    let key = connection.lastInsertRowID
    for change in rest.changes { try marks.move(change, to: key) }
    return true
  }

  func discard() throws {
    for change in transaction.changes { try marks.remove(change) }
    try connection.statement(Self.delete).binding(identifier).run()
    try RereadList(writer.snapshot).add(
      transaction.changes.map { AnyObjectID(entityName: $0.entity, recordName: $0.objectID) })
  }

  static let find = SQL("find rejected", "SELECT number, body FROM rejected WHERE identifier = ?")
  static let delete = SQL("delete rejected", "DELETE FROM rejected WHERE identifier = ?")
  private static let enqueue = SQL(
    "enqueue again", "INSERT INTO outbox(number, part, body, savedCount, deletedCount) VALUES (?, 0, ?, ?, ?)")
}
