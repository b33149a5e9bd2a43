// The leader's sign of life in the database, and the look of those that wait for the lead.

import PostgreSQL
import ServiceKit

/// Beats once a second in a session of its own, because a change may wait for a standby much longer than that.
actor DirectoryPulse {
  private let executor = BlockingExecutor(label: "directory pulse")
  nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

  private let configuration: SessionConfiguration
  private let epoch: Int64
  private let onSuccession: @Sendable (Int64) -> Void
  private var session: Session?

  static let interval = Duration.seconds(1)

  init(
    _ configuration: PostgreSQLDirectory.Configuration, epoch: Int64, onSuccession: @escaping @Sendable (Int64) -> Void
  ) {
    var session = configuration.serving
    session.commandLimit = .seconds(2)
    self.configuration = session
    self.epoch = epoch
    self.onSuccession = onSuccession
  }

  /// Beats until the task is cancelled or another share service leads.
  func run() async {
    while !Task.isCancelled {
      do {
        guard try beat() else { return }
      } catch {
        // Dropped because the next beat connects anew; changes report that the database is away.
        close()
      }
      // Dropped because a cancelled sleep ends the loop.
      try? await Task.sleep(for: Self.interval)
    }
    close()
  }

  func close() {
    session?.close()
    session = nil
  }

  /// - Returns: false when another share service leads.
  func beat() throws -> Bool {
    let session = try session ?? Session(configuration)
    if self.session == nil {
      self.session = session
      // A beat needs no confirmation: nothing depends on an old one.
      _ = try session.rows(Command("pulse.settings", "SET synchronous_commit = off"))
    }
    if try session.rows(TenureCommand.beat.command, [.integer(epoch)]).changedCount > 0 { return true }
    onSuccession(try session.rows(TenureCommand.epoch.command).first?.integer(0) ?? epoch + 1)
    return false
  }
}

/// Watches the leader while this share service waits.
actor LeaderWatch {
  private let executor = BlockingExecutor(label: "leader watch")
  nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

  private struct Sign: Equatable {
    /// The server's process of the session with the lock.
    let holder: Int32
    let epoch: Int64
    let beat: Int64
  }

  private let configuration: PostgreSQLDirectory.Configuration
  private var session: Session?
  /// The last sign of life, and the time of the latest look that found the leader alive.
  private var last: (sign: Sign, at: ContinuousClock.Instant)?

  /// The time without a sign of life after which a leader counts as frozen: it loses its session, and with that the
  /// lead.
  static let patience = Duration.seconds(3)

  init(_ configuration: PostgreSQLDirectory.Configuration) { self.configuration = configuration }

  /// Looks at the leader's lock and pulse. Ends the leader's session if it has given no sign of life for `patience`.
  /// One that takes the lead does not beat yet: a session that has just got the lock, and one for which the server
  /// works, as on a new format or a slow commit, count as alive.
  /// - Returns: false when the lead may be free, and when the database can't tell.
  func seesLeader(at now: ContinuousClock.Instant) -> Bool {
    do {
      let session = try session ?? Session(configuration.serving)
      self.session = session
      guard let holder = try session.lockHolder(of: configuration.schema),
        let row = try session.rows(TenureCommand.pulse.command).first
      else { return false }
      let sign = Sign(holder: holder, epoch: try row.integer(0), beat: try row.integer(1))
      let isBusy = try session.isBusy(process: holder)
      guard let last, last.sign == sign, !isBusy else {
        self.last = (sign, now)
        return true
      }
      if now - last.at < Self.patience { return true }
      try session.endLockHolder(of: configuration.schema, process: holder)
      self.last = nil
      return false
    } catch {
      // Dropped because the attempt to lead reports why the database is away.
      close()
      return false
    }
  }

  func close() {
    session?.close()
    session = nil
    last = nil
  }
}
