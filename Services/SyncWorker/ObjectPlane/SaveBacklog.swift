// Reads a store's unexported objects once for calls that check many objects while the shard's writer waits.

import History
import RecordStore
import Records

/// The objects of a store's backlog, read at the first question.
final class SaveBacklog {
  private let mirror: StoredMirror
  private let snapshot: any ShardSnapshot
  /// nil before the first question.
  private var names: Names?
  /// The cost of reading, in bytes.
  private var budget = CostBudget(limit: Limit.exportByteCount)

  private enum Names {
    case all(Set<String>)
    /// The backlog exceeds the bounds or is damaged.
    case unknown
  }

  /// With more transactions or bytes, every object counts as known: the export holds back wrong changes.
  private static let transactionLimit = 1000

  init(of mirror: StoredMirror, in snapshot: any ShardSnapshot) {
    self.mirror = mirror
    self.snapshot = snapshot
  }

  /// The cost of reading so far, in bytes.
  var cost: Int { budget.spent }

  /// True if an object is or may be in the backlog.
  func mayHave(_ objectID: String) throws -> Bool {
    let names = try names ?? read()
    self.names = names
    if case .all(let names) = names { return names.contains(objectID) }
    return true
  }

  private func read() throws -> Names {
    if mirror.lastTransactionNumber - mirror.exportedTransactionNumber > Self.transactionLimit { return .unknown }
    var last = mirror.exportedTransactionNumber
    var names: Set<String> = []
    while last < mirror.lastTransactionNumber {
      do {
        let rows = try snapshot.transactions(of: mirror.key, after: last, limit: 100, byteLimit: Limit.exportByteCount)
        guard let end = rows.last?.number else { break }
        for row in rows {
          try budget.spend(row.payload.count)
          for change in try HistoryTransaction(decoding: row.payload).changes { names.insert(change.objectID) }
        }
        last = end
      } catch StoreError.corrupt {
        // Dropped because the contents are unknown: the object may be among them.
        return .unknown
      } catch is StoredFormatError {
        // Dropped because the export reports it, and the object may be in it.
        return .unknown
      } catch is CostBudget.Exceeded {
        // Dropped because the export holds back what is wrong.
        return .unknown
      }
    }
    return .all(names)
  }
}
