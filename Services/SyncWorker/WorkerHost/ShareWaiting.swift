// Share requests of other services: finding the database of a short GUID, and waiting until an acceptance is known.

import RecordStore
import Records
import ServiceBus
import ServiceKit
import ZoneCommit

extension Worker {
  /// The time for an acceptance to reach the share service; gateways wait longer for the answer.
  private static let tellingLimit: Duration = .seconds(5)

  /// - Throws: `BusError`.
  func locate(_ message: LocateShortGUID) async throws -> LocateShortGUID.Reply {
    let parts = try openParts()
    do {
      let store = try await parts.host.store(ofShard: message.shard)
      let database = try await store.read { snapshot -> DatabaseID? in
        let zone =
          try snapshot.record(withShortGUID: message.shortGUID)?.zone
          ?? snapshot.share(withOneTimeGUID: message.shortGUID)?.zone
        return try zone.flatMap { try snapshot.zone(key: $0) }.flatMap {
          try snapshot.database(key: $0.databaseKey)?.id
        }
      }
      return LocateShortGUID.Reply(container: database?.container, environment: database?.environment)
    } catch let error as BusError {
      throw error
    } catch {
      let problem = RecordError(storing: error, log: context.log)
      throw problem == .shardMoved
        ? BusError(.notMine, "the shard is no longer held here") : BusError(.overloaded, problem.reason)
    }
  }

  /// Waits until the share service knows the shard's earlier commits, so that a participant finds the zone.
  /// - Throws: `tryAgainLater`. The acceptance is committed; a repetition only waits again.
  func waitForShareNews(of shard: Int, _ signals: ShareNewsSignals) async throws(RecordError) {
    let timing = context.timing
    let isTold = await withTaskGroup(of: Bool.self) { group in
      group.addTask { await signals.delivered(shard) }
      group.addTask {
        // Dropped because a cancelled sleep ends the wait just as a finished one does.
        try? await timing.sleep(Self.tellingLimit)
        return false
      }
      let first = await group.next() ?? false
      group.cancelAll()
      return first
    }
    if !isTold {
      throw RecordError(
        .tryAgainLater, "The share is accepted; it becomes visible as soon as the share service runs again",
        retryAfter: 1)
    }
  }
}
