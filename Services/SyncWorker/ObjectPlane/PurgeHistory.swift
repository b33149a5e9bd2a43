// Persistent history: purging it, guarded by the low-water mark (H8). Nothing that was acknowledged goes before it is exported.

import JSON
import Mirroring
import RecordStore
import Records
import ServiceBus
import WebServices

extension StoreCall {
  func purgeHistory(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    guard let position = try HistoryPosition(.before, in: request.query) else {
      throw RecordError(.badRequest, "before is missing: send before, beforeDate or beforeTransaction")
    }
    // H3: a deletion only ever tells its status.
    if let text = request.query["resultType"], try HistoryResultType(text) != .statusOnly {
      throw RecordError(.badRequest, "resultType: a deletion is always statusOnly")
    }
    let isForced = try flag("force")
    var run: ExportRun?
    var isFirst = true
    func commit(_ batch: ExportRun?) async throws -> PurgeStep {
      let commit = store.enqueue { transaction in try purge(position, isForced: isForced, exportingWith: batch, in: transaction) }
      if isFirst { startNext() }
      isFirst = false
      return try await commit.value
    }
    while true {
      let step: PurgeStep
      do {
        if let run { step = try await run.isolating { batch in try await commit(batch) } } else { step = try await commit(nil) }
      } catch {
        throw RecordError(storing: error, log: context.log)
      }
      switch step {
      case .purged(let count, let outcome):
        outcome?.publish(by: context)
        return PlaneAnswer(body: StoreAnswer.purged(count))
      case .exported(let outcome):
        outcome.publish(by: context)
        run?.advance(after: outcome)
      case .needsExport: run = try await exportRun(for: try await locate())
      }
    }
  }

  private enum PurgeStep: Sendable {
    /// With the export of the last batch in the same commit, where there was one.
    case purged(Int, ExportOutcome?)
    /// Another batch is to be exported first.
    case exported(ExportOutcome)
    /// Nothing was done: transactions that are to go have to be exported first.
    case needsExport
  }

  /// By force history goes beyond the low-water mark: consumers that stand before it have to start over, and what is not exported yet is
  /// exported first, all of it, so that no batch is left half told. A store that can't be exported keeps its history.
  private func purge(
    _ position: HistoryPosition, isForced: Bool, exportingWith run: ExportRun?, in transaction: any ShardTransaction
  ) throws -> PurgeStep {
    let mirror = try self.mirror(in: transaction)
    let number = try position.number(.before, of: mirror, in: transaction)
    let mark = try LowWaterMark(of: mirror, in: transaction)
    if number > mark.transactionNumber, !isForced { throw mark.refusal(of: mirror) }
    var outcome: ExportOutcome?
    // A run that is under way is seen to its end, so that its event has one.
    if number > mirror.exportedTransactionNumber || run?.running != nil {
      guard let run, run.mirrorKey == mirror.key else { return .needsExport }
      let exported = try run.callAsFunction(transaction)
      if exported.moreComing {
        // Where nothing is left to export, what was held back is tried again.
        guard exported.hasAdvanced || exported.exportedNumber == mirror.lastTransactionNumber else {
          throw RecordError(.conflict, "The store's transactions can't be exported now: none was purged")
        }
        return .exported(exported)
      }
      outcome = exported
    }
    return .purged(try transaction.purgeTransactions(of: mirror.key, through: number), outcome)
  }
}
