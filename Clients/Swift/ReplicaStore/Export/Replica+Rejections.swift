// Rejected transactions: kept as the user's, sent again, or forgotten (K14).

import FoundationEssentials
import MirrorWire
import SQLite

extension Replica {
  package func rejected() async throws(StoreError) -> [Rejected] { try await rejected(RejectedRow.all) }
  package func undecided() async throws(StoreError) -> [Rejected] {
    // Each exchange asks, and hardly any file has one.
    try await figures().rejectedCount == 0 ? [] : try await rejected(RejectedRow.undecided)
  }

  private func rejected(_ select: SQL) async throws(StoreError) -> [Rejected] {
    do {
      return try await read { snapshot in
        try snapshot.connection.statement(select).all { row in
          let transaction = try Transaction(json: row.blob(2))
          return Rejected(
            identifier: row.text(0), transactionNumber: row.int64(1), author: transaction.author,
            objects: transaction.changes.map { AnyObjectID(entityName: $0.entity, recordName: $0.objectID) },
            error: try ServerError(json: row.blob(3)),
            isConsequence: row.bool(4), date: Date(milliseconds: row.int64(5)))
        }
      }
    } catch { throw storeError(error) }
  }

  package func revert(_ identifier: String) async throws(StoreError) {
    try await write { writer, _ in
      guard let row = try RejectedRow(identifier, writer.snapshot, writer.tables) else { return }
      // It changed nothing here that could be undone, and the server has nothing of it.
      try row.isSentAgain ? row.keep() : row.undo()
    }
  }

  package func keep(_ identifier: String) async throws(StoreError) {
    try await write { writer, _ in
      try RejectedRow(identifier, writer.snapshot, writer.tables)?.keep()
    }
  }

  package func retry(_ identifier: String) async throws(StoreError) {
    let isSent = try await write { writer, outcome in
      guard let row = try RejectedRow(identifier, writer.snapshot, writer.tables), row.isKept else { return false }
      outcome.hasExports = try row.enqueue { transaction in
        transaction.changes = try transaction.changes.compactMap(row.marks.remaining)
        transaction.importToken = writer.position.shownToken
      }
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
      // What it did is done again, to the objects as they are now. Those that nobody has read anew still are what it
      // made of them, and the server knows nothing of that; those that are sent again are never read anew.
      _ = try await save(options) { save in
        guard let row = try RejectedRow(identifier, save.snapshot, save.tables) else { return }
        save.retriedNumber = row.number
        let list = RereadList(save.snapshot)
        for change in transaction.changes {
          let isRefused = try transaction.author == MirroringAuthor.reupload || list.contains(change.objectID)
          try save.apply(change, isRefused: isRefused)
        }
        try row.forget()
      }
    } catch { throw storeError(error) }
  }

  package func discard(_ identifier: String) async throws(StoreError) {
    try await write { writer, _ in try RejectedRow(identifier, writer.snapshot, writer.tables)?.discard() }
  }
}

/// Not Sendable: it lives within the writer's transaction.
struct RejectedRow {
  let identifier: String
  let number: Int64
  let transaction: Transaction
  let marks: PendingMarks
  let isKept: Bool
  private let snapshot: Snapshot
  private let tables: ObjectTables
  private var connection: Connection { tables.connection }

  /// - Returns: nil: it was retried or discarded.
  init?(_ identifier: String, _ snapshot: Snapshot, _ tables: ObjectTables) throws {
    let found = try tables.connection.statement(Self.find).binding(identifier).first { row in
      (row.int64(0), row.blob(1), row.int64(2))
    }
    guard let found else { return nil }
    isKept = found.2 == Self.kept
    self.identifier = identifier
    self.snapshot = snapshot
    self.tables = tables
    number = found.0
    transaction = try Transaction(json: found.1)
    marks = PendingMarks(tables, number: PendingMarks.number(ofRejected: number), of: transaction)
  }

  /// Puts what is left behind all that waits. The server stored nothing under the identifier.
  /// - Parameter change: leaves out and changes what is not sent as it was.
  /// - Returns: whether something is to be sent.
  func enqueue(_ change: (inout Transaction) throws -> Void) throws -> Bool {
    var rest = transaction
    try change(&rest)
    if !rest.changes.isEmpty {
      let deletedCount = rest.changes.count { $0.changeType == .delete }
      let part = TransactionText.Part(
        body: try rest.json(), savedCount: rest.changes.count - deletedCount, deletedCount: deletedCount)
      let pending = PendingMarks(tables, number: try Outbox.add(part, of: number, connection), of: transaction)
      // Before its own marks go: they tell what is new here.
      for change in rest.changes { try pending.add(change) }
    }
    try forget()
    return !rest.changes.isEmpty
  }

  /// Its objects are those of an ended zone, or of a former account.
  var isSentAgain: Bool { transaction.author == MirroringAuthor.reupload }

  /// Twice is once: marks that later saves ended do not come back.
  func keep() throws {
    if isKept { return }
    for change in transaction.changes { try marks.add(change) }
    try connection.statement(Self.decide).binding(identifier, Self.kept).run()
  }

  func undo() throws {
    try connection.statement(Self.decide).binding(identifier, Self.undone).run()
    try RereadList(snapshot).noteUndone()
  }

  func discard() throws {
    try forget()
    let list = RereadList(snapshot)
    try list.add(transaction.changes.map { AnyObjectID(entityName: $0.entity, recordName: $0.objectID) })
    try list.noteUndone()
  }

  func forget() throws {
    for change in transaction.changes { try marks.remove(change) }
    try connection.statement(Self.delete).binding(identifier).run()
  }

  /// Decisions.
  private static let (undone, kept): (Int64, Int64) = (1, 2)
  /// For a select over rejected transactions `r`.
  static let isKept = "r.isDecided = \(kept)"

  private static let columns = "SELECT identifier, number, body, error, isConsequence, at FROM rejected"
  static let all = SQL("rejected", "\(columns) ORDER BY number, identifier")
  static let undecided = SQL("undecided", "\(columns) WHERE isDecided = 0 ORDER BY number, identifier")
  private static let decide = SQL("decide", "UPDATE rejected SET isDecided = ?2 WHERE identifier = ?1")
  static let anyKept = SQL("any kept", "SELECT 1 FROM rejected r WHERE \(isKept) LIMIT 1")
  static let find = SQL("find rejected", "SELECT number, body, isDecided FROM rejected WHERE identifier = ?")
  private static let delete = SQL("delete rejected", "DELETE FROM rejected WHERE identifier = ?")
}
