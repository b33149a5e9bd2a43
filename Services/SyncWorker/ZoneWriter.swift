// The one way records are written: both planes' saves and deletes go through here, so that sequence, origin and references always agree,
// and no subscription misses a change.

import Mirroring
import RecordStore
import Records

/// Writes records of one zone within one store transaction.
struct ZoneWriter {
  let transaction: any ShardTransaction
  let zone: StoredZone
  /// The mirrored store's key whose export this is, or 0 (`StoredRecord.origin`).
  let origin: Int64
  /// The device that writes, which its user's subscriptions don't tell; nil for the server itself, or one without a name.
  let originDevice: String?
  /// The pointers out of a record (Mirroring and CloudKit references).
  let references: @Sendable (Record) -> [OutgoingReference]
  /// Told of every write; nil where nobody has subscribed (`SubscriptionWatch.firing`). Whoever made it finishes it after the last write.
  let firing: SubscriptionFiring?

  /// Stores `record` as the successor of `existing` (its row or tombstone, nil when there is none).
  /// - Returns: the stored row with its new sequence.
  func save(_ record: Record, replacing existing: StoredRecord?) throws -> StoredRecord {
    var record = record
    if !record.versions.isEmpty, let existing { record.renewVersions(since: existing.record) }
    let stored = try put(record, isDeleted: false, replacing: existing, references: references(record))
    firing?.record(
      changedFrom: existing.flatMap { $0.isDeleted ? nil : $0.record }, to: record, sequence: stored.sequence, inZone: zone.zoneName, by: originDevice)
    return stored
  }

  /// Leaves a tombstone in `existing`'s place. It keeps what an importing client must know of it (`Tombstone`), and nothing else.
  /// - Parameter movedTo: the name of the zone that has the record now; nil: it is gone.
  func delete(_ existing: StoredRecord, modified: Stamp, movedTo: String? = nil) throws -> StoredRecord {
    var record = existing.record
    record.fields = Tombstone.fields(of: existing.record)
    if let movedTo { record.fields[ReservedName.movedTo] = Field(.string(movedTo)) }
    record.versions = []
    record.modified = modified
    let stored = try put(record, isDeleted: true, replacing: existing, references: record.parentReference)
    if !existing.isDeleted, try transaction.database(key: zone.databaseKey)?.hasShares == true {
      try HierarchyMoves(writer: self).leave(stored)
      try stopShare(of: existing.record, modified: modified)
    }
    if !existing.isDeleted { firing?.record(changedFrom: existing.record, to: nil, sequence: stored.sequence, inZone: zone.zoneName, by: originDevice) }
    return stored
  }

  /// A record that is shared with what hangs below it takes its share along.
  private func stopShare(of root: Record, modified: Stamp) throws {
    guard root.recordType != ReservedName.shareRecordType, let share = try transaction.share(ofRoot: root.recordName, in: zone.key) else { return }
    _ = try ShareWriter(transaction: transaction, writer: self).stop(share, stamp: modified)
  }

  /// Leaves a tombstone of a record that was never made, for a store that believes it was.
  func bury(_ record: Record, replacing existing: StoredRecord?) throws -> StoredRecord {
    var buried = record
    buried.fields = Tombstone.fields(of: record)
    return try put(buried, isDeleted: true, replacing: existing, references: buried.parentReference)
  }

  private func put(_ record: Record, isDeleted: Bool, replacing existing: StoredRecord?, references: [OutgoingReference]) throws -> StoredRecord {
    let stored = StoredRecord(
      record: record, isDeleted: isDeleted, sequence: try transaction.nextSequence(in: zone.databaseKey), origin: origin,
      sequenceOfOthers: existing.map { $0.origin == origin ? $0.sequenceOfOthers : $0.sequence } ?? 0)
    try transaction.put(stored, in: zone.key, references: references, isNew: existing == nil)
    // Only what is shared with what hangs below it has parents.
    if existing?.record.parent != record.parent { try HierarchyMoves(writer: self).follow(from: existing, to: stored) }
    return stored
  }
}

extension Record {
  /// What is left of a tombstone's pointers: what hangs below it hangs below its parent.
  fileprivate var parentReference: [OutgoingReference] { parent.map { [OutgoingReference(field: ReservedName.parentReference, target: $0)] } ?? [] }
}
