// Keeps reads from showing a commit that a failover can undo.

import Glibc
import PostgreSQL
import SQLite
import Synchronization

/// The commits of a shard that its writer knows to be stored. The writer notes them, and reads compare.
///
/// A server shows a commit before the writer has its answer. If the server has given up waiting for a standby, that
/// commit is on one machine only, and another primary can give its sequences to other records.
final class ConfirmedCommits: Sendable {
  private let shard: Int
  private let epoch: Int64
  private let count: Atomic<Int64>
  private let isInDoubt = Atomic(false)

  init(shard: Int, epoch: Int64, count: Int64) {
    self.shard = shard
    self.epoch = epoch
    self.count = Atomic(count)
  }

  // MARK: On the writer's thread

  func note(_ count: Int64) {
    self.count.store(count, ordering: .sequentiallyConsistent)
    isInDoubt.store(false, ordering: .sequentiallyConsistent)
  }

  /// Notes that the outcome of the last commit is unknown, until `note`.
  func doubt() { isInDoubt.store(true, ordering: .sequentiallyConsistent) }

  // MARK: On a reader's thread

  private static let command = TenureQuery.look.command
  private static let lookup = FetchedRows.Lookup(command: command.name, values: [])
  private static let table: Substring = "tenure"
  /// Microseconds between two looks for the answer of a commit.
  private static let pause: useconds_t = 100

  /// Asks for the number of commits that a read sees. The answer comes with that of the read's first look-up.
  fileprivate func ask(_ session: ShardSession) throws {
    guard case .postgreSQL(let connection) = session.connection, let fetched = session.fetched else { return }
    fetched.queue(Self.lookup, in: Self.table, at: try connection.queue(Self.command))
  }

  /// Waits for the writer if the read sees a commit whose answer is on its way.
  /// - Throws: `StoreError.unreachable` when the outcome of that commit is unknown.
  fileprivate func check(_ session: ShardSession) throws {
    guard case .postgreSQL(let connection) = session.connection, connection.isOpen else { return }
    let rows = try session.fetched?.answer(to: Self.lookup, in: Self.table)?.rows ?? connection.rows(Self.command)
    // Commits of another owner are theirs to know.
    guard let row = rows.first, try row.integer(0) == epoch else { return }
    let seen = try row.integer(1)
    while count.load(ordering: .sequentiallyConsistent) < seen {
      if isInDoubt.load(ordering: .sequentiallyConsistent) {
        throw StoreError.unreachable("shard \(shard): it is not known yet whether the last commit is stored")
      }
      // The read begins again, or is given up.
      if session.watch.mustEnd() { throw StoreError.tooSlow(shard: shard) }
      usleep(Self.pause)
    }
  }
}

extension ShardCore {
  /// Runs the body of a read. Its result shows only commits that are known to be stored.
  /// - Throws: `StoreError.unreachable` while that is unknown, and what `body` throws.
  func read<Value>(_ session: ShardSession, _ body: () throws -> Value) throws -> Value {
    guard let confirmed else { return try body() }
    try confirmed.ask(session)
    let result = Result { try body() }
    // A refusal can stem from such a commit as well. An error of the engine shows nothing.
    if case .failure(let error) = result, error is any EngineError { throw error }
    try confirmed.check(session)
    return try result.get()
  }
}
