// Chooses the transactions of an export batch and reads their rows.

import History
import Mirroring
import RecordStore
import Records
import ServiceKit
import ZoneCommit

/// The contents of one batch.
struct ExportBatch {
  /// Some of the steps of a transaction.
  struct Slice {
    let steps: ArraySlice<ExportStep>
    let transaction: HistoryTransaction

    /// True if the slice has an object's own step, or no slice has one.
    func begins(_ objectID: String) -> Bool {
      let own = transaction.changes.indices.filter { transaction.changes[$0].objectID == objectID }
      return own.isEmpty || steps.contains { $0.work == .object && own.contains($0.change) }
    }
  }

  /// Whole transactions, or the parts of one that its slice concerns.
  var transactions: [HistoryTransaction] = []
  /// The steps of one transaction that is too large for a batch.
  var slice: Slice?
  /// Numbers of transactions that can't be read.
  var unreadable: [Int64] = []
  /// The store's position after the batch; nil when there is nothing to export.
  var position: (number: Int64, stepCount: Int)?
  /// The transaction whose next slice begins the next batch.
  var next: RecentTransaction?

  func apply(to exporter: inout Exporter) throws {
    if let slice { return try exporter.apply(slice.steps, of: slice.transaction) }
    for transaction in transactions { try exporter.apply(transaction) }
  }
}

extension ExportRun {
  /// Whole transactions for as long as they fit, or a slice of one that is too large by itself.
  func nextBatch(of mirror: StoredMirror, in transaction: any ShardTransaction) throws -> ExportBatch {
    var batch = ExportBatch()
    guard mirror.lastTransactionNumber > mirror.exportedTransactionNumber else { return batch }
    var itemCount = 0
    var byteCount = 0
    var taken: [StoredTransaction] = []
    for row in try rows(of: mirror, in: transaction) {
      guard let content = row.content, let decoded = decoded(content) else {
        batch.unreadable.append(row.number)
        batch.position = (row.number, 0)
        continue
      }
      // A transaction that was begun in slices goes on in slices, even if the rest fits.
      if batch.position == nil, mirror.exportedStepCount > 0 {
        return try slice(of: decoded, content, from: mirror, in: transaction)
      }
      itemCount += decoded.exportItemCount
      byteCount += content.payload.count
      if itemCount > limits.itemCount || byteCount > limits.byteCount {
        if batch.position == nil { return try slice(of: decoded, content, from: mirror, in: transaction) }
        break
      }
      batch.transactions.append(decoded)
      batch.position = (row.number, 0)
      taken.append(content)
    }
    let count = try StoredWeight(of: mirror, in: transaction).fittingCount(batch.transactions)
    guard count < taken.count else { return batch }
    // The rows before the first transaction that is too much.
    let last = taken[count].number - 1
    batch.unreadable.removeAll { $0 > last }
    if count == 0, batch.unreadable.isEmpty {
      return try slice(of: batch.transactions[0], taken[0], from: mirror, in: transaction)
    }
    batch.transactions.removeSubrange(count...)
    batch.position = (last, 0)
    return batch
  }

  private func slice(
    of transaction: HistoryTransaction, _ row: StoredTransaction, from mirror: StoredMirror,
    in snapshot: any ShardSnapshot
  ) throws -> ExportBatch {
    let steps = ExportSteps(transaction)
    let most = steps.slice(from: mirror.exportedStepCount, limits: limits)
    let count = try StoredWeight(of: mirror, in: snapshot).fittingCount(steps.steps[most], of: transaction)
    let range = most.lowerBound..<min(most.upperBound, most.lowerBound + max(count, 1))
    let slice = steps.steps[range]
    var batch = ExportBatch()
    batch.slice = ExportBatch.Slice(steps: slice, transaction: transaction)
    var part = transaction
    part.changes = slice.map { $0.part(of: transaction.changes[$0.change]) }
    batch.transactions = [part]
    if range.upperBound < steps.steps.count {
      batch.position = (row.number - 1, range.upperBound)
      batch.next = RecentTransaction(transaction: transaction, payload: row.payload)
    } else {
      batch.position = (row.number, 0)
    }
    return batch
  }

  /// As many rows as a batch can take; a damaged row comes alone, without its content.
  private func rows(of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws -> [(
    number: Int64, content: StoredTransaction?
  )] {
    let last = mirror.exportedTransactionNumber
    do {
      return try snapshot.transactions(
        of: mirrorKey, after: last, limit: Limit.exportItemCount, byteLimit: Limit.exportByteCount
      ).map { ($0.number, $0) }
    } catch StoreError.corrupt(let reason) {
      context.log.error(
        "a history transaction is damaged",
        ["mirror": .integer(mirrorKey), "transaction": .integer(last + 1), "reason": .text(reason)])
      return [(last + 1, nil)]
    }
  }

  func decoded(_ row: StoredTransaction) -> HistoryTransaction? {
    // A repeated transaction ID stands for the transaction stored first, even if a later save differs.
    if let known = recent[row.transactionID], known.payload == row.payload { return known.transaction }
    do {
      return try HistoryTransaction(decoding: row.payload)
    } catch {
      context.log.error(
        "a history transaction can't be read",
        ["mirror": .integer(mirrorKey), "transaction": .integer(row.number), "error": .text(String(describing: error))])
      return nil
    }
  }

  /// The saved and unexported transactions that concern some objects, cut down to the changes of those objects and the
  /// changes that name them. It reads in parts, so a long backlog costs time and no memory.
  /// - Parameter isWide: include all deletions, which may clear the objects' pointers.
  func pending(about names: Set<String>, isWide: Bool, of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws
    -> [HistoryTransaction]
  {
    var found: [HistoryTransaction] = []
    var last = mirror.exportedTransactionNumber
    while last < mirror.lastTransactionNumber {
      let rows: [StoredTransaction]
      do {
        rows = try snapshot.transactions(
          of: mirror.key, after: last, limit: Limit.exportItemCount, byteLimit: Limit.exportByteCount)
      } catch StoreError.corrupt {
        // Dropped because the export reports the damaged row.
        last += 1
        continue
      }
      guard let end = rows.last?.number else { break }
      last = end
      for row in rows {
        guard var transaction = decoded(row) else { continue }
        transaction.changes.removeAll { !$0.concerns(names) && !(isWide && $0.changeType == .delete) }
        if !transaction.changes.isEmpty { found.append(transaction) }
      }
    }
    return found
  }
}

extension HistoryChange {
  func concerns(_ names: Set<String>) -> Bool {
    names.contains(objectID)
      || relationships.contains { relationship in
        switch relationship.value {
        case .toOne(let target): target.map(names.contains) ?? false
        case .toMany(let targets): targets.contains(where: names.contains)
        case .toManyDelta(let added, let removed):
          added.contains(where: names.contains) || removed.contains(where: names.contains)
        }
      }
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
