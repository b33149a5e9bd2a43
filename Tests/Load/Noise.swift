// What else the machine does: figures of a run are worth little without it.

import Glibc
import JSON

/// The machine just before a run, while neither the generator nor, through it, the server has anything to do.
struct Noise: Equatable {
  /// Of the last minute; the runs before count in it.
  let loadAverage: Double
  /// Of all processors' time within a quarter of a second: what processes used, and what the hypervisor gave to others.
  let busyPercent: Double
  let stolenPercent: Double

  static let window = Duration.milliseconds(250)

  /// Looks twice, a window apart; nil where there is no `/proc`.
  static func measure() async throws -> Noise? {
    let before = ProcFile.text("/proc/stat")
    try await Task.sleep(for: window)
    return Noise(loadAverage: ProcFile.text("/proc/loadavg"), before: before, after: ProcFile.text("/proc/stat"))
  }

  /// Looks until the machine has come to rest, but not for longer than it may take: what a workload leaves to be done, rows of deleted zones to
  /// be removed for one, is not to be done in the next one's time.
  static func measure(onceQuietWithin patience: Duration) async throws -> Noise? {
    let deadline = ContinuousClock.now.advanced(by: patience)
    var noise = try await measure()
    while let latest = noise, latest.isRestless, ContinuousClock.now < deadline { noise = try await measure() }
    return noise
  }

  /// More than a fifth of the processors' time is taken.
  var isRestless: Bool { busyPercent + stolenPercent > 20 }

  /// - Parameters: the contents of `/proc/loadavg`, and of `/proc/stat` at the window's beginning and end.
  init?(loadAverage: String, before: String, after: String) {
    guard let load = loadAverage.split(separator: " ").first.flatMap({ Double($0) }), let start = Self.ticks(before), let end = Self.ticks(after) else { return nil }
    let spans = zip(start, end).map { max(0, $1 - $0) }
    let total = spans.reduce(0, +)
    guard total > 0 else { return nil }
    // user nice system idle iowait irq softirq steal
    let (idle, stolen) = (spans[3] + spans[4], spans[7])
    self.loadAverage = load
    busyPercent = (total - idle - stolen) / total * 100
    stolenPercent = stolen / total * 100
  }

  /// The first eight figures of the line of all processors.
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

  /// Load, and what of the processors is taken.
  var summary: String { "\(loadAverage.text(1))/\((busyPercent + stolenPercent).text(0))%" }
}
