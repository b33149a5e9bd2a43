// What a participant can't do to the shape of what is shared, though he may write there: move or delete the record on top, delete what is not his to
// delete, or make what others hang from.

import RecordStore
import Records
import Sharing
import WebServices

/// Decides for one unit of a participant's request, from the state before it (A7).
struct HierarchyLimits {
  /// What he sees before the unit.
  let now: VisibleRecords
  private let transaction: any ShardTransaction
  private let zone: StoredZone

  init(_ view: ZoneView, in transaction: any ShardTransaction) {
    now = VisibleRecords(view, in: transaction)
    self.transaction = transaction
    zone = view.row
  }

  /// Whether a record is on top of what somebody shares. With it the share would end, and with its parent others would see it.
  func isRoot(_ name: String) throws -> Bool { try transaction.share(ofRoot: name, in: zone.key) != nil }

  /// What becomes of a step that would hang the record on top of a share elsewhere: what replaces it without a word of its parent leaves that as it is.
  func keepingRoot(in step: RecordExecution.Step) throws -> Result<OperationDecision, RecordError> {
    guard case .success(.save(var record)) = step.decision, let earlier = step.existing, !earlier.isDeleted, earlier.record.parent != record.parent,
      try isRoot(record.recordName)
    else { return step.decision }
    if case .success(let patch) = step.operation.patch, case .set = patch.parent { return .failure(RecordError.shareAccessDenied) }
    record.parent = earlier.record.parent
    return .success(.save(record))
  }

  /// Whether a record may be made under a name that no live record has. Whatever hangs from the name, or hung where the last one of that name did, would
  /// come along.
  /// - Parameter tombstone: of the last one of that name.
  func isFree(_ name: String, _ tombstone: StoredRecord?) throws -> Bool {
    if now.seesEverything { return true }
    if let tombstone, try !now.mayWrite(tombstone.record) { return false }
    var (next, seen): ([String], Set<String>) = ([name], [name])
    while let target = next.popLast() {
      for name in try transaction.children(of: target, in: zone.key, limit: .max) where seen.insert(name).inserted {
        guard let child = try transaction.record(named: name, in: zone.key) else { continue }
        // What hangs below something deleted comes along with that.
        if child.isDeleted { next.append(name) } else if try !now.mayWrite(child.record) { return false }
      }
    }
    return true
  }

  /// Whether a record may go with one that he deletes. One that he does not see stays, and keeps what it goes with.
  func mayDeleteAlong(_ name: String) throws -> Bool {
    guard let stored = try transaction.record(named: name, in: zone.key), !stored.isDeleted else { return true }
    return try now.mayWrite(stored.record) && !isRoot(name)
  }
}
