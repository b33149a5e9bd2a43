// The figures of the process's last hour, one sample a second, so that operators see plots without another system.

internal import JSON
public import ServiceBus
internal import Synchronization

/// A figure as a source reads it.
public enum Figure: Sendable {
  /// Shown as it is.
  case value(String, Double)
  /// A total that only rises, shown as `<name>_per_second`.
  case total(String, Double)
  /// Times in seconds, shown as `<name>_p50_ms` and `<name>_p99_ms` of those observed since the sample before.
  case times(String, Metrics.Buckets)
  /// Shown as the mean of the values observed since the sample before.
  case mean(String, Metrics.Buckets)
}

/// A ring of samples. Nothing is computed when nobody asks, except one sample a second.
public final class RecentFigures: Sendable {
  public typealias Source = @Sendable () async -> [Figure]

  /// Samples kept: one hour.
  static let sampleLimit = 3600
  /// Names kept. A name beyond them is dropped; sources have few names.
  static let nameLimit = 120

  private struct State {
    var sources: [Source] = []
    /// The time of each sample, by its number modulo `sampleLimit`. Unit: milliseconds since 1970.
    var times: [Int64] = []
    var series: [String: [Float]] = [:]
    var next = 0
    /// Totals and buckets of the sample before, by name.
    var totals: [String: Double] = [:]
    var buckets: [String: Metrics.Buckets] = [:]
  }

  private let state = Mutex(State())

  public init() {}

  public func add(_ source: @escaping Source) { state.withLock { $0.sources.append(source) } }

  /// Reads every source once.
  /// - Parameter now: milliseconds since 1970.
  func sample(at now: Int64) async {
    var figures: [Figure] = []
    for source in state.withLock({ $0.sources }) { figures += await source() }
    state.withLock { state in Self.keep(figures, at: now, in: &state) }
  }

  private static func keep(_ figures: [Figure], at now: Int64, in state: inout State) {
    let last = state.times.isEmpty ? nil : state.times[(state.next + sampleLimit - 1) % sampleLimit]
    let seconds = last.map { Double(max(now - $0, 1)) / 1000 }
    var values: [(name: String, value: Double)] = []
    for figure in figures {
      switch figure {
      case .value(let name, let value): values.append((name, value))
      case .total(let name, let total):
        let before = state.totals.updateValue(total, forKey: name)
        guard let before, let seconds, total >= before else { continue }
        values.append(("\(name)_per_second", (total - before) / seconds))
      case .times(let name, let buckets):
        guard let new = state.buckets.updateValue(buckets, forKey: name).flatMap(buckets.since) else { continue }
        for (suffix, part) in [("p50_ms", 0.5), ("p99_ms", 0.99)] {
          if let value = new.quantile(part) { values.append(("\(name)_\(suffix)", value * 1000)) }
        }
      case .mean(let name, let buckets):
        guard let new = state.buckets.updateValue(buckets, forKey: name).flatMap(buckets.since), new.count > 0 else {
          continue
        }
        values.append((name, new.sum / Double(new.count)))
      }
    }
    let slot = state.next
    if state.times.count < sampleLimit { state.times.append(now) } else { state.times[slot] = now }
    for name in state.series.keys { state.series[name]?[slot] = .nan }
    for (name, value) in values where state.series[name] != nil || state.series.count < nameLimit {
      state.series[name, default: Array(repeating: .nan, count: sampleLimit)][slot] = Float(value)
    }
    state.next = (slot + 1) % sampleLimit
  }

  // MARK: Answers

  /// The answer to a question of the share service.
  public func answer(_ question: FetchFigures) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.member("version", Release.version)
    if let span = question.span {
      writer.key("series")
      writer.beginObject()
      for (name, means) in columns(span, question.names) {
        writer.key(name)
        writer.beginArray()
        for mean in means { Self.write(mean, to: &writer) }
        writer.endArray()
      }
      writer.endObject()
    } else {
      writer.key("values")
      writer.beginObject()
      for (name, value) in latest where question.names.isEmpty || question.names.contains(name) {
        writer.key(name)
        Self.write(value, to: &writer)
      }
      writer.endObject()
    }
    writer.endObject()
    return writer.bytes
  }

  /// The values of the latest sample, ascending by name.
  private var latest: [(name: String, value: Float)] {
    let values = state.withLock { state -> [(name: String, value: Float)] in
      guard !state.times.isEmpty else { return [] }
      let slot = (state.next + Self.sampleLimit - 1) % Self.sampleLimit
      return state.series.map { (name: $0.key, value: $0.value[slot]) }
    }
    return values.filter { !$0.value.isNaN }.sorted { $0.name < $1.name }
  }

  /// The means over each step of a span, ascending by name; NaN for a step without a value.
  private func columns(_ span: FetchFigures.Span, _ names: [String]) -> [(name: String, means: [Float])] {
    let (times, series) = state.withLock { ($0.times, $0.series) }
    let count = min(max(span.count, 0), Self.sampleLimit)
    let step = max(span.step, 1)
    let places = times.map { Int(clamping: ($0 - span.start) / step - (($0 - span.start) < 0 ? 1 : 0)) }
    return series.filter { names.isEmpty || names.contains($0.key) }.sorted { $0.key < $1.key }.map { name, samples in
      var sums = [Float](repeating: 0, count: count)
      var counts = [Float](repeating: 0, count: count)
      for (place, sample) in zip(places, samples) where (0..<count).contains(place) && !sample.isNaN {
        sums[place] += sample
        counts[place] += 1
      }
      return (name, zip(sums, counts).map { $0 / $1 })
    }
  }

  /// Four significant digits: more are no use to a plot, and take room.
  private static func write(_ value: Float, to writer: inout JSONWriter) {
    guard value.isFinite else { return writer.null() }
    let value = Double(value)
    if value == value.rounded(), abs(value) < 1e15 { return writer.integer(Int64(value)) }
    var scale = 1000.0
    while abs(value) * scale < 1000, scale < 1e9 { scale *= 10 }
    writer.double((value * scale).rounded() / scale)
  }
}

extension Metrics.Buckets {
  public var count: UInt64 { counts.reduce(0, +) }

  /// The observations since an earlier state; nil for a state of other ranges.
  func since(_ earlier: Metrics.Buckets) -> Metrics.Buckets? {
    guard earlier.bounds == bounds, zip(counts, earlier.counts).allSatisfy({ $0 >= $1 }) else { return nil }
    return Metrics.Buckets(bounds: bounds, counts: zip(counts, earlier.counts).map { $0 - $1 }, sum: sum - earlier.sum)
  }

  /// The sum of two histograms of the same ranges; the first one if the ranges differ.
  public func adding(_ other: Metrics.Buckets) -> Metrics.Buckets {
    guard other.bounds == bounds else { return self }
    return Metrics.Buckets(bounds: bounds, counts: zip(counts, other.counts).map { $0 + $1 }, sum: sum + other.sum)
  }

  /// The value below which a part of the observations lies, interpolated within its range; nil without observations.
  func quantile(_ part: Double) -> Double? {
    let total = count
    guard total > 0 else { return nil }
    var rest = part * Double(total)
    for (index, count) in counts.enumerated() where count > 0 {
      guard rest > Double(count) else {
        let low = index == 0 ? 0 : bounds[index - 1]
        let high = index < bounds.count ? bounds[index] : low
        return low + (high - low) * rest / Double(count)
      }
      rest -= Double(count)
    }
    return bounds.last
  }
}

extension Histogram {
  public var buckets: Metrics.Buckets { snapshot }
}

extension Family where Metric == Counter {
  /// The counts by their label values.
  public var counts: [(values: [String], count: UInt64)] { all.map { ($0.values, $0.metric.count) } }
}

extension Family where Metric == Histogram {
  /// The histograms by their label values.
  public var buckets: [(values: [String], buckets: Metrics.Buckets)] { all.map { ($0.values, $0.metric.snapshot) } }
}
