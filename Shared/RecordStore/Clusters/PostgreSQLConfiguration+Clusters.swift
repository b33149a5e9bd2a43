// A cluster as one of several: looks for a shard, follows its changes, and removes what a move has left.

import Assets
import PostgreSQL
import Records

extension PostgreSQLConfiguration {
  /// The state of a shard, whether a worker holds it or not; nil when it never was here, or is another installation's.
  func look(atShard shard: Int) throws -> ShardStanding? {
    try withSession(ofShard: shard, within: Self.briefTime) { session in
      do {
        return try Self.standing(session).flatMap { isOwn($0) ? $0 : nil }
      } catch let error as PostgreSQLError where error.state == Self.undefinedTable {
        // A copy was removed meanwhile.
        return nil
      }
    }
  }

  private static let undefinedTable = "42P01"

  private func isOwn(_ standing: ShardStanding) -> Bool { Self.isSame(installation?.text, standing.installation) }

  /// An owner that is unknown counts as the same.
  static func isSame(_ installation: String?, _ other: String?) -> Bool {
    installation == nil || other == nil || installation == other
  }

  /// A session that the source's writer gets, so that it waits for no connection.
  ///
  /// Unchecked because one thread at a time has the session: the one that connects, then the writer's.
  struct Arrival: @unchecked Sendable {
    fileprivate let session: Session
  }

  /// Connects for the last round of a move.
  /// - Parameter time: how long a statement may take.
  func arrival(ofShard shard: Int, within time: Duration) throws -> Arrival {
    do {
      return Arrival(session: try movingSession(ofShard: shard, within: time))
    } catch {
      throw StoreError(migrating: shard, error)
    }
  }

  /// Changes the copy of a shard that arrives, in one transaction.
  /// - Throws: `StoreError.io` when the copy is not of this move.
  func follow(_ moving: MovingShard, _ body: (Session) throws -> Void) throws {
    try withSession(ofShard: moving.shard, idle: Self.movingIdleLimit) { try change(moving, $0, body) }
  }

  /// The same in the last round.
  /// - Parameter time: how long all of it may take. The session is lost then.
  func follow(_ moving: MovingShard, _ arrival: Arrival, within time: Duration, _ body: (Session) throws -> Void)
    throws
  {
    arrival.session.deadline = .now + time
    defer { arrival.session.close() }
    do {
      try change(moving, arrival.session, body)
    } catch {
      throw StoreError(migrating: moving.shard, error)
    }
  }

  private func change(_ moving: MovingShard, _ session: Session, _ body: (Session) throws -> Void) throws {
    try session.transaction {
      guard try Self.standing(session)?.move == moving.standing.move else {
        throw StoreError.io("shard \(moving.shard): \(name) has another copy than that of this move")
      }
      try body(session)
    }
  }

  /// Removes a copy that a move has left, or that never arrived.
  /// - Parameters:
  ///   - epoch: the present owner's. A copy that a later owner makes stays.
  ///   - move: nil: the copy of any move.
  /// - Returns: whether there was one.
  /// - Throws: `StoreError`, such as `io` while a long read has its tables.
  @discardableResult func removeCopy(ofShard shard: Int, knownTo epoch: Int64, move: Int64? = nil) throws -> Bool {
    try remove(shard) { found in
      // The owner's own copy has an epoch above: only by its number.
      found.move.map { move == $0 || move == nil && found.epoch <= epoch + 1 } ?? false
    }
  }

  /// Removes a shard that is a copy.
  /// - Parameter isLeft: whether it is one that nobody needs.
  private func remove(_ shard: Int, if isLeft: (ShardStanding) -> Bool) throws -> Bool {
    try withSession(ofShard: shard, within: .seconds(60)) { session in
      func mayRemove() throws -> Bool { try Self.standing(session).map { isOwn($0) && isLeft($0) } ?? false }
      do {
        // Asked before, because the lock of a shard that serves would keep its commits waiting.
        guard try session.transaction(.readCommitted, mayRemove) else { return false }
        return try session.transaction {
          try session.queue(Command("copy.patience", "SET LOCAL lock_timeout = '2s'"))
          // At once the whole lock that the removal takes: another session could wait for the row and hold a part.
          try session.queue(Command("copy.lock", "LOCK TABLE tenure IN ACCESS EXCLUSIVE MODE"))
          guard try mayRemove() else { return false }
          try session.queue(Command("copy.drop", "DROP SCHEMA \(schema(ofShard: shard)) CASCADE"))
          try MoveLog.end(self, shard: shard, session)
          return true
        }
      } catch let error as PostgreSQLError where error.state == Self.undefinedTable {
        // Another session was first.
        return false
      }
    }
  }

  /// Removes the copies of new shards that divisions of a shard have left. One that was carried out has taken the
  /// copy's databases from the shard, and its copy stays.
  /// - Parameters:
  ///   - numbers: of further shards here that the directory does not know.
  ///   - part: the shard's databases.
  ///   - epoch: the present owner's. Only copies that owners before have made are removed.
  /// - Returns: the numbers of the new shards.
  func removeSplits(of shard: Int, among numbers: [Int], having part: ShardPart, knownTo epoch: Int64) throws -> [Int] {
    func isLeft(_ found: ShardStanding, _ number: Int) -> Bool {
      found.source == shard && found.isUnopened && found.epoch <= epoch + 1
        && found.part(ofShard: number).map(part.contains) == true
    }
    return try splits(of: shard, among: numbers).filter { number in try remove(number) { isLeft($0, number) } }
  }

  /// The shards here that were split off a shard, and are not to be opened.
  private func splits(of shard: Int, among numbers: [Int]) throws -> [Int] {
    if numbers.isEmpty { return [] }
    let parts = numbers.map { number in
      let meta = schema(ofShard: number) + ".meta"
      return "SELECT \(number)::bigint AS shard FROM \(meta) WHERE key = $1 AND value = $2 AND EXISTS "
        + "(SELECT 1 FROM \(meta) WHERE key = $3)"
    }
    return try withSession(ofShard: shard, within: Self.briefTime) { session in
      try session.rows(
        Command("copy.splits", parts.joined(separator: " UNION ALL ") + " ORDER BY shard"),
        [.text(MetaKey.source.rawValue), .integer(Int64(shard)), .text(MetaKey.move.rawValue)]
      ).map { Int(try $0.integer(0)) }
    }
  }
}
