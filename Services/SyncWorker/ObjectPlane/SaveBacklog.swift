// What a store has saved and not exported, for those who ask about one object after the other while the shard's writer waits.

import History
import RecordStore
import Records

/// The objects of a store's backlog, read once, when somebody asks.
final class SaveBacklog {
  private let mirror: StoredMirror
  private let snapshot: any ShardSnapshot
  /// nil: not asked for yet.
  private var names: Names?
  /// Of what is read, in steps of a byte.
  private var budget = CostBudget(limit: Limit.exportByteCount)

  private enum Names {
    case all(Set<String>)
    /// There is more than is read, or something is damaged.
    case unknown
  }

  /// Of a store with more transactions, or longer ones, everything is believed: the export holds back what is wrong.
  private static let transactionLimit = 1000

  init(of mirror: StoredMirror, in snapshot: any ShardSnapshot) {
    self.mirror = mirror
    self.snapshot = snapshot
  }

  /// What reading has cost.
  var cost: Int { budget.spent }

  /// Whether an object is in it, as far as that can be known.
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
        // Dropped because what is in it nobody knows: the object may be.
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
