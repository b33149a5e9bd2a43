// Deleted users: their row and credentials go at once; the shards remove their data later.

import MessagePack
import Records
import SQLite
import ServiceBus
import ServiceKit

/// A deleted user, until all their data are removed.
struct Departure: Sendable, Hashable {
  let recordName: String
  /// The operators' name for the user.
  let name: String
  let requested: Int64
  /// The time at which the shards are asked to remove the data; milliseconds since 1970.
  let due: Int64
  /// True for the second and last removal. It removes data that came after the first with credentials that a gateway
  /// still accepted.
  let isLast: Bool
}

/// A shard that was renewed, perhaps from a backup of before some departures. It removes those users' data once more.
struct RenewedShard: Codable, Hashable, Sendable {
  let shard: Int
  let epoch: Int64
  /// Shards of the installation at that time. Later ones may have a part of this one.
  let shardCount: Int

  /// The shards that may have its data.
  func shards(of count: Int) -> [Int] { [shard] + (shardCount..<max(count, shardCount)) }
}

extension Directory {
  /// Gateways without a connection to the share service accept cached credentials for a while; this is longer. Unit:
  /// milliseconds.
  static let departureGrace: Int64 = 900_000

  /// How long a finished departure is kept, because a backup of the time before brings the data back: 400 days. Unit:
  /// milliseconds.
  static let departureMemory: Int64 = 400 * 86_400_000

  /// Deletes the user with tokens, sessions, roles and the server keys that act as them, and schedules the removal of
  /// their data. For a user whose removal is under way it returns that departure. For an unknown record name it only
  /// schedules the removal: a backup may have brought the data back.
  /// - Parameter name: the operator's name for the user, or the record name.
  /// - Throws: `notFound`.
  func deleteUser(_ name: String) throws -> Departure {
    try change {
      guard try userExists(name) else {
        if let departure = try departure(of: name) { return departure }
        guard Self.isUserRecordName(name) else { throw RecordError(.notFound, "There is no user '\(name)'") }
        return try depart(name, named: name)
      }
      let (key, recordName) = try existingUser(name)
      let ownName = try user(recordName: recordName)?.name ?? name
      try connection.statement(SQL("serverKey.deleteUser", "DELETE FROM serverKey WHERE user = ?1")).binding(key).run()
      try endPushRegistrations(ofUser: key)
      try forgetWaitingInvitations(ofOwner: recordName)
      try connection.statement(SQL("user.delete", "DELETE FROM user WHERE id = ?1")).binding(key).run()
      return try depart(recordName, named: ownName)
    }
  }

  /// Schedules the removal of a user's data, within a change.
  private func depart(_ recordName: String, named name: String) throws -> Departure {
    let departure = Departure(
      recordName: recordName, name: name, requested: clock.now, due: clock.now, isLast: false)
    try connection.statement(
      SQL(
        "departure.insert",
        """
        INSERT INTO departure (recordName, name, requested, due, isLast) VALUES (?1, ?2, ?3, ?4, 0) \
        ON CONFLICT (recordName) DO UPDATE SET name = excluded.name, requested = excluded.requested, \
        due = excluded.due, isLast = 0
        """)
    )
    .binding(departure.recordName, departure.name, departure.requested, departure.due).run()
    return departure
  }

  /// nil for a user who was never deleted, and for one whose data are all removed.
  func departure(of name: String) throws -> Departure? {
    try connection.statement(
      SQL(
        "departure.get",
        """
        SELECT recordName, name, requested, due, isLast FROM departure \
        WHERE (recordName = ?1 OR name = ?1) AND name <> '' ORDER BY requested DESC
        """
      )
    ).binding(name).first(Self.departure)
  }

  /// Those that are not finished, ascending by due time.
  func departures() throws -> [Departure] {
    try connection.statement(
      SQL(
        "departure.list",
        """
        SELECT recordName, name, requested, due, isLast FROM departure WHERE name <> '' ORDER BY due, recordName
        """)
    ).all(Self.departure)
  }

  /// Notes that the shards have removed a departure's data. After the first time the removal is repeated once. Then the
  /// row loses the user's name and is kept for `departureMemory`. A departure that became due anew meanwhile stays so.
  func finish(_ departure: Departure) throws {
    try change {
      if departure.isLast {
        try connection.statement(
          SQL(
            "departure.finish",
            "UPDATE departure SET name = '', due = ?3 WHERE recordName = ?1 AND due = ?2 AND isLast <> 0")
        ).binding(departure.recordName, departure.due, clock.now + Self.departureMemory).run()
        try connection.statement(
          SQL("departure.forget", "DELETE FROM departure WHERE name = '' AND due <= ?1")
        ).binding(clock.now).run()
      } else {
        try connection.statement(
          SQL("departure.repeat", "UPDATE departure SET due = ?2, isLast = 1 WHERE recordName = ?1 AND isLast = 0")
        )
        .binding(departure.recordName, clock.now + Self.departureGrace).run()
      }
    }
  }

  // MARK: Renewed shards

  private static let renewedName = "renewedShards"

  /// Those whose repeated removals are not finished.
  func renewedShards() throws -> [RenewedShard] {
    guard let bytes = try DirectoryFormat.value(Self.renewedName, in: connection) else { return [] }
    return try MessagePackDecoder().decode([RenewedShard].self, from: bytes)
  }

  private func set(_ renewed: [RenewedShard]) throws {
    try DirectoryFormat.set(Self.renewedName, try MessagePackEncoder().encode(renewed), in: connection)
  }

  /// Has renewed shards remove the data of all departed users once more, within a change.
  func repeatDepartures(in renewed: [NoteShardEpochs.Opened]) throws {
    if renewed.isEmpty { return }
    let shards = Set(renewed.map(\.shard))
    try set(
      renewedShards().filter { !shards.contains($0.shard) }
        + renewed.map { RenewedShard(shard: $0.shard, epoch: $0.epoch, shardCount: shardCount) })
  }

  /// Notes that a shard has removed what it should. One that was renewed again meanwhile stays.
  func finish(_ renewed: RenewedShard) throws {
    try change { try set(renewedShards().filter { $0 != renewed }) }
  }

  /// The next departed user whose data a backup may have brought back, ascending by record name. A departure that is
  /// new reaches every shard anyway.
  func departedUser(after recordName: String) throws -> String? {
    try connection.statement(
      SQL(
        "departure.next",
        """
        SELECT recordName FROM departure WHERE isLast <> 0 AND (name <> '' OR due > ?1) AND recordName > ?2 \
        ORDER BY recordName LIMIT 1
        """)
    ).binding(clock.now, recordName).first { $0.text(0) }
  }

  /// As `departure(of:)`, also one that was finished and that a renewed shard repeats.
  /// - Returns: the departure, and whether data are being removed now.
  func shownDeparture(of name: String) throws -> (departure: Departure, isRemoving: Bool)? {
    let isRepeated = try !renewedShards().isEmpty
    if let departure = try departure(of: name) {
      return (departure, isRepeated || !departure.isLast || departure.due <= clock.now)
    }
    guard isRepeated else { return nil }
    return try connection.statement(
      SQL(
        "departure.finished",
        "SELECT recordName, recordName, requested, due, isLast FROM departure WHERE recordName = ?1 AND due > ?2")
    ).binding(name, clock.now).first(Self.departure).map { ($0, true) }
  }

  /// Users whose data are being removed.
  func departingCount() throws -> Int {
    let isRepeated = try !renewedShards().isEmpty
    return try connection.statement(
      SQL("departure.count", "SELECT count(*) FROM departure WHERE name <> '' OR due > ?1")
    ).binding(isRepeated ? clock.now : Int64.max).first { $0.int(0) } ?? 0
  }

  /// The user's belongings in the directory besides their row.
  func holdings(ofUser name: String) throws -> UserHoldings {
    let (key, recordName) = try existingUser(name)
    func count(_ statement: SQL, _ value: some DirectoryValue) throws -> Int {
      try connection.statement(statement).binding(value).first { $0.int(0) } ?? 0
    }
    return UserHoldings(
      tokenCount: try count(SQL("webAuthToken.count", "SELECT count(*) FROM webAuthToken WHERE user = ?1"), key),
      sessionCount: try sessions(ofUser: key).count,
      registrationCount: try pushRegistrations(of: nil, ofUser: recordName).count,
      keyCount: try count(SQL("serverKey.count", "SELECT count(*) FROM serverKey WHERE user = ?1"), key),
      memberships: try memberships(ofUser: recordName), quotaByteCount: try quota(ofUser: key))
  }

  private func memberships(ofUser recordName: String) throws -> [UserHoldings.Membership] {
    try connection.statement(
      SQL(
        "sharedZone.memberships",
        """
        SELECT container, environment, owner, zoneName FROM sharedZone WHERE user = ?1 AND isActive <> 0 \
        ORDER BY container, environment, owner, zoneName
        """
      )
    ).binding(recordName).all {
      UserHoldings.Membership(container: $0.text(0), environment: $0.text(1), owner: $0.text(2), zoneName: $0.text(3))
    }
  }

  private func quota(ofUser key: Int64) throws -> Int64? {
    try connection.statement(SQL("user.quotaByKey", "SELECT quotaByteCount FROM user WHERE id = ?1")).binding(key).first
    { $0.optionalInt64(0) } ?? nil
  }

  private static func departure(_ row: DirectoryStatement) -> Departure {
    Departure(
      recordName: row.text(0), name: row.text(1), requested: row.int64(2), due: row.int64(3), isLast: row.bool(4))
  }
}

/// A user's belongings in the directory besides their row.
struct UserHoldings: Sendable, Hashable {
  struct Membership: Sendable, Hashable {
    let container: String
    let environment: String
    let owner: String
    let zoneName: String
  }

  let tokenCount: Int
  let sessionCount: Int
  /// Devices that are woken; at most 1000 are counted.
  let registrationCount: Int
  let keyCount: Int
  /// In zones of other users.
  let memberships: [Membership]
  /// nil: the limit that the workers are configured with.
  let quotaByteCount: Int64?
}
