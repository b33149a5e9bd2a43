// Rights on the records of a zone, whether a schema or a share gives them.

package import RecordStore
package import Records
import Sharing

/// Decides which records of a zone a user may read, create and write.
package protocol RecordAccess {
  func mayRead(_ record: Record) throws -> Bool
  func mayCreate(_ record: Record) throws -> Bool
  func mayWrite(_ record: Record) throws -> Bool
  /// True if the user could read a state of a record, no tombstone, while it was current.
  func mayRead(_ state: PastState, by reader: PastReader) throws -> Bool
}

extension RecordPermissions: RecordAccess {
  package func mayCreate(_ record: Record) -> Bool { mayCreate(record.recordType) }
  package func mayRead(_ state: PastState, by reader: PastReader) -> Bool { mayRead(state.stored.record) }
}

/// A participant's rights in one zone: in all of it, or below the root records of the shared hierarchies.
extension VisibleRecords: RecordAccess {
  package func mayRead(_ record: Record) throws -> Bool { try isVisible(record) }
  package func mayCreate(_ record: Record) throws -> Bool { try mayWrite(record) }

  /// Earlier states are no part of a share. Of the time before a membership, its beginning counts.
  package func mayRead(_ state: PastState, by reader: PastReader) throws -> Bool {
    guard let access else { return true }
    return try access.members.contains { member in
      let time = max(state.stored.sequence, member.since)
      guard time < state.until else { return false }
      return try member.rootRecordName.map { try hung(state.stored.record, below: $0, at: time, by: reader) } ?? true
    }
  }

  /// True if a record hung at or below a root at a sequence.
  private func hung(_ record: Record, below root: String, at time: Int64, by reader: PastReader) throws -> Bool {
    var passed: Set<String> = []
    var next: (name: String, parent: String?)? = (record.recordName, record.parent)
    while let (name, parent) = next, passed.count < Self.depthLimit, passed.insert(name).inserted {
      if name == root { return true }
      next = try parent.flatMap { parent in
        try formerRecord(parent, at: time, by: reader).map { (parent, $0.parent) }
      }
    }
    return false
  }

  private func formerRecord(_ name: String, at time: Int64, by reader: PastReader) throws -> FormerRecord? {
    if let known = formerRecords[name], known.since <= time, time < known.until { return known }
    let found = try reader.state(of: name, in: zone, at: time).map {
      FormerRecord(parent: $0.stored.record.parent, since: $0.stored.sequence, until: $0.until)
    }
    if let found { formerRecords[name] = found }
    return found
  }
}
