// The three records of a conflict, for clients that ask for them: CloudKit's web service tells none.

import JSON
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Sharing
import WebServices
import ZoneCommit

extension RecordPlaneCall {
  /// `conflictRecords` of the request: whether its CONFLICT items are to tell their records.
  func wantsConflictRecords() throws(RecordError) -> Bool {
    guard let asked = json["conflictRecords"], !asked.isNull else { return false }
    guard let isAsked = asked.bool else { throw RecordError(.badRequest, "conflictRecords must be true or false") }
    return isAsked
  }

  /// The conflict records for each CONFLICT of an answer, by the operation's index (S2, T-C07, T-C08).
  func conflicts(in result: RecordModification.Result, of modification: RecordModification) async throws(RecordError)
    -> [Int: RecordConflict]
  {
    guard let zone = result.zone else { return [:] }
    let places = result.items.indices.filter {
      if case .failed(let error) = result.items[$0] { error.code == .conflict } else { false }
    }
    if places.isEmpty { return [:] }
    let finder = finder
    return try await read { snapshot in
      guard let view = try finder.find(modification.zone, in: snapshot) else { return [:] }
      let access: any RecordAccess = modification.permissions ?? VisibleRecords(view, in: snapshot)
      let past = PastReader(snapshot)
      var conflicts: [Int: RecordConflict] = [:]
      for place in places {
        let operation = modification.operations[place]
        guard let stored = try snapshot.record(named: operation.recordName, in: zone.key), !stored.isDeleted,
          try access.mayRead(stored.record)
        else { continue }
        var conflict = RecordConflict(recordName: operation.recordName)
        conflict.server = (stored.record, stored.tag)
        // Tags can be guessed, and not every state was for everybody.
        if let tag = operation.recordChangeTag,
          let known = try past.state(of: operation.recordName, in: view.row.key, at: tag.sequence),
          !known.stored.isDeleted, known.stored.sequence == tag.sequence, try access.mayRead(known, by: past)
        {
          conflict.ancestor = (known.stored.record, tag)
        }
        let base = conflict.ancestor ?? (stored.record, stored.tag)
        // Dropped because a patch that does not apply has its own error already.
        if case .success(let patch) = operation.patch,
          let record = try? patch.applied(
            to: base.record, merging: operation.kind.merges, stamp: modification.terms.stamp)
        {
          conflict.client = (record, base.tag)
        }
        conflicts[place] = conflict
      }
      return conflicts
    }
  }
}
