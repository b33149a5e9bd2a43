// The results of a run, as a table and as JSON.

import Installations
import JSON

struct Report: Sendable {
  struct Row: Sendable {
    let kind: String
    let happeningCount: Int
    let saves: Times
    /// The longest save during each event: the pause that clients noticed.
    let pauses: Times
  }

  let options: Options
  let history: History
  let verdict: Verdict
  let happenings: [Happening]
  let repetitions: [String: Int]
  let seconds: Double
  /// Acknowledged work besides saves.
  let others: String
  /// Writes and names that power cuts took back.
  let takenBack: Int

  var isGood: Bool { verdict.isClean }

  /// Saves by the events during them. A save counts for every event that it overlaps.
  var rows: [Row] {
    var times: [String: [Double]] = [:]
    var longest: [String: [Double]] = [:]
    var quiet = Set(history.saves.indices)
    let starts = history.saves.indices.sorted { history.saves[$0].ended < history.saves[$1].ended }
    for happening in happenings {
      var pause = 0.0
      // The saves that ended after the event began. Few of them began before it ended.
      for index in starts[Self.partition(starts) { history.saves[$0].ended >= happening.started }...] {
        let save = history.saves[index]
        if save.ended > happening.ended + 60_000_000_000 { break }
        guard save.started <= happening.ended else { continue }
        times[happening.kind, default: []].append(Self.milliseconds(save))
        pause = Swift.max(pause, Self.milliseconds(save))
        quiet.remove(index)
      }
      longest[happening.kind, default: []].append(pause)
    }
    let rows = times.sorted { $0.key < $1.key }.map { kind, values in
      Row(
        kind: kind, happeningCount: longest[kind]?.count ?? 0, saves: Times(values), pauses: Times(longest[kind] ?? []))
    }
    return [
      Row(
        kind: "nothing", happeningCount: 0, saves: Times(quiet.map { Self.milliseconds(history.saves[$0]) }),
        pauses: Times([]))
    ] + rows
  }

  private static func milliseconds(_ save: Save) -> Double { Double(save.ended - save.started) / 1e6 }

  /// The first index whose element satisfies `condition`, as do all later ones.
  private static func partition(_ elements: [Int], _ condition: (Int) -> Bool) -> Int {
    var (low, high) = (0, elements.count)
    while low < high {
      let middle = (low + high) / 2
      if condition(elements[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }

  var text: String {
    var lines = [
      "", Self.line(["while", "times", "saves", "p50 ms", "p99 ms", "max ms", "longest of each: p50", "p99", "max"]),
    ]
    for row in rows {
      let pauses =
        row.happeningCount == 0
        ? ["", "", ""] : [row.pauses.percentile(50), row.pauses.percentile(99), row.pauses.max].map(tenths)
      lines.append(
        Self.line(
          [row.kind, row.happeningCount == 0 ? "" : "\(row.happeningCount)", "\(row.saves.count)"]
            + [row.saves.percentile(50), row.saves.percentile(99), row.saves.max].map(tenths) + pauses))
    }
    let repeated = repetitions.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
    lines += [
      "",
      """
      \(history.saves.count) saves acknowledged (\(history.saves.reduce(0) { $0 + $1.changes.count }) changes) in \
      \(tenths(seconds)) s, \(happenings.count) happenings; attempts repeated: \(repeated.isEmpty ? "none" : repeated)
      """,
      others + (takenBack > 0 ? "; \(takenBack) writes and names were taken back" : ""),
      "seed \(options.seed)",
    ]
    for fault in Verdict.Fault.allCases { lines.append("\(fault.rawValue): \(verdict.counts[fault] ?? 0)") }
    for (_, examples) in verdict.examples.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
      lines += examples.map { "  " + $0 }
    }
    return lines.joined(separator: "\n")
  }

  private static func line(_ cells: [String]) -> String {
    zip(cells, [18, 6, 8, 9, 9, 9, 22, 9, 9]).enumerated().map { index, entry in
      let gap = String(repeating: " ", count: max(0, entry.1 - entry.0.count))
      return index == 0 ? entry.0 + gap : gap + entry.0
    }.joined()
  }

  var json: [UInt8] {
    object { writer in
      writer.member("plan", options.plan.rawValue)
      writer.member("seed", Int64(options.seed))
      writer.member("seconds", seconds)
      writer.member("saves", history.saves.count)
      writer.member("isGood", isGood)
      writer.member("takenBack", takenBack)
      writer.key("faults")
      writer.beginObject()
      for fault in Verdict.Fault.allCases { writer.member(fault.rawValue, verdict.counts[fault] ?? 0) }
      writer.endObject()
      writer.key("repeated")
      writer.beginObject()
      for (reason, count) in repetitions.sorted(by: { $0.key < $1.key }) { writer.member(reason, count) }
      writer.endObject()
      writer.key("while")
      writer.beginArray()
      for row in rows {
        writer.beginObject()
        writer.member("what", row.kind)
        writer.member("times", row.happeningCount)
        writer.member("saves", row.saves.count)
        writer.member("p50ms", row.saves.percentile(50))
        writer.member("p99ms", row.saves.percentile(99))
        writer.member("maxms", row.saves.max)
        writer.member("longestP99ms", row.pauses.percentile(99))
        writer.endObject()
      }
      writer.endArray()
    }
  }
}
