// An export's rights: what the store's user may write, and which changes of a guest its user can no longer reach.

import History
import Mirroring
import RecordStore
import Records
import Sharing
import ZoneCommit

extension ExportRun {
  /// The rights of a store's user in a zone; nil when the database is the user's own and everything is allowed.
  func access(of mirror: StoredMirror, to zone: StoredZone, in snapshot: any ShardSnapshot) throws -> (
    any RecordAccess
  )? {
    if database.isPublic { return schema.permissions(ofAbsentUser: mirror.userRecordName) }
    guard mirror.isGuest else { return nil }
    return VisibleRecords(
      ZoneAccess(try snapshot.members(mirror.userRecordName, inZone: zone.zoneName, of: mirror.databaseKey)),
      to: zone.key, in: snapshot)
  }

  /// Removes from a guest's batch the changes of objects that its user cannot reach, and keeps them for the home's
  /// journal.
  func leaveOutUnreachable(
    _ batch: inout ExportBatch, _ retried: inout [RetriedObject], of mirror: StoredMirror,
    in transaction: any ShardTransaction
  ) throws -> Unwritten? {
    let locator = try ObjectLocator(of: mirror, in: transaction)
    func isGone(_ objectID: String) throws -> Bool {
      try locator.zone(of: objectID) == nil || locator.hasLeft(objectID)
    }
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
        recordName: name, entity: last.entity, code: .zoneNotFound,
        reason: "the object is in no zone that is shared with the store's user", cause: .zoneEnded)
      problems.append(problem)
      try keep(held.changes, timestamp: held.timestamp, problem, of: mirror, in: transaction)
    }
    return problems.isEmpty
      ? nil : Unwritten(problems: problems, lost: lost.sorted { $0.key < $1.key }.flatMap(\.value.changes))
  }
}
