// The services that commits work with; the context of each plane contains them.

import RecordStore
import Records
import ServiceBus
package import ServiceKit

/// The services of commits; one for all planes of a worker.
package struct CommitContext: Sendable {
  package let clock: any WallClock
  package let random: any RandomSource
  package let log: Log
  package let schemas: any SchemaSource
  /// Bytes that a database may hold if its user has no quota of their own; 0: no limit.
  package let userQuota: Int64
  /// The cached subscriptions of databases.
  package let subscriptions: SubscriptionIndexes
  package let effects: EffectsPublisher

  package init(
    clock: any WallClock, random: any RandomSource, log: Log, schemas: any SchemaSource, userQuota: Int64,
    subscriptions: SubscriptionIndexes, effects: EffectsPublisher
  ) {
    self.clock = clock
    self.random = random
    self.log = log
    self.schemas = schemas
    self.userQuota = userQuota
    self.subscriptions = subscriptions
    self.effects = effects
  }

  /// The watch for a user's writes.
  func watch(_ schema: EnvironmentSchema, by userRecordName: String?) -> SubscriptionWatch {
    SubscriptionWatch(
      indexes: subscriptions, schema: schema, userRecordName: userRecordName, firings: effects.lateFirings, log: log)
  }
}

/// The receivers of a commit's effects. `ZoneEffects.publish(by:)` tells them.
package struct EffectsPublisher: Sendable {
  package let changes: any ChangePublisher
  /// Fires the subscriptions that commits match.
  package let lateFirings: LateFirings
  /// Finds the users that a change of a shared zone concerns.
  package let audiences: ShareAudiences
  /// Hears of commits that change access.
  package let shareNews: ShareNewsSignals
  /// Databases with more duplicates than one commit may merge.
  package let duplicates: DuplicateBacklog

  package init(
    changes: any ChangePublisher, lateFirings: LateFirings, audiences: ShareAudiences, shareNews: ShareNewsSignals,
    duplicates: DuplicateBacklog
  ) {
    self.changes = changes
    self.lateFirings = lateFirings
    self.audiences = audiences
    self.shareNews = shareNews
    self.duplicates = duplicates
  }
}

/// The services of a plane's calls, with those of their commits.
package protocol CommittingContext: Sendable {
  var commits: CommitContext { get }
}

extension CommittingContext {
  package var clock: any WallClock { commits.clock }
  package var random: any RandomSource { commits.random }
  package var log: Log { commits.log }
  package var schemas: any SchemaSource { commits.schemas }
}

extension CommitContext: CommittingContext {
  package var commits: CommitContext { self }
}
