// A lost export position (H10): what a store's history tells of objects that the zone knows nothing of, to be exported
// again.

public import History

/// Collects changes of objects that have neither record nor tombstone. Objects that have one are left alone, because
/// others may have changed them since.
public struct HistoryRescan: Sendable {
  /// For each object that was looked up, true if the zone lacks it.
  private var isMissing: [String: Bool] = [:]
  /// Missing objects, in the order in which the history first names them.
  private var missing: [String] = []
  private var transactions: [HistoryTransaction] = []

  public init() {}

  /// - Parameter hasRecord: whether the zone has a record or tombstone of that name.
  public mutating func add(_ transaction: HistoryTransaction, hasRecord: (String) throws -> Bool) rethrows {
    if case .skip = Exporter.Treatment(author: transaction.author) { return }
    var kept = transaction
    kept.changes = try transaction.changes.filter { change in
      if let known = isMissing[change.objectID] { return known }
      let isNew = try !hasRecord(change.objectID)
      isMissing[change.objectID] = isNew
      if isNew { missing.append(change.objectID) }
      return isNew
    }
    if !kept.changes.isEmpty { transactions.append(kept) }
  }

  public var missingCount: Int { missing.count }

  /// The changes in batches of at most `objectLimit` objects. A batch has all changes of its objects, in order: each
  /// can be exported alone, and an interrupted rescan continues with the objects that are left.
  public func batches(objectLimit: Int) -> [[HistoryTransaction]] {
    stride(from: 0, to: missing.count, by: objectLimit).map { start in
      let objects = Set(missing[start..<min(start + objectLimit, missing.count)])
      return transactions.compactMap { transaction in
        var part = transaction
        part.changes.removeAll { !objects.contains($0.objectID) }
        return part.changes.isEmpty ? nil : part
      }
    }
  }
}
