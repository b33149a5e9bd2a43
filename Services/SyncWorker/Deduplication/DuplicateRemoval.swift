// Removes duplicates when every store had the time to hear of the merge: after an export and an import that both
// began later (D4).

import Mirroring
import RecordStore
import Records
import ServiceBus
import ServiceKit

/// What the end of an event lets happen to the duplicates of its database, in the commit that stores it.
struct DuplicateRemoval {
  let database: DatabaseID
  let schema: EnvironmentSchema
  let context: PlaneContext
  /// Whose event it is: what goes is the server's doing all the same.
  let userRecordName: String

  /// Zones that are looked at for one event; the rest, and what is more than a commit may, is left to `DuplicateKeeper`.
  private static let zoneLimit = 20

  /// - Returns: what is to be published once the commit is durable.
  func note(_ event: StoredEvent, of databaseKey: Int64, in transaction: any ShardTransaction) throws -> ZoneEffects {
    var effects = ZoneEffects()
    guard try transaction.hasRedirects(in: databaseKey), let progress = event.duplicateProgress else { return effects }
    for zone in try transaction.zonesWithPendingRedirects(in: databaseKey, afterKey: 0, limit: Self.zoneLimit) {
      try transaction.note(progress, ofPendingRedirectsBefore: event.startedAt, in: zone.key)
      effects.add(try advance(zone, after: nil, in: transaction).effects)
    }
    return effects
  }

  /// Where a look through a zone's duplicates stands.
  struct Step: Sendable {
    var effects = ZoneEffects()
    /// The last duplicate that was looked at.
    var last: String?
    /// There is more to be looked at, or to be done.
    var moreComing = false
  }

  /// Moves and removes what may be in one zone.
  func advance(_ zone: StoredZone, after name: String?, in transaction: any ShardTransaction) throws -> Step {
    let (effects, step) = try merging(in: zone, transaction) { merge in
      let (outcome, last) = try merge.advance(after: name)
      // What nothing can be done about must not be tried for ever.
      return (outcome, (last: last, moreComing: last != nil || outcome.isUnfinished && !outcome.writes.isEmpty))
    }
    return Step(effects: effects, last: step.last, moreComing: step.moreComing)
  }

  /// Merges records of one zone that share a key.
  func mergeGroup(
    _ key: [UInt8], by rule: UniqueRule, in zone: StoredZone, _ transaction: any ShardTransaction
  ) throws -> (effects: ZoneEffects, moreComing: Bool) {
    let (effects, moreComing) = try merging(in: zone, transaction) { merge in
      let moreComing = try merge.mergeGroup(key, by: rule)
      return (merge.outcome, moreComing)
    }
    return (effects, moreComing)
  }

  private func merging<Value>(
    in zone: StoredZone, _ transaction: any ShardTransaction, _ body: (inout DuplicateMerge) throws -> (outcome: DuplicateMerge.Outcome, value: Value)
  ) throws -> (effects: ZoneEffects, value: Value) {
    let firing = try context.watch(schema, by: userRecordName).firing(in: zone.databaseKey, transaction)
    var merge = DuplicateMerge(
      transaction: transaction, zone: zone, schema: schema, writer: ZoneWriter(serverOf: zone, schema, firing, in: transaction),
      stamp: Stamp(timestamp: context.clock.now, userRecordName: userRecordName), random: context.random)
    let (outcome, value) = try body(&merge)
    let fired = try firing?.finish()
    guard !outcome.writes.isEmpty, let current = try transaction.zone(key: zone.key) else { return (ZoneEffects(), value) }
    return (ZoneEffects(current, of: database, fired), value)
  }
}

extension StoredEvent {
  /// What it means for duplicates that a store's event has ended; nil: nothing.
  fileprivate var duplicateProgress: StoredRedirect.Progress? {
    guard succeeded, endedAt != nil else { return nil }
    return switch kind {
    case .export: .exported
    case .import: .imported
    case .setup: nil
    }
  }
}

/// What a commit did to zones on the server's own account, to be told when it is durable.
struct ZoneEffects: Sendable {
  private(set) var changes: [ZoneChange] = []
  private(set) var fired: [Firing] = []

  init() {}

  /// - Parameter fired: nil when nobody has subscribed to anything of the database.
  init(_ zone: StoredZone, of database: DatabaseID, _ fired: [Firing]?) {
    changes = [ZoneChange(zone, of: database, originStore: nil, originUser: nil, hasSubscriptions: fired != nil)]
    self.fired = fired ?? []
  }

  var isEmpty: Bool { changes.isEmpty && fired.isEmpty }

  mutating func add(_ other: ZoneEffects) {
    changes += other.changes
    fired += other.fired
  }

  func publish(by context: PlaneContext) {
    for change in changes { context.changes.publish(change) }
    context.publish(fired)
  }
}

extension ZoneWriter {
  /// A writer on the server's own account: every store hears of what it writes.
  init(serverOf zone: StoredZone, _ schema: EnvironmentSchema, _ firing: SubscriptionFiring?, in transaction: any ShardTransaction) {
    self.init(transaction: transaction, zone: zone, origin: 0, originDevice: nil, references: { schema.references(of: $0) }, firing: firing)
  }
}
