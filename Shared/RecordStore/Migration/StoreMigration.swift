// Moves the shards of an installation from one engine to another, one after the other, so that each has one owner at
// any time.

import Crypto
import PostgreSQL
import SQLite

/// The move of all shards from one place to another. A shard that a worker holds is refused, unless the worker itself
/// moves it.
///
/// A shard moves in steps, each durable before the next one begins:
///
/// 1. The target gets all rows, and the number of the move, which keeps workers from opening it. The rows are read back
///    and compared with the source.
/// 2. The source gets the number and another epoch. From here on nobody writes to it.
/// 3. The target loses the number.
///
/// The source's writer takes step 1 in the transaction that is step 2, so that no write comes between. A run that was
/// interrupted is given again: a shard without the number is the current one, and if both have the same number, the one
/// with the higher epoch is.
public struct StoreMigration: Sendable {
  public struct Tally: Hashable, Sendable {
    /// The shards that moved, or would.
    public var moved = 0
    /// The shards that had moved before.
    public var present = 0
    /// The rows of those that moved.
    public var rows = 0
  }

  /// How far a run is.
  public enum Progress: Hashable, Sendable {
    case began(shard: Int)
    /// So many more rows are read, or compared.
    case rows(Int)
  }

  let source: any MigrationPlace
  let target: any MigrationPlace
  private let report: @Sendable (Progress) -> Void

  public init(
    from source: ShardPlace, to target: ShardPlace, report: @escaping @Sendable (Progress) -> Void = { _ in }
  ) {
    self.init(from: source.engine, to: target.engine, report: report)
  }

  init(
    from source: any MigrationPlace, to target: any MigrationPlace,
    report: @escaping @Sendable (Progress) -> Void = { _ in }
  ) {
    self.source = source
    self.target = target
    self.report = report
  }

  /// Moves all shards, or one. Looks at all of them first, so that a refusal changes nothing.
  /// - Parameters:
  ///   - single: the only shard to look at; nil for all.
  ///   - isTrial: whether to stop there.
  /// - Throws: `StoreError`. Every shard is where it was, where it should go, or between both until the next run.
  public func run(only single: Int? = nil, isTrial: Bool = false) async throws -> Tally {
    let shards = try source.shards().filter { single == nil || $0 == single }
    if shards.isEmpty {
      throw StoreError.io("there \(single.map { "is no shard \($0)" } ?? "are no shards") in \(source.name)")
    }
    var tally = Tally()
    for shard in shards {
      if try step(of: shard) == .none { tally.present += 1 } else { tally.moved += 1 }
    }
    if isTrial { return tally }
    for shard in shards {
      report(.began(shard: shard))
      tally.rows += try await move(shard)
    }
    return tally
  }

  // MARK: One shard

  enum Step: Hashable {
    case none
    case copy(ShardStanding)
    /// A run ended before its last step, here or at the source.
    case admit(move: Int64, isAtTarget: Bool)
  }

  /// The next step of a shard.
  func step(of shard: Int) throws -> Step {
    guard let here = try source.standing(ofShard: shard) else { return .none }
    let there = try target.standing(ofShard: shard)
    if let there {
      guard there.shardCount == here.shardCount, there.installation == here.installation else {
        throw StoreError.io("shard \(shard) of another installation is in \(target.name)")
      }
    }
    switch (here.move, there?.move) {
    case (nil, nil):
      if there == nil { return .copy(here) }
      throw StoreError.io(
        "shard \(shard) is in \(source.name) and in \(target.name): remove the one that is not in use")
    case (nil, .some): return .copy(here)
    case (.some, nil):
      if there != nil { return .none }
      throw StoreError.io("shard \(shard) has moved from \(source.name) to another place than \(target.name)")
    case (.some(let left), .some(let arriving)):
      guard left == arriving, let there else {
        throw StoreError.io("shard \(shard) has moved from \(source.name) to another place than \(target.name)")
      }
      return .admit(move: left, isAtTarget: there.epoch > here.epoch)
    }
  }

  /// - Returns: the number of rows that moved.
  private func move(_ shard: Int) async throws -> Int {
    while true {
      switch try step(of: shard) {
      case .none: return 0
      case .admit(let move, let isAtTarget): try (isAtTarget ? target : source).admit(shard: shard, move: move)
      case .copy(let standing):
        let opened = try await source.store(shardCount: standing.shardCount) { _ in }.open(shard: shard, knownEpoch: 0)
        guard let store = opened as? SQLiteShardStore else {
          throw StoreError.io("shard \(shard): its engine has no rows")
        }
        do {
          let count = try await copy(
            store, shardCount: standing.shardCount, installation: standing.installation)
          await store.close()
          return count
        } catch {
          await store.close()
          throw error
        }
      }
    }
  }

  /// Moves an open shard, between two of its writes. Its owner must close it then, and is told at the next write.
  /// - Parameter installation: the shard's owner.
  /// - Returns: the number of its rows.
  /// - Throws: `CancellationError` when the shard is being closed; `StoreError`. It is where it was, or the next run
  ///   takes the last step.
  func copy(_ store: SQLiteShardStore, shardCount: Int, installation: String?) async throws -> Int {
    let arriving = ShardStanding(
      // Above the epoch that the source gets.
      shardCount: shardCount, epoch: store.epoch + 2, installation: installation, move: makeMove())
    let count = try await copy(store, arriving)
    try await WorkerThread.value("move \(store.shard)") { [target] in
      try target.admit(shard: store.shard, move: arriving.move ?? 0)
    }
    return count
  }

  private func makeMove() -> Int64 { Int64(SecureRandom.uint64() >> 1) }

  /// Takes the first two steps.
  func copy(_ store: SQLiteShardStore, _ arriving: ShardStanding) async throws -> Int {
    let core = store.core
    return try await store.enqueue(of: "", runsAlone: true) { transaction in
      try self.copyRows(of: transaction, arriving) { core.queue.isClosed }
    }.value
  }

  /// Runs in the source's writer.
  private func copyRows(of transaction: SQLiteTransaction, _ arriving: ShardStanding, isOver: @escaping () -> Bool)
    throws -> Int
  {
    let connection = transaction.session.connection
    let moving = try MovingShard(from: transaction.session, standing: arriving)
    let copy = RowCopy(shard: transaction.shard, tables: try StoredTable.all()) { [report] count in
      if isOver() { throw CancellationError() }
      report(.rows(count))
    }
    var written: [TableTally] = []
    try target.receive(moving) { written = try copy.run(from: connection, into: $0) }
    let stored = try target.read(shard: transaction.shard) { try copy.run(from: $0) }
    try copy.compare(written, of: source.name, with: stored, in: target.name)
    try transaction.leave(by: arriving.move ?? 0)
    return written.reduce(0) { $0 + $1.rowCount }
  }
}

extension SQLiteTransaction {
  /// Ends all writing in this place with the commit: the next group finds another epoch.
  func leave(by move: Int64) throws {
    try setMeta(.move, move)
    switch session.connection {
    case .sqlite: try setMeta(.epoch, try meta(.epoch) + 1)
    case .postgreSQL(let session): _ = try session.rows(TenureQuery.raise.command)
    }
  }
}
