// Figures as deploy/bench reads them, and the times that they come from.

import FoundationEssentials
import Glibc

/// One line of JSON.
struct Figure {
  private let key: String
  private let value: Double
  /// Milliseconds of processor time, which a busy machine changes less.
  private let processor: Double?
  /// The same of bare SQLite.
  private let bare: Double?

  init(_ key: String, _ value: Double, processor: Double? = nil, bare: Double? = nil) {
    (self.key, self.value, self.processor, self.bare) = (key, value, processor.map { $0 * 1000 }, bare)
  }

  func tell() {
    var members = [#""key":"\#(key)""#, #""value":\#(value)"#]
    if let processor { members.append(#""processor":\#(processor)"#) }
    if let bare { members.append(#""bare":\#(bare)"#) }
    print("{\(members.joined(separator: ","))}")
  }
}

/// How long each of some pieces of work took, in seconds.
struct Times {
  private let sorted: [Double]
  let whole: Double
  /// Processor time of the whole process meanwhile.
  let processor: Double

  fileprivate init(_ seconds: [Double], processor: Double) {
    sorted = seconds.sorted()
    whole = seconds.reduce(0, +)
    self.processor = processor
  }

  /// Pieces of work a second.
  var rate: Double { Double(sorted.count) / whole }
  /// The time that so many of a hundred pieces do not exceed.
  func share(_ percent: Int) -> Double { sorted[(sorted.count - 1) * percent / 100] }
}

func times(_ count: Int, _ body: (Int) async throws -> Void) async throws -> Times {
  let processor = processorSeconds()
  var seconds: [Double] = []
  for number in 0..<count {
    let start = ContinuousClock.now
    try await body(number)
    seconds.append((ContinuousClock.now - start) / .seconds(1))
  }
  return Times(seconds, processor: processorSeconds() - processor)
}

private func processorSeconds() -> Double {
  var time = timespec()
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
  return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

func residentMegabytes() -> Double {
  let text = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
  let line = text.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
  return Double(line?.split(separator: " ").compactMap { Int($0) }.first ?? 0) / 1024
}
