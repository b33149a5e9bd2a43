// Moves an open shard to another cluster while it serves, or a half of its databases to a new shard.

import Assets
import Crypto
import PostgreSQL
import Records
import Synchronization

/// One move, in steps that are durable one after the other:
///
/// 1. The source's writer begins a log of changed keys.
/// 2. The target gets the rows of one state, with the number of the move, and they are compared.
/// 3. The target gets the rows that have changed since, again and again, until few are left.
/// 4. In a turn of the source's writer the target gets the rest, and the source the number and another epoch: nobody
///    writes to it any more.
/// 5. The target loses the number.
///
/// Up to step 4 the shard is where it was, whatever happens. Then it is at the target, as `StoreMigration` tells.
///
/// A division copies the shard to a new one in the same way. In step 4 the source keeps a half of its databases instead
/// of leaving, and notes the number; step 5 ends with the removal of that note. Both shards have all rows then, and
/// remove those that are the other's.
struct ShardMove: Sendable {
  let store: SQLiteShardStore
  let shardCount: Int
  let source, target: PostgreSQLConfiguration
  /// The new shard of a division; nil for a move.
  var newShard: Int?
  /// The cluster of the target.
  var targetName: String?
  /// True when the move is given up.
  let isOver: @Sendable () -> Bool
  /// Gets the number of rows that were copied or compared since the last call.
  let report: @Sendable (Int) -> Void
  /// Called before each step with its number. Tests end a move by an error.
  var willTake: @Sendable (_ step: Int) async throws -> Void = { _ in }

  /// With fewer changed rows the writer brings the rest.
  private static let fewRows: Int64 = 300
  /// The rounds after which the writer tries to bring the rest.
  private static let roundLimit = 30
  /// The most changed rows that the writer brings. With more the shard stays.
  private static let restLimit: Int64 = 3000
  /// The longest time that the source's writer waits for the target in step 4.
  private static let pauseLimit = Duration.seconds(3)
  /// The longest time that the source's writer waits for the target without a statement of its own.
  static let idleLimit = Duration.seconds(60)
  /// How often the last round may find contents of assets that are not copied yet.
  private static let contentTryLimit = 10
  /// For which a content that is copied lies in the spool.
  private static let contentSeconds: Int64 = 3600

  private var shard: Int { store.shard }
  /// The shard at the target.
  private var arriving: Int { newShard ?? shard }

  /// - Returns: the number of rows that were copied.
  /// - Throws: `CancellationError` when it is given up, or the shard is being closed; `StoreError`. The shard is where
  ///   it was, or the next opening takes the last step.
  func run() async throws -> Int {
    let tables = try StoredTable.all()
    let log = MoveLog(source, shard: shard, tables: tables)
    let halves = store.part(of: shardCount)?.halves
    if newShard != nil {
      if halves == nil { throw StoreError.io("shard \(shard) can't be divided any more") }
      if let pending = store.pendingSplit { throw StoreError.dividing(shard, into: pending.shard) }
    }
    let standing = ShardStanding(
      // Above the epoch that the source gets.
      shardCount: newShard == nil ? store.modulus(shardCount) : Int(halves?.leaving.modulus ?? 0),
      epoch: store.epoch + 2, installation: source.installation?.text,
      move: Int64(SecureRandom.uint64() >> 1))
    try await willTake(1)
    // A cluster that is away costs the source no log.
    _ = try await onThread { try self.target.look(atShard: self.arriving) }
    let moving = try await inWriter { session, transaction in
      try log.begin(session, notes: true)
      var moving = try self.moving(transaction, standing, halves?.leaving)
      moving.yieldsToLater = true
      return moving
    }
    // True when the source may have left.
    let isDecided = Mutex(false)
    do {
      try await willTake(2)
      var (count, position) = try await onThread { try self.copyState(moving, log) }
      try await willTake(3)
      var isCarried = false
      for number in 1...Self.contentTryLimit where !isCarried {
        for _ in 0..<Self.roundLimit {
          let (after, begin) = (position, count)
          (count, position) = try await onThread {
            let (rows, last) = try self.carryChanges(moving, log, after: after)
            return (begin + rows, last)
          }
          if MoveLog.Part(after: after, last: position).changeCount < Self.fewRows { break }
        }
        let arrival = try await onThread { try self.target.arrival(ofShard: self.arriving, within: Self.pauseLimit) }
        try await willTake(4)
        let after = position
        do {
          count += try await inWriter { session, transaction in
            let count = try self.carryRest(
              session, transaction, standing, halves?.leaving, log, after: after, over: arrival)
            isDecided.withLock { $0 = true }
            try self.leave(transaction, standing, halves?.staying)
            return count
          }
          isCarried = true
        } catch is LateContents where number < Self.contentTryLimit {
          // Dropped because the next round copies them.
        }
      }
      try await willTake(5)
      try await onThread { try self.target.admit(shard: self.arriving, move: standing.move ?? 0) }
      return count
    } catch {
      await cleanUp(standing, isDecided.withLock(\.self))
      throw error
    }
  }

  /// What the shard at the target gets.
  private func moving(_ transaction: SQLiteTransaction, _ standing: ShardStanding, _ leaving: ShardPart?) throws
    -> MovingShard
  {
    let moving = try MovingShard(from: transaction.session, standing: standing, idle: Self.idleLimit)
    guard let newShard, let leaving else { return moving }
    return moving.splitOff(leaving, as: newShard)
  }

  // MARK: Steps

  private func rowCopy(_ log: MoveLog) -> RowCopy {
    RowCopy(shard: shard, tables: log.tables) { count in
      try goOn()
      report(count)
    }
  }

  /// The log of the shard at the target.
  private func there(_ log: MoveLog) -> MoveLog { MoveLog(target, shard: arriving, tables: log.tables) }

  /// The last round has contents that the new shard has not, and writers must not wait for their copies.
  private struct LateContents: Error, CustomStringConvertible {
    let shard: Int

    var description: String { "shard \(shard) gets contents of assets faster than they can be copied" }
  }

  /// Looks whether the new shard has the contents of assets whose rows have changed, while writers wait.
  /// - Parameter end: when the look has taken too long.
  private func findContents(_ log: MoveLog, _ part: MoveLog.Part, _ session: Session, by end: ContinuousClock.Instant)
    throws
  {
    guard let newShard, let assets = store.assets else { return }
    do {
      try log.assets(in: part, session, by: .found) { batch in
        try goOn()
        if ContinuousClock.now >= end { throw LateContents(shard: shard) }
        let present = try assets.present(batch, in: newShard)
        let missing = batch.filter { !present.contains($0) }
        // What the shard itself lacks can't be copied.
        if !missing.isEmpty, try !assets.present(missing, in: shard).isEmpty { throw LateContents(shard: shard) }
      }
    } catch let error as AssetError {
      throw StoreError(error)
    }
  }

  /// Gives the new shard of a division the contents of assets. A shard that moves keeps its own.
  /// - Parameter part: the assets whose rows have changed; nil: all.
  private func copyContents(_ log: MoveLog, _ part: MoveLog.Part?, _ session: Session) throws {
    guard let newShard, let assets = store.assets else { return }
    do {
      try log.assets(in: part, session, by: .copied) { batch in
        try goOn()
        let expiry = StoreSurroundings.wallClock() / 1000 + Self.contentSeconds
        try assets.copy(batch, from: shard, to: newShard, until: expiry)
      }
    } catch let error as AssetError {
      throw StoreError(error)
    }
  }

  private func goOn() throws {
    if isOver() || store.core.queue.isClosed { throw CancellationError() }
  }

  private func copyState(_ moving: MovingShard, _ log: MoveLog) throws -> (Int, [Int64]) {
    let copy = rowCopy(log)
    let idle = PostgreSQLConfiguration.movingIdleLimit
    let (written, position) = try source.withSession(ofShard: shard, idle: idle) { reading in
      try reading.begin(.snapshot)
      let position = try log.position(reading)
      var written: [TableTally] = []
      try target.receive(moving) { connection in
        if case .postgreSQL(let session) = connection { try there(log).begin(session, notes: false) }
        written = try copy.run(from: .postgreSQL(reading), into: connection)
      }
      try copyContents(log, nil, reading)
      return (written, position)
    }
    let stored = try target.read(shard: arriving) { try copy.run(from: $0) }
    try copy.compare(written, of: "its cluster", with: stored, in: "the other one")
    return (written.reduce(0) { $0 + $1.rowCount }, position)
  }

  private func carryChanges(_ moving: MovingShard, _ log: MoveLog, after: [Int64]) throws -> (
    Int, [Int64]
  ) {
    try source.withSession(ofShard: shard, idle: PostgreSQLConfiguration.movingIdleLimit) { reading in
      try reading.begin(.snapshot)
      let part = MoveLog.Part(after: after, last: try log.position(reading))
      var count = 0
      try target.follow(moving) {
        count = try log.carry(part, from: reading, into: $0, there(log), rowCopy(log))
      }
      try copyContents(log, part, reading)
      return (count, part.last)
    }
  }

  private func carryRest(
    _ session: Session, _ transaction: SQLiteTransaction, _ standing: ShardStanding, _ leaving: ShardPart?,
    _ log: MoveLog, after: [Int64], over arrival: PostgreSQLConfiguration.Arrival
  ) throws -> Int {
    let moving = try moving(transaction, standing, leaving)
    let part = MoveLog.Part(after: after, last: try log.position(session))
    guard part.changeCount <= Self.restLimit else {
      throw StoreError.io(
        """
        shard \(shard) is written faster than it can be copied: \(part.changeCount) rows have changed since the last \
        round, and at most \(Self.restLimit) may hold its writers up
        """)
    }
    try goOn()
    let end = ContinuousClock.now + Self.pauseLimit
    try findContents(log, part, session, by: end)
    var count = 0
    try target.follow(moving, arrival, within: ContinuousClock.now.duration(to: end)) { arriving in
      count = try log.carry(part, from: session, into: arriving, there(log), rowCopy(log))
      try PostgreSQLConfiguration.settle(moving.withRest, log.tables, arriving)
    }
    try goOn()
    return count
  }

  private func leave(_ transaction: SQLiteTransaction, _ standing: ShardStanding, _ staying: ShardPart?) throws {
    if let newShard, let staying {
      try transaction.narrow(to: staying, by: standing.move ?? 0, for: newShard, in: targetName)
    } else {
      try transaction.leave(by: standing.move ?? 0)
    }
  }

  /// Removes the log and the copy of a move that failed. What can't be removed now is removed after the next opening.
  /// - Parameter isDecided: whether the source may have left. Otherwise nobody needs the copy, whoever has the shard by
  ///   now: the next owner may have looked for it before it was there.
  private func cleanUp(_ standing: ShardStanding, _ isDecided: Bool) async {
    do {
      // A shard that has left finds another epoch here, and keeps its copy.
      try await inWriter { session, _ in try MoveLog.end(self.source, shard: self.shard, session) }
    } catch {
      // Dropped because the reason of the failure is the first error.
      if isDecided { return }
    }
    do {
      _ = try await onThread {
        try self.target.removeCopy(ofShard: self.arriving, knownTo: self.store.epoch, move: standing.move)
      }
    } catch {
      // Dropped for the same reason.
    }
  }

  // MARK: Threads

  /// Runs `body` in a commit of its own.
  private func inWriter<Value: Sendable>(
    _ body: @escaping @Sendable (Session, SQLiteTransaction) throws -> Value
  ) async throws -> Value {
    let pending: PendingCommit<Value> = store.enqueue(of: "", runsAlone: true) { transaction in
      guard case .postgreSQL(let session) = transaction.session.connection else {
        throw StoreError.io("shard \(transaction.shard) is in no database")
      }
      return try body(session, transaction)
    }
    return try await pending.value
  }

  private func onThread<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await WorkerThread.value("move \(shard)", body)
  }
}

extension WorkerThread {
  /// Runs a body that blocks on a thread of its own, which gives way to others.
  static func value<Value: Sendable>(_ name: String, _ body: @escaping @Sendable () throws -> Value) async throws
    -> Value
  {
    try await withCheckedThrowingContinuation { continuation in
      do throws(StoreError) {
        try start(name, givesWay: true) { continuation.resume(with: Result { try body() }) }
      } catch {
        continuation.resume(throwing: error)
      }
    }
  }
}
