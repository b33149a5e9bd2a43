// The feed of a database's zones for a participant: zones that changed, came and went
// (docs/protocol/record-plane.md#changes-database).

import RecordStore
import Records
import ServiceBus
import Sharing
import WebServices
import ZoneCommit

/// A zone's place in the feed.
private struct SharedZoneChange: Sendable {
  let zone: StoredZone
  let sequence: Int64
}

extension RecordPlaneCall {
  /// One owner's part of a shared database's feed. A zone is told when something changed in it or access to it began,
  /// and as deleted when that ended.
  func fetchSharedChanges(_ changes: DatabaseChangesRequest, _ token: SyncToken?, tokenKeys: [String])
    async throws(RecordError) -> PlaneAnswer
  {
    guard let user = request.caller.userRecordName, user != database.owner else {
      return try writeDatabasePage([], token: SyncToken(.database, []), moreComing: false, tokenKeys: tokenKeys)
    }
    let database = database
    let page = try await read { snapshot -> (zones: [StoredZone], token: SyncToken, moreComing: Bool) in
      guard let row = try snapshot.database(database), row.hasShares,
        case let members = try snapshot.members(user, of: row.key), !members.isEmpty
      else {
        // The same answer as for an owner who does not exist.
        if let token, !token.positions.isEmpty { throw SyncToken.Refusal.unknownType.recordError }
        return ([], SyncToken(.database, []), false)
      }
      let start = try Self.start(token, at: changes.position, incarnation: row.incarnation, end: row.sequence)
      var found = try Self.changes(of: members, after: start, in: row, snapshot)
      let moreComing = found.count > changes.resultsLimit
      found = Array(found.prefix(changes.resultsLimit))
      let end = moreComing ? found.last?.sequence ?? start : row.sequence
      return (found.map(\.zone), SyncToken(.database, incarnation: row.incarnation, sequence: end), moreComing)
    }
    return try writeDatabasePage(page.zones, token: page.token, moreComing: page.moreComing, tokenKeys: tokenKeys)
  }

  /// Ascending by sequence.
  private static func changes(
    of members: [ShareMember], after start: Int64, in database: StoredDatabase, _ snapshot: any ShardSnapshot
  ) throws -> [SharedZoneChange] {
    var found: [SharedZoneChange] = []
    for (zoneName, members) in Dictionary(grouping: members, by: \.zoneName) {
      let access = ZoneAccess(members)
      let row = try snapshot.zone(named: zoneName, in: database.key)
      if access.mayRead, let row, !row.isDeleted {
        found.append(SharedZoneChange(zone: row, sequence: max(row.sequence, access.since)))
      } else if start > 0, let until = members.compactMap(\.until).max() {
        // A client that never saw a zone need not hear of its end.
        found.append(SharedZoneChange(zone: StoredZone(ended: zoneName, of: database.key, at: until), sequence: until))
      }
    }
    return found.filter { $0.sequence > start }.sorted {
      ($0.sequence, $0.zone.zoneName) < ($1.sequence, $1.zone.zoneName)
    }
  }
}

extension StoredZone {
  /// The row for a zone to which access ended, whether or not the zone still exists.
  fileprivate init(ended zoneName: String, of database: Int64, at sequence: Int64) {
    self.init(key: 0, databaseKey: database, zoneName: zoneName, incarnation: 0, sequence: sequence, isDeleted: true)
  }
}
