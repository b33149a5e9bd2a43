// What the owner of a schema asks of a server: commits that a standby confirms, and a lock that ends with the session.

extension Session {
  /// Whether the session's commits wait until a standby has stored them.
  public func waitsForStandby() throws(PostgreSQLError) -> Bool {
    try rows(Self.waitsForStandby).first?.boolean(0) == true
  }

  /// - Parameter loss: what the loss of the server's machine could lose otherwise, for the message.
  /// - Throws: `unavailable` for a server whose commits wait for no standby.
  public func requireStandby(against loss: String) throws(PostgreSQLError) {
    if try waitsForStandby() { return }
    throw PostgreSQLError(
      .unavailable, command: Self.waitsForStandby.name,
      message: """
        commits wait for no standby (synchronous_standby_names is empty, or synchronous_commit is neither on nor \
        remote_apply), so the loss of the server's machine could lose \(loss): add a standby, or allow it with \
        --allow-asynchronous
        """)
  }

  /// Stores large values compressed by LZ4, which takes a fraction of the time of the server's own method. Changes
  /// nothing on a server that was built without it, or whose operator has chosen a method.
  public func compressByLZ4() throws(PostgreSQLError) {
    _ = try rows(Self.compressByLZ4)
  }

  // MARK: The lock of a schema

  /// Takes the lock that tells others that the schema's owner is alive. The end of the session releases it.
  /// - Returns: false while another session has it.
  public func holdLock(of schema: String) throws(PostgreSQLError) -> Bool {
    try rows(Self.hold, [.text(schema)]).first?.boolean(0) == true
  }

  /// The number of the server's process that has the lock; nil: none.
  public func lockHolder(of schema: String) throws(PostgreSQLError) -> Int32? {
    guard let row = try rows(Self.holder, [.text(schema)]).first else { return nil }
    return Int32(truncatingIfNeeded: try row.integer(0))
  }

  /// Whether the server carries out a command of one of its processes; false if it does not tell. A role may see its
  /// own sessions.
  public func isBusy(process: Int32) throws(PostgreSQLError) -> Bool {
    try rows(Self.busy, [.integer(Int64(process))]).first?.boolean(0) == true
  }

  /// Ends the session that has the lock, and waits for that, at most a second. A role may end its own sessions.
  /// - Parameter process: ends it only if the session is that of this process; nil: whichever it is.
  public func endLockHolder(of schema: String, process: Int32? = nil) throws(PostgreSQLError) {
    _ = try rows(Self.end, [.text(schema), .integer(process.map(Int64.init))])
  }

  private static let waitsForStandby = Command(
    "tenure.standby",
    """
    SELECT current_setting('synchronous_commit') IN ('on', 'remote_apply')
      AND current_setting('synchronous_standby_names') <> ''
    """)
  private static let compressByLZ4 = Command(
    "tenure.compression",
    """
    SELECT set_config(name, 'lz4', false) FROM pg_settings
    WHERE name = 'default_toast_compression' AND source = 'default' AND 'lz4' = ANY (enumvals)
    """)
  private static let hold = Command("tenure.hold", "SELECT pg_try_advisory_lock(hashtext('aquifer'), hashtext($1))")
  private static let holder = Command("tenure.holder", "SELECT pid FROM \(heldLock)")
  private static let busy = Command(
    "tenure.busy", "SELECT coalesce(state = 'active', false) FROM pg_stat_activity WHERE pid = $1")
  private static let end = Command(
    "tenure.end", "SELECT pg_terminate_backend(pid, 1000) FROM \(heldLock) AND ($2 IS NULL OR pid = $2)")

  private static let heldLock = """
    pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND classid = hashtext('aquifer')::oid AND objid = hashtext($1)::oid
    """
}
