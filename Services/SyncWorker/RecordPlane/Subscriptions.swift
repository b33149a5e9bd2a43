// subscriptions/list, subscriptions/lookup and subscriptions/modify (docs/protocol/record-plane.md#subscriptions).

import JSON
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices
import ZoneCommit

extension RecordPlaneCall {
  /// The subscribing user: users see and change their own subscriptions only, in the public database too.
  private func subscriber() throws(RecordError) -> String {
    guard let user = request.caller.userRecordName else {
      throw RecordError(.authenticationRequired, "request needs authorization")
    }
    return user
  }

  func listSubscriptions() async throws(RecordError) -> PlaneAnswer {
    let (user, scope, database) = (try subscriber(), request.scope, database)
    let rows = try await read { snapshot -> [StoredSubscription] in
      guard let row = try snapshot.database(database) else { return [] }
      return try snapshot.subscriptions(of: user, scope: scope, in: row.key, limit: Limit.subscriptionsPerUser)
    }
    return try answer(rows) { row, output in output.add { $0.raw(row.payload) } }
  }

  func lookUpSubscriptions() async throws(RecordError) -> PlaneAnswer {
    let (user, scope, database) = (try subscriber(), request.scope, database)
    let identifiers = try LookupSubscriptionsRequest.identifiers(of: json)
    let rows = try await read { snapshot -> [StoredSubscription?] in
      guard let row = try snapshot.database(database) else { return identifiers.map { _ in nil } }
      return try identifiers.map { try snapshot.subscription($0, of: user, scope: scope, in: row.key) }
    }
    return try answer(zip(identifiers, rows)) { item, output in
      if let row = item.1 {
        output.add { $0.raw(row.payload) }
      } else {
        output.add(Self.missing(subscription: item.0), of: item.0)
      }
    }
  }

  func modifySubscriptions(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let user = try subscriber()
    let key = IdempotencyKey(request: request, body: body)
    let schema = try await context.schemas.schema(of: database.container, database.environment)
    let operations = try SubscriptionOperation.operations(of: json, owner: database.owner, schema: schema.schemaIndex) {
      key.recordName(at: $0)
    }
    var plans: [SubscriptionModification.Plan] = []
    for operation in operations { plans.append(plan(operation)) }
    let modification = SubscriptionModification(
      database: database, finder: finder, user: user, scope: request.scope, plans: plans, key: key,
      now: context.clock.now)
    let pending = store.enqueue { transaction in try modification.commit(in: transaction) }
    startNext()
    let items = try await value(of: pending)
    return try answer(zip(plans, items)) { item, output in
      let (plan, outcome) = item
      switch outcome {
      case .saved: output.add { $0.raw(plan.payload) }
      case .deleted: output.add { Subscription.writeDeleted(plan.subscriptionID, to: &$0) }
      case .failed(let error): output.add(error, of: plan.subscriptionID)
      }
    }
  }

  /// The operation, with the errors that do not depend on stored subscriptions.
  private func plan(_ operation: SubscriptionOperation) -> SubscriptionModification.Plan {
    var plan = SubscriptionModification.Plan(kind: operation.kind, subscriptionID: operation.subscriptionID)
    switch operation.subscription {
    case nil: break
    case .failure(let error): plan.problem = error
    case .success(let subscription):
      plan.payload = subscription.json(owner: ownerRecordName)
      do throws(RecordError) {
        plan.zone = try watchedZone(of: subscription)
      } catch {
        plan.problem = error
      }
    }
    return plan
  }

  /// The zone that must exist for the subscription to be of use.
  /// - Throws: `BAD_REQUEST` for a zone that can't be watched in this database, `ZONE_NOT_FOUND`.
  private func watchedZone(of subscription: Subscription) throws(RecordError) -> Zone.ID? {
    switch (request.scope, subscription.subject) {
    case (.public, .database), (.public, .zone):
      // Otherwise every save would be told to users who may not read it.
      throw RecordError(.badRequest, "The public database takes query subscriptions only")
    case (.shared, .query(_, _, in: nil, _)):
      throw RecordError(.badRequest, "A query subscription of the shared database must name its zone")
    case (_, .database): return nil
    case (_, .zone(let zone)), (_, .query(_, _, in: let zone?, _)): return try self.zone(zone)
    case (_, .query(_, _, in: nil, _)): return nil
    }
  }

  private static func missing(subscription identifier: String) -> RecordError {
    RecordError(.notFound, "Subscription '\(identifier)' does not exist")
  }

  private func answer<Items: Sequence>(_ items: Items, add: (Items.Element, inout ListAnswer) -> Void)
    throws(RecordError) -> PlaneAnswer
  {
    var output = ListAnswer("subscriptions", of: request, reservingByteCount: 1024)
    for item in items { add(item, &output) }
    return try output.finish()
  }
}

extension ListAnswer {
  fileprivate mutating func add(_ error: RecordError, of subscriptionID: String) {
    add(error) { Subscription.writeError(error, of: subscriptionID, to: &$0) }
  }
}

/// The write of `subscriptions/modify`.
private struct SubscriptionModification: Sendable {
  struct Plan: Sendable {
    let kind: SubscriptionOperation.Kind
    let subscriptionID: String
    /// As it is stored and shown.
    var payload: [UInt8] = []
    var zone: Zone.ID?
    var problem: RecordError?
  }

  let database: DatabaseID
  let finder: ZoneFinder
  let user: String
  let scope: DatabaseScope
  let plans: [Plan]
  let key: IdempotencyKey
  let now: Int64

  /// - Returns: one outcome per operation. A repetition gets the first answer and changes nothing.
  func commit(in transaction: any ShardTransaction) throws -> [RequestOutcome.Item] {
    if let earlier = try key.outcome(in: transaction), earlier.items.count == plans.count { return earlier.items }
    let items = try plans.map { try $0.problem.map { .failed($0) } ?? apply($0, in: transaction) }
    try key.put(RequestOutcome(at: now, items: items), in: transaction)
    return items
  }

  private func apply(_ plan: Plan, in transaction: any ShardTransaction) throws -> RequestOutcome.Item {
    let row = try transaction.database(database)
    let existing = try row.flatMap {
      try transaction.subscription(plan.subscriptionID, of: user, scope: scope, in: $0.key)
    }
    if plan.kind != .create, existing == nil {
      return .failed(RecordError(.notFound, "Subscription '\(plan.subscriptionID)' does not exist"))
    }
    if plan.kind == .delete {
      if let existing { try transaction.deleteSubscription(existing.key, in: existing.databaseKey) }
      return .deleted
    }
    if let existing, existing.payload == plan.payload { return .saved(sequence: 0) }
    if let zone = plan.zone, !zone.isDefault, try finder.find(zone, in: transaction) == nil {
      return .failed(RecordError.noZone(named: zone.zoneName))
    }
    let key = try row?.key ?? transaction.makeDatabase(database).key
    if existing == nil, let problem = try excess(in: key, transaction) { return .failed(problem) }
    _ = try transaction.putSubscription(plan.subscriptionID, of: user, scope: scope, payload: plan.payload, in: key)
    return .saved(sequence: 0)
  }

  /// The most subscriptions of one participant in one owner's database.
  private static let guestLimit = 50

  /// The error when there is no room for another subscription.
  private func excess(in database: Int64, _ transaction: any ShardTransaction) throws -> RecordError? {
    // Guests must not use up the owner's allowance.
    let isGuest = scope == .shared && self.database.owner != user
    let ownLimit = isGuest ? Self.guestLimit : Limit.subscriptionsPerUser
    if try transaction.subscriptions(of: user, scope: scope, in: database, limit: ownLimit).count >= ownLimit {
      return RecordError(.quotaExceeded, "You have \(ownLimit) subscriptions to the database, which is the limit")
    }
    let limit = isGuest ? Limit.subscriptionsPerDatabase / 2 : Limit.subscriptionsPerDatabase
    if try transaction.subscriptionCount(in: database) >= limit {
      return RecordError(.quotaExceeded, "The database has \(limit) subscriptions, which is the limit")
    }
    return nil
  }
}
