// Purges persistent history up to the low-water mark (H8). No acknowledged transaction goes before it is exported.

import JSON
import Mirroring
import RecordStore
package import Records
import ServiceBus
import WebServices
package import ZoneCommit

extension StoreCall {
  package func purgeHistory(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    guard let position = try HistoryPosition(.before, in: request.query) else {
      throw RecordError(.badRequest, "before is missing: send before, beforeDate or beforeTransaction")
    }
    // H3: a deletion only ever reports its status.
    if let text = request.query["resultType"], try HistoryResultType(text) != .statusOnly {
      throw RecordError(.badRequest, "resultType must be statusOnly for a deletion")
    }
    let isForced = try flag("force")
    var run: ExportRun?
    var isFirst = true
    func commit(_ batch: ExportRun?) async throws -> PurgeStep {
      let commit = store.enqueue { transaction in
        try purge(position, isForced: isForced, exportingWith: batch, in: transaction)
      }
      if isFirst { startNext() }
      isFirst = false
      return try await commit.value
    }
    while true {
      let step: PurgeStep
      do {
        if let run {
          step = try await run.isolating { batch in try await commit(batch) }
        } else {
          step = try await commit(nil)
        }
      } catch {
        throw RecordError(storing: error, log: context.log)
      }
      switch step {
      case .purged(var count, let rest, let outcome):
        outcome?.publish(by: context)
        if let rest { count += try await purgeSlices(of: rest.mirror, through: rest.number, isForced: isForced) }
        return PlaneAnswer(body: StoreAnswer.purged(count))
      case .exported(let outcome):
        outcome.publish(by: context)
        run?.advance(after: outcome)
      case .needsExport: run = try await exportRun(for: try await locate())
      }
    }
  }

  private enum PurgeStep: Sendable {
    /// The last batch, if any, was exported in the same commit. A long history goes on up to a number.
    case purged(Int, rest: (mirror: StoredMirror, number: Int64)?, ExportOutcome?)
    /// Another batch has to be exported first.
    case exported(ExportOutcome)
    /// Nothing was done: transactions of the purge have to be exported first.
    case needsExport
  }

  /// A forced purge passes the low-water mark: the consumers before it have to start over. All unexported transactions
  /// are exported first, so that no run stays half done. A store that can't be exported keeps its history.
  private func purge(
    _ position: HistoryPosition, isForced: Bool, exportingWith run: ExportRun?, in transaction: any ShardTransaction
  ) throws -> PurgeStep {
    let mirror = try self.mirror(in: transaction)
    let number = try position.number(.before, of: mirror, in: transaction)
    let mark = try LowWaterMark(of: mirror, in: transaction)
    if number > mark.transactionNumber, !isForced { throw mark.refusal(of: mirror) }
    var outcome: ExportOutcome?
    // Finish a run under way, so that its event ends.
    if number > mirror.exportedTransactionNumber || run?.running != nil {
      guard let run, run.mirrorKey == mirror.key else { return .needsExport }
      let exported = try run.callAsFunction(transaction)
      if exported.moreComing {
        // With nothing left to export, the batch only retries held-back changes.
        guard exported.hasAdvanced || exported.exportedNumber == mirror.lastTransactionNumber else {
          throw RecordError(.conflict, "The store's transactions can't be exported now: none was purged")
        }
        return .exported(exported)
      }
      outcome = exported
    }
    let slice = min(number, mirror.purgedTransactionNumber + StoredMirror.historySliceCount)
    return .purged(
      try transaction.purgeTransactions(of: mirror.key, through: slice), rest: slice < number ? (mirror, number) : nil,
      outcome)
  }
}
