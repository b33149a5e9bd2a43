// Rights on the records of a zone, whether a schema or a share gives them.

package import Records
import Sharing

/// Decides which records of a zone a user may read, create and write.
package protocol RecordAccess {
  func mayRead(_ record: Record) throws -> Bool
  func mayCreate(_ record: Record) throws -> Bool
  func mayWrite(_ record: Record) throws -> Bool
}

extension RecordPermissions: RecordAccess {
  package func mayCreate(_ record: Record) -> Bool { mayCreate(record.recordType) }
}

/// A participant's rights in one zone: in all of it, or below the root records of the shared hierarchies.
extension VisibleRecords: RecordAccess {
  package func mayRead(_ record: Record) throws -> Bool { try isVisible(record) }
  package func mayCreate(_ record: Record) throws -> Bool { try mayWrite(record) }
}
