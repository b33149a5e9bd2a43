// A guest: the part of a user's shared store that lives in an owner's database, as a mirrored store beside the owner's.

import History
import Mirroring
import RecordStore
import Records
import ServiceBus
import Sharing

extension StoredMirror {
  /// Separates user and store in a guest's identifier. No client can send it, so two users' guests never collide.
  private static let guestSeparator: Character = "\u{1f}"

  static func guestIdentifier(_ storeIdentifier: String, of userRecordName: String) -> String { "\(userRecordName)\(guestSeparator)\(storeIdentifier)" }

  /// True for a guest: a store of a user with whom zones of the database are shared.
  var isGuest: Bool { scope == .shared && identifier.contains(Self.guestSeparator) }

  /// True for a shared store in its user's own shard: its history is here, its objects are in owners' databases.
  var isHome: Bool { scope == .shared && !isGuest }

  /// The store's identifier as its client knows it.
  var deviceID: String { isGuest ? identifier.split(separator: Self.guestSeparator, maxSplits: 1).last.map(String.init) ?? identifier : identifier }

  /// A guest without a row, for reading alone: it has saved and imported nothing.
  static func visitor(_ storeIdentifier: String, of userRecordName: String, in database: Int64) -> StoredMirror {
    StoredMirror(
      key: 0, identifier: guestIdentifier(storeIdentifier, of: userRecordName), databaseKey: database, incarnation: 0, userRecordName: userRecordName,
      scope: .shared, modelHash: "", configuration: nil, deviceName: nil, createdAt: 0, lastTransactionNumber: 0, exportedTransactionNumber: 0,
      purgedTransactionNumber: 0)
  }
}

/// The zones of an owner's database that a user may read, in one snapshot.
struct GuestZones {
  /// All memberships, ended ones included, ascending by zone and share.
  let members: [ShareMember]
  /// The user's access to the zones that the user may read, by zone name.
  let access: [String: ZoneAccess]

  init(of userRecordName: String, in database: Int64, _ snapshot: any ShardSnapshot) throws {
    members = try snapshot.members(userRecordName, of: database)
    access = Dictionary(grouping: members, by: \.zoneName).mapValues { ZoneAccess($0) }.filter(\.value.mayRead)
  }

  init(of mirror: StoredMirror, _ snapshot: any ShardSnapshot) throws { try self.init(of: mirror.userRecordName, in: mirror.databaseKey, snapshot) }

  /// The zones themselves, ascending by name; deleted ones are left out.
  func zones(in database: Int64, _ snapshot: any ShardSnapshot) throws -> [StoredZone] {
    try access.keys.sorted().compactMap { name in try snapshot.zone(named: name, in: database).flatMap { $0.isDeleted ? nil : $0 } }
  }

  /// Returns false only if the zone's history proves that it held no such record when the user's access ended: a user
  /// without access must not discover records made since.
  func knew(_ recordName: String, in zoneName: String, of database: Int64, _ snapshot: any ShardSnapshot) throws -> Bool {
    guard let end = members.lazy.filter({ $0.zoneName == zoneName }).compactMap(\.until).max(), let zone = try snapshot.zone(named: zoneName, in: database),
      !zone.isDeleted, zone.endSequence < end, let horizon = try snapshot.horizon(of: zone.key), horizon <= end
    else { return true }
    return try snapshot.state(of: recordName, in: zone.key, at: end) != nil
  }

  /// The records of a zone that the user may see; nil when there are none.
  func visible(in zone: StoredZone, _ snapshot: any ShardSnapshot) -> VisibleRecords? {
    access[zone.zoneName].map { VisibleRecords($0, to: zone.key, in: snapshot) }
  }

  /// True when the user had access to the zone and has none now.
  func hasLost(_ zoneName: String) -> Bool { access[zoneName] == nil && members.contains { $0.zoneName == zoneName } }
}

/// Decides which records of a zone a user may read, create and write.
protocol RecordAccess {
  func mayRead(_ record: Record) throws -> Bool
  func mayCreate(_ record: Record) throws -> Bool
  func mayWrite(_ record: Record) throws -> Bool
}

extension RecordPermissions: RecordAccess {
  func mayCreate(_ record: Record) -> Bool { mayCreate(record.recordType) }
}

/// A participant's rights in one zone: in all of it, or below the root records of the shared hierarchies.
extension VisibleRecords: RecordAccess {
  func mayRead(_ record: Record) throws -> Bool { try isVisible(record) }
  func mayCreate(_ record: Record) throws -> Bool { try mayWrite(record) }
}

extension ExportRun {
  /// The rights of a store's user in a zone; nil when the database is the user's own and everything is allowed.
  func access(of mirror: StoredMirror, to zone: StoredZone, in snapshot: any ShardSnapshot) throws -> (any RecordAccess)? {
    if database.isPublic { return schema.permissions(ofAbsentUser: mirror.userRecordName) }
    guard mirror.isGuest else { return nil }
    return VisibleRecords(ZoneAccess(try snapshot.members(mirror.userRecordName, inZone: zone.zoneName, of: mirror.databaseKey)), to: zone.key, in: snapshot)
  }

  /// Removes from a guest's batch the changes of objects that its user cannot reach, and keeps them for the home's
  /// journal.
  func leaveOutUnreachable(
    _ batch: inout ExportBatch, _ retried: inout [RetriedObject], of mirror: StoredMirror, in transaction: any ShardTransaction
  ) throws -> Unwritten? {
    let locator = try ObjectLocator(of: mirror, in: transaction)
    func isGone(_ objectID: String) throws -> Bool { try locator.zone(of: objectID) == nil || locator.hasLeft(objectID) }
    var lost: [String: (changes: [HistoryChange], timestamp: Int64)] = [:]
    for object in try retried.filter({ try isGone($0.row.name) }) {
      lost[object.row.name] = (object.changes, object.heldAt)
      try transaction.removeQuarantined(object.row.name, of: mirror.key)
    }
    retried = try retried.filter { try !isGone($0.row.name) }
    for index in batch.transactions.indices {
      let isExported = Exporter.exports(author: batch.transactions[index].author)
      let gone = try batch.transactions[index].changes.filter { try isGone($0.objectID) }
      if gone.isEmpty { continue }
      if isExported {
        for change in gone {
          lost[change.objectID, default: ([], 0)].changes.append(change)
          lost[change.objectID]?.timestamp = batch.transactions[index].timestamp
        }
      }
      let names = Set(gone.map(\.objectID))
      batch.transactions[index].changes.removeAll { names.contains($0.objectID) }
      // The slice's parts are the transactions, which have changed.
      batch.slice = nil
    }
    var problems: [MirroringProblem] = []
    for (name, held) in lost.sorted(by: { $0.key < $1.key }) {
      guard let last = held.changes.last else { continue }
      let problem = MirroringProblem(
        recordName: name, entity: last.entity, code: .zoneNotFound, reason: "the object is in no zone that is shared with the store's user", cause: .zoneEnded)
      problems.append(problem)
      try keep(held.changes, timestamp: held.timestamp, problem, of: mirror, in: transaction)
    }
    return problems.isEmpty ? nil : Unwritten(problems: problems, lost: lost.sorted { $0.key < $1.key }.flatMap(\.value.changes))
  }
}
