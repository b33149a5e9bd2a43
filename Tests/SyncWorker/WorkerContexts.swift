// The services of the worker's modules for tests, with a stand-in for each that a test does not name.

import Assets
import FixedClocks
import RecordStore
import Records
import ServiceKit

@testable import ObjectPlane
@testable import RecordPlane
@testable import SharedStores
@testable import ZoneCommit

extension SharedContext {
  init(
    clock: any WallClock, steadyClock: (any WallClock)? = nil, random: any RandomSource, schemas: any SchemaSource,
    changes: any ChangePublisher,
    assets: any AssetStore, assetThresholdByteCount: Int? = nil, storeLimit: Int = 0,
    subscriptions: SubscriptionIndexes = SubscriptionIndexes(),
    audiences: ShareAudiences = ShareAudiences(.silent), people: any PeopleSource = NoDirectory(),
    owners: any Owners = NoOwners(),
    pause: @escaping @Sendable (Duration) async -> Void = { _ in await Task.yield() }
  ) {
    let effects = EffectsPublisher(
      changes: changes, lateFirings: LateFirings(changes: changes, random: random, log: .silent), audiences: audiences,
      shareNews: ShareNewsSignals(),
      duplicates: DuplicateBacklog())
    let commits = CommitContext(
      clock: clock, random: random, log: .silent, schemas: schemas, userQuota: 0, subscriptions: subscriptions,
      effects: effects)
    self.init(
      object: ObjectContext(
        commits: commits, steadyClock: steadyClock ?? clock, assets: assets,
        signing: AssetSigning(key: Array("signing key".utf8), clock: clock),
        people: people, assetThresholdByteCount: assetThresholdByteCount, storeLimit: storeLimit, pause: pause,
        watches: StoreWatches(),
        recentExports: RecentExports()),
      owners: owners)
  }

  /// The record plane's services beside them.
  func records(queryPageCost: Int = QuerySearch.pageCost, pages: SharedPages? = nil) -> RecordContext {
    RecordContext(
      commits: object.commits, assets: object.assets, signing: object.signing, people: object.people,
      audit: AccessAudit(.silent),
      queryPageCost: queryPageCost, queryCounts: QueryCounts(), pages: pages ?? SharedPages(pause: object.pause))
  }

  /// The same with a clock of leases of its own.
  func timingLeases(by clock: any WallClock) -> SharedContext {
    let object = ObjectContext(
      commits: commits, steadyClock: clock, assets: object.assets, signing: object.signing, people: object.people,
      assetThresholdByteCount: object.assetThresholdByteCount, storeLimit: object.storeLimit, pause: object.pause,
      watches: object.watches,
      recentExports: object.recentExports)
    return SharedContext(object: object, owners: owners)
  }
}

extension CommittingContext {
  /// A writer outside of any call, for another device or program. Its commit publishes nothing.
  func writer(to zone: StoredZone, _ schema: EnvironmentSchema = .none, in transaction: any ShardTransaction) throws
    -> ZoneWriter
  {
    let terms = CommitTerms(.shareAct, Stamp(timestamp: clock.now, userRecordName: ""), schema, shard: 0, self)
    return try terms.begin(in: transaction.row(ofDatabase: zone.databaseKey), transaction).serversWriter(to: zone)
  }
}
