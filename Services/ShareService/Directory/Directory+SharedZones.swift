// Each user's access to zones of others, as the owners' shards report it; it routes requests about shared zones.

import Records
import SQLite
import ServiceBus
import ServiceKit

extension Directory {
  /// Entries of a user in a container's environment. Beyond that the oldest ended accesses are forgotten, active ones
  /// never.
  static let sharedZoneLimit = 1000

  /// Stores reports of shards. Reports older than the stored entry, and those about unknown containers, change nothing.
  func note(_ zones: [SharedZone]) throws {
    try change {
      let number = try DirectoryFormat.nextVersion(in: connection)
      var grown: Set<SharedZoneUser> = []
      for zone in zones where try keyIfPresent(of: zone.key.database.container) != nil {
        if try write(zone, unlessOlder: true, number: number) { grown.insert(SharedZoneUser(zone.key)) }
      }
      for user in grown { try forgetEnded(of: user) }
    }
  }

  /// The number of a comparison that begins now. A shard's state read afterwards is newer than every entry noted
  /// before.
  func beginComparison() throws -> Int64 { try change { try DirectoryFormat.nextVersion(in: connection) } }

  /// Within a change.
  /// - Throws: `tryAgainLater` for a number that this directory has not given out: the comparison began with a
  ///   directory that was lost, and the entries of this one would count as older.
  func check(comparison number: Int64) throws {
    guard try number <= DirectoryFormat.lastVersion(in: connection) else {
      throw RecordError(.tryAgainLater, "the comparison began with another directory", retryAfter: 1)
    }
  }

  /// Makes a part of the stored entries equal to a shard's list. Entries noted after the comparison began stay, because
  /// the list may be older.
  /// - Returns: the number of corrected entries.
  /// - Throws: `tryAgainLater` for a shard that is being divided, and as `check(comparison:)`.
  func compare(_ page: CompareSharedZones) throws -> Int {
    try check(page.part, ofShard: page.shard)
    return try change {
      try check(comparison: page.number)
      // Swift would take names for equal that differ only in their normalisation. That can't happen: zones and users
      // have ASCII names.
      var known = Dictionary(
        try sharedZones(ofShard: page.shard, after: page.after, through: page.through).map { ($0.zone.key, $0) },
        uniquingKeysWith: { first, _ in first })
      var (correctedCount, grown) = (0, Set<SharedZoneUser>())
      for zone in page.zones where try keyIfPresent(of: zone.key.database.container) != nil {
        let found = known.removeValue(forKey: zone.key)
        let former = found?.zone
        if former == zone || found.map({ $0.number > page.number }) ?? false { continue }
        // An ended access that was forgotten for lack of room stays forgotten.
        if former == nil, !zone.isActive, try sharedZoneCount(of: SharedZoneUser(zone.key)) >= Self.sharedZoneLimit {
          continue
        }
        if try write(zone, unlessOlder: false, number: page.number) { grown.insert(SharedZoneUser(zone.key)) }
        correctedCount += 1
      }
      let gone = known.filter { $0.value.number <= page.number }
      for key in gone.keys { try deleteSharedZone(key) }
      for user in grown { try forgetEnded(of: user) }
      return correctedCount + gone.count
    }
  }

  /// Ascending by owner and zone.
  func sharedZones(_ message: FetchSharedZones) throws -> FetchSharedZones.Reply {
    var owners: [(name: String, zones: [FetchSharedZones.Reply.Zone])] = []
    try connection.statement(
      SQL(
        "sharedZone.ofUser",
        """
        SELECT owner, zoneName, isActive, sequence FROM sharedZone WHERE user = ?1 AND container = ?2 \
        AND environment = ?3 ORDER BY owner, zoneName
        """)
    ).binding(message.userRecordName, message.container.rawValue, message.environment.rawValue).forEach { row in
      if owners.last?.name != row.text(0) { owners.append((row.text(0), [])) }
      owners[owners.count - 1].zones.append(.init(zoneName: row.text(1), isActive: row.bool(2), sequence: row.int64(3)))
    }
    return FetchSharedZones.Reply(owners: owners.map { .init(owner: $0.name, zones: $0.zones) })
  }

  /// The numbers of active accesses and of remembered ended ones.
  func sharedZoneCounts() throws -> (active: Int64, ended: Int64) {
    try connection.statement(
      SQL("sharedZone.counts", "SELECT count(*), CAST(coalesce(sum(isActive), 0) AS bigint) FROM sharedZone")
    )
    .first {
      (active: $0.int64(1), ended: $0.int64(0) - $0.int64(1))
    } ?? (0, 0)
  }

  /// Within a change: the environment's databases begin anew, and so do the sequences that order their reports.
  func forgetSharedZones(in key: EnvironmentKey) throws {
    try connection.statement(
      SQL("sharedZone.deleteEnvironment", "DELETE FROM sharedZone WHERE container = ?1 AND environment = ?2")
    )
    .binding(key.container.rawValue, key.environment.rawValue).run()
  }

  // MARK: Rows

  /// - Returns: true when the user has one entry more than before.
  private func write(_ zone: SharedZone, unlessOlder: Bool, number: Int64) throws -> Bool {
    let key = zone.key
    let known = try connection.statement(
      SQL(
        "sharedZone.get",
        """
        SELECT isActive, sequence FROM sharedZone WHERE user = ?1 AND container = ?2 AND environment = ?3 \
        AND owner = ?4 AND zoneName = ?5
        """
      )
    ).binding(
      key.userRecordName, key.database.container.rawValue, key.database.environment.rawValue, key.database.owner,
      key.zoneName
    )
    .first { (isActive: $0.bool(0), sequence: $0.int64(1)) }
    if let known, known == (zone.isActive, zone.sequence) || unlessOlder && known.sequence > zone.sequence {
      return false
    }
    try connection.statement(
      SQL(
        "sharedZone.put",
        """
        INSERT INTO sharedZone (user, container, environment, owner, zoneName, isActive, sequence, shard, at) \
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
        ON CONFLICT (user, container, environment, owner, zoneName) DO UPDATE SET isActive = excluded.isActive,
          sequence = excluded.sequence, shard = excluded.shard, \
        at = excluded.at
        """)
    ).binding(
      key.userRecordName, key.database.container.rawValue, key.database.environment.rawValue, key.database.owner,
      key.zoneName, zone.isActive, zone.sequence,
      Int64(layout.shard(of: key.database)), number
    ).run()
    return known == nil
  }

  private func deleteSharedZone(_ key: SharedZone.Key) throws {
    try connection.statement(
      SQL(
        "sharedZone.delete",
        """
        DELETE FROM sharedZone WHERE user = ?1 AND container = ?2 AND environment = ?3 AND owner = ?4 AND zoneName = ?5
        """
      )
    ).binding(
      key.userRecordName, key.database.container.rawValue, key.database.environment.rawValue, key.database.owner,
      key.zoneName
    ).run()
  }

  private func sharedZoneCount(of user: SharedZoneUser) throws -> Int64 {
    try connection.statement(
      SQL(
        "sharedZone.countOfUser",
        "SELECT count(*) FROM sharedZone WHERE user = ?1 AND container = ?2 AND environment = ?3")
    )
    .binding(user.name, user.container.rawValue, user.environment.rawValue).first { $0.int64(0) } ?? 0
  }

  private func forgetEnded(of user: SharedZoneUser) throws {
    let surplus = try sharedZoneCount(of: user) - Int64(Self.sharedZoneLimit)
    guard surplus > 0 else { return }
    try connection.statement(
      SQL(
        "sharedZone.forgetEnded",
        """
        DELETE FROM sharedZone WHERE user = ?1 AND container = ?2 AND environment = ?3 AND (owner, zoneName) IN (
          SELECT owner, zoneName FROM sharedZone WHERE user = ?1 AND container = ?2 AND environment = ?3 \
        AND isActive = 0 ORDER BY at, sequence LIMIT ?4)
        """)
    ).binding(user.name, user.container.rawValue, user.environment.rawValue, surplus).run()
  }

  /// The stored entries within a part of a shard's list.
  private func sharedZones(ofShard shard: Int, after: SharedZone.Key?, through: SharedZone.Key?) throws -> [(
    zone: SharedZone, number: Int64
  )] {
    let statement = try connection.statement(
      SQL(
        "sharedZone.ofShard",
        """
        SELECT container, environment, owner, zoneName, user, isActive, sequence, at FROM sharedZone
        WHERE shard = ?1 AND (container, environment, owner, zoneName, user) > (?2, ?3, ?4, ?5, ?6)
          AND (?7 IS NULL OR (container, environment, owner, zoneName, user) <= (?7, ?8, ?9, ?10, ?11))
        """)
    ).binding(
      Int64(shard), after?.database.container.rawValue ?? "", after?.database.environment.rawValue ?? "",
      after?.database.owner ?? "", after?.zoneName ?? "",
      after?.userRecordName ?? "", through?.database.container.rawValue, through?.database.environment.rawValue,
      through?.database.owner, through?.zoneName,
      through?.userRecordName)
    return try statement.all { row in
      let database = DatabaseID(
        container: try Self.containerID(row.text(0)), environment: try Self.environment(row.text(1)), owner: row.text(2)
      )
      let key = SharedZone.Key(database: database, zoneName: row.text(3), userRecordName: row.text(4))
      return (SharedZone(key: key, isActive: row.bool(5), sequence: row.int64(6)), row.int64(7))
    }
  }
}

/// A user in a container's environment, whose entries share one limit.
private struct SharedZoneUser: Hashable {
  let name: String
  let container: ContainerID
  let environment: Environment

  init(_ key: SharedZone.Key) {
    name = key.userRecordName
    container = key.database.container
    environment = key.database.environment
  }
}
