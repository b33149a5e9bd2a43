// A move from end to end: what is saved is exported, the graph is planned beside the writer, and written by it if the plan still holds.

import Mirroring
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices

/// What a move did.
struct MovedGraph<Value: Sendable>: Sendable {
  /// Objects, links apart.
  let objectIDs: [String]
  let zone: StoredZone
  let value: Value
}

/// The commit of a move, for what else is done in it.
struct MoveCommit {
  /// Where the graph goes: there already, and nothing is moved yet.
  let zone: StoredZone
  let transaction: any ShardTransaction
  /// nil: the request was sent before, and all of it is done: what is there answers it.
  let commit: ZoneCommit?
}

/// One call that moves objects of a private store to another zone.
struct GraphMove: Sendable {
  let call: StoreCall
  let objectIDs: [String]
  /// Where to: made if need be.
  let zoneName: String
  let model: MirrorModel
  let schema: EnvironmentSchema
  /// Whether the zone is made when it does not exist; otherwise the call is refused.
  let makesZone: Bool

  private var context: PlaneContext { call.context }

  /// A graph that others edit all the time is planned so often.
  private static let attempts = 5
  /// A move of more records begins its event before it is done.
  private static let largeCount = 1000

  /// - Parameters:
  ///   - mayLeave: throws for an object of a zone that is not to be left; asked while it is planned, and again in the commit.
  ///   - mayEnter: throws for a zone that is there and that nothing may move to.
  ///   - body: what else is done in the same commit, also when nothing is left to move.
  func run<Value: Sendable>(
    mayLeave: @escaping @Sendable (String, StoredZone, any ShardSnapshot) throws -> Void = { _, _, _ in },
    mayEnter: @escaping @Sendable (StoredZone, any ShardSnapshot) throws -> Void = { _, _ in },
    _ body: @escaping @Sendable (MoveCommit) throws -> Value
  ) async throws(RecordError) -> MovedGraph<Value> {
    let id = call.id(of: try await call.locate())
    call.plane.moves.begin(id)
    defer { call.plane.moves.end(id) }
    var event: StoredEvent?
    do throws(RecordError) {
      for _ in 0..<Self.attempts {
        let mirror = try await call.locate()
        if mirror.exportedTransactionNumber < mirror.lastTransactionNumber { try await call.exportEverything(of: mirror) }
        let plan = try await planned(mayLeave, id)
        if event == nil, plan.count > Self.largeCount { event = try await begun(mirror) }
        if let moved = try await commit(plan, mirror, &event, mayLeave, mayEnter, body) { return moved }
      }
      throw RecordError(.tryAgainLater, "Others change what is to be moved all the time", retryAfter: 1)
    } catch {
      if let event { await abandon(event, id, error) }
      throw error
    }
  }

  private func planned(
    _ mayLeave: @escaping @Sendable (String, StoredZone, any ShardSnapshot) throws -> Void, _ id: MirrorID
  ) async throws(RecordError) -> PlannedMove {
    let moves = call.plane.moves
    return try await call.read { snapshot in
      try PlannedMove(of: objectIDs, of: try call.mirror(in: snapshot), to: zoneName, model, schema, in: snapshot) { objectID, zone in
        try mayLeave(objectID, zone, snapshot)
      } progress: { count in
        if count % 100 == 0 { moves.note(.planning(count), of: id) }
      }
    }
  }

  private struct Committed<Value: Sendable>: Sendable {
    var moved: MovedGraph<Value>
    var effects = ZoneEffects()
    var woken: [Int64] = []
  }

  /// - Returns: nil: the plan does not hold any more.
  private func commit<Value: Sendable>(
    _ plan: PlannedMove, _ mirror: StoredMirror, _ event: inout StoredEvent?,
    _ mayLeave: @escaping @Sendable (String, StoredZone, any ShardSnapshot) throws -> Void,
    _ mayEnter: @escaping @Sendable (StoredZone, any ShardSnapshot) throws -> Void,
    _ body: @escaping @Sendable (MoveCommit) throws -> Value
  ) async throws(RecordError) -> MovedGraph<Value>? {
    let at = call.now
    let ended = ended(event, plan, at: at)
    let key = IdempotencyKey(request: call.request, body: call.body)
    let pending = call.store.enqueue { transaction -> Committed<Value> in
      let current = try call.mirror(in: transaction)
      guard current.incarnation == mirror.incarnation, current.exportedTransactionNumber == current.lastTransactionNumber,
        let database = try transaction.database(key: current.databaseKey)
      else { throw StaleMove() }
      if let outcome = try key.outcome(in: transaction) { return try repeated(outcome, database, body, in: transaction) }
      guard try plan.holds(schema, in: transaction) else { throw StaleMove() }
      for part in plan.parts { try mayLeave(part.root, part.zone, transaction) }
      var committed = try write(plan, database, current, at: at, mayEnter, body, in: transaction)
      committed.woken =
        try plan.count == 0
        ? [] : WaitingChanges(database: database, schema: schema, transaction: transaction, now: at).follow(Set(plan.parts.flatMap(\.plan.items).map(\.recordName)))
      try key.put(RequestOutcome(at: at, items: [.saved(sequence: database.sequence + 1)], objectIDs: plan.objectIDs), in: transaction)
      if let ended { _ = try transaction.put(ended, of: current.key) }
      return committed
    }
    let committed: Committed<Value>
    do {
      committed = try await pending.value
    } catch is StaleMove {
      return nil
    } catch {
      throw RecordError(storing: error, log: context.log)
    }
    event = nil
    await publish(committed, call.id(of: mirror))
    return committed.moved
  }

  private func write<Value: Sendable>(
    _ plan: PlannedMove, _ database: StoredDatabase, _ mirror: StoredMirror, at: Int64, _ mayEnter: (StoredZone, any ShardSnapshot) throws -> Void,
    _ body: (MoveCommit) throws -> Value, in transaction: any ShardTransaction
  ) throws -> Committed<Value> {
    let existing = try transaction.zone(named: zoneName, in: database.key).flatMap { $0.isDeleted ? nil : $0 }
    if let existing {
      try mayEnter(existing, transaction)
    } else if !makesZone {
      throw RecordError(.zoneNotFound, "Zone '\(zoneName.prefix(Limit.nameByteCount))' does not exist")
    } else if zoneName != mirror.defaultZoneName {
      try RecordPlaneCall.checkRoom(forZoneIn: database, transaction)
    }
    // What is not exported is looked for where it was before.
    let locator = try ObjectLocator(of: mirror, in: transaction)
    let stamp = Stamp(timestamp: at, userRecordName: call.user, deviceID: mirror.identifier)
    let commit = try CommitTerms(.move, stamp, schema, shard: call.store.shard, context).begin(in: database, transaction)
    let zone = try existing ?? commit.makeZone(named: zoneName)
    let value = try body(MoveCommit(zone: zone, transaction: transaction, commit: commit))
    let (moves, id) = (call.plane.moves, call.id(of: mirror))
    var writer = MoveWriter(commit, to: zone) { count in moves.note(.writing(count, of: plan.count), of: id) }
    for part in plan.parts { try writer.move(part) { try locator.row(of: $0) == nil } }
    var committed = Committed(moved: MovedGraph(objectIDs: plan.objectIDs, zone: zone, value: value))
    committed.effects = try commit.finish()
    return committed
  }

  /// What a request that is sent again is answered: what its first answer said, wherever that is by now.
  private func repeated<Value: Sendable>(
    _ outcome: RequestOutcome, _ database: StoredDatabase, _ body: (MoveCommit) throws -> Value, in transaction: any ShardTransaction
  ) throws -> Committed<Value> {
    guard let zone = try transaction.zone(named: zoneName, in: database.key), !zone.isDeleted else {
      throw RecordError(.zoneNotFound, "Zone '\(zoneName)' does not exist any more")
    }
    let value = try body(MoveCommit(zone: zone, transaction: transaction, commit: nil))
    return Committed(moved: MovedGraph(objectIDs: outcome.objectIDs, zone: zone, value: value))
  }

  private func publish<Value: Sendable>(_ committed: Committed<Value>, _ id: MirrorID) async {
    committed.effects.publish(by: context)
    for key in committed.woken { call.exports.signal(.backlog(mirrorKey: key), on: call.store.shard) }
    context.noticed(id)
  }
}
