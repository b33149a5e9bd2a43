// Questions of other services about shares: the database of a short GUID, an invitation, and whether an acceptance is
// known.

import RecordStore
import Records
import ServiceBus
import ServiceKit
import Sharing
import ZoneCommit

extension Worker {
  /// The time for an acceptance to reach the share service; gateways wait longer for the answer.
  private static let tellingLimit: Duration = .seconds(5)

  func serveShareQuestions(in handlers: inout BusHandlers) {
    handlers.on(LocateShortGUID.self) { [self] message, _, _ in Answer(try await locate(message)) }
    handlers.on(DescribeInvitation.self) { [self] message, _, _ in Answer(try await describe(message)) }
  }

  /// - Throws: `BusError`.
  private func locate(_ message: LocateShortGUID) async throws -> LocateShortGUID.Reply {
    let store = { (host: ShardHost) in try await host.store(ofShard: message.shard, having: message.part) }
    let database = try await read(store) { snapshot -> DatabaseID? in
      let zone =
        try snapshot.record(withShortGUID: message.shortGUID)?.zone
        ?? snapshot.share(withOneTimeGUID: message.shortGUID)?.zone
      return try zone.flatMap { try snapshot.zone(key: $0) }.flatMap {
        try snapshot.database(key: $0.databaseKey)?.id
      }
    }
    return LocateShortGUID.Reply(container: database?.container, environment: database?.environment)
  }

  /// - Throws: `BusError`. An invitation that has ended is no error.
  private func describe(_ message: DescribeInvitation) async throws -> DescribeInvitation.Reply {
    try await read({ try await $0.store(of: message.database) }) { snapshot in
      guard let database = try snapshot.database(message.database),
        let zone = try snapshot.zone(named: message.zoneName, in: database.key), !zone.isDeleted,
        let share = try snapshot.share(named: message.shareName, in: zone.key),
        share.state?.waiting.contains(where: { $0.participantID == message.participantID }) == true
      else { return DescribeInvitation.Reply() }
      let fields = try snapshot.record(named: share.name, in: zone.key)?.record.fields
      return DescribeInvitation.Reply(
        shortGUID: share.shortGUID, title: fields?.string(ReservedName.shareTitle))
    }
  }

  /// - Throws: `BusError`.
  private func read<Value: Sendable>(
    _ store: (ShardHost) async throws -> any ShardStore,
    _ body: @escaping @Sendable (any ShardSnapshot) throws -> Value
  ) async throws -> Value {
    let parts = try openParts()
    do {
      return try await store(parts.host).read(body)
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
