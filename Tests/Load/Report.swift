// Figures out of measurements, and the two ways to print them.

import JSON

/// The figures of one run, or of several runs' medians.
struct Figures: Equatable {
  var recordsPerSecond: Double
  var requestsPerSecond: Double
  /// Milliseconds.
  var p50: Double
  var p99: Double
  var longest: Double
  var requestCount: Int
  var errorCount: Int

  init(_ measurement: Measurement, recordsPerRequest: Int) {
    let sorted = measurement.latencies.sorted()
    requestCount = sorted.count
    errorCount = measurement.errorCount
    requestsPerSecond = measurement.seconds > 0 ? Double(sorted.count) / measurement.seconds : 0
    recordsPerSecond = requestsPerSecond * Double(recordsPerRequest)
    p50 = Self.percentile(sorted, 50)
    p99 = Self.percentile(sorted, 99)
    longest = Self.percentile(sorted, 100)
  }

  /// Figure by figure the median of the runs; errors are added up.
  /// - Precondition: there is a run.
  init(medianOf runs: [Figures]) {
    func median<Value: Comparable>(_ value: (Figures) -> Value) -> Value {
      runs.map(value).sorted()[(runs.count - 1) / 2]
    }
    self = runs[0]
    recordsPerSecond = median(\.recordsPerSecond)
    requestsPerSecond = median(\.requestsPerSecond)
    p50 = median(\.p50)
    p99 = median(\.p99)
    longest = median(\.longest)
    requestCount = median(\.requestCount)
    errorCount = runs.reduce(0) { $0 + $1.errorCount }
  }

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

struct Report {
  struct Line {
    let workload: Workload
    let recordsPerRequest: Int
    let clientCount: Int
    var runs: [Figures]
    /// Before each run; nil where it could not be seen.
    var noise: [Noise?] = []
    var firstError: String?
    var median: Figures { Figures(medianOf: runs) }
  }

  let url: String
  let seconds: Double
  var lines: [Line] = []

  static let tableHead = "workload clients  run   records/s  requests/s    p50 ms    p99 ms    max ms   requests  errors  load/busy before"

  /// - Parameter noise: of the machine before that run.
  static func row(_ line: Line, _ name: String, _ figures: Figures, _ noise: Noise? = nil) -> String {
    [
      line.workload.rawValue.padded(8, right: true), String(line.clientCount).padded(8), name.padded(5), figures.recordsPerSecond.text(0).padded(12),
      figures.requestsPerSecond.text(0).padded(12), figures.p50.text(2).padded(10), figures.p99.text(2).padded(10), figures.longest.text(2).padded(10),
      String(figures.requestCount).padded(11), String(figures.errorCount).padded(8),
      (noise?.summary ?? "").padded(18),
    ].joined()
  }

  var json: [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.member("url", url)
    writer.member("seconds", seconds)
    writer.key("workloads")
    writer.beginArray()
    for line in lines {
      writer.beginObject()
      writer.member("workload", line.workload.rawValue)
      writer.member("clients", line.clientCount)
      writer.member("recordsPerRequest", line.recordsPerRequest)
      writer.key("median")
      line.median.write(to: &writer)
      writer.key("runs")
      writer.beginArray()
      for run in line.runs { run.write(to: &writer) }
      writer.endArray()
      writer.key("noiseBeforeRuns")
      writer.beginArray()
      for noise in line.noise { if let noise { noise.write(to: &writer) } else { writer.null() } }
      writer.endArray()
      if let error = line.firstError { writer.member("firstError", error) }
      writer.endObject()
    }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }
}

extension Double {
  func rounded(toPlaces places: Int) -> Double {
    let factor = (0..<places).reduce(1.0) { factor, _ in factor * 10 }
    return (self * factor).rounded() / factor
  }

  /// With exactly `places` digits behind the point.
  func text(_ places: Int) -> String {
    let factor = (0..<places).reduce(1) { factor, _ in factor * 10 }
    let scaled = Int((self * Double(factor)).rounded())
    guard places > 0 else { return String(scaled) }
    let fraction = String(scaled % factor)
    return "\(scaled / factor).\(String(repeating: "0", count: places - fraction.count))\(fraction)"
  }
}

extension String {
  func padded(_ width: Int, right: Bool = false) -> String {
    let space = String(repeating: " ", count: max(0, width - count))
    return right ? self + space : space + self
  }
}
