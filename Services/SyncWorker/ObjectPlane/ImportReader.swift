// Reads the records of an import page.

import Mirroring
import RecordStore
import Records
import Sharing
import WebServices
import ZoneCommit

/// Turns rows into changes for one store; an unreadable row is a problem of its record alone.
struct ImportReader: Sendable {
  let importer: Importer
  let inliner: AssetInliner
  /// nil in a private database.
  let permissions: RecordPermissions?

  /// - Throws: store errors, except for damaged rows: these are the record's problem.
  func outcome(of row: StoredRecord, in source: ZoneSource) throws -> ImportOutcome {
    if let permissions, !permissions.mayRead(row.record) { return .nothing }
    do {
      let outcome = try importer.outcome(of: SourceRecord(record: row.record, isDeleted: row.isDeleted), in: source)
      guard case .change(.save(let object, let record)) = outcome else { return outcome }
      switch inliner.inlined(object, recordName: record.recordName) {
      case .failure(let problem): return .problem(problem)
      case .success(let object): return .change(.save(object, record))
      }
    } catch StoreError.corrupt {
      // Dropped because the page lists the problem: this record, or one that it needs, is damaged.
      return .problem(.damaged(row.record.recordName, row.record.recordType))
    }
  }
}
