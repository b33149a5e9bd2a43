// The result of forwarding a batch of a shared store: one event for its client, and journal entries for lost changes.

import History
import Mirroring
import ObjectPlane
import RecordStore
import Records
import WebServices
import ZoneCommit

struct ForwardResult: Sendable {
  let mirror: StoredMirror
  /// Milliseconds since 1970.
  let now: Int64
  private var savedCount = 0
  private var deletedCount = 0
  private var problems: [MirroringProblem] = []
  private var named: Set<String> = []
  private var losses: [(loss: ConflictLoss, zone: Zone.ID)] = []
  /// Indices into `losses` by object ID.
  private var places: [String: Int] = [:]

  init(mirror: StoredMirror, now: Int64) {
    self.mirror = mirror
    self.now = now
  }

  var isEvent: Bool { savedCount + deletedCount > 0 || !problems.isEmpty }

  private static let nowhere = Zone.ID(zoneName: "", ownerName: "")

  /// Notes a change that no owner takes: a problem for the event and, compacted per object, a loss for the journal.
  mutating func lose(_ change: HistoryChange, _ timestamp: Int64, _ zone: Zone.ID?, _ reason: String) {
    if named.insert(change.objectID).inserted {
      problems.append(
        MirroringProblem(
          recordName: change.objectID, entity: change.entity, code: .zoneNotFound, reason: reason, cause: .zoneEnded))
    }
    let edit = Stamp(timestamp: timestamp, userRecordName: mirror.userRecordName, deviceID: mirror.deviceID)
    if let index = places[change.objectID] {
      let earlier = losses[index].loss
      losses[index].loss = ConflictLoss(
        kind: .unexported, objectID: change.objectID, entity: change.entity,
        lost: HeldChanges.compacted(earlier.lost + [change]), edit: edit)
    } else {
      places[change.objectID] = losses.count
      losses.append(
        (
          ConflictLoss(kind: .unexported, objectID: change.objectID, entity: change.entity, lost: [change], edit: edit),
          zone ?? Self.nowhere
        ))
    }
  }

  mutating func note(unreadable number: Int64) {
    problems.append(
      MirroringProblem(
        recordName: mirror.identifier, entity: "", code: .internalError, reason: "transaction \(number) can't be read",
        cause: .damaged))
  }

  /// Adds the figures and problems of an owner's export. The guest keeps changes that the export gave up until the home
  /// has written them into its journal (`KeptChanges`).
  mutating func add(_ outcome: ForwardOutcome) {
    savedCount += outcome.savedCount
    deletedCount += outcome.deletedCount
    problems += outcome.problems.map(\.problem)
  }

  /// - Parameter identifier: of the event.
  /// - Returns: the event's number; nil when there is nothing to tell.
  func store(_ identifier: String, of mirror: StoredMirror, in transaction: any ShardTransaction) throws -> Int64? {
    let journal = ConflictJournal(transaction: transaction, databaseKey: mirror.databaseKey, now: now)
    for (loss, zone) in losses { try journal.append(loss, inZone: SharedZoneName.text(zone)) }
    guard isEvent else { return nil }
    let told = Array(problems.prefix(ExportProgress.problemLimit))
    let event = StoredEvent(
      identifier: identifier, kind: .export, startedAt: now, endedAt: now, succeeded: told.isEmpty,
      errorJSON: told.isEmpty ? nil : MirrorErrors.partialFailure(told), savedCount: savedCount,
      deletedCount: deletedCount)
    return try transaction.put(event, of: mirror.key)
  }
}
