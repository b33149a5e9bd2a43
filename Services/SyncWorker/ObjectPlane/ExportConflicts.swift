// Records an export's conflicts in the journal, and reports them in the export's event.

import History
import Mirroring
import RecordStore
import Records
import ServiceKit
import ZoneCommit

extension ExportRun {
  /// Records the losses of a batch, except those of refused writes, which are judged again on the next try.
  /// - Returns: the recorded losses, and the event's problems: open decisions, and objects both deleted and edited.
  func journal(
    _ losses: [ConflictLoss], _ refused: [ExportWrites.Refusal], of mirror: StoredMirror, in zone: StoredZone,
    _ transaction: any ShardTransaction
  ) throws -> (losses: [ConflictLoss], problems: [MirroringProblem]) {
    if losses.isEmpty { return ([], []) }
    let names = Set(refused.map(\.write.item.recordName))
    let kept = losses.filter { !names.contains($0.objectID) }
    let journal = ConflictJournal(transaction: transaction, databaseKey: mirror.databaseKey, now: context.clock.now)
    var problems: [MirroringProblem] = []
    for loss in kept {
      let number = try journal.append(loss, inZone: zone.zoneName)
      try keep(loss, of: mirror, in: transaction)
      switch loss.kind {
      case .undecided:
        let properties = loss.lost.flatMap(\.updatedProperties).joined(separator: ", ")
        problems.append(
          MirroringProblem(
            recordName: loss.objectID, entity: loss.entity, code: .conflict,
            reason: "another device changed \(loss.entity).\(properties), too: conflict \(number) waits for a decision")
        )
      case .lostObject where !loss.isOfEdit(by: mirror.deviceID):
        problems.append(
          MirroringProblem(
            recordName: loss.objectID, entity: loss.entity, code: .conflict,
            reason: "another device had edited the deleted object: conflict \(number) keeps the edit"))
      case .lostObject:
        problems.append(
          MirroringProblem(
            recordName: loss.objectID, entity: loss.entity, code: .notFound,
            reason: "the object was deleted; an edit does not bring it back: conflict \(number) keeps the edit",
            cause: .deleted))
      case .lostValue, .unexported, .reverted: break
      }
    }
    return (kept, problems)
  }
}
