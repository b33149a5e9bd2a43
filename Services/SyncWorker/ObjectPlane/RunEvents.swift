// Stores the events that no run of an export stores itself.

import Mirroring
import RecordStore
import Records
import ServiceKit
import Synchronization
import WebServices
import ZoneCommit

/// Stores events that no run stores itself.
struct RunEvents: Sendable {
  let store: any ShardStore
  let context: ObjectContext

  private static let pageCount = 100

  /// Ends events that the shard's earlier holder began (T-V04): the next page or batch begins a run of its own.
  func endAbandoned() async {
    let context = context
    do {
      while !Task.isCancelled {
        let ended = try await store.enqueue { transaction in
          let abandoned = try transaction.abandonedEvents(limit: Self.pageCount)
          for (mirror, event) in abandoned {
            var event = event
            event.endedAt = max(context.clock.now, event.startedAt)
            event.succeeded = false
            event.errorJSON = MirrorErrors.interrupted(event.errorJSON)
            _ = try transaction.put(event, of: mirror)
          }
          return abandoned.map(\.mirror)
        }.value
        for mirror in Set(ended) { context.noticed(MirrorID(shard: store.shard, key: mirror)) }
        if ended.count < Self.pageCount { return }
      }
    } catch StoreError.fenced, StoreError.closed {
      // Dropped because another worker holds the shard and does the same.
    } catch {
      context.log.error(
        "events left open can't be ended",
        ["shard": .integer(Int64(store.shard)), "error": .text(String(describing: error))])
    }
  }

  /// The one event of a streak of failed exports: begun and ended with its first failure.
  func noteFailure(_ error: any Error, of mirrorKey: Int64) async {
    let reason = RecordError(storing: error, log: .silent)
    let now = context.clock.now
    let event = StoredEvent(
      identifier: context.random.uuid(), kind: .export, startedAt: now, endedAt: now, succeeded: false,
      errorJSON: MirrorErrors.failure(reason))
    do {
      try await store.enqueue { transaction in
        // The store was removed meanwhile: it has no events.
        guard try transaction.mirror(key: mirrorKey) != nil else { return }
        _ = try transaction.put(event, of: mirrorKey)
      }.value
      context.noticed(MirrorID(shard: store.shard, key: mirrorKey))
    } catch {
      // Dropped because what kept the export from being stored keeps its event, too; the log has both.
      context.log.debug(
        "a failed export's event could not be stored",
        ["shard": .integer(Int64(store.shard)), "mirror": .integer(mirrorKey)])
    }
  }
}
