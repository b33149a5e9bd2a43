// Changes of the directory in PostgreSQL, and what is known of the last one's commit.

import Glibc
import PostgreSQL

extension PostgreSQLDirectory {
  /// What is known of the last commit.
  enum Outcome: Hashable {
    case known
    /// The session waits for its answer. The number of commits once it is stored.
    case awaited(commitCount: Int64)
    /// The session was lost before the answer.
    case unknown
  }

  /// - Throws: `Led` when another share service leads; `PostgreSQLError.unknownOutcome` when no answer says in time
  ///   whether the change is stored.
  func change<Value>(_ body: () throws -> Value) throws -> Value {
    try begin()
    isChanging = true
    defer { isChanging = false }
    let value: Value
    do {
      value = try body()
      try session.queue(TenureCommand.count.command, [.integer(commitCount + 1)])
    } catch {
      session.rollback()
      throw error
    }
    let isAnswered: Bool
    do throws(PostgreSQLError) {
      isAnswered = try session.commit(within: patience)
    } catch {
      session.rollback()
      guard error.kind == .unknownOutcome else { throw error }
      outcome = .unknown
      guard try isStored() else {
        throw PostgreSQLError(.connectionLost, state: error.state, command: error.command, message: error.message)
      }
      return value
    }
    guard isAnswered else { throw leaveOpen(commitCount + 1) }
    commitCount += 1
    return value
  }

  private func begin() throws {
    if outcome != .known {
      if try !learnOutcome() { try rowsBeside(TenureCommand.look.command, []) }
      // Also when it is known now: the caller may have read before that commit.
      throw Self.openCommit
    }
    let idled = session.isOpen
    do {
      try beginOnce()
    } catch let error as PostgreSQLError where error.endsSession && idled {
      // The session was lost while it idled.
      try beginOnce()
    }
  }

  private func beginOnce() throws {
    if !session.isOpen { try reconnect() }
    try session.begin()
    do {
      commitCount = try lock()
    } catch {
      session.rollback()
      throw error
    }
  }

  /// - Returns: the number of commits.
  private func lock() throws -> Int64 { try compare(session.rows(TenureCommand.lock.command)) }

  // MARK: Open outcomes

  static let openCommit = PostgreSQLError(
    .unavailable, command: "commit", message: "it is not known yet whether the last change is stored")

  /// Notes that nobody waits any longer for a commit that is under way.
  private func leaveOpen(_ commitCount: Int64) -> PostgreSQLError {
    outcome = .awaited(commitCount: commitCount)
    return PostgreSQLError(.unknownOutcome, command: "commit", message: "the server has not confirmed it in time")
  }

  /// Finds the outcome of the last commit, unless that is known. Waits for no commit.
  /// - Returns: false while its session waits for the answer.
  /// - Throws: `Led`, `PostgreSQLError`: the server can't be asked now.
  func learnOutcome() throws -> Bool {
    if case .awaited(let count) = outcome {
      do throws(PostgreSQLError) {
        guard try session.awaitCommit(within: .zero) else { return false }
        settle(count)
      } catch {
        // Dropped because the server is asked next.
        loseCommit()
      }
    }
    if outcome == .known { return true }
    do {
      settle(try ask())
      return true
    } catch {
      if case .awaited = outcome { return false }
      session.close()
      if (error as? PostgreSQLError)?.kind == .unknownOutcome { throw Self.openCommit }
      throw error
    }
  }

  /// Gives up a session whose commit has no answer.
  func loseCommit() {
    session.close()
    outcome = .unknown
  }

  /// Asks whether the change whose commit had an unknown outcome is stored, again and again.
  /// - Throws: `unknownOutcome` when the server does not answer in time, or another share service leads by now.
  private func isStored() throws -> Bool {
    let last = ContinuousClock.now + patience
    while true {
      do {
        let found = try ask()
        defer { settle(found) }
        return found == commitCount + 1
      } catch {
        if case .awaited = outcome { throw error }
        session.close()
        // A lock without another epoch can be that of the lost session.
        guard error is PostgreSQLError || error as? Led == Led(epoch: nil), .now < last else {
          throw PostgreSQLError(
            .unknownOutcome, state: (error as? PostgreSQLError)?.state ?? "", command: "commit", message: "\(error)")
        }
        usleep(Self.questionPause)
      }
    }
  }

  /// Asks for the number of commits. The question is a commit of its own, so that a standby that confirms it has the
  /// changes before it as well.
  private func ask() throws -> Int64 {
    try reconnect()
    try session.begin()
    let found = try lock()
    try session.queue(TenureCommand.count.command, [.integer(found)])
    guard try session.commit(within: patience) else { throw leaveOpen(found) }
    return found
  }

  /// - Parameter found: the number of commits, all of them confirmed.
  private func settle(_ found: Int64) {
    commitCount = found
    outcome = .known
    forgetMemory()
  }

  /// Microseconds between two questions.
  private static let questionPause: useconds_t = 200_000
}
