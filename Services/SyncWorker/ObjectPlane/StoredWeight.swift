// Keeps a batch small whose changes are small and whose records are not.

import History
import Mirroring
import RecordStore
import Records
import ZoneCommit

/// The stored bytes of the records that a batch changes. It reads each of them whole, keeps it and writes it again, and
/// a save of half a megabyte may change hundreds of large records. Members of sets, targets of pointers, and records
/// that point to a deleted object do not count.
struct StoredWeight {
  /// The bytes of stored records that a batch changes; one record that is larger goes alone.
  static let byteLimit = 16 << 20

  private let mirror: StoredMirror
  private let snapshot: any ShardSnapshot

  init(of mirror: StoredMirror, in snapshot: any ShardSnapshot) {
    self.mirror = mirror
    self.snapshot = snapshot
  }

  /// - Returns: the number of transactions, from the first on, whose records are not too many.
  func fittingCount(_ transactions: [HistoryTransaction]) throws -> Int {
    let changeCount = transactions.reduce(0) { $0 + $1.changes.count }
    if Self.certainlyFits(changeCount) { return transactions.count }
    return try fittingCount(transactions.map { $0.changes.filter { $0.changeType != .insert }.map(\.objectID) })
  }

  /// - Returns: the number of steps, from the first on, whose objects' records are not too large together.
  func fittingCount(_ steps: ArraySlice<ExportStep>, of transaction: HistoryTransaction) throws -> Int {
    if Self.certainlyFits(steps.count) { return steps.count }
    return try fittingCount(
      steps.map { step in
        let change = transaction.changes[step.change]
        // A new object has a record once its own step is done.
        return step.work == .object && change.changeType == .insert ? [] : [change.objectID]
      })
  }

  /// True for so many records of whatever size.
  private static func certainlyFits(_ recordCount: Int) -> Bool { recordCount * Limit.recordByteCount <= byteLimit }

  /// - Parameter groups: the objects of each item; one that comes again costs nothing more.
  /// - Returns: the number of groups, from the first on, whose records fit.
  private func fittingCount(_ groups: [[String]]) throws -> Int {
    var seen: Set<String> = []
    let new = groups.map { names in names.filter { seen.insert($0).inserted } }
    if Self.certainlyFits(seen.count) { return groups.count }
    if let zoneName = mirror.defaultZoneName, let database = try snapshot.database(key: mirror.databaseKey)?.id {
      try snapshot.expect(new.joined().map { .presence($0, zone: zoneName, database: database) })
    }
    let locator = try ObjectLocator(of: mirror, in: snapshot, readsRecords: false)
    var byteCount = 0
    for (place, names) in new.enumerated() {
      for name in names { byteCount += try locator.source(of: name).storedByteCount(of: name) }
      if byteCount > Self.byteLimit { return place }
    }
    return groups.count
  }
}
