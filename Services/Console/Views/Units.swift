// Numbers as people read and write them.

enum Units {
  /// `3 s ago`, `2 h ago`. The clocks of two machines may differ, so a time in the future reads `now`.
  /// - Parameters: milliseconds since 1970.
  static func age(_ at: Int64, now: Int64) -> String {
    let seconds = (now - at) / 1000
    return seconds < 1 ? "now" : span(seconds) + " ago"
  }

  /// Seconds in their largest unit: `45 s`, `12 min`, `3 h`, `8 d`.
  static func span(_ seconds: Int64) -> String {
    switch seconds {
    case ..<120: "\(seconds) s"
    case ..<7200: "\(seconds / 60) min"
    case ..<172_800: "\(seconds / 3600) h"
    default: "\(seconds / 86_400) d"
    }
  }

  /// Milliseconds: `850 ms`, `2.4 s`, then as spans.
  static func duration(_ milliseconds: Int64) -> String {
    switch milliseconds {
    case ..<1000: "\(max(milliseconds, 0)) ms"
    case ..<10_000: "\(milliseconds / 1000).\(milliseconds % 1000 / 100) s"
    default: span(milliseconds / 1000)
    }
  }

  /// Bytes in powers of 1000 with three digits: `512 B`, `1.25 MB`, `40.1 GB`.
  static func bytes(_ count: Int64) -> String {
    var (value, unit) = (Double(count), 0)
    let units = ["B", "kB", "MB", "GB", "TB", "PB"]
    while value >= 999.5, unit < units.count - 1 {
      value /= 1000
      unit += 1
    }
    if unit == 0 { return "\(count) B" }
    let places = value < 9.995 ? 100 : value < 99.95 ? 10 : 1
    let scaled = Int((value * Double(places)).rounded())
    guard places > 1 else { return "\(scaled) \(units[unit])" }
    let fraction = String(scaled % places)
    return
      """
      \(scaled / places).\(String(repeating: "0", count: (places == 100 ? 2 : 1) - fraction.count))\(fraction) \
      \(units[unit])
      """
  }

  /// Reads `500`, `500MB`, `1.5 GB`, `2GiB`; nil for any other text. Units are powers of 1000, with an i of 1024.
  static func byteCount(_ text: String) -> Int64? {
    let text = text.filter { $0 != " " }
    let digits = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
    let unit = text.dropFirst(digits.count).lowercased()
    if unit.isEmpty { return Int64(digits).flatMap { $0 >= 0 ? $0 : nil } }
    let factors: [String: Int64] = [
      "b": 1, "kb": 1000, "mb": 1_000_000, "gb": 1_000_000_000, "tb": 1_000_000_000_000, "pb": 1_000_000_000_000_000,
      "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30,
      "tib": 1 << 40, "pib": 1 << 50,
    ]
    let parts = digits.split(separator: ".", omittingEmptySubsequences: false)
    guard let factor = factors[unit], (1...2).contains(parts.count), let whole = Int64(parts[0]), whole >= 0 else {
      return nil
    }
    let (bytes, isTooLarge) = whole.multipliedReportingOverflow(by: factor)
    if isTooLarge { return nil }
    guard parts.count == 2 else { return bytes }
    // With at most six decimal digits no product overflows.
    guard (1...6).contains(parts[1].count), let fraction = Int64(parts[1]) else { return nil }
    var scale: Int64 = 1
    for _ in 0..<parts[1].count { scale *= 10 }
    let rest = factor / scale * fraction + factor % scale * fraction / scale
    let (sum, overflows) = bytes.addingReportingOverflow(rest)
    return overflows ? nil : sum
  }

  /// `0-3,7,9-11`.
  static func ranges(_ numbers: [Int64]) -> String {
    var ranges: [ClosedRange<Int64>] = []
    for number in numbers.sorted() {
      if let last = ranges.last, number <= last.upperBound + 1 {
        ranges[ranges.count - 1] = last.lowerBound...max(last.upperBound, number)
      } else {
        ranges.append(number...number)
      }
    }
    return ranges.map { $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)-\($0.upperBound)" }.joined(
      separator: ",")
  }

  static func count(_ count: Int64, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }
}
