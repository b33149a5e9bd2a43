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
  let shard: Int
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
    let commit = try CommitTerms(
      .merge, Stamp(timestamp: context.clock.now, userRecordName: userRecordName), schema, shard: shard, context
    ).begin(in: transaction.row(ofDatabase: zone.databaseKey), transaction)
    var merge = DuplicateMerge(in: zone, of: commit)
    let value = try body(&merge).value
    return (try commit.finish(), value)
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
