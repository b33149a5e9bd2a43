// The oracle's settled transactions: lists.

import RecordStore
import Records

extension InMemoryTransaction {
  func settleTransactions(of row: StoredMirror, through number: Int64) -> (count: Int, row: StoredMirror) {
    var row = row
    let gone = (rows.history[row.key] ?? []).filter { $0.number <= number }
    rows.history[row.key]?.removeFirst(gone.count)
    rows.historyAssets = rows.historyAssets.filter { $0.key.mirror != row.key || $0.key.number > number }
    rows.settled[row.lineage, default: []] += gone.map { SettledTransaction($0, namesObjects: row.takesParts) }
    row.purgedTransactionNumber = max(row.purgedTransactionNumber, min(number, row.lastTransactionNumber))
    forget(&row, through: row.purgedTransactionNumber - SettledTransaction.keptCount)
    return (gone.count, row)
  }

  private func forget(_ row: inout StoredMirror, through number: Int64) {
    guard number > row.forgottenTransactionNumber else { return }
    let gone = (rows.settled[row.lineage] ?? []).filter { $0.number <= number }
    rows.settled[row.lineage]?.removeFirst(gone.count)
    row.forgottenTransactionNumber = number
    row.forgottenAt = max(row.forgottenAt, gone.map(\.appendedAt).max() ?? 0)
  }

  func forgetTransactions(of mirror: Int64, appendedBefore cutoff: Int64, limit: Int) throws -> Int {
    try write {
      guard var row = rows.mirrors[mirror] else { throw ContradictingWrite("no mirror \(mirror)") }
      let old = (rows.settled[row.lineage] ?? []).first(limit).prefix { $0.appendedAt < cutoff }
      if let last = old.last { forget(&row, through: last.number) }
      rows.mirrors[mirror] = row
      return old.count
    }
  }

  func takeFormerMirror(_ identifier: String, of userRecordName: String, in database: Int64) -> StoredMirror? {
    let former = rows.formerMirrors.values.first {
      $0.mirror.identifier == identifier && $0.mirror.userRecordName == userRecordName
        && $0.mirror.databaseKey == database
    }
    guard let former else { return nil }
    rows.formerMirrors[former.mirror.lineage] = nil
    return former.mirror
  }

  func noteFormerMirror(_ row: StoredMirror) {
    guard row.lastTransactionNumber > row.forgottenTransactionNumber else { return }
    rows.formerMirrors[row.lineage] = InMemoryRows.FormerMirrorRow(mirror: row, removedAt: now(), order: row.lineage)
    let others = rows.formerMirrors.values.filter { $0.mirror.databaseKey == row.databaseKey }.sorted {
      ($0.removedAt, $0.order) < ($1.removedAt, $1.order)
    }
    if others.count > SettledTransaction.formerStoreCount, let oldest = others.first { forget(oldest) }
  }

  private func forget(_ former: InMemoryRows.FormerMirrorRow) {
    rows.settled[former.mirror.lineage] = nil
    rows.formerMirrors[former.mirror.lineage] = nil
  }

  func forgetFormerMirrors(removedBefore cutoff: Int64, limit: Int) throws -> Int {
    try write {
      let old = rows.formerMirrors.values.filter { $0.removedAt < cutoff }.min {
        ($0.removedAt, $0.order) < ($1.removedAt, $1.order)
      }
      guard limit > 0, let old else { return 0 }
      let (lineage, start) = (old.mirror.lineage, old.mirror.forgottenTransactionNumber)
      let end = min(old.mirror.lastTransactionNumber, start + Int64(limit))
      rows.formerMirrors[lineage].map { row in
        var row = row
        forget(&row.mirror, through: end)
        rows.formerMirrors[lineage] = row
      }
      let count = Int(end - start)
      guard count < limit else { return count }
      forget(old)
      return count + 1
    }
  }

  func forgetFormerMirrors(of database: Int64) throws {
    try write {
      for former in rows.formerMirrors.values where former.mirror.databaseKey == database { forget(former) }
    }
  }
}
