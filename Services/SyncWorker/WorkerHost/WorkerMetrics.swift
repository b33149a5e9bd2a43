// A worker's metrics besides its requests: shards, and the statistics of their stores.

import ObjectPlane
import RecordPlane
import RecordStore
import ServiceBus
import ServiceKit
import ZoneCommit

enum WorkerMetrics {
  /// The store's statistics with their help texts. A statistic that is not listed here is not shown.
  private static let storeStatistics: [(name: String, help: String)] = [
    ("commits_total", "Commits of the shard's writer."),
    ("bodies_total", "Committed writes, in groups."),
    ("bodies_refused_total", "Writes that failed alone, such as conflicts of a whole batch."),
    ("unexpected_lookups_total", "Look-ups of writes that cost a round trip to PostgreSQL each."),
    ("groups_failed_total", "Commits that failed with all writes of their group."),
    ("records_written_total", "Records and tombstones written."),
    ("record_bytes_written_total", "Bytes of record values written."),
    ("body_seconds_total", "Time the writer spent in writes."),
    ("commit_seconds_total", "Time the writer spent in commits, syncing included."),
    ("wal_bytes", "Length of the write-ahead log."),
    ("wal_pages_total", "Pages written to the write-ahead log."),
    ("checkpoints_total", "Checkpoints, which copy the write-ahead log into the file: most of it, or the rest."),
    ("checkpoint_pages_total", "Pages that checkpoints copied."),
    ("checkpoint_seconds_total", "Time that checkpoints took."),
    ("checkpoint_failures_total", "Checkpoints that failed."),
    ("checkpoints_exclusive_total", "Checkpoints that had to keep readers out."),
    ("swept_records_total", "Removed records of deleted zones."),
    ("overloads_total", "Writes refused because too many waited."),
    ("reads_total", "Reads."),
    ("reads_long_total", "Reads that took long and were restarted where they do not delay others."),
    ("reads_given_up_total", "Reads that took longer than the store allows."),
    ("queue_length", "Writes that wait."),
    ("database_bytes", "Length of the shards' files, without their logs."),
    ("failed", "Shards that take no writes until they are opened again, after a failed sync or damage."),
    ("passed_over_records_total", "Damaged records that background work skipped."),
    (
      "transactions_forgotten_total",
      "Identifiers of purged transactions that were dropped early, because a store or a database had too many."
    ),
    ("indexed_records_total", "Records added to new indexes and removed from dropped ones."),
  ]

  private static let storeDistributions: [(name: String, help: String)] = [
    ("commit_bodies", "Writes that were committed together."),
    ("commit_duration_seconds", "Time of a commit from its first write to its end, syncing included."),
    ("sync_duration_seconds", "Part of a commit in which the write-ahead log was synced to the disk."),
  ]

  static func add(to metrics: Metrics, _ parts: Worker.Parts, clock: any WallClock) {
    metrics.collect("worker_shards_open", "Shards this worker holds.") {
      [Metrics.Sample(Double(await parts.host.openStores.count))]
    }
    metrics.collect("worker_shards_opening", "Assigned shards that are not open yet.") {
      [Metrics.Sample(Double(await parts.host.openingCount))]
    }
    metrics.collect(
      "worker_shards_out_of_service",
      "Assigned shards that could not be opened, or are not served because their files are damaged or their disk fails."
    ) {
      [Metrics.Sample(Double(await parts.host.outOfServiceCount))]
    }
    metrics.collect(
      "worker_shards_refused",
      "Assigned shards that are not served because their files are missing, older copies, or another installation's."
    ) {
      [Metrics.Sample(Double(await parts.host.refusedCount))]
    }
    metrics.collect("shard_outages_total", "Outages of shards, by reason.", kind: .counter) {
      let counts = await parts.host.outageCounts
      return [
        Metrics.Sample(Double(counts.damaged), labels: [("reason", "damaged")]),
        Metrics.Sample(Double(counts.failing), labels: [("reason", "failing")]),
      ]
    }
    metrics.collect("worker_pings_pending", "Zone changes and notifications that wait for a process, by process.") {
      parts.changes.pendingCounts.sorted { $0.key < $1.key }.map {
        Metrics.Sample(Double($0.value), labels: [(name: "peer", value: $0.key)])
      }
    }
    metrics.collect("notifications_fired_total", "Notifications that subscriptions caused.", kind: .counter) {
      [Metrics.Sample(Double(parts.changes.notificationCounts.fired))]
    }
    metrics.collect(
      "notifications_dropped_total", "Notifications dropped because a notifier did not read them in time.",
      kind: .counter
    ) {
      [Metrics.Sample(Double(parts.changes.notificationCounts.dropped))]
    }
    metrics.collect(
      "subscriptions_late_total",
      "Changes compared with query subscriptions after their commit, because the comparison is expensive.",
      kind: .counter
    ) {
      [Metrics.Sample(Double(parts.records.context.commits.effects.lateFirings.counts.late))]
    }
    metrics.collect(
      "subscriptions_dropped_total",
      "Changes and notifications that subscribers missed, because too many waited or fired.", kind: .counter
    ) {
      [Metrics.Sample(Double(parts.records.context.commits.effects.lateFirings.counts.dropped))]
    }
    metrics.collect(
      "query_pages_cut_total",
      "Pages of queries that ended early, because a longer search costs too much for one page.", kind: .counter
    ) {
      [Metrics.Sample(Double(parts.records.context.queryCounts.cutPages.count))]
    }
    metrics.collect(
      "queries_given_up_total", "Queries that cost too much or took too long, and can't be continued.", kind: .counter
    ) {
      [Metrics.Sample(Double(parts.records.context.queryCounts.givenUp.count))]
    }
    metrics.collect(
      "feed_pages_shared_total", "Pages of zones' feeds that were sent as they were written for another device.",
      kind: .counter
    ) {
      [Metrics.Sample(Double(parts.records.context.pages.sentAgain.count))]
    }
    metrics.collect("zone_access_denied_total", "Requests for others' zones by callers without access.", kind: .counter)
    {
      [Metrics.Sample(Double(parts.audit.deniedCount))]
    }
    metrics.collect("exports_throttled", "Stores whose exports wait after a failure.") {
      [Metrics.Sample(Double(parts.mirror.objects.exports.throttledCount))]
    }
    metrics.collect(
      "share_news_waiting",
      "Changes of access to zones that the share service does not know yet, at most a thousand for each shard."
    ) {
      [Metrics.Sample(Double(parts.records.context.commits.effects.shareNews.waitingCounts.values.reduce(0, +)))]
    }
    metrics.collect(
      "shared_zones_counted",
      "Shares with participants besides the owner, and the participants' accesses, as the last comparison found them."
    ) {
      let counts = parts.records.context.commits.effects.shareNews.memberCounts.values
      return [
        Metrics.Sample(Double(counts.reduce(0) { $0 + $1.shares }), labels: [("of", "shares")]),
        Metrics.Sample(Double(counts.reduce(0) { $0 + $1.members }), labels: [("of", "members")]),
      ]
    }
    metrics.collect("shard_epoch", "The fencing epoch of a held shard.") {
      await parts.host.openStores.map {
        Metrics.Sample(Double($0.epoch), labels: [(name: "shard", value: String($0.shard))])
      }
    }
    metrics.collect("shard_bytes", "Bytes of a held shard's tables and indexes, as last measured.") {
      parts.loads.all.sorted { $0.key < $1.key }.compactMap { shard, load in
        load.byteCount.map { Metrics.Sample(Double($0), labels: [(name: "shard", value: String(shard))]) }
      }
    }
    metrics.collect("shard_requests_per_second", "Saves and reads of a held shard over the last minutes.") {
      parts.loads.all.sorted { $0.key < $1.key }.flatMap { shard, load in
        [("saves", load.savesPerSecond), ("reads", load.readsPerSecond)].compactMap { kind, rate in
          rate.map { Metrics.Sample($0, labels: [("shard", String(shard)), ("of", kind)]) }
        }
      }
    }
    addTotals(to: metrics, parts.host)
    metrics.recent.add { await figures(parts, now: clock.now) }
  }

  /// The figures of the console's plots.
  private static func figures(_ parts: Worker.Parts, now: Int64) async -> [Figure] {
    let totals = await parts.host.totals
    let waiting = parts.census.sum
    // A database tells no length of files.
    let measured = parts.loads.all.values.reduce(0) { $0 + ($1.byteCount ?? 0) }
    func value(_ name: String) -> Double { totals.values[name] ?? 0 }
    func buckets(_ name: String) -> Metrics.Buckets? {
      totals.distributions[name].map { Metrics.Buckets(bounds: $0.bounds, counts: $0.counts, sum: $0.sum) }
    }
    var figures: [Figure] = [
      .total("commits", value("commits_total")), .total("records", value("records_written_total")),
      .value("queue_length", value("queue_length")), .value("longest_queue", totals.longestQueue),
      .value("database_bytes", max(value("database_bytes"), Double(measured))),
      .value("waiting_transactions", Double(waiting.waitingCount)),
      .value("sync_lag_ms", waiting.oldestWaitingAt.map { Double(max(now - $0, 0)) } ?? 0),
      .value("quarantined", Double(waiting.quarantinedCount)),
      .value("pings_waiting", Double(parts.changes.pendingCounts.values.reduce(0, +))),
      .value("shards_open", Double(await parts.host.openStores.count)),
    ]
    if let bodies = buckets("commit_bodies") { figures.append(.mean("group_size", bodies)) }
    if let times = buckets("commit_duration_seconds") { figures.append(.times("commit", times)) }
    return figures
  }

  /// Adds the totals of the shards' stores, which each scrape reads once.
  private static func addTotals(to metrics: Metrics, _ host: ShardHost) {
    let values = storeStatistics.map {
      Metrics.Description("store_" + $0.name, $0.help, $0.name.hasSuffix("_total") ? .counter : .gauge)
    }
    let distributions = storeDistributions.map { Metrics.Description("store_" + $0.name, $0.help, .histogram) }
    let longest = Metrics.Description("store_queue_length_max", "Writes that wait at the shard with the longest queue.")
    metrics.collect(values + distributions + [longest]) {
      let totals = await host.totals
      var readings = Metrics.Readings()
      for (name, _) in storeStatistics { readings["store_" + name] = totals.values[name] ?? 0 }
      for (name, _) in storeDistributions {
        readings.buckets["store_" + name] = totals.distributions[name].map {
          Metrics.Buckets(bounds: $0.bounds, counts: $0.counts, sum: $0.sum)
        }
      }
      readings[longest.name] = totals.longestQueue
      return readings
    }
  }
}
