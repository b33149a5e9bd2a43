// Transactions of a session. All but the end of one cost no round trip.

extension Session {
  public enum Isolation: Sendable {
    /// Sees what is committed when each command begins. For a writer that holds locks.
    case readCommitted
    /// Sees one state, as of its first command, and writes nothing.
    case snapshot
  }

  /// Begins a transaction with the next command. It must be ended before another one begins.
  public func begin(_ isolation: Isolation = .readCommitted) throws(PostgreSQLError) {
    precondition(!isInTransaction, "a transaction is open")
    let command = isolation == .snapshot ? Self.beginSnapshot : Self.begin
    try send(command, [], as: .control(command.name))
    began()
  }

  /// Commits what was sent since `begin`, in one round trip with the queued commands.
  /// - Throws: `unknownOutcome` when the answer was lost or a standby has not confirmed, and the failure of a queued
  ///   command. If the session is still open then, the transaction is, too: roll back.
  public func commit() throws(PostgreSQLError) {
    try send(Self.commit, [], as: .commit)
    try finish()
    ended()
  }

  /// As `commit`, but stops waiting for the answer after a time. A commit waits for a standby as long as that is away.
  /// - Returns: false when there is no answer yet. The session is of no use then but for `awaitCommit` and `close`.
  public func commit(within limit: Duration) throws(PostgreSQLError) -> Bool {
    try send(Self.commit, [], as: .commit)
    waitCount += 1
    try endStretch()
    return try awaitCommit(within: limit)
  }

  /// Waits for the answer of a commit that had none in time.
  /// - Returns: false when there is none yet.
  /// - Throws: as `commit`.
  public func awaitCommit(within limit: Duration) throws(PostgreSQLError) -> Bool {
    let end = ContinuousClock.now + limit
    var answers: [Rows] = []
    while let step = pipeline.next {
      guard try awaitAnswer(of: step, until: end) else { return false }
      try receive(step, into: &answers)
    }
    try pipeline.settle()
    ended()
    return true
  }

  /// Undoes the transaction, and forgets the queued commands' failures. Does nothing outside of one.
  public func rollback() {
    guard isInTransaction else { return }
    dropWaiting()
    do throws(PostgreSQLError) {
      // The end of the stretch makes the server take the next command even after a failure.
      if pipeline.next != nil { try endStretch() }
      try send(Self.rollback, [], as: .control(Self.rollback.name))
      try finish()
    } catch {
      // Dropped because the failure is one of the undone commands', or has closed the session.
    }
    ended()
  }

  /// Ends a transaction that wrote nothing. Waits for nothing, unless queued commands have no answer yet: the answer
  /// comes with those of the next transaction. Does nothing outside of one.
  /// - Throws: `connectionLost`
  public func endSnapshot() throws(PostgreSQLError) {
    guard isInTransaction else { return }
    // Answers that nobody has read can hold a failure, which must not meet the next transaction.
    if pipeline.next != nil { return rollback() }
    try send(Self.rollback, [], as: .control(Self.rollback.name))
    try endStretch()
    // An open transaction keeps the server from cleaning its tables.
    try flush(Self.rollback.name)
    ended()
  }

  /// Runs `body` in a transaction. Commits when it returns, rolls back when it or the commit throws.
  public func transaction<Value>(_ isolation: Isolation = .readCommitted, _ body: () throws -> Value) throws -> Value {
    try begin(isolation)
    do {
      let value = try body()
      try commit()
      return value
    } catch {
      rollback()
      throw error
    }
  }

  private static let begin = Command("BEGIN", "BEGIN ISOLATION LEVEL READ COMMITTED")
  private static let beginSnapshot = Command(
    "BEGIN snapshot", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
  private static let commit = Command("COMMIT", "COMMIT")
  private static let rollback = Command("ROLLBACK", "ROLLBACK")
}
