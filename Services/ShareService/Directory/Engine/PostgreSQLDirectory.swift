// The directory in a schema of PostgreSQL, for share services on several machines of which one leads.

import Glibc
import PostgreSQL
import Records
import SQLite

/// One writer at a time: the table `tenure` has one row, which each change locks, and whose epoch it compares. A leader
/// that another one has followed can't write any more, whatever it believes. Only the session that has an advisory lock
/// reads, and the lock ends with the session: a leader whose session was lost finds its successor before it reads on.
final class PostgreSQLDirectory: DirectoryStore {
  struct Configuration: Sendable {
    /// libpq's connection string. Can hold a password.
    var address: String
    /// True when commits need no confirmation by a standby. The loss of the server can lose acknowledged ones then.
    var allowsAsynchronous = false
    var schema = "directory"
    /// The file whose rows a new directory begins with.
    var formerFile: String?

    var session: SessionConfiguration {
      SessionConfiguration(address: address, schema: schema, name: "aquifer directory")
    }
  }

  /// Another share service leads.
  struct Led: Error, Hashable, CustomStringConvertible {
    /// Its epoch; nil while it is only known to be alive.
    let epoch: Int64?
    var description: String { "another share service leads" }
  }

  let epoch: Int64
  let configuration: Configuration
  /// Called on the directory's thread when another share service is found to lead.
  private let onSuccession: @Sendable (Int64) -> Void
  /// It has the lock as long as it is open.
  private var session: Session
  /// The number of the session's process in the server.
  private var serverProcess: Int32
  private(set) var connectionCount = 0
  private var commands: [String: (text: String, command: DirectoryCommand)] = [:]
  /// The commits of all leaders, as of the last one that is known to be stored.
  private var commitCount: Int64
  /// When the latest command was sent that the server answered: since then this session had the lock.
  private var answered = ContinuousClock.now
  private var isChanging = false
  private var isClosed = false
  private(set) var changedCount = 0

  /// Takes the lead: makes or upgrades the schema, and raises the epoch.
  /// - Parameter leastEpoch: the new epoch is at least this one.
  /// - Throws: `Led` while another share service has the lock; `PostgreSQLError`, `InstallationProblem`.
  init(
    _ configuration: Configuration, leastEpoch: Int64, onSuccession: @escaping @Sendable (Int64) -> Void
  ) throws {
    let session = try Self.connect(configuration)
    guard try session.rows(TenureCommand.hold.command, [.text(configuration.schema)]).first?.boolean(0) == true else {
      throw Led(epoch: nil)
    }
    (epoch, commitCount) = try session.transaction {
      try PostgreSQLDirectoryFormat.upgrade(session, schema: configuration.schema)
      var leastEpoch = leastEpoch
      if let path = configuration.formerFile, try session.rows(TenureCommand.isEmpty.command).first?.boolean(0) == true
      {
        // The other processes follow no epoch below that of the former directory.
        leastEpoch = max(leastEpoch, try DirectoryCopy.fill(session, from: path) + 1)
      }
      guard let row = try session.rows(TenureCommand.raise.command, [.integer(leastEpoch)]).first else {
        throw Self.missingTenure
      }
      let epoch = try row.integer(0)
      try session.queue(TenureCommand.takePulse.command, [.integer(epoch)])
      return (epoch, try row.integer(1))
    }
    self.session = session
    serverProcess = session.serverProcess
    self.configuration = configuration
    self.onSuccession = onSuccession
  }

  /// - Throws: `unavailable` also for a database whose commits wait for no standby, unless that is allowed.
  private static func connect(_ configuration: Configuration) throws -> Session {
    let session = try Session(configuration.session)
    if configuration.allowsAsynchronous { return session }
    guard try session.rows(TenureCommand.isSynchronous.command).first?.boolean(0) == true else {
      throw PostgreSQLError(
        .unavailable, command: TenureCommand.isSynchronous.command.name,
        message: """
          commits wait for no standby (synchronous_standby_names is empty, or synchronous_commit is neither on nor \
          remote_apply), so the loss of the server's machine could lose changes: add a standby, or allow it with \
          --allow-asynchronous
          """)
    }
    return session
  }

  private static let missingTenure = InstallationProblem(
    "The directory's schema has no row of tenure: restore the database.")

  func close() {
    isClosed = true
    session.close()
  }

  // MARK: Statements

  var connection: DirectoryConnection { .postgreSQL(self) }

  func command(_ sql: SQL) -> DirectoryCommand {
    if let known = commands[sql.name] {
      precondition(known.text == sql.text, "two statements are named \(sql.name)")
      return known.command
    }
    let command = DirectoryCommand(sql, of: self)
    commands[sql.name] = (sql.text, command)
    return command
  }

  /// Runs a command. A read outside of a change that finds its session lost runs again in another one.
  /// - Throws: `other` for a write outside of a change: no epoch would fence it.
  func rows(_ command: Command, _ values: [Value]) throws -> Rows {
    if isChanging { return try counted(command, values) }
    guard command.text.hasPrefix("SELECT") else {
      throw PostgreSQLError(.other, command: command.name, message: "it writes outside of a change")
    }
    if session.isOpen {
      do {
        return try counted(command, values)
      } catch let error as PostgreSQLError where error.endsSession {
        // Dropped because the read wrote nothing, and runs again.
      }
    }
    try reconnect()
    return try counted(command, values)
  }

  private func counted(_ command: Command, _ values: [Value]) throws -> Rows {
    let sent = ContinuousClock.now
    let rows = try session.rows(command, values)
    changedCount = rows.changedCount
    answered = sent
    return rows
  }

  /// Within a change.
  func insertedKey() throws -> Int64 { try session.rows(TenureCommand.lastKey.command).first?.integer(0) ?? 0 }

  func confirm() throws {
    if .now - answered < Self.trust { return }
    _ = try rows(TenureCommand.look.command, [])
  }

  /// The time for which an answer of the server proves that nobody else leads.
  static let trust = Duration.seconds(1)

  /// Connects anew, and takes the lock again. Only a session with the lock reads: another share service that has led
  /// meanwhile had the lock, so this one can't tell of a state before that.
  /// - Throws: `Led` when another share service leads, or has the lock to lead; `PostgreSQLError`.
  private func reconnect() throws {
    session.close()
    if isClosed { throw PostgreSQLError(.connectionLost, command: "connect", message: "the directory is closed") }
    let session = try Self.connect(configuration)
    let schema = Value.text(configuration.schema)
    // The server may not know yet that the last session is lost, and keep its lock.
    try session.queue(TenureCommand.end.command, [schema, .integer(Int64(serverProcess))])
    let isHeld = try session.rows(TenureCommand.hold.command, [schema]).first?.boolean(0) == true
    try compare(session.rows(TenureCommand.look.command))
    guard isHeld else { throw Led(epoch: nil) }
    self.session = session
    serverProcess = session.serverProcess
    connectionCount += 1
  }

  /// - Returns: the number of commits.
  /// - Throws: `Led` for another leader's epoch.
  @discardableResult private func compare(_ tenure: Rows) throws -> Int64 {
    guard let row = tenure.first else { throw Self.missingTenure }
    let (found, count) = (try row.integer(0), try row.integer(1))
    guard found == epoch else {
      onSuccession(found)
      throw Led(epoch: found)
    }
    return count
  }

  // MARK: Changes

  /// - Throws: `Led` when another share service leads; `PostgreSQLError.unknownOutcome` when the server can't be asked
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
    do throws(PostgreSQLError) {
      try session.commit()
      commitCount += 1
    } catch {
      session.rollback()
      guard error.kind == .unknownOutcome else { throw error }
      guard try isStored() else {
        throw PostgreSQLError(.connectionLost, state: error.state, command: error.command, message: error.message)
      }
    }
    return value
  }

  /// Asks whether the change whose commit had an unknown outcome is stored. The question is a commit of its own, so
  /// that a standby that confirms it has the change as well.
  /// - Throws: `unknownOutcome` when the server does not answer for long, or another share service leads by now.
  private func isStored() throws -> Bool {
    let last = ContinuousClock.now + Self.questionLimit
    while true {
      do {
        try reconnect()
        try session.begin()
        let found = try lock()
        try session.queue(TenureCommand.count.command, [.integer(found)])
        try session.commit()
        defer { commitCount = found }
        return found == commitCount + 1
      } catch {
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

  private static let questionLimit = Duration.seconds(10)
  /// Microseconds between two questions.
  private static let questionPause: useconds_t = 200_000

  private func begin() throws {
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
}

extension PostgreSQLError: DirectoryEngineError {
  var isUniqueViolation: Bool { kind == .uniqueViolation }

  var recordError: RecordError? {
    switch kind {
    case .full: .noSpace
    case .unknownOutcome:
      RecordError(
        .tryAgainLater, "The directory's database failed; check whether the change was made before you repeat it",
        retryAfter: 1)
    case .connectionLost, .unavailable, .readOnly, .cancelled, .serialization, .crowded:
      RecordError(.tryAgainLater, "The directory's database can't be reached; nothing changed", retryAfter: 1)
    default: nil
    }
  }
}

extension PostgreSQLDirectory.Led: DirectoryEngineError {
  var isUniqueViolation: Bool { false }
  var recordError: RecordError? {
    RecordError(.tryAgainLater, "Another share service leads; nothing changed", retryAfter: 1)
  }
}
