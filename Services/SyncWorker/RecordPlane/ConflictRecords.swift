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
      let visible = VisibleRecords(view, in: snapshot)
      var conflicts: [Int: RecordConflict] = [:]
      for place in places {
        let operation = modification.operations[place]
        guard let stored = try snapshot.record(named: operation.recordName, in: zone.key), !stored.isDeleted,
          modification.permissions?.mayRead(stored.record) ?? true, try visible.isVisible(stored.record)
        else { continue }
        var conflict = RecordConflict(recordName: operation.recordName)
        conflict.server = (stored.record, stored.tag)
        if let tag = operation.recordChangeTag,
          let known = try Self.state(of: operation.recordName, tag, view, in: snapshot)
        {
          conflict.ancestor = (known.record, known.tag)
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

  /// The state of a record at a tag. A participant gets only a state that was readable to the participant when current:
  /// tags can be guessed, and earlier states are not part of the share.
  private static func state(of name: String, _ tag: RecordChangeTag, _ view: ZoneView, in snapshot: any ShardSnapshot)
    throws -> StoredRecord?
  {
    func state(of name: String, at sequence: Int64) throws -> StoredRecord? {
      try snapshot.state(of: name, in: view.row.key, at: sequence)
    }
    guard let access = view.access else {
      return try state(of: name, at: tag.sequence).flatMap { $0.isDeleted || $0.sequence != tag.sequence ? nil : $0 }
    }
    for member in access.members {
      let time = max(tag.sequence, member.since)
      guard let known = try state(of: name, at: time), !known.isDeleted, known.sequence == tag.sequence else {
        continue
      }
      if try member.rootRecordName.map({ try known.hangsBelow($0) { try state(of: $0, at: time)?.record } }) ?? true {
        return known
      }
    }
    return nil
  }
}

extension StoredRecord {
  /// - Parameter ancestor: the record of a name, as it was at the same time.
  fileprivate func hangsBelow(_ root: String, _ ancestor: (String) throws -> Record?) rethrows -> Bool {
    var passed: Set<String> = []
    var next: Record? = record
    while let record = next, passed.count < VisibleRecords.depthLimit, passed.insert(record.recordName).inserted {
      if record.recordName == root { return true }
      next = try record.parent.flatMap(ancestor)
    }
    return false
  }
}
