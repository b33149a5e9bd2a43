// Computes figures from measurements.

import JSON

/// The figures of one run, or the medians of several runs.
struct Figures: Equatable {
  /// 0 for workloads without a meaningful rate.
  var recordsPerSecond: Double
  var requestsPerSecond: Double
  /// Milliseconds.
  var p50: Double
  var p99: Double
  var longest: Double
  var requestCount: Int
  var errorCount: Int

  init(_ measurement: Measurement, recordCount: Int) {
    let sorted = measurement.latencies.sorted()
    requestCount = sorted.count
    errorCount = measurement.errorCount
    requestsPerSecond = measurement.seconds > 0 ? Double(sorted.count) / measurement.seconds : 0
    recordsPerSecond = measurement.seconds > 0 ? Double(recordCount) / measurement.seconds : 0
    p50 = Self.percentile(sorted, 50)
    p99 = Self.percentile(sorted, 99)
    longest = Self.percentile(sorted, 100)
  }

  /// The median of each figure over the runs; errors are added up.
  /// - Precondition: there is a run.
  init(medianOf runs: [Figures]) {
    self = runs[0]
    recordsPerSecond = Self.median(runs.map(\.recordsPerSecond))
    requestsPerSecond = Self.median(runs.map(\.requestsPerSecond))
    p50 = Self.median(runs.map(\.p50))
    p99 = Self.median(runs.map(\.p99))
    longest = Self.median(runs.map(\.longest))
    requestCount = Self.median(runs.map(\.requestCount))
    errorCount = runs.reduce(0) { $0 + $1.errorCount }
  }

  /// The lower median for an even number of values.
  /// - Precondition: there is a value.
  static func median<Value: Comparable>(_ values: [Value]) -> Value { values.sorted()[(values.count - 1) / 2] }

  /// The smallest latency that `percent` of all do not exceed (nearest rank), in milliseconds; 0 without any.
  static func percentile(_ sorted: [UInt32], _ percent: Int) -> Double {
    guard !sorted.isEmpty else { return 0 }
    let rank = (sorted.count * percent + 99) / 100
    return Double(sorted[max(rank, 1) - 1]) / 1000
  }

  func write(to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("recordsPerSecond", recordsPerSecond.rounded(toPlaces: 1))
    writer.member("requestsPerSecond", requestsPerSecond.rounded(toPlaces: 1))
    writer.member("p50ms", p50)
    writer.member("p99ms", p99)
    writer.member("longestMs", longest)
    writer.member("requests", requestCount)
    writer.member("errors", errorCount)
    writer.endObject()
  }
}

extension Double {
  func rounded(toPlaces places: Int) -> Double {
    let factor = (0..<places).reduce(1.0) { factor, _ in factor * 10 }
    return (self * factor).rounded() / factor
  }

  /// The number with exactly `places` decimal digits.
  func text(_ places: Int) -> String {
    let factor = (0..<places).reduce(1) { factor, _ in factor * 10 }
    let scaled = Int((self * Double(factor)).rounded())
    guard places > 0 else { return String(scaled) }
    let fraction = String(scaled % factor)
    return "\(scaled / factor).\(String(repeating: "0", count: places - fraction.count))\(fraction)"
  }

  /// The number with three significant digits: `0.45`, `12.3`, `1 234`.
  var short: String {
    if self < 10 { return text(2) }
    if self < 100 { return text(1) }
    let digits = text(0)
    return digits.count > 4 ? "\(digits.dropLast(3)) \(digits.suffix(3))" : digits
  }
}
