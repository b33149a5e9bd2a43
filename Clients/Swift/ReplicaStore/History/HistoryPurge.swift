// Purges history that nobody needs any more.

import SQLite

struct HistoryPurge {
  private let connection: Connection

  init(_ connection: Connection) { self.connection = connection }

  /// Deletes transactions before a time.
  /// - Parameter force: also what was not exported, or a consumer has not read.
  /// - Returns: how many were deleted.
  @discardableResult func purge(before date: Int64, force: Bool) throws -> Int {
    var last = try connection.statement(Self.lastBefore).binding(date).first { $0.int64(0) } ?? 0
    if !force { last = min(last, try lowWaterMark()) }
    guard last > 0 else { return 0 }
    try connection.statement(Self.deleteTransactions).binding(last).run()
    let count = connection.changes
    if count > 0 { try Meta(connection).set("purgedThrough", last) }
    return count
  }

  /// The last transaction that neither the outbox nor a consumer needs.
  func lowWaterMark() throws -> Int64 {
    (try connection.statement(Self.mark).first { $0.optionalInt64(0) } ?? nil) ?? .max
  }

  private static let lastBefore = SQL(
    "last before", "SELECT coalesce(max(number), 0) FROM history WHERE timestamp < ?")
  private static let deleteTransactions = SQL("purge transactions", "DELETE FROM history WHERE number <= ?")
  private static let mark = SQL(
    "low-water mark",
    "SELECT min(n) FROM (SELECT min(number) - 1 AS n FROM outbox UNION ALL SELECT min(number) - 1 FROM rejected "
      + "UNION ALL SELECT min(number) FROM consumer)"
  )
}
