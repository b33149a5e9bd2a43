// Counters, gauges and histograms in Prometheus's text format. A change is one atomic operation; only scrapes and new
// label values lock.

internal import Synchronization

/// A value that only rises.
public final class Counter: Sendable {
  private let value = Atomic<UInt64>(0)
  public init() {}
  public func increment(by amount: Int = 1) { value.add(UInt64(clamping: amount), ordering: .relaxed) }
  public var count: UInt64 { value.load(ordering: .relaxed) }
}

/// A value that rises and falls.
public final class Gauge: Sendable {
  private let storage = Atomic<Int>(0)
  public init() {}
  public func set(_ value: Int) { storage.store(value, ordering: .relaxed) }
  public func add(_ amount: Int) { storage.add(amount, ordering: .relaxed) }
  public var value: Int { storage.load(ordering: .relaxed) }
}

/// Counts how often a value fell into each of several ranges.
public final class Histogram: Sendable {
  /// Seconds, from a tenth of a millisecond to ten seconds.
  public static let latencyBounds: [Double] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
  ]
  /// Bytes, from 64 to 16 MiB.
  public static let byteBounds: [Double] = (3...12).map { Double(1 << (2 * $0)) }

  let bounds: [Double]
  /// One count more than `bounds`: the last counts the values above all bounds.
  private let counts: [BucketCount]
  /// The bit pattern of a double.
  private let sumBits = Atomic<UInt64>(0)

  private final class BucketCount: Sendable {
    let count = Atomic<UInt64>(0)
  }

  /// - Parameter bounds: the upper bounds of the ranges, ascending.
  public init(bounds: [Double] = Histogram.latencyBounds) {
    self.bounds = bounds
    counts = (0...bounds.count).map { _ in BucketCount() }
  }

  public func observe(_ value: Double) {
    let bucket = bounds.firstIndex { value <= $0 } ?? bounds.count
    counts[bucket].count.add(1, ordering: .relaxed)
    var old = sumBits.load(ordering: .relaxed)
    while true {
      let new = (Double(bitPattern: old) + value).bitPattern
      let result = sumBits.weakCompareExchange(expected: old, desired: new, ordering: .relaxed)
      if result.exchanged { return }
      old = result.original
    }
  }

  /// Observes a duration in seconds.
  public func observe(_ duration: Duration) {
    observe(duration.seconds)
  }

  var snapshot: Metrics.Buckets {
    Metrics.Buckets(
      bounds: bounds, counts: counts.map { $0.count.load(ordering: .relaxed) },
      sum: Double(bitPattern: sumBits.load(ordering: .relaxed)))
  }
}

/// One metric for each combination of label values. Values must come from a small fixed set: never a user, a zone or a
/// record.
public final class Family<Metric: Sendable>: Sendable {
  public let labels: [String]
  private let make: @Sendable () -> Metric
  private let children = Mutex<[[String]: Metric]>([:])

  init(labels: [String], make: @escaping @Sendable () -> Metric) {
    self.labels = labels
    self.make = make
  }

  /// The metric of these values, one value for each label in order.
  public subscript(_ values: String...) -> Metric { self[values] }

  public subscript(_ values: [String]) -> Metric {
    precondition(values.count == labels.count, "labels \(labels) need as many values, not \(values)")
    return children.withLock { children in
      if let child = children[values] { return child }
      let child = make()
      children[values] = child
      return child
    }
  }

  /// All metrics, ascending by their label values.
  var all: [(values: [String], metric: Metric)] {
    children.withLock { $0.map { (values: $0.key, metric: $0.value) } }.sorted {
      $0.values.lexicographicallyPrecedes($1.values)
    }
  }
}

public final class Metrics: Sendable {
  public enum Kind: String, Sendable {
    case counter, gauge, histogram
  }

  /// A value that is read at scrape time, with its labels.
  public struct Sample: Sendable {
    public let labels: [(name: String, value: String)]
    public let value: Double

    public init(_ value: Double, labels: [(name: String, value: String)] = []) {
      self.value = value
      self.labels = labels
    }
  }

  /// The contents of a histogram.
  public struct Buckets: Sendable {
    /// The upper bounds, ascending.
    public let bounds: [Double]
    /// One count more than `bounds`: the last counts the values above all bounds. Not cumulative.
    public let counts: [UInt64]
    /// The sum of all observed values.
    public let sum: Double

    public init(bounds: [Double], counts: [UInt64], sum: Double) {
      precondition(counts.count == bounds.count + 1, "\(bounds.count) bounds make one more ranges, not \(counts.count)")
      self.bounds = bounds
      self.counts = counts
      self.sum = sum
    }
  }

  /// The name, help and kind of a metric that is read together with others.
  public struct Description: Sendable {
    public let name: String
    let help: String
    let kind: Kind

    /// - Parameter name: without the prefix `aquifer_`.
    public init(_ name: String, _ help: String, _ kind: Kind = .gauge) {
      self.name = name
      self.help = help
      self.kind = kind
    }
  }

  /// The values of several metrics at scrape time, by name. A missing metric gets no line.
  public struct Readings: Sendable {
    public var samples: [String: [Sample]] = [:]
    public var buckets: [String: Buckets] = [:]

    public init() {}

    public subscript(_ name: String) -> Double? {
      get { samples[name]?.first?.value }
      set { samples[name] = newValue.map { [Sample($0)] } }
    }
  }

  private struct Entry: Sendable {
    let names: [String]
    let write: @Sendable (_ text: inout MetricsText) async -> Void

    init(names: [String], write: @escaping @Sendable (_ text: inout MetricsText) async -> Void) {
      self.names = names
      self.write = write
    }

    /// - Parameter lines: writes the lines below HELP and TYPE.
    init(
      _ name: String, _ help: String, _ kind: Kind, lines: @escaping @Sendable (_ text: inout MetricsText) async -> Void
    ) {
      self.init(names: [name]) { text in
        text.head(name, help, kind)
        await lines(&text)
      }
    }
  }

  private let entries = Mutex<[Entry]>([])
  /// Figures of the last hour; their sources are registered beside the metrics that they read.
  public let recent = RecentFigures()

  public init() {}

  private func add(_ entry: Entry) {
    entries.withLock { entries in
      for name in entry.names {
        precondition(!entries.contains { $0.names.contains(name) }, "two metrics named \(name)")
      }
      entries.append(entry)
    }
  }

  /// - Parameter name: without the prefix `aquifer_`. Names of counters end in `_total`.
  public func counter(_ name: String, _ help: String) -> Counter {
    let counter = Counter()
    add(Entry("aquifer_" + name, help, .counter) { $0.line("aquifer_" + name, [], Double(counter.count)) })
    return counter
  }

  public func counters(_ name: String, _ help: String, labels: [String]) -> Family<Counter> {
    let family = Family(labels: labels) { Counter() }
    add(
      Entry("aquifer_" + name, help, .counter) { text in
        for child in family.all {
          text.line("aquifer_" + name, Array(zip(labels, child.values)), Double(child.metric.count))
        }
      })
    return family
  }

  public func gauge(_ name: String, _ help: String) -> Gauge {
    let gauge = Gauge()
    add(Entry("aquifer_" + name, help, .gauge) { $0.line("aquifer_" + name, [], Double(gauge.value)) })
    return gauge
  }

  public func histogram(_ name: String, _ help: String, bounds: [Double] = Histogram.latencyBounds) -> Histogram {
    let histogram = Histogram(bounds: bounds)
    add(Entry("aquifer_" + name, help, .histogram) { $0.histogram("aquifer_" + name, [], histogram.snapshot) })
    return histogram
  }

  public func histograms(_ name: String, _ help: String, labels: [String], bounds: [Double] = Histogram.latencyBounds)
    -> Family<Histogram>
  {
    let family = Family(labels: labels) { Histogram(bounds: bounds) }
    add(
      Entry("aquifer_" + name, help, .histogram) { text in
        for child in family.all {
          text.histogram("aquifer_" + name, Array(zip(labels, child.values)), child.metric.snapshot)
        }
      })
    return family
  }

  /// Adds a metric whose values are read at scrape time.
  public func collect(
    _ name: String, _ help: String, kind: Kind = .gauge, _ read: @escaping @Sendable () async -> [Sample]
  ) {
    collect(fullName: "aquifer_" + name, help, kind: kind, read)
  }

  /// Adds a metric under a name that all Prometheus clients share (`process_…`).
  func collect(fullName: String, _ help: String, kind: Kind, _ read: @escaping @Sendable () async -> [Sample]) {
    add(
      Entry(fullName, help, kind) { text in
        for sample in await read() { text.line(fullName, sample.labels, sample.value) }
      })
  }

  /// Adds several metrics that one call reads at scrape time, so that their common source is asked once.
  public func collect(_ descriptions: [Description], _ read: @escaping @Sendable () async -> Readings) {
    add(
      Entry(names: descriptions.map { "aquifer_" + $0.name }) { text in
        let readings = await read()
        for description in descriptions {
          let name = "aquifer_" + description.name
          text.head(name, description.help, description.kind)
          for sample in readings.samples[description.name] ?? [] { text.line(name, sample.labels, sample.value) }
          if let buckets = readings.buckets[description.name] { text.histogram(name, [], buckets) }
        }
      })
  }

  /// All metrics in Prometheus's text format 0.0.4.
  public func text() async -> [UInt8] {
    var text = MetricsText()
    for entry in entries.withLock({ $0 }) { await entry.write(&text) }
    return text.bytes
  }
}

extension Duration {
  public var seconds: Double { Double(components.seconds) + Double(components.attoseconds) * 1e-18 }
}
