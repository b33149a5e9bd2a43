// Saves and deletes records of a zone so that sequence, origin and references agree and subscriptions see each change.

import Mirroring
package import RecordStore
package import Records

/// Writes records of one zone within a commit.
package struct ZoneWriter {
  package let commit: ZoneCommit
  package let zone: StoredZone
  /// The commit's author, or the server.
  let author: WriteAuthor
  /// True if it writes for the commit's author.
  let isAuthors: Bool
  /// True if its records may be duplicates of others.
  var tracksDuplicates = true

  var transaction: any ShardTransaction { commit.transaction }

  /// Stores `record` as the successor of `existing` (its row or tombstone, nil when there is none).
  /// - Parameter isRevived: the name stood for another record until now; for duplicates the record counts as new.
  /// - Returns: the stored row with its new sequence.
  package func save(_ record: Record, replacing existing: StoredRecord?, isRevived: Bool = false) throws -> StoredRecord
  {
    var record = record
    let earlier = existing.flatMap { $0.isDeleted ? nil : $0.record }
    if tracksDuplicates, earlier == nil { try commit.admit(record, to: zone) }
    if !record.versions.isEmpty, let existing { record.renewVersions(since: existing.record) }
    let stored = try put(
      record, isDeleted: false, replacing: existing, references: commit.schema.references(of: record))
    if tracksDuplicates { commit.touch(from: isRevived ? nil : earlier, to: record, in: zone) }
    commit.fire(from: earlier, to: record, stored, in: zone, by: author)
    return stored
  }

  /// Replaces `existing` by a tombstone, which keeps only the fields that an importing client needs (`Tombstone`).
  /// - Parameter movedTo: the name of the zone that has the record now; nil: it is gone.
  package func delete(_ existing: StoredRecord, modified: Stamp, movedTo: String? = nil) throws -> StoredRecord {
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
    if existing.isDeleted { return stored }
    if tracksDuplicates { commit.touch(from: existing.record, to: nil, in: zone) }
    commit.fire(from: existing.record, to: nil, stored, in: zone, by: author)
    return stored
  }

  /// Ends the share of a deleted root record.
  private func stopShare(of root: Record, modified: Stamp) throws {
    guard root.recordType != ReservedName.shareRecordType,
      let share = try transaction.share(ofRoot: root.recordName, in: zone.key)
    else { return }
    _ = try ShareWriter(writer: self).stop(share, stamp: modified)
  }

  /// Leaves a tombstone of a record that was never made, for a store that believes it was.
  package func bury(_ record: Record, replacing existing: StoredRecord?) throws -> StoredRecord {
    var buried = record
    buried.fields = Tombstone.fields(of: record)
    return try put(buried, isDeleted: true, replacing: existing, references: buried.parentReference)
  }

  private func put(
    _ record: Record, isDeleted: Bool, replacing existing: StoredRecord?, references: [OutgoingReference]
  ) throws -> StoredRecord {
    let stored = StoredRecord(
      record: record, isDeleted: isDeleted, sequence: try transaction.nextSequence(in: zone.databaseKey),
      origin: author.mirror,
      sequenceOfOthers: existing.map { $0.origin == author.mirror ? $0.sequenceOfOthers : $0.sequence } ?? 0)
    try transaction.put(stored, in: zone.key, references: references, isNew: existing == nil)
    commit.note(stored, in: zone, isAuthors: isAuthors)
    // Only records of a shared hierarchy have parents.
    if existing?.record.parent != record.parent { try HierarchyMoves(writer: self).follow(from: existing, to: stored) }
    return stored
  }
}

extension Record {
  /// A tombstone's reference to its parent, which keeps its descendants in the hierarchy.
  fileprivate var parentReference: [OutgoingReference] {
    parent.map { [OutgoingReference(field: ReservedName.parentReference, target: $0)] } ?? []
  }
}

/// The limit for a database's zones.
package enum ZoneRoom {
  /// - Throws: `QUOTA_EXCEEDED` if the database has its full number of zones.
  package static func check(in database: StoredDatabase, _ snapshot: any ShardSnapshot) throws {
    try check(besides: snapshot.liveZoneCount(in: database.key))
  }

  /// The same for a known number of live zones.
  package static func check(besides zoneCount: Int) throws(RecordError) {
    guard zoneCount >= Limit.zonesPerDatabase else { return }
    throw RecordError(.quotaExceeded, "The database has \(Limit.zonesPerDatabase) zones, which is the limit")
  }
}
