// Verifies the entries of a shard's field indexes: a ready index must have exactly the keys of its records.

import Indexing
import Records
import SQLite

/// Looks up the expected entries of each record, and counts all entries.
struct EntryVerification {
  private let snapshot: SQLiteSnapshot
  private let entry: StoreStatement
  private var indexes: [Int64: [IndexRow]] = [:]
  private var databases: [Int64: Int64] = [:]
  /// The number of entries that the records of each ready index should have.
  private var expected: [Int64: Int] = [:]

  init(_ snapshot: SQLiteSnapshot) throws {
    self.snapshot = snapshot
    let session = snapshot.session
    entry = try session.statement(
      SQL("verifyEntry", "SELECT record FROM entry WHERE zone = ?1 AND fieldindex = ?2 AND key = ?3 AND name = ?4"))
    for row in try session.statement(IndexQuery.all).all(snapshot.indexRow) {
      indexes[row.databaseKey, default: []].append(row)
      if row.state == .ready { expected[row.key] = 0 }
    }
    for (zone, database) in try session.statement(SQL("verifyZones", "SELECT id, database FROM zone")).all({
      ($0.int64(0), $0.int64(1))
    }) {
      databases[zone] = database
    }
  }

  /// Checks the entries of one record. Its zone must not be among those being removed.
  mutating func check(_ stored: StoredRecord, rowID: Int64, zone: Int64, _ report: inout VerificationReport) throws {
    guard !stored.isDeleted, let database = databases[zone], let known = indexes[database] else { return }
    for row in known where row.state == .ready && row.index.recordType == stored.record.recordType {
      for key in row.index.keys(of: stored.record) {
        expected[row.key, default: 0] += 1
        try entry.bind(1, zone)
        try entry.bind(2, row.key)
        try entry.bind(3, key)
        try entry.bind(4, recordName: stored.record.recordName)
        if try entry.first({ $0.int64(0) }) != rowID {
          report.note("record \(rowID): its entry in index \(row.key) is missing")
        }
      }
    }
  }

  /// Compares counts. All expected entries were found, so a difference means surplus entries.
  func finish(_ report: inout VerificationReport) throws {
    let count = try snapshot.session.statement(
      SQL(
        "verifyEntryCount", "SELECT count(*) FROM entry WHERE fieldindex = ?1 AND zone NOT IN (SELECT zone FROM doomed)"
      ))
    for (key, expected) in expected.sorted(by: { $0.key < $1.key }) {
      try count.bind(1, key)
      let found = try count.first { $0.int(0) } ?? 0
      if found != expected { report.note("index \(key) has \(found) entries, the records have \(expected)") }
    }
  }
}
