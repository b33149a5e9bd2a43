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
    /// The file whose rows a new directory begins with. One that is there must be of the same installation.
    var formerFile: String?

    /// For copies, whose commands can take long.
    var session: SessionConfiguration {
      SessionConfiguration(address: address, schema: schema, name: "aquifer directory")
    }

    /// For the calls of others, which wait behind each other.
    var serving: SessionConfiguration {
      var session = session
      session.commandLimit = .seconds(5)
      session.answerLimit = .seconds(8)
      return session
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
  var session: Session
  /// The number of the session's process in the server.
  private var serverProcess: Int32
  private(set) var connectionCount = 0
  /// Reads while the other session waits for the answer of its commit.
  private var reader: Session?
  private var commands: [String: (text: String, command: DirectoryCommand)] = [:]
  /// The commits of all leaders, as of the last one that is known to be stored.
  var commitCount: Int64
  var outcome = Outcome.known
  /// The time for which a change waits for its commit, and the calls behind it with it.
  var patience = Duration.seconds(5)
  /// When the latest command was sent that the server answered: since then this session had the lock.
  private var answered = ContinuousClock.now
  var isChanging = false
  private var isClosed = false
  private(set) var changedCount = 0

  /// Takes the lead: makes or upgrades the schema, and raises the epoch.
  /// - Parameter leastEpoch: the new epoch is at least this one.
  /// - Throws: `Led` while another share service has the lock; `PostgreSQLError`, `InstallationProblem`.
  init(
    _ configuration: Configuration, leastEpoch: Int64, onSuccession: @escaping @Sendable (Int64) -> Void
  ) throws {
    let session = try Self.connect(configuration, configuration.session)
    guard try session.holdLock(of: configuration.schema) else { throw Led(epoch: nil) }
    (epoch, commitCount) = try session.transaction {
      try PostgreSQLDirectoryFormat.upgrade(session, configuration)
      var leastEpoch = leastEpoch
      if let path = configuration.formerFile {
        if try session.rows(TenureCommand.isEmpty.command).first?.boolean(0) == true {
          // The other processes follow no epoch below that of the former directory.
          leastEpoch = max(leastEpoch, try DirectoryCopy.fill(session, from: path) + 1)
        } else {
          try DirectoryCopy.compareInstallations(session, path)
        }
      }
      guard let row = try session.rows(TenureCommand.raise.command, [.integer(leastEpoch)]).first else {
        throw Self.missingTenure
      }
      let epoch = try row.integer(0)
      try session.queue(TenureCommand.takePulse.command, [.integer(epoch)])
      return (epoch, try row.integer(1))
    }
    try session.setLimits(of: configuration.serving)
    self.session = session
    serverProcess = session.serverProcess
    self.configuration = configuration
    self.onSuccession = onSuccession
  }

  /// - Throws: `unavailable` also for a database whose commits wait for no standby, unless that is allowed.
  private static func connect(_ configuration: Configuration, _ limits: SessionConfiguration? = nil) throws -> Session {
    let session = try Session(limits ?? configuration.serving)
    if !configuration.allowsAsynchronous { try session.requireStandby(against: "changes") }
    return session
  }

  private static let missingTenure = InstallationProblem(
    "The directory's schema has no row of tenure: restore the database.")

  func close() {
    isClosed = true
    session.close()
    closeReader()
  }

  // MARK: Statements

  var connection: DirectoryConnection {
    if case .awaited = outcome {
      // Dropped because the connection's use finds the same.
      _ = try? learnOutcome()
    }
    return .postgreSQL(self)
  }

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
    guard try learnOutcome() else { return try rowsBeside(command, values) }
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

  /// Reads in a session without the lock, while a commit waits for its answer. The look behind the rows shows that
  /// nobody else led when they were read, and that they have no commit that is not confirmed. Gives up the session of
  /// the commit if it does not have its lock here: the server may be another one by now.
  /// - Throws: as `reconnect`.
  @discardableResult func rowsBeside(_ command: Command, _ values: [Value]) throws -> Rows {
    let sent = ContinuousClock.now
    do {
      let session = try reader ?? Self.connect(configuration)
      reader = session
      try session.queue(command, values)
      try session.queue(TenureCommand.look.command)
      let answers = try session.finish()
      guard let rows = answers.first, let tenure = answers.last, try compare(tenure) == commitCount else {
        throw Self.openCommit
      }
      guard try session.lockHolder(of: configuration.schema) == serverProcess else {
        loseCommit()
        throw Self.openCommit
      }
      answered = sent
      return rows
    } catch {
      closeReader()
      throw error
    }
  }

  private func closeReader() {
    reader?.close()
    reader = nil
  }

  /// Forgets what memory has: it can be older than the last commit.
  func forgetMemory() {
    closeReader()
    connectionCount += 1
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
  func reconnect() throws {
    session.close()
    if isClosed { throw PostgreSQLError(.connectionLost, command: "connect", message: "the directory is closed") }
    let session = try Self.connect(configuration)
    // The server may not know yet that the last session is lost, and keep its lock.
    try session.endLockHolder(of: configuration.schema, process: serverProcess)
    let isHeld = try session.holdLock(of: configuration.schema)
    try compare(session.rows(TenureCommand.look.command))
    guard isHeld else { throw Led(epoch: nil) }
    self.session = session
    serverProcess = session.serverProcess
    connectionCount += 1
  }

  /// - Returns: the number of commits.
  /// - Throws: `Led` for another leader's epoch.
  @discardableResult func compare(_ tenure: Rows) throws -> Int64 {
    guard let row = tenure.first else { throw Self.missingTenure }
    let (found, count) = (try row.integer(0), try row.integer(1))
    guard found == epoch else {
      onSuccession(found)
      throw Led(epoch: found)
    }
    return count
  }
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
