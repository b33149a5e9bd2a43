// Tells of exports that ended: to stores, to the loop of their shard, and to the log.

import RecordStore
import Records
import ServiceBus
import ServiceKit
import ZoneCommit

/// Publishes the outcomes of a shard's exports, and signals the work that is left.
struct ExportReport: Sendable {
  let store: any ShardStore
  let context: ObjectContext
  let exports: ShardExports

  /// Waits for a batch that a save queued, publishes it and signals the work that is left.
  /// - Returns: the outcome of the batch; nil when it failed.
  func follow(_ export: ExportStart) async -> ExportOutcome? {
    let id = MirrorID(shard: store.shard, key: export.mirrorKey)
    exports.runs.begin(id)
    defer { exports.runs.end(id) }
    do {
      let outcome = try await export.commit.value
      exports.runs.succeeded(id)
      outcome.publish(by: context)
      log(outcome, of: export.mirrorKey)
      if outcome.moreComing || outcome.retryAt != nil {
        exports.signal(
          .finished(
            mirrorKey: export.mirrorKey, moreComing: outcome.moreComing, running: outcome.running,
            retryAt: outcome.retryAt), on: store.shard)
      }
      return outcome
    } catch {
      await fail(export.mirrorKey, ExportFailure(error), error, running: nil, isDrain: false)
      return nil
    }
  }

  /// Logs the failure and signals it. A shard that was fenced or closed is another worker's to export.
  func fail(_ mirrorKey: Int64, _ failure: ExportFailure, _ error: any Error, running: ExportProgress?, isDrain: Bool)
    async
  {
    // The drain that looks for a poisoned batch's cause reports it; the save's batch does not.
    if failure != .poisoned || isDrain {
      log("an export failed", error, mirror: mirrorKey)
      if failure != .gone, exports.runs.failed(MirrorID(shard: store.shard, key: mirrorKey)) {
        await RunEvents(store: store, context: context).noteFailure(error, of: mirrorKey)
      }
    }
    exports.signal(.failed(mirrorKey: mirrorKey, failure, running: running, isDrain: isDrain), on: store.shard)
  }

  func log(_ outcome: ExportOutcome, of mirrorKey: Int64) {
    context.log.debug(
      "exported",
      [
        "mirror": .integer(mirrorKey), "shard": .integer(Int64(store.shard)),
        "through": .integer(outcome.exportedNumber),
        "zones": .integer(Int64(outcome.effects.changes.count)), "moreComing": .flag(outcome.moreComing),
      ])
  }

  func log(_ message: StaticString, _ error: any Error, mirror: Int64 = 0) {
    if ExportFailure(error) == .gone { return }
    context.log.error(
      message,
      ["mirror": .integer(mirror), "shard": .integer(Int64(store.shard)), "error": .text(String(describing: error))])
  }
}
