// The one way records are written: both planes' saves and deletes go through here, so that sequence, origin and references always agree.

import Mirroring
import RecordStore
import Records

/// Writes records of one zone within one store transaction.
struct ZoneWriter {
  let transaction: any ShardTransaction
  let zone: StoredZone
  /// The mirrored store's key whose export this is, or 0 (`StoredRecord.origin`).
  let origin: Int64
  /// The pointers out of a record (Mirroring and CloudKit references).
  let references: @Sendable (Record) -> [OutgoingReference]

  /// Stores `record` as the successor of `existing` (its row or tombstone, nil when there is none).
  /// - Returns: the stored row with its new sequence.
  func save(_ record: Record, replacing existing: StoredRecord?) throws -> StoredRecord {
    try put(record, isDeleted: false, replacing: existing, references: references(record))
  }

  /// Leaves a tombstone in `existing`'s place. It keeps what an importing client must know of it (`Tombstone`), and nothing else.
  func delete(_ existing: StoredRecord, modified: Stamp) throws -> StoredRecord {
    var record = existing.record
    record.fields = Tombstone.fields(of: existing.record)
    record.modified = modified
    return try put(record, isDeleted: true, replacing: existing, references: [])
  }

  private func put(_ record: Record, isDeleted: Bool, replacing existing: StoredRecord?, references: [OutgoingReference]) throws -> StoredRecord {
    let stored = StoredRecord(
      record: record, isDeleted: isDeleted, sequence: try transaction.nextSequence(in: zone.databaseKey), origin: origin,
      sequenceOfOthers: existing.map { $0.origin == origin ? $0.sequenceOfOthers : $0.sequence } ?? 0)
    try transaction.put(stored, in: zone.key, references: references, isNew: existing == nil)
    return stored
  }
}
