// Sums of shards' statistics: 64 shards with 30 names each would only be read as sums.

import RecordStore

/// Statistics of several shards. Totals and distributions cover all added shards, gauges only the open ones.
struct ShardTotals: Sendable {
  /// By the store's name of the statistic.
  private(set) var values: [String: Double] = [:]
  private(set) var distributions: [String: StoreDistribution] = [:]
  /// The length of the longest writer queue.
  private(set) var longestQueue = 0.0

  mutating func add(_ store: any ShardStore, isOpen: Bool) {
    for statistic in store.statistics where isOpen || statistic.name.hasSuffix("_total") {
      values[statistic.name, default: 0] += statistic.value
      if statistic.name == "queue_length" { longestQueue = max(longestQueue, statistic.value) }
    }
    for distribution in store.distributions {
      guard distributions[distribution.name] != nil else {
        distributions[distribution.name] = distribution
        continue
      }
      distributions[distribution.name]?.add(distribution)
    }
  }
}
