// A guest: the part of somebody's shared store that is in an owner's database, as a mirrored store among the owner's own.

import History
import Mirroring
import RecordStore
import Records
import ServiceBus
import Sharing

extension StoredMirror {
  /// Between the user and his store in a guest's identifier: no client can spell it, so that nobody's store is another's.
  private static let guestSeparator: Character = "\u{1f}"

  static func guestIdentifier(_ storeIdentifier: String, of userRecordName: String) -> String { "\(userRecordName)\(guestSeparator)\(storeIdentifier)" }

  /// Whether the store is of a user with whom zones of the database are shared.
  var isGuest: Bool { scope == .shared && identifier.contains(Self.guestSeparator) }

  /// Whether the store's objects are in others' databases, and here is its history.
  var isHome: Bool { scope == .shared && !isGuest }

  /// The store's identifier as its client knows it.
  var deviceID: String { isGuest ? identifier.split(separator: Self.guestSeparator, maxSplits: 1).last.map(String.init) ?? identifier : identifier }

  /// A guest that is not stored, for looking around: nothing was ever saved or imported by it.
  static func visitor(_ storeIdentifier: String, of userRecordName: String, in database: Int64) -> StoredMirror {
    StoredMirror(
      key: 0, identifier: guestIdentifier(storeIdentifier, of: userRecordName), databaseKey: database, incarnation: 0, userRecordName: userRecordName,
      scope: .shared, modelHash: "", configuration: nil, deviceName: nil, createdAt: 0, lastTransactionNumber: 0, exportedTransactionNumber: 0,
      purgedTransactionNumber: 0)
  }
}

/// What a user sees of somebody else's database, in one state of it.
struct GuestZones {
  /// All memberships, ended ones too, ascending by zone and share.
  let members: [ShareMember]
  /// The zones that he may read, by name.
  let access: [String: ZoneAccess]

  init(of userRecordName: String, in database: Int64, _ snapshot: any ShardSnapshot) throws {
    members = try snapshot.members(userRecordName, of: database)
    access = Dictionary(grouping: members, by: \.zoneName).mapValues { ZoneAccess($0) }.filter(\.value.mayRead)
  }

  init(of mirror: StoredMirror, _ snapshot: any ShardSnapshot) throws { try self.init(of: mirror.userRecordName, in: mirror.databaseKey, snapshot) }

  /// The zones themselves, ascending by name.
  func zones(in database: Int64, _ snapshot: any ShardSnapshot) throws -> [StoredZone] {
    try access.keys.sorted().compactMap { name in try snapshot.zone(named: name, in: database).flatMap { $0.isDeleted ? nil : $0 } }
  }

  /// Whether something of a name was in a zone when his access ended, as far as anybody knows: what was made since is not for him to find.
  func knew(_ recordName: String, in zoneName: String, of database: Int64, _ snapshot: any ShardSnapshot) throws -> Bool {
    guard let end = members.lazy.filter({ $0.zoneName == zoneName }).compactMap(\.until).max(), let zone = try snapshot.zone(named: zoneName, in: database),
      !zone.isDeleted, zone.endSequence < end, let horizon = try snapshot.horizon(of: zone.key), horizon <= end
    else { return true }
    return try snapshot.state(of: recordName, in: zone.key, at: end) != nil
  }

  /// What he sees of a zone; nil: nothing.
  func visible(in zone: StoredZone, _ snapshot: any ShardSnapshot) -> VisibleRecords? {
    access[zone.zoneName].map { VisibleRecords($0, to: zone.key, in: snapshot) }
  }

  /// Whether he had access to a zone, and has none.
  func hasLost(_ zoneName: String) -> Bool { access[zoneName] == nil && members.contains { $0.zoneName == zoneName } }
}

/// Who may read and write the records of a zone.
protocol RecordAccess {
  func mayRead(_ record: Record) throws -> Bool
  func mayCreate(_ record: Record) throws -> Bool
  func mayWrite(_ record: Record) throws -> Bool
}

extension RecordPermissions: RecordAccess {
  func mayCreate(_ record: Record) -> Bool { mayCreate(record.recordType) }
}

/// What a participant may do in one zone: in all of it, or below the records on top of what is shared with him.
extension VisibleRecords: RecordAccess {
  func mayRead(_ record: Record) throws -> Bool { try isVisible(record) }
  func mayCreate(_ record: Record) throws -> Bool { try mayWrite(record) }
}

extension ExportRun {
  /// What a store's user may do in a zone; nil: everything, because it is his own.
  func access(of mirror: StoredMirror, to zone: StoredZone, in snapshot: any ShardSnapshot) throws -> (any RecordAccess)? {
    if database.isPublic { return schema.permissions(ofAbsentUser: mirror.userRecordName) }
    guard mirror.isGuest else { return nil }
    return VisibleRecords(ZoneAccess(try snapshot.members(mirror.userRecordName, inZone: zone.zoneName, of: mirror.databaseKey)), to: zone.key, in: snapshot)
  }

  /// Takes out of a guest's batch what is of objects that its user does not reach any more, or never did: it is kept for its home's journal.
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
      // The transactions are the slice's parts.
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
