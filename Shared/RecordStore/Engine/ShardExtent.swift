// The databases that a shard has. A division leaves each of two shards the rows of both; until the other shard's are
// removed, no read finds them.

import Records
import SQLite
import Synchronization

/// The sessions of an open shard share it.
final class ShardExtent: Sendable {
  private struct State {
    var part: ShardPart?
    /// The keys of databases that another shard has, and whose rows are still here.
    var others: Set<Int64> = []
    var pending: PendingSplit?
  }

  private let state = Mutex(State())
  private let hasRows = Atomic(false)

  /// nil for a shard that was never divided.
  var part: ShardPart? { state.withLock(\.part) }

  /// True until the rows of the other shard's databases are removed.
  var hasOthers: Bool { hasRows.load(ordering: .relaxed) }

  /// The division whose new shard may not be opened yet.
  var pending: PendingSplit? { state.withLock(\.pending) }

  /// True while rows of the other shard's databases are to be removed. Nobody else can serve them before that shard may
  /// be opened, so they stay until then.
  var mayCut: Bool { hasOthers && pending == nil }

  /// Called once the shard is taken over, before anything is read.
  /// - Parameters:
  ///   - isBeingCut: whether a division has left rows of other databases.
  ///   - pending: the division whose new shard may not be opened yet.
  func settle(_ part: ShardPart?, isBeingCut: Bool, pending: PendingSplit?, _ connection: StoreConnection) throws {
    var others: Set<Int64> = []
    if let part, isBeingCut {
      try connection.beginRead()
      let select = try connection.statement(
        SQL("extent.databases", "SELECT id, container, environment, owner FROM database"))
      try select.forEach { row in
        guard let container = ContainerID(rawValue: row.text(1)), let environment = Environment(rawValue: row.text(2))
        else { return }
        let database = DatabaseID(container: container, environment: environment, owner: row.text(3))
        if !part.contains(database) { others.insert(row.int64(0)) }
      }
      try connection.endRead()
    }
    state.withLock { [others] in $0 = State(part: part, others: others, pending: pending) }
    hasRows.store(isBeingCut, ordering: .relaxed)
  }

  /// The databases that another shard has, and whose rows are still here.
  var others: Set<Int64> { hasOthers ? state.withLock(\.others) : [] }

  /// A database whose rows are to be removed.
  var nextOther: Int64? { state.withLock { $0.others.min() } }

  /// Notes that no row of a database is left.
  func forget(_ database: Int64) { state.withLock { _ = $0.others.remove(database) } }

  /// Notes that the new shard of a division may be opened.
  func endSplit() { state.withLock { $0.pending = nil } }

  /// Notes that nothing is left to remove.
  func endCut() { hasRows.store(false, ordering: .relaxed) }
}

extension SQLiteShardStore {
  /// The shard's part, also if it was never divided.
  func part(of shardCount: Int) -> ShardPart? {
    part ?? ShardPart(modulus: Int64(shardCount), remainder: Int64(shard))
  }

  /// What the shard's tables call the number of shards.
  func modulus(_ shardCount: Int) -> Int { part.map { Int($0.modulus) } ?? shardCount }
}

extension ShardPart {
  /// The part of a shard as its tables tell it; nil for a shard that was never divided.
  /// - Parameters:
  ///   - modulus: what the tables call the number of shards.
  ///   - remainder: nil for a shard that was not split off another one.
  ///   - shardCount: the number of shards that the installation was created with.
  /// - Throws: `StoreError.io` for a shard of an installation of another number.
  static func stored(_ modulus: Int64, _ remainder: Int64?, ofShard shard: Int, of shardCount: Int, in place: String)
    throws(StoreError) -> ShardPart?
  {
    let (times, rest) = modulus.quotientAndRemainder(dividingBy: Int64(shardCount))
    guard rest == 0, times > 0, times & (times - 1) == 0,
      let part = ShardPart(modulus: modulus, remainder: remainder ?? Int64(shard))
    else {
      throw .io("\(place) is shard \(shard) of \(modulus), not of \(shardCount): the number at creation never changes")
    }
    return times == 1 && part.remainder == Int64(shard) ? nil : part
  }
}
