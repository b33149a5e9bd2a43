// Removes assets that no record uses any more, a slice at a time between saves.

import Assets
import Crypto
import RecordStore
import ServiceKit
import ZoneCommit

/// Keeps a shard's assets, and the spool of uploads, from growing without bound.
struct AssetKeeper: ShardWork {
  let assets: any AssetStore
  /// How long unused content is kept. A restored record, or a device that saves late, may use it again.
  let grace: Duration
  let clock: any WallClock
  let log: Log
  /// Returns after that time, or early when its task is cancelled.
  let pause: @Sendable (Duration) async -> Void

  /// Files that one commit removes. Each costs a few system calls on the writer thread, and saves wait for that thread.
  private static let sliceCount = 64
  private static let slicePause = Duration.milliseconds(50)
  private static let longestRound = Duration.seconds(600)

  func run(on store: any ShardStore) async {
    await checkKeys(of: store)
    await removeUnknownContent(of: store)
    while !Task.isCancelled {
      await collect(store)
      await sweepSpool()
      await pause(min(max(grace / 4, .seconds(1)), Self.longestRound))
    }
  }

  /// Tells of keys that contents are sealed with and that are not at hand. The shard is served all the same.
  private func checkKeys(of store: any ShardStore) async {
    do {
      for key in try await store.missingContentKeys() {
        log.warning(
          "an encryption key of contents is missing",
          ["shard": .integer(Int64(store.shard)), "key": .text(key.description)])
      }
    } catch {
      report("the keys of contents can't be checked", error, on: store, to: log)
    }
  }

  /// Removes content that commits left behind when they failed or never came, before this worker held the shard.
  private func removeUnknownContent(of store: any ShardStore) async {
    do {
      var part: Int?
      while !Task.isCancelled, let removed = try await store.removeUnknownContent(after: part) {
        part = removed.part
        if removed.count > 0 { log.info("asset files without a commit were removed", fields(store, removed.count)) }
        await pause(Self.slicePause)
      }
    } catch {
      report("asset files can't be checked", error, on: store, to: log)
    }
  }

  private func collect(_ store: any ShardStore) async {
    let cutoff = clock.now - grace.components.seconds * 1000
    do {
      while !Task.isCancelled {
        let count = try await store.collectAssets(orphanedBefore: cutoff, limit: Self.sliceCount).value
        if count > 0 { log.info("unused assets were removed", fields(store, count)) }
        if count < Self.sliceCount { return }
        await pause(Self.slicePause)
      }
    } catch {
      report("unused assets can't be removed", error, on: store, to: log)
    }
  }

  /// Removes uploads that no record came for. The keeper of every shard does this; the first one finds the work.
  private func sweepSpool() async {
    do throws(AssetError) {
      let now = clock.now / 1000
      let count = try await assets.apart { assets throws(AssetError) in try assets.sweepSpool(now: now) }
      if count > 0 { log.info("uploads without a record were removed", ["files": .integer(Int64(count))]) }
    } catch {
      log.error("the spool of uploads can't be swept", ["error": .text(String(describing: error))])
    }
  }

  private func fields(_ store: any ShardStore, _ count: Int) -> KeyValuePairs<String, Log.Fact> {
    ["shard": .integer(Int64(store.shard)), "files": .integer(Int64(count))]
  }
}
