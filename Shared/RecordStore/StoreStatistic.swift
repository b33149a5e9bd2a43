// Counts and figures of a store.

import Records

/// The size of a shard, for `status`. Counts live records and zones only.
public struct ShardCounts: Hashable, Sendable {
  public var databases: Int
  public var zones: Int
  public var records: Int
  public var mirrors: Int

  public init(databases: Int, zones: Int, records: Int, mirrors: Int) {
    self.databases = databases
    self.zones = zones
    self.records = records
    self.mirrors = mirrors
  }
}

/// A number that the store reports to `/metrics`.
public struct StoreStatistic: Hashable, Sendable {
  /// Ends with its unit, e.g. `wal_bytes`. A name that ends in `_total` only ever grows.
  public let name: String
  public let value: Double

  public init(name: String, value: Double) {
    self.name = name
    self.value = value
  }
}

/// A histogram of a figure that the store reports to `/metrics`.
public struct StoreDistribution: Hashable, Sendable {
  /// Ends with its unit, e.g. `commit_duration_seconds`.
  public let name: String
  /// The upper bounds, ascending.
  public let bounds: [Double]
  /// One count more than `bounds`: the last counts the values above all bounds. Not cumulative.
  public private(set) var counts: [UInt64]
  /// The sum of all values.
  public private(set) var sum = 0.0

  public init(name: String, bounds: [Double]) {
    self.name = name
    self.bounds = bounds
    counts = Array(repeating: 0, count: bounds.count + 1)
  }

  mutating func note(_ value: Double) {
    counts[bounds.firstIndex { value <= $0 } ?? bounds.count] += 1
    sum += value
  }

  /// Adds another shard's distribution, which must have the same bounds.
  public mutating func add(_ other: StoreDistribution) {
    precondition(bounds == other.bounds, "\(name) and \(other.name) have different bounds")
    for index in counts.indices { counts[index] += other.counts[index] }
    sum += other.sum
  }
}
