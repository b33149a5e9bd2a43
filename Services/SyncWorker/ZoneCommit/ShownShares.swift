// Collects the share members of records in an answer, from the snapshot or commit that yields the records.

package import RecordStore
import Records
import Sharing
package import WebServices

extension ShownShares {
  /// Adds the shares that appear with these records of a zone.
  /// - Parameter known: shares that need not be looked up, by name.
  mutating func add(
    _ records: some Sequence<StoredRecord>, in zone: Int64, knowing known: [String: StoredShare] = [:],
    _ snapshot: any ShardSnapshot
  ) throws {
    for stored in records where !stored.isDeleted {
      let record = stored.record
      if record.recordType == ReservedName.shareRecordType {
        guard let share = try known[record.recordName] ?? snapshot.share(named: record.recordName, in: zone),
          let state = share.state
        else { continue }
        shares[record.recordName] = Share(shortGUID: share.shortGUID, state: state)
      } else if record.shortGUID != nil, let share = try snapshot.share(ofRoot: record.recordName, in: zone) {
        // Each root with a short GUID has a share.
        roots[record.recordName] = share.name
      }
    }
  }

  /// The same for a caller by record name; nil when the database has no shares.
  /// - Parameter userRecordName: nil: a caller who sees no share.
  package static func shown(
    with records: @autoclosure () throws -> some Sequence<StoredRecord>, in zone: StoredZone,
    to userRecordName: String?, knowing known: [String: StoredShare] = [:], _ snapshot: any ShardSnapshot
  ) throws -> ShownShares? {
    guard let userRecordName, try snapshot.database(key: zone.databaseKey)?.hasShares == true else { return nil }
    var shown = ShownShares(to: KnownUser(userRecordName: userRecordName))
    try shown.add(records(), in: zone.key, knowing: known, snapshot)
    return shown
  }
}
