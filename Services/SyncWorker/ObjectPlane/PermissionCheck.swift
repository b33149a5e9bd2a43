// Checks a save's changes of other users' records in the transaction that appends it (E5, T-E12).

import History
import Mirroring
import RecordStore
import Records
import ZoneCommit

/// Refuses saves that the store's user may not write. The export judges again: a grant may be revoked in between.
enum PermissionCheck {
  /// Bytes of records that a check reads, while nobody else can write. What comes behind them is judged by the export.
  static let byteLimit = 16 << 20
  /// The items of a transaction that is applied whole, without a look at the bytes in between.
  private static let itemCount = 50

  /// - Parameter transactions: the transactions that are not stored yet, with their places in the request.
  /// - Throws: `ACCESS_DENIED` naming the place, the entity and the object; nothing is stored then.
  static func check(
    _ transactions: [(place: Int, transaction: HistoryTransaction)], of mirror: StoredMirror, _ run: ExportRun,
    _ permissions: any RecordAccess,
    in snapshot: any ShardSnapshot
  ) throws {
    let locator = try ObjectLocator(of: mirror, in: snapshot)
    let source = locator.source(in: locator.defaultZone)
    var exporter: Exporter
    do {
      exporter = try applied(transactions.map(\.transaction), of: mirror, run, from: source)
    } catch  where ExportFailure(error) == .poisoned {
      // Dropped because the export reports the unreadable change and judges the rest.
      return
    }
    let writes = exporter.plan().writes
    let deleted = writes.deletedNames
    for write in writes where !write.isServersAlone && !write.item.goesAlong(with: deleted) {
      guard let problem = try permissions.problem(of: write.item, replacing: source.row(named: write.item.recordName))
      else { continue }
      throw RecordError(problem.code, "\(place(of: write.item, in: transactions)): \(problem.reason)")
    }
  }

  /// Applies the transactions up to the limit of bytes. It goes through each of them once, however long it is.
  static func applied(
    _ transactions: [HistoryTransaction], of mirror: StoredMirror, _ run: ExportRun, from source: ZoneSource
  ) throws -> Exporter {
    var exporter = run.exporter(of: mirror, from: source, elsewhere: nil, isolatesErrors: false)
    source.countsBytes = true
    for saved in transactions where source.readByteCount <= byteLimit {
      let steps = ExportSteps(saved)
      let first = steps.slice(from: 0, limits: ExportLimits(itemCount: itemCount, byteCount: .max))
      if first.count == steps.steps.count {
        try exporter.apply(saved)
      } else {
        try exporter.apply(steps.steps[...], of: saved) { source.readByteCount <= byteLimit }
      }
    }
    return exporter
  }

  /// The place of the change of a record's object, or else of an object that the record relates to.
  private static func place(of item: ExportItem, in transactions: [(place: Int, transaction: HistoryTransaction)])
    -> String
  {
    var related: String?
    for (place, saved) in transactions {
      for (index, change) in saved.changes.enumerated() {
        let text = "transactions[\(place)]: changes[\(index)]: \(change.entity) \(change.objectID)"
        if change.objectID == item.recordName { return text }
        if related == nil, change.concerns([item.recordName]) || LinkRecord(item.record)?.joins(change.objectID) == true
        {
          related = text
        }
      }
    }
    return related ?? "\(item.record.recordType) \(item.recordName)"
  }
}

extension [PlannedWrite] {
  /// Names of the objects that are deleted.
  var deletedNames: Set<String> {
    reduce(into: []) { names, write in
      if case .delete(let record) = write.item, !write.isLink { names.insert(record.recordName) }
    }
  }
}

extension ExportItem {
  /// True if it deletes a link of a deleted object; that needs no permission on the link.
  func goesAlong(with deleted: Set<String>) -> Bool {
    guard case .delete(let record) = self, !deleted.isEmpty, let link = LinkRecord(record) else { return false }
    return deleted.contains(link.ends.first) || deleted.contains(link.ends.second)
  }
}

extension LinkRecord {
  fileprivate func joins(_ objectID: String) -> Bool { ends.first == objectID || ends.second == objectID }
}
