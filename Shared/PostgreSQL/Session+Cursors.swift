// Large scans: a cursor on the server hands rows out in batches, so that memory holds one batch.

extension Session {
  /// Calls `body` for each row of a command, fetching `batchCount` rows at a time. Needs an open transaction, and must
  /// not run within a scan of the same command. `commandLimit` applies to each batch.
  public func scan(
    _ command: Command, _ values: [Value] = [], batchCount: Int, _ body: (Row) throws -> Void
  ) throws {
    precondition(isInTransaction, "a scan needs a transaction")
    let cursor = "\"" + command.name + "\""
    let opening = Command("open " + command.name, "DECLARE \(cursor) NO SCROLL CURSOR FOR " + command.text)
    let fetching = Command("fetch \(batchCount) " + command.name, "FETCH FORWARD \(batchCount) FROM \(cursor)")
    let closing = "close " + command.name
    try queue(opening, values)
    var count = 0
    repeat {
      let batch = try rows(fetching)
      count = batch.count
      do {
        for row in batch { try body(row) }
      } catch {
        if isOpen { try send(Command(closing, "CLOSE \(cursor)"), [], as: .control(closing)) }
        throw error
      }
    } while count == batchCount
    try send(Command(closing, "CLOSE \(cursor)"), [], as: .control(closing))
  }
}
