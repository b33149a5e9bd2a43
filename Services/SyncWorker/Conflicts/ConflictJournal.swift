// Writes down what is lost, in the commit that loses it.

import History
import Mirroring
import RecordStore
import Records

/// The journal of one database, for the body of a commit. Exports, purges and roll-backs write into it; nobody else reads it but
/// `ConflictCalls`.
struct ConflictJournal {
  let transaction: any ShardTransaction
  let databaseKey: Int64
  /// Milliseconds since 1970.
  let now: Int64

  /// - Parameter zoneName: where the object is, or was.
  /// - Returns: the entry's number.
  @discardableResult
  func append(_ loss: ConflictLoss, inZone zoneName: String) throws -> Int64 {
    let content = loss.content
    // What nobody has any more can't be counted; that is told when it is to be restored.
    let assets = try content.assets.filter { try transaction.hasContent(of: $0) }
    return try transaction.appendConflict(
      StoredConflict(
        databaseKey: databaseKey, zoneName: zoneName, recordName: loss.objectID, entity: loss.entity, kind: loss.kind.rawValue, state: loss.state.rawValue,
        userRecordName: loss.edit.userRecordName, deviceID: loss.edit.deviceID, at: now),
      content: content.encoded(), assets: assets)
  }
}

extension ConflictLoss {
  /// - Throws: `StoreError.corrupt` or `StoredFormatError` for content that is not what was written.
  init?(_ stored: StoredConflict, in snapshot: any ShardSnapshot) throws {
    guard let content = try snapshot.conflictContent(stored.number) else { return nil }
    self.init(
      kind: ConflictKind(rawValue: stored.kind) ?? .lostValue, objectID: stored.recordName, entity: stored.entity,
      content: try HistoryTransaction(decoding: content), user: stored.userRecordName, device: stored.deviceID)
  }
}
