// The services of the object plane's calls.

package import Assets
import RecordStore
import Records
import ServiceBus
package import ServiceKit
import WebServices
package import ZoneCommit

/// The services of the object plane's calls.
package struct ObjectContext: CommittingContext {
  package let commits: CommitContext
  /// The clock of leases (`SteadyClock`), which does not follow the wall clock's jumps.
  package let steadyClock: any WallClock
  package let assets: any AssetStore
  package let signing: AssetSigning
  /// Finds the users that invitations name.
  package let people: any PeopleSource
  /// An attribute's value of at least this many bytes becomes an asset (`ckAssetThresholdBytes`); nil: only a value
  /// that the record has no room for.
  package let assetThresholdByteCount: Int?
  /// Mirrored stores that a user may have of one database; 0: no limit.
  package let storeLimit: Int
  /// Returns after that time, or early when its task is cancelled.
  package let pause: @Sendable (Duration) async -> Void
  /// The requests that wait for a store.
  package let watches: StoreWatches
  /// Remembers the last export runs of stores.
  package let recentExports: RecentExports

  package init(
    commits: CommitContext, steadyClock: any WallClock, assets: any AssetStore, signing: AssetSigning,
    people: any PeopleSource, assetThresholdByteCount: Int?,
    storeLimit: Int, pause: @escaping @Sendable (Duration) async -> Void, watches: StoreWatches,
    recentExports: RecentExports
  ) {
    self.commits = commits
    self.steadyClock = steadyClock
    self.assets = assets
    self.signing = signing
    self.people = people
    self.assetThresholdByteCount = assetThresholdByteCount
    self.storeLimit = storeLimit
    self.pause = pause
    self.watches = watches
    self.recentExports = recentExports
  }

  /// - Parameter recent: contents by hash.
  package func contents(on shard: Int, recent: [[UInt8]: [UInt8]] = [:]) -> ContentsAtHand {
    ContentsAtHand(assets, shard: shard, expiry: AssetLifetime.uploadExpiry(at: clock.now), recent: recent)
  }

  /// Tells the requests that wait for a store that it changed. Called when the commit is durable.
  package func noticed(_ mirror: MirrorID) {
    guard let change = watches.change(of: mirror, now: clock.now) else { return }
    commits.effects.changes.publish(change)
  }
}
