// Other activity on the machine, without which a run's figures are hard to judge.

import Glibc
import JSON

/// The state of the machine just before a run, while generator and server are idle.
struct Noise: Equatable {
  /// Of the last minute, which may include earlier runs.
  let loadAverage: Double
  /// Percentages of all processors' time over a quarter of a second: used by processes, and given to others by the
  /// hypervisor.
  let busyPercent: Double
  let stolenPercent: Double

  static let window = Duration.milliseconds(250)

  /// Measures over one window; nil on a system without `/proc`.
  static func measure() async throws -> Noise? {
    let before = ProcFile.text("/proc/stat")
    try await Task.sleep(for: window)
    return Noise(loadAverage: ProcFile.text("/proc/loadavg"), before: before, after: ProcFile.text("/proc/stat"))
  }

  /// Measures until the machine is quiet, or `patience` is over, so that a workload's remaining work, such as removing
  /// rows of deleted zones, does not disturb the next one.
  static func measure(onceQuietWithin patience: Duration) async throws -> Noise? {
    let deadline = ContinuousClock.now.advanced(by: patience)
    var noise = try await measure()
    while let latest = noise, latest.isRestless, ContinuousClock.now < deadline { noise = try await measure() }
    return noise
  }

  /// True when more than a fifth of the processors' time is used.
  var isRestless: Bool { busyPercent + stolenPercent > 20 }

  /// - Parameters: the contents of `/proc/loadavg`, and of `/proc/stat` at the window's beginning and end.
  init?(loadAverage: String, before: String, after: String) {
    guard let load = loadAverage.split(separator: " ").first.flatMap({ Double($0) }), let start = Self.ticks(before),
      let end = Self.ticks(after)
    else { return nil }
    let spans = zip(start, end).map { max(0, $1 - $0) }
    let total = spans.reduce(0, +)
    guard total > 0 else { return nil }
    // user nice system idle iowait irq softirq steal
    let (idle, stolen) = (spans[3] + spans[4], spans[7])
    self.loadAverage = load
    busyPercent = (total - idle - stolen) / total * 100
    stolenPercent = stolen / total * 100
  }

  /// The first eight figures of the line for all processors.
  private static func ticks(_ stat: String) -> [Double]? {
    guard let line = stat.split(separator: "\n").first(where: { $0.hasPrefix("cpu ") }) else { return nil }
    let ticks = line.split(separator: " ").dropFirst().prefix(8).compactMap { Double($0) }
    return ticks.count == 8 ? ticks : nil
  }

  func write(to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("loadAverage", loadAverage)
    writer.member("busyPercent", busyPercent.rounded(toPlaces: 1))
    writer.member("stolenPercent", stolenPercent.rounded(toPlaces: 1))
    writer.endObject()
  }

  /// The load, and the used percentage of the processors.
  var summary: String { "\(loadAverage.text(1))/\((busyPercent + stolenPercent).text(0))%" }
}
