// The right of one writer to a shard in PostgreSQL: an epoch that each commit locks and compares, and a number that
// tells a lost commit from a stored one.

import Crypto
import Glibc
import PostgreSQL

/// The writer's hold of a shard. Not Sendable: the writer's thread owns it.
///
/// The table `tenure` has one row. A commit locks it, compares its epoch, and raises its number of commits. A writer
/// that lost its session asks the row: the number says whether the last commit is stored. The lock makes the question
/// wait for a commit that is still under way at the server.
final class PostgreSQLTenure: ShardTenure {
  let shard: Int
  let epoch: Int64
  /// What the tables tell of the shard's databases.
  let found: PostgreSQLUpgrade.Found
  private(set) var session: Session
  private let configuration: PostgreSQLConfiguration
  /// The commits of all writers of the shard, as of the last one that is known to be stored.
  private var commitCount: Int64 { didSet { confirmed.note(commitCount) } }
  /// The same for the reads.
  let confirmed: ConfirmedCommits

  private init(
    shard: Int, epoch: Int64, found: PostgreSQLUpgrade.Found, commitCount: Int64, session: Session,
    configuration: PostgreSQLConfiguration
  ) {
    self.shard = shard
    self.epoch = epoch
    self.found = found
    self.commitCount = commitCount
    self.session = session
    self.configuration = configuration
    confirmed = ConfirmedCommits(shard: shard, epoch: epoch, count: commitCount)
  }

  /// Makes or upgrades the shard's schema, and raises its epoch by one. Waits for the previous writer's release, at
  /// most `releaseLimit`, and for a commit of theirs that is under way.
  /// - Parameters:
  ///   - knownEpoch: the last known epoch; 0 when the shard may never have been opened.
  ///   - loss: decides whether the shard is renewed.
  ///   - isCancelled: whether to stop waiting.
  /// - Throws: `StoreError`, `CancellationError`; the shard is unchanged then.
  static func takeOver(
    _ configuration: PostgreSQLConfiguration, shard: Int, shardCount: Int, knownEpoch: Int64,
    loss: LostEpochs = LostEpochs(), isCancelled: () -> Bool = { false }
  ) throws -> PostgreSQLTenure {
    do {
      let session = try connect(configuration, shard)
      _ = try awaitRelease(session, configuration, shard, isCancelled)
      let upgrade = PostgreSQLUpgrade(
        configuration: configuration, shard: shard, shardCount: shardCount, knownEpoch: knownEpoch)
      let (epoch, commitCount, found) = try session.transaction {
        let found = try upgrade.run(session)
        try checkKeys(session, configuration, shard)
        if loss.bound > 0 {
          guard let found = try session.rows(TenureQuery.look.command).first else { throw upgrade.missing }
          try loss.renew(shard, epoch: try found.integer(0), in: .postgreSQL(session))
        }
        guard let row = try session.rows(TenureQuery.raise.command).first else { throw upgrade.missing }
        return (try row.integer(0), try row.integer(1), found)
      }
      return PostgreSQLTenure(
        shard: shard, epoch: epoch, found: found, commitCount: commitCount, session: session,
        configuration: configuration)
    } catch let error as PostgreSQLError {
      throw StoreError(error, shard: shard)
    }
  }

  /// Connects with a server whose commits are as durable as the configuration demands.
  /// - Parameter limits: another session than a writer's usual one.
  static func connect(_ configuration: PostgreSQLConfiguration, _ shard: Int, _ limits: SessionConfiguration? = nil)
    throws(PostgreSQLError) -> Session
  {
    let session = try Session(limits ?? configuration.session(ofShard: shard))
    try session.compressByLZ4()
    if !configuration.allowsAsynchronous { try session.requireStandby(against: "acknowledged saves") }
    return session
  }

  /// Refuses a shard whose keys are not all there: it could not be read completely, nor written without losing edits.
  private static func checkKeys(_ session: Session, _ configuration: PostgreSQLConfiguration, _ shard: Int) throws {
    for row in try session.rows(ShardQuery.sealingKeys.command) {
      let bytes = try row.bytes(0)
      guard let id = KeyRing.ID(bytes: bytes) else {
        throw StoreError.corrupt("shard \(shard): a sealing key has \(bytes.count) bytes")
      }
      if !configuration.keys.contains(id) { throw StoreError.missingKey(id, shard: shard) }
    }
  }

  /// Takes the lock that tells the next writer that this one is alive. Waits for another session that has it, at most
  /// `releaseLimit`.
  /// - Returns: false while another session has it. The epoch decides all the same.
  static func awaitRelease(
    _ session: Session, _ configuration: PostgreSQLConfiguration, _ shard: Int, _ isCancelled: () -> Bool = { false }
  ) throws -> Bool {
    let last = ContinuousClock.now + configuration.releaseLimit
    while try !session.holdLock(of: configuration.schema(ofShard: shard)) {
      if .now >= last { return false }
      if isCancelled() { throw CancellationError() }
      usleep(holdPause)
    }
    return true
  }

  /// Microseconds between two attempts.
  private static let holdPause: useconds_t = 20_000

  private func connectAgain() throws(PostgreSQLError) -> Session {
    do throws(PostgreSQLError) {
      let session = try Self.connect(configuration, shard)
      _ = try session.holdLock(of: configuration.schema(ofShard: shard))
      return session
    } catch {
      guard error.endsSession else { throw error }
      // Nothing is sent yet that could have an outcome.
      throw PostgreSQLError(.unavailable, state: error.state, command: error.command, message: error.message)
    }
  }

  /// Begins a group. Connects anew when the session is lost.
  /// - Throws: `StoreError.fenced` when another writer took the shard over; nothing is open then. `PostgreSQLError`.
  func begin() throws {
    let idled = session.isOpen
    do {
      try beginOnce()
    } catch let error as PostgreSQLError where error.kind == .connectionLost && idled {
      // The session was lost while it idled.
      try beginOnce()
    }
  }

  private func beginOnce() throws {
    if !session.isOpen {
      session = try connectAgain()
      hasConnectedAgain()
    }
    try session.begin()
    do {
      let found = try lock()
      // An unknown outcome must be settled before: this forgets the number that it is told by.
      commitCount = found.commitCount
    } catch {
      session.rollback()
      throw error
    }
  }

  /// Commits the group, and asks once when the answer is lost.
  /// - Throws: an error that says that nothing of the group is stored, except `PostgreSQLError.unknownOutcome`: the
  ///   server could not be asked (yet). `settle` asks again.
  func commitAskingOnce() throws {
    do throws(PostgreSQLError) {
      try session.queue(TenureQuery.count.command, [.integer(commitCount + 1)])
      try session.commit()
      commitCount += 1
    } catch {
      guard error.kind == .unknownOutcome else { throw error }
      confirmed.doubt()
      guard try settle() else {
        throw PostgreSQLError(.connectionLost, command: error.command, message: error.message)
      }
    }
  }

  /// Asks whether the group whose commit had an unknown outcome is stored. The question is a commit of its own, so that
  /// a standby that confirms it has the group as well.
  /// - Throws: `PostgreSQLError.unknownOutcome` when the question has no answer either; `StoreError.fenced` when
  ///   another writer took the shard over. The outcome stays unknown here then, and the new owner knows it.
  func settle() throws -> Bool {
    do {
      session.close()
      session = try Self.connect(configuration, shard)
      hasConnectedAgain()
      try session.begin()
      let found = try lock()
      try session.queue(TenureQuery.count.command, [.integer(found.commitCount)])
      try session.commit()
      let isStored = found.commitCount == commitCount + 1
      commitCount = found.commitCount
      return isStored
    } catch let error as PostgreSQLError {
      throw PostgreSQLError(.unknownOutcome, state: error.state, command: error.command, message: error.message)
    }
  }

  // MARK: ShardTenure

  /// False once nobody waits for the writer any more.
  var isAwaited: () -> Bool = { true }
  /// Called when another session has replaced a lost one, before it commits anything.
  var hasConnectedAgain: () -> Void = {}

  var connection: StoreConnection { .postgreSQL(session) }
  var fetchedBodyLimit: Int { 64 }

  func begin(_ transaction: SQLiteTransaction) throws {
    try begin()
    // The session may have been replaced by this call, by one that failed, or by a question about an outcome.
    if case .postgreSQL(let known) = transaction.session.connection, known !== session {
      transaction.session.reconnect(connection)
    }
  }

  /// Asks until the outcome is known, because no further group can begin before.
  func commit() throws {
    do {
      return try commitAskingOnce()
    } catch let error as PostgreSQLError where error.kind == .unknownOutcome {
      var last = error
      while isAwaited() {
        usleep(Self.pause)
        do {
          if try settle() { return }
          throw PostgreSQLError(.connectionLost, command: error.command, message: error.message)
        } catch let error as PostgreSQLError where error.kind == .unknownOutcome {
          last = error
        }
      }
      throw last
    }
  }

  /// Microseconds between two questions.
  private static let pause: useconds_t = 200_000

  func rollback() { session.rollback() }
  func rest() {}
  func close() { session.close() }
  var logPageCount: Int { 0 }

  private func lock() throws -> (epoch: Int64, commitCount: Int64) {
    guard let row = try session.rows(TenureQuery.lock.command).first else {
      throw StoreError.foreign("shard \(shard): its row of tenure is missing")
    }
    let found = (epoch: try row.integer(0), commitCount: try row.integer(1))
    guard found.epoch == epoch else { throw StoreError.fenced(shard: shard, epoch: found.epoch) }
    return found
  }
}

/// On `tenure`.
enum TenureQuery: String {
  case lock = "SELECT epoch, commits FROM tenure FOR UPDATE"
  case look = "SELECT epoch, commits FROM tenure"
  case raise = "UPDATE tenure SET epoch = epoch + 1 RETURNING epoch, commits"
  case count = "UPDATE tenure SET commits = $1"
  case narrow = "UPDATE tenure SET shardCount = $1"
  case make = "INSERT INTO tenure(format, shard, shardCount, epoch, commits) VALUES ($1, $2, $3, 0, 0)"
  case find =
    "SELECT format, shard, shardCount, epoch, installation FROM tenure FOR UPDATE"
  case own = "UPDATE tenure SET format = $1, installation = $2"
  case tables = "SELECT to_regclass('tenure') IS NOT NULL"

  var command: Command { Command("tenure.\(self)", rawValue) }
}
