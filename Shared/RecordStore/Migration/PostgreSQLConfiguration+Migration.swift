// Shards in PostgreSQL, as a place that they move from and to.

import Assets
import PostgreSQL

extension PostgreSQLConfiguration: MigrationPlace {
  var name: String { "the database" }

  func shards() throws(StoreError) -> [Int] {
    do throws(PostgreSQLError) {
      let session = try Session(SessionConfiguration(address: address, name: Self.sessionName))
      defer { session.close() }
      return try shards(session)
    } catch {
      throw .unreachable("the database can't be asked for its shards: \(error.description)")
    }
  }

  /// The same by a session of any shard.
  func shards(_ session: Session) throws(PostgreSQLError) -> [Int] {
    var shards: [Int] = []
    for row in try session.rows(ArrivalQuery.schemas.command, [.text(schemaPrefix)]) {
      if let shard = Int(try row.text(0).dropFirst(schemaPrefix.utf8.count)) { shards.append(shard) }
    }
    return shards.sorted()
  }

  func standing(ofShard shard: Int) throws -> ShardStanding? {
    try withSession(ofShard: shard, within: Self.briefTime) { session in
      try hold(session, shard)
      return try Self.standing(session)
    }
  }

  func store(shardCount: Int, report: @escaping @Sendable (_ problem: String) -> Void) throws(StoreError)
    -> any RecordStore
  {
    try PostgreSQLRecordStore(self, shardCount: shardCount, report: report)
  }

  /// One transaction: an interrupted move leaves nothing.
  func receive(_ moving: MovingShard, fill: (StoreConnection) throws -> Void) throws {
    let (shard, standing) = (moving.shard, moving.standing)
    try withSession(ofShard: shard, idle: moving.yieldsToLater ? Self.movingIdleLimit : Self.longTime) { session in
      try hold(session, shard)
      try session.transaction {
        if let found = try Self.standing(session) {
          try refuse(moving, over: found)
          // Their copy may be the only one, between the last two steps of a move of theirs.
          guard found.shardCount == standing.shardCount, Self.isSame(found.installation, standing.installation) else {
            throw StoreError.io("shard \(shard) of another installation is in \(name)")
          }
          if found.move == nil { throw StoreError.io("shard \(shard) has just been made in \(name): stop its workers") }
          // Another owner's copy: theirs is the shard by now.
          if moving.yieldsToLater, found.epoch > standing.epoch {
            throw StoreError.io("shard \(shard): \(name) has a copy of a later epoch, \(found.epoch)")
          }
          try session.queue(Command("drop", "DROP SCHEMA \(schema(ofShard: shard)) CASCADE"))
        }
        var target = self
        target.installation = standing.installation.flatMap(InstallationID.init(text:))
        try PostgreSQLUpgrade(configuration: target, shard: shard, shardCount: standing.shardCount, knownEpoch: 0)
          .run(session)
        try session.queue(ArrivalQuery.epoch.command, [.integer(standing.epoch)])
        try fill(.postgreSQL(session))
        let tables = try StoredTable.all()
        try Self.settle(moving, tables, session)
        for table in tables { try session.queue(Command("analyse \(table.name)", "ANALYZE \(table.name)")) }
      }
    }
  }

  /// Refuses a copy in place of one that stems from another shard: that may be the only one of its databases.
  private func refuse(_ moving: MovingShard, over found: ShardStanding) throws {
    guard found.move != nil, Self.isSame(found.installation, moving.standing.installation) else { return }
    func stem(_ source: Int?) -> String { source.map { "was split off shard \($0)" } ?? "was not split off" }
    if found.source != moving.source {
      throw StoreError.io(
        "shard \(moving.shard) \(stem(moving.source)), and \(name) has a copy of one that \(stem(found.source))")
    }
    if moving.isSplitOff, !found.isUnopened {
      throw StoreError.io(
        "shard \(moving.shard) is to be split off, and \(name) has a copy of it from when it was open")
    }
  }

  /// Writes what a shard has besides its rows, behind them.
  static func settle(_ moving: MovingShard, _ tables: [StoredTable], _ session: Session) throws {
    let move = moving.standing.move ?? 0
    for (key, value) in moving.counters + [(.move, move), (.arrival, move)] {
      try session.queue(ShardQuery.setMeta.command, [.text(key.rawValue), .integer(value)])
    }
    for key in moving.contentKeys {
      try session.queue(ShardQuery.setMeta.command, [.text(ContentKey.name(of: key)), .integer(1)])
    }
    for table in tables where table.hasNumberedRows {
      let last = table.name == "journal" ? moving.lastConflict : 0
      try session.queue(Command("keys \(table.name)", ArrivalQuery.keys(of: table.name)), [.integer(last)])
    }
    try session.queue(ArrivalQuery.recordKeys.command)
  }

  func read<Value>(shard: Int, _ body: (StoreConnection) throws -> Value) throws -> Value {
    try withSession(ofShard: shard) { session in
      try session.transaction(.snapshot) { try body(.postgreSQL(session)) }
    }
  }

  func admit(shard: Int, move: Int64) throws {
    try withSession(ofShard: shard, within: Self.briefTime) { session in
      try session.transaction {
        try session.queue(ArrivalQuery.admit.command, [.text(MetaKey.move.rawValue), .integer(move)])
      }
    }
  }

  /// Renews the shards of a database that its own tools have brought back to an earlier state (`ShardRenewal`). Until
  /// then devices could miss changes. An interrupted run is given again.
  /// - Parameter now: milliseconds since 1970; nil for the machine's clock.
  /// - Returns: the number of the shards.
  /// - Throws: `StoreError`; `.io` while a worker holds a shard, and nothing has changed then.
  public func renewRestored(now: Int64? = nil) throws -> Int {
    let shards = try shards().filter { try standing(ofShard: $0)?.move == nil }
    if shards.isEmpty { throw StoreError.io("there are no shards in \(name)") }
    for shard in shards {
      try withSession(ofShard: shard) { session in
        try hold(session, shard)
        try session.transaction {
          _ = try Self.standing(session)
          try ShardRenewal(shard: shard, startedAt: nil, now: now ?? StoreSurroundings.wallClock())
            .run(in: .postgreSQL(session))
        }
      }
    }
    return shards.count
  }

  // MARK: Pieces

  private static let sessionName = "aquifer migrate"
  /// For the wait while the other cluster reads or writes. The session of a process that hangs must end, because
  /// another owner's move waits for it.
  static let movingIdleLimit = Duration.seconds(900)
  /// For statements about one row. An opening waits for them.
  static let briefTime = Duration.seconds(10)
  /// For statements about all rows of a shard, and for the wait while the other place reads or writes.
  static let longTime = Duration.seconds(7200)

  /// - Parameters:
  ///   - time: how long a statement may take.
  ///   - idle: how long a transaction may wait for this process, if that is shorter.
  @discardableResult func withSession<Value>(
    ofShard shard: Int, within time: Duration = Self.longTime, idle: Duration = Self.longTime,
    _ body: (Session) throws -> Value
  ) throws -> Value {
    do {
      let session = try movingSession(ofShard: shard, within: time, idle: idle)
      defer { session.close() }
      return try body(session)
    } catch {
      throw StoreError(migrating: shard, error)
    }
  }

  /// Connects. The limits are those of `withSession`.
  func movingSession(ofShard shard: Int, within time: Duration, idle: Duration = Self.longTime)
    throws(PostgreSQLError) -> Session
  {
    var limits = session(ofShard: shard)
    limits.name = Self.sessionName
    limits.idleTransactionLimit = min(time, idle)
    limits.commandLimit = time
    limits.answerLimit = time + .seconds(10)
    return try PostgreSQLTenure.connect(self, shard, limits)
  }

  private func hold(_ session: Session, _ shard: Int) throws {
    guard try PostgreSQLTenure.awaitRelease(session, self, shard) else {
      throw StoreError.held(shard: shard, by: "a session of the database")
    }
  }

  static func standing(_ session: Session) throws -> ShardStanding? {
    guard try session.rows(TenureQuery.tables.command).first?.boolean(0) == true,
      let row = try session.rows(TenureQuery.find.command).first
    else { return nil }
    var meta: [String: Int64] = [:]
    for row in try session.rows(ArrivalQuery.meta.command) { meta[try row.text(0)] = try row.integer(1) }
    func value(_ key: MetaKey) -> Int64? { meta[key.rawValue] }
    let move = value(.move)
    return ShardStanding(
      shardCount: Int(try row.integer(2)), epoch: try row.integer(3), installation: try row.optionalText(4), move: move,
      hasArrived: move == nil && value(.arrival) ?? 0 != 0, remainder: value(.remainder),
      source: value(.source).map { Int($0) }, origin: value(.origin), isBeforeRest: value(.lacksRest) ?? 0 != 0)
  }
}

/// On a shard that arrives, and on the schemas of all shards.
private enum ArrivalQuery: String {
  case schemas = "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, $1)"
  case meta = "SELECT key, value FROM meta"
  case epoch = "UPDATE tenure SET epoch = $1"
  case admit = "DELETE FROM meta WHERE key = $1 AND value = $2"
  case recordKeys = "SELECT setval('record_keys', (SELECT coalesce(max(id), 0) FROM record) + 1, false)"

  var command: Command { Command("arrival.\(self)", rawValue) }

  /// Lets a table give out keys behind those of its rows, and behind `$1`. Does nothing for a table that gives out
  /// none.
  static func keys(of table: String) -> String {
    """
    SELECT setval(pg_get_serial_sequence('\(table)', 'id'), \
    greatest((SELECT coalesce(max(id), 0) FROM \(table)), $1) + 1, false)
    """
  }
}
