// Writes a shard that PostgreSQL keeps into a shard file, so that backups of both engines are alike.

import PostgreSQL
import SQLite

/// A shard's rows as of one moment, on their way into a file.
struct WrittenShard {
  let snapshot: SQLiteSnapshot
  /// The folder of the file, where the shard has none.
  let folder: String

  /// Writes all rows in one transaction, reads them back, and compares both. The file's log has the size of the file
  /// meanwhile.
  /// - Throws: `SQLiteError` for the file, `PostgreSQLError` for the rows, `StoreError.io` when they differ, and
  ///   `CancellationError` when the read is over.
  func write() throws {
    let session = snapshot.session
    let moving = try MovingShard(from: session, standing: try standing())
    let copy = RowCopy(shard: session.shard, tables: try StoredTable.all()) { _ in
      if session.watch.isOver { throw CancellationError() }
    }
    let place = SQLiteConfiguration(directory: folder)
    var written: [TableTally] = []
    try place.make(moving) { written = try copy.run(from: session.connection, into: $0) }
    let stored = try place.read(shard: session.shard) { try copy.run(from: $0) }
    try copy.compare(written, of: "the database", with: stored, in: "the backup")
  }

  private func standing() throws -> ShardStanding {
    let statement = try snapshot.session.statement(
      SQL("backup.standing", "SELECT shardCount, epoch, installation FROM tenure"))
    let standing = try statement.first {
      ShardStanding(
        shardCount: $0.int(0), epoch: $0.int64(1), installation: $0.optionalText(2), move: nil)
    }
    guard let standing else { throw StoreError.corrupt("shard \(snapshot.shard): the table tenure is empty") }
    return standing
  }
}
