// Limits a participant with write access to a shared hierarchy: no moving or deleting of its root, no deleting of
// unwritable records, no making of a record that others hang from.

import RecordStore
import Records
import Sharing
import WebServices
import ZoneCommit

/// Decides for one unit of a participant's request, from the state before it (A7).
struct HierarchyLimits {
  /// The records that the participant sees before the unit.
  let now: VisibleRecords
  private let walk: HierarchyWalk
  private let transaction: any ShardTransaction
  private let zone: StoredZone

  init(_ view: ZoneView, _ walk: HierarchyWalk, in transaction: any ShardTransaction) {
    now = VisibleRecords(view, in: transaction)
    now.walk = walk
    self.walk = walk
    self.transaction = transaction
    zone = view.row
  }

  /// True for the root record of a share. Deleting it would end the share; moving it would show it to others.
  func isRoot(_ name: String) throws -> Bool { try transaction.share(ofRoot: name, in: zone.key) != nil }

  /// Refuses a step that moves a share's root to another parent. A replacement that names no parent keeps the old one.
  func keepingRoot(in step: RecordExecution.Step) throws -> Result<OperationDecision, RecordError> {
    guard case .success(.save(var record)) = step.decision, let earlier = step.existing, !earlier.isDeleted,
      earlier.record.parent != record.parent,
      try isRoot(record.recordName)
    else { return step.decision }
    if case .success(let patch) = step.operation.patch, case .set = patch.parent {
      return .failure(RecordError.shareAccessDenied)
    }
    record.parent = earlier.record.parent
    return .success(.save(record))
  }

  /// True when the participant may make a record under a name without a live record: records that hang from the name,
  /// or the place where the last record of that name hung, would come along.
  /// - Parameter tombstone: of the last record of that name.
  func isFree(_ name: String, _ tombstone: StoredRecord?) throws -> Bool {
    if now.seesEverything { return true }
    if let tombstone, try !now.mayWrite(tombstone.record) { return false }
    var (next, seen): ([String], Set<String>) = ([name], [name])
    while let target = next.popLast() {
      let children = try transaction.children(of: target, in: zone.key, limit: Limit.hierarchyStepCount + 1)
      for name in children where seen.insert(name).inserted {
        try walk.pass(name)
        guard let child = try transaction.place(of: name, in: zone.key) else { continue }
        // Records below a deleted record come along with it.
        if child.isDeleted { next.append(name) } else if try !now.mayWrite(name, below: child.parent) { return false }
      }
    }
    return true
  }

  /// True when a record may be deleted along with another. An unwritable record or a root prevents the deletion.
  func mayDeleteAlong(_ name: String) throws -> Bool {
    guard let stored = try transaction.record(named: name, in: zone.key), !stored.isDeleted else { return true }
    return try now.mayWrite(stored.record) && !isRoot(name)
  }
}
