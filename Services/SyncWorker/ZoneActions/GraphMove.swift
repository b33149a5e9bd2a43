// Runs a move: exports saved changes, plans the graph in a snapshot, and writes it if the plan still holds.

import Mirroring
import ObjectPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices
import ZoneCommit

/// The result of a move.
struct MovedGraph<Value: Sendable>: Sendable {
  /// Names of the moved objects, without links.
  let objectIDs: [String]
  let zone: StoredZone
  let value: Value
}

/// The commit of a move, for further writes in it.
struct MoveCommit {
  /// The graph's target zone. It exists, and nothing is moved yet.
  let zone: StoredZone
  let transaction: any ShardTransaction
  /// nil for a repeated request whose work is done: the stored rows answer it.
  let commit: ZoneCommit?
}

/// One call that moves objects of a private store to another zone.
struct GraphMove: Sendable {
  let call: StoreCall
  let objectIDs: [String]
  /// The target zone.
  let zoneName: String
  let model: MirrorModel
  let schema: EnvironmentSchema
  /// True makes a missing zone; false refuses the call.
  let makesZone: Bool

  private var context: ObjectContext { call.context }

  /// Attempts to plan a graph that others keep editing.
  private static let attempts = 5
  /// A move of more records stores its event before it is done.
  private static let largeCount = 1000

  /// - Parameters:
  ///   - mayLeave: throws for an object that must stay in its zone. Called during planning and again in the commit.
  ///   - mayEnter: throws for an existing zone that nothing may move to.
  ///   - body: further writes in the same commit, also if nothing is left to move.
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
        if mirror.exportedTransactionNumber < mirror.lastTransactionNumber {
          try await call.exportEverything(of: mirror)
        }
        let plan = try await planned(mayLeave, id)
        if event == nil, plan.count > Self.largeCount { event = try await begun(mirror) }
        if let moved = try await commit(plan, mirror, &event, mayLeave, mayEnter, body) { return moved }
      }
      throw RecordError(.tryAgainLater, "Other requests keep changing the objects of this move", retryAfter: 1)
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
      try PlannedMove(of: objectIDs, of: try call.mirror(in: snapshot), to: zoneName, model, schema, in: snapshot) {
        objectID, zone in
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

  /// - Returns: nil if the plan does not hold any more.
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
      guard current.incarnation == mirror.incarnation,
        current.exportedTransactionNumber == current.lastTransactionNumber,
        let database = try transaction.database(key: current.databaseKey)
      else { throw StaleMove() }
      if let outcome = try key.outcome(in: transaction) {
        return try repeated(outcome, database, body, in: transaction)
      }
      guard try plan.holds(schema, in: transaction) else { throw StaleMove() }
      for part in plan.parts { try mayLeave(part.root, part.zone, transaction) }
      var committed = try write(plan, database, current, at: at, mayEnter, body, in: transaction)
      committed.woken =
        try plan.count == 0
        ? []
        : WaitingChanges(database: database, schema: schema, transaction: transaction, now: at).follow(
          Set(plan.parts.flatMap(\.plan.items).map(\.recordName)))
      try key.put(
        RequestOutcome(at: at, items: [.saved(sequence: database.sequence + 1)], objectIDs: plan.objectIDs),
        in: transaction)
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
    _ plan: PlannedMove, _ database: StoredDatabase, _ mirror: StoredMirror, at: Int64,
    _ mayEnter: (StoredZone, any ShardSnapshot) throws -> Void,
    _ body: (MoveCommit) throws -> Value, in transaction: any ShardTransaction
  ) throws -> Committed<Value> {
    let existing = try transaction.zone(named: zoneName, in: database.key).flatMap { $0.isDeleted ? nil : $0 }
    if let existing {
      try mayEnter(existing, transaction)
    } else if !makesZone {
      throw RecordError(.zoneNotFound, "Zone '\(zoneName.prefix(Limit.nameByteCount))' does not exist")
    } else if zoneName != mirror.defaultZoneName {
      try ZoneRoom.check(in: database, transaction)
    }
    // Unexported objects are looked for in their earlier place, so the locator reads before the move.
    let locator = try ObjectLocator(of: mirror, in: transaction)
    let stamp = Stamp(timestamp: at, userRecordName: call.user, deviceID: mirror.identifier)
    let commit = try CommitTerms(.move, stamp, schema, shard: call.store.shard, context).begin(
      in: database, transaction)
    let zone = try existing ?? commit.makeZone(named: zoneName)
    let value = try body(MoveCommit(zone: zone, transaction: transaction, commit: commit))
    let (moves, id) = (call.plane.moves, call.id(of: mirror))
    var writer = MoveWriter(commit, to: zone) { count in moves.note(.writing(count, of: plan.count), of: id) }
    for part in plan.parts { try writer.move(part) { try locator.row(of: $0) == nil } }
    var committed = Committed(moved: MovedGraph(objectIDs: plan.objectIDs, zone: zone, value: value))
    committed.effects = try commit.finish()
    return committed
  }

  /// The answer to a repeated request: the objects of the first answer, wherever they are now.
  private func repeated<Value: Sendable>(
    _ outcome: RequestOutcome, _ database: StoredDatabase, _ body: (MoveCommit) throws -> Value,
    in transaction: any ShardTransaction
  ) throws -> Committed<Value> {
    guard let zone = try transaction.zone(named: zoneName, in: database.key), !zone.isDeleted else {
      throw RecordError(.zoneNotFound, "Zone '\(zoneName)' no longer exists")
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
