// The connection of one thread with the engine that keeps a shard.

import PostgreSQL
import SQLite

enum StoreConnection {
  case sqlite(Connection)
  case postgreSQL(Session)

  /// A statement of the connection. It must not outlive `close`.
  /// - Parameter fetched: the answers that were fetched for a writer's bodies.
  func statement(_ query: some Query, _ fetched: FetchedRows?) throws -> StoreStatement {
    switch self {
    case .sqlite(let connection): .sqlite(try connection.statement(query))
    case .postgreSQL(let session):
      .postgreSQL(
        ShardCommand(
          query.sql(.postgreSQL), session, fetched, tellsItsRow: query.tellsItsRow, rows: query.rowCommand,
          sharedLookup: fetched == nil ? nil : query.sharedLookup))
    }
  }

  /// A statement that may have any number of rows.
  /// - Parameter sql: in the engine's dialect.
  func statement(_ sql: SQL) throws -> StoreStatement {
    switch self {
    case .sqlite(let connection): .sqlite(try connection.statement(sql))
    case .postgreSQL(let session): .postgreSQL(ShardCommand(sql, session, batches: ScanBatches()))
    }
  }

  var dialect: Dialect {
    switch self {
    case .sqlite: .sqlite
    case .postgreSQL: .postgreSQL
    }
  }

  var isInTransaction: Bool {
    switch self {
    case .sqlite(let connection): connection.isInTransaction
    case .postgreSQL(let session): session.isInTransaction
    }
  }

  /// Begins a transaction that sees one state and writes nothing.
  /// - Parameter time: how long it may wait for this process; nil: as the server's session has it.
  func beginRead(idlingFor time: Duration? = nil) throws {
    switch self {
    case .sqlite(let connection): try connection.beginReadTransaction()
    case .postgreSQL(let session): try session.begin(.snapshot)
    }
    if let time { try mayIdle(for: time) }
  }

  /// Lets the open transaction wait for this process longer than the server's session allows. The server would end it.
  func mayIdle(for time: Duration) throws {
    guard case .postgreSQL(let session) = self else { return }
    let seconds = time.components.seconds
    try session.queue(Command("idle \(seconds)", "SET LOCAL idle_in_transaction_session_timeout = '\(seconds)s'"))
  }

  /// Ends a transaction that wrote nothing.
  func endRead() throws {
    switch self {
    case .sqlite(let connection): try connection.commit()
    case .postgreSQL(let session): try session.endSnapshot()
    }
  }

  /// Waits for the statements on their way to a server.
  func finish() throws {
    if case .postgreSQL(let session) = self { try session.finish() }
  }

  func rollback() throws {
    switch self {
    case .sqlite(let connection): try connection.rollback()
    case .postgreSQL(let session): session.rollback()
    }
  }

  func openSavepoint() throws {
    switch self {
    case .sqlite(let connection): try connection.openSavepoint()
    case .postgreSQL(let session): try session.openSavepoint()
    }
  }

  func releaseSavepoint() throws {
    switch self {
    case .sqlite(let connection): try connection.releaseSavepoint()
    case .postgreSQL(let session): try session.releaseSavepoint()
    }
  }

  func rollbackToSavepoint() throws {
    switch self {
    case .sqlite(let connection): try connection.rollbackToSavepoint()
    case .postgreSQL(let session): try session.rollbackToSavepoint()
    }
  }

  func close() {
    switch self {
    case .sqlite(let connection): connection.close()
    case .postgreSQL(let session): session.close()
    }
  }

  /// True when the server or the network has ended the connection.
  var isLost: Bool {
    switch self {
    case .sqlite: false
    case .postgreSQL(let session): !session.isOpen
    }
  }
}
