// A guest keeps the changes that it gives up until the home has written them into its journal, where the user sees
// them.

import History
import MessagePack
package import Mirroring
import RecordStore
package import Records
import ServiceKit
import ZoneCommit

/// Rows of a guest's quarantine that are never tried again: reverted for lack of permission, out of the user's reach,
/// or lost to another device's edit.
///
/// Their names begin with a character that no object's name has, so no later change of the object picks them up.
package enum KeptChanges {
  private static let mark: Character = "\u{1f}"

  package static func isName(_ name: String) -> Bool { name.first == mark }
  fileprivate static func makeName(_ random: any RandomSource) -> String { "\(mark)\(random.uuid())" }

  /// The journal's kind for a row with this cause.
  package static func kind(of cause: Int) -> ConflictKind {
    switch QuarantineCause(rawValue: cause) {
    case .permission: .reverted
    case .deleted: .lostObject
    case .other: .lostValue
    default: .unexported
    }
  }
}

extension ExportRun {
  /// Keeps an object's changes for the guest's home.
  /// - Parameter timestamp: when the device made the changes.
  func keep(
    _ changes: [HistoryChange], timestamp: Int64, _ problem: MirroringProblem, of mirror: StoredMirror,
    in transaction: any ShardTransaction
  ) throws {
    guard let last = changes.last else { return }
    let payload = HistoryTransaction(transactionID: "", timestamp: timestamp, changes: HeldChanges.compacted(changes))
    let at = context.clock.now
    let row = StoredQuarantine(
      mirror: mirror.key, name: KeptChanges.makeName(context.random), entity: last.entity,
      cause: problem.cause.rawValue, code: problem.code.rawValue,
      cocoaErrorCode: problem.cocoaErrorCode?.rawValue, reason: problem.reason, firstAt: at, lastAt: at, attempts: 1,
      dueAt: StoredQuarantine.never,
      schemaVersion: schema.version)
    // Assets without content can't be counted; the journal tells of them.
    try transaction.putQuarantined(
      row, changes: payload.encoded(), assets: payload.assets.filter { try transaction.hasContent(of: $0) })
  }

  /// Keeps a guest's lost changes for its user: the database's journal has them too, but belongs to the database's
  /// owner.
  func keep(_ loss: ConflictLoss, of mirror: StoredMirror, in transaction: any ShardTransaction) throws {
    guard mirror.isGuest, loss.edit.userRecordName == mirror.userRecordName, loss.edit.deviceID == mirror.deviceID
    else { return }
    let cause: QuarantineCause
    switch loss.kind {
    case .lostObject: cause = .deleted
    case .lostValue, .undecided: cause = .other
    case .unexported, .reverted: return
    }
    let problem = MirroringProblem(
      recordName: loss.objectID, entity: loss.entity, code: .conflict, reason: "lost to another device's change",
      cause: cause)
    try keep(loss.lost, timestamp: loss.edit.timestamp, problem, of: mirror, in: transaction)
  }
}

// MARK: At the owner's

// MARK: At home

/// Names another user's zone in the home's journal. The separator keeps it apart from the names of the user's own
/// zones.
package enum SharedZoneName {
  private static let separator: Character = "\u{1f}"

  package static func text(_ zone: Zone.ID) -> String { "\(zone.zoneName)\(separator)\(zone.ownerName)" }

  /// nil for the name of a zone of the user's own.
  package static func zone(_ text: String) -> Zone.ID? {
    let parts = text.split(separator: separator, maxSplits: 1, omittingEmptySubsequences: false)
    return parts.count == 2 ? Zone.ID(zoneName: String(parts[0]), ownerName: String(parts[1])) : nil
  }
}
