// Removes a duplicate once every store could hear of the merge: after an export and an import that both began after
// it (D4).

import Mirroring
package import RecordStore
package import Records
import ServiceBus
import ServiceKit
package import ZoneCommit

/// Processes a database's duplicates when an event ends, in the commit that stores the event.
package struct DuplicateRemoval {
  package let database: DatabaseID
  package let shard: Int
  package let schema: EnvironmentSchema
  package let context: CommitContext
  /// The user of the event. The removals count as the server's all the same.
  package let userRecordName: String

  package init(
    database: DatabaseID, shard: Int, schema: EnvironmentSchema, context: CommitContext, userRecordName: String
  ) {
    self.database = database
    self.shard = shard
    self.schema = schema
    self.context = context
    self.userRecordName = userRecordName
  }

  /// Zones processed for one event. `DuplicateKeeper` does the rest, and the work beyond one commit.
  private static let zoneLimit = 20

  /// - Returns: the effects to publish once the commit is durable.
  func note(_ event: StoredEvent, of databaseKey: Int64, in transaction: any ShardTransaction) throws -> ZoneEffects {
    var effects = ZoneEffects()
    guard try transaction.hasRedirects(in: databaseKey), let progress = event.duplicateProgress else { return effects }
    for zone in try transaction.zonesWithPendingRedirects(in: databaseKey, afterKey: 0, limit: Self.zoneLimit) {
      try transaction.note(progress, ofPendingRedirectsBefore: event.startedAt, in: zone.key)
      effects.add(try advance(zone, after: nil, in: transaction).effects)
    }
    return effects
  }

  /// The progress of a pass over a zone's duplicates.
  package struct Step: Sendable {
    package var effects = ZoneEffects()
    /// The last duplicate that was processed.
    package var last: String?
    /// True if duplicates or writes are left.
    package var moreComing = false

    package init(effects: ZoneEffects = ZoneEffects(), last: String? = nil, moreComing: Bool = false) {
      self.effects = effects
      self.last = last
      self.moreComing = moreComing
    }
  }

  /// Moves pointers and removes due duplicates of one zone.
  package func advance(_ zone: StoredZone, after name: String?, in transaction: any ShardTransaction) throws -> Step {
    let (effects, step) = try merging(in: zone, transaction) { merge in
      let (outcome, last) = try merge.advance(after: name)
      // Without a write another attempt would change nothing, so the pass ends.
      return (outcome, (last: last, moreComing: last != nil || outcome.isUnfinished && !outcome.writes.isEmpty))
    }
    return Step(effects: effects, last: step.last, moreComing: step.moreComing)
  }

  /// Merges records of one zone that share a key.
  package func mergeGroup(
    _ key: [UInt8], by rule: UniqueRule, in zone: StoredZone, _ transaction: any ShardTransaction
  ) throws -> (effects: ZoneEffects, moreComing: Bool) {
    let (effects, moreComing) = try merging(in: zone, transaction) { merge in
      let moreComing = try merge.mergeGroup(key, by: rule)
      return (merge.outcome, moreComing)
    }
    return (effects, moreComing)
  }

  private func merging<Value>(
    in zone: StoredZone, _ transaction: any ShardTransaction,
    _ body: (inout DuplicateMerge) throws -> (outcome: DuplicateMerge.Outcome, value: Value)
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
  /// The progress that a store's ended event means for duplicates; nil for none.
  fileprivate var duplicateProgress: StoredRedirect.Progress? {
    guard succeeded, endedAt != nil else { return nil }
    return switch kind {
    case .export: .exported
    case .import: .imported
    case .setup: nil
    }
  }
}
