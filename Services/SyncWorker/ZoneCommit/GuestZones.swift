// A guest: the part of a user's shared store that lives in an owner's database, as a mirrored store beside the owner's.

import History
import Mirroring
package import RecordStore
import Records
import ServiceBus
package import Sharing

extension StoredMirror {
  /// Separates user and store in a guest's identifier. No client can send it, so two users' guests never collide.
  private static let guestSeparator: Character = "\u{1f}"

  package static func guestIdentifier(_ storeIdentifier: String, of userRecordName: String) -> String {
    "\(userRecordName)\(guestSeparator)\(storeIdentifier)"
  }

  /// True for a guest: a store of a user with whom zones of the database are shared.
  package var isGuest: Bool { scope == .shared && identifier.contains(Self.guestSeparator) }

  /// True for a shared store in its user's own shard: its history is here, its objects are in owners' databases.
  package var isHome: Bool { scope == .shared && !isGuest }

  /// The store's identifier as its client knows it.
  package var deviceID: String {
    isGuest
      ? identifier.split(separator: Self.guestSeparator, maxSplits: 1).last.map(String.init) ?? identifier : identifier
  }

  /// A guest without a row, for reading alone: it has saved and imported nothing.
  package static func visitor(_ storeIdentifier: String, of userRecordName: String, in database: Int64) -> StoredMirror
  {
    StoredMirror(
      key: 0, identifier: guestIdentifier(storeIdentifier, of: userRecordName), databaseKey: database, incarnation: 0,
      userRecordName: userRecordName,
      scope: .shared, modelHash: "", configuration: nil, deviceName: nil, createdAt: 0, lastTransactionNumber: 0,
      exportedTransactionNumber: 0,
      purgedTransactionNumber: 0)
  }
}

/// The zones of an owner's database that a user may read, in one snapshot.
package struct GuestZones {
  /// All memberships, ended ones included, ascending by zone and share.
  package let members: [ShareMember]
  /// The user's access to the zones that the user may read, by zone name.
  package let access: [String: ZoneAccess]

  package init(of userRecordName: String, in database: Int64, _ snapshot: any ShardSnapshot) throws {
    members = try snapshot.members(userRecordName, of: database)
    access = Dictionary(grouping: members, by: \.zoneName).mapValues { ZoneAccess($0) }.filter(\.value.mayRead)
  }

  package init(of mirror: StoredMirror, _ snapshot: any ShardSnapshot) throws {
    try self.init(of: mirror.userRecordName, in: mirror.databaseKey, snapshot)
  }

  /// The zones themselves, ascending by name; deleted ones are left out.
  package func zones(in database: Int64, _ snapshot: any ShardSnapshot) throws -> [StoredZone] {
    try access.keys.sorted().compactMap { name in
      try snapshot.zone(named: name, in: database).flatMap { $0.isDeleted ? nil : $0 }
    }
  }

  /// Returns false only if the zone's history proves that it held no such record when the user's access ended: a user
  /// without access must not discover records made since.
  package func knew(_ recordName: String, in zoneName: String, of database: Int64, _ snapshot: any ShardSnapshot) throws
    -> Bool
  {
    guard let end = members.lazy.filter({ $0.zoneName == zoneName }).compactMap(\.until).max(),
      let zone = try snapshot.zone(named: zoneName, in: database),
      !zone.isDeleted, zone.endSequence < end, let horizon = try snapshot.horizon(of: zone.key), horizon <= end
    else { return true }
    return try snapshot.state(of: recordName, in: zone.key, at: end) != nil
  }

  /// The records of a zone that the user may see; nil when there are none.
  package func visible(in zone: StoredZone, _ snapshot: any ShardSnapshot) -> VisibleRecords? {
    access[zone.zoneName].map { VisibleRecords($0, to: zone.key, in: snapshot) }
  }

  /// True when the user had access to the zone and has none now.
  package func hasLost(_ zoneName: String) -> Bool {
    access[zoneName] == nil && members.contains { $0.zoneName == zoneName }
  }
}
