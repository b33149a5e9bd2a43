// Which transactions an export batch takes, and how their rows are read.

import History
import Mirroring
import RecordStore
import Records
import ServiceKit

extension ExportRun {
  /// A transaction of the batch; nil content: its row can't be read.
  struct Item {
    let number: Int64
    let transaction: HistoryTransaction?
  }

  func nextBatch(of mirror: StoredMirror, in transaction: any ShardTransaction) throws -> [Item] {
    guard mirror.lastTransactionNumber > mirror.exportedTransactionNumber else { return [] }
    var batch: [Item] = []
    var itemCount = 0
    var byteCount = 0
    for row in try rows(of: mirror, in: transaction) {
      let decoded = row.content.flatMap(decoded)
      itemCount += decoded?.exportItemCount ?? 1
      byteCount += row.content?.payload.count ?? 0
      if !batch.isEmpty, itemCount > Limit.exportItemCount || byteCount > Limit.exportByteCount { break }
      batch.append(Item(number: row.number, transaction: decoded))
    }
    return batch
  }

  /// As many rows as a batch can take; one that is not what was written stands alone, without its content.
  private func rows(of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws -> [(number: Int64, content: StoredTransaction?)] {
    let last = mirror.exportedTransactionNumber
    do {
      return try snapshot.transactions(of: mirrorKey, after: last, limit: Limit.exportItemCount, byteLimit: Limit.exportByteCount).map { ($0.number, $0) }
    } catch StoreError.corrupt(let reason) {
      context.log.error("a history transaction is damaged", ["mirror": .integer(mirrorKey), "transaction": .integer(last + 1), "reason": .text(reason)])
      return [(last + 1, nil)]
    }
  }

  func decoded(_ row: StoredTransaction) -> HistoryTransaction? {
    // An identifier that was used before stands for what was stored then, whatever is sent with it now.
    if let known = recent[row.transactionID], known.payload == row.payload { return known.transaction }
    do {
      return try HistoryTransaction(decoding: row.payload)
    } catch {
      context.log.error(
        "a history transaction can't be read", ["mirror": .integer(mirrorKey), "transaction": .integer(row.number), "error": .text(String(describing: error))])
      return nil
    }
  }

  /// What is saved and not exported, as far as it can be read.
  func pending(of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws -> [HistoryTransaction] {
    guard mirror.lastTransactionNumber > mirror.exportedTransactionNumber else { return [] }
    return try snapshot.transactions(of: mirror.key, after: mirror.exportedTransactionNumber, limit: Limit.exportItemCount).compactMap(decoded)
  }
}

extension HistoryTransaction {
  /// About how many records the transaction touches: each object, and each member of a set (a link record or a child).
  fileprivate var exportItemCount: Int {
    changes.reduce(0) { count, change in
      change.relationships.reduce(count + 1) { count, relationship in
        switch relationship.value {
        case .toOne: count
        case .toMany(let targets): count + targets.count
        case .toManyDelta(let added, let removed): count + added.count + removed.count
        }
      }
    }
  }
}
