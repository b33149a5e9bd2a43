// The visible progress of a move: its event, and its phase.

import Mirroring
import ObjectPlane
import RecordStore
import Records
import ServiceKit
import Synchronization
import WebServices
import ZoneCommit

extension GraphMove {
  /// Begins the event of a large move. After a crash the shard's next holder ends the event (T-V04).
  func begun(_ mirror: StoredMirror) async throws(RecordError) -> StoredEvent {
    let event = StoredEvent(identifier: call.context.random.uuid(), kind: .export, startedAt: call.now, succeeded: true)
    let commit = call.store.enqueue { transaction -> StoredEvent in
      var event = event
      event.number = try transaction.put(event, of: try call.mirror(in: transaction).key)
      return event
    }
    let begun = try await call.value(of: commit)
    call.context.noticed(call.id(of: mirror))
    return begun
  }

  /// The event of a finished move; nil if nothing moved. Every record counts as one save and one deletion.
  func ended(_ begun: StoredEvent?, _ plan: PlannedMove, at now: Int64) -> StoredEvent? {
    if plan.count == 0 && begun == nil { return nil }
    var event =
      begun ?? StoredEvent(identifier: call.context.random.uuid(), kind: .export, startedAt: now, succeeded: true)
    event.endedAt = max(now, event.startedAt)
    event.savedCount = plan.count
    event.deletedCount = plan.count
    return event
  }

  /// Ends the event of a failed move.
  func abandon(_ begun: StoredEvent, _ id: MirrorID, _ error: RecordError) async {
    var event = begun
    event.endedAt = max(call.now, begun.startedAt)
    event.succeeded = false
    event.errorJSON = MirrorErrors.failure(error)
    let ended = event
    do {
      _ = try await call.store.enqueue { transaction in
        if try transaction.mirror(key: id.key) != nil { _ = try transaction.put(ended, of: id.key) }
      }.value
    } catch {
      // Dropped because an event that can't be ended counts as abandoned at the next opening of the shard.
      call.context.log.debug("a move's event could not be ended", ["shard": .integer(Int64(id.shard))])
    }
    call.context.noticed(id)
  }
}
