// The results of a run: a line for each attack, and JSON.

import Installations
import JSON

struct Report: Sendable {
  /// The results of the bystander on the attacker's shard, and of the one on another shard.
  struct Calms: Sendable {
    let near: Calm
    let far: Calm

    var times: [(name: String, times: Times)] {
      [("near save", near.saves), ("near lookup", near.lookups), ("far save", far.saves), ("far lookup", far.lookups)]
    }
    var failures: [String: Int] { near.failures.merging(far.failures, uniquingKeysWith: +) }
  }

  struct Row: Sendable {
    let name: String
    let quiet: Calms
    let attacked: Calms
    let peaks: [(name: String, role: Role, peak: Int)]
    let answers: [String: Int]
    let complaints: [String]

    /// All faults that were found.
    var problems: [String] { failures + delays }
    var isGood: Bool { problems.isEmpty }
    /// True when the only fault is that others waited too long.
    var isOnlySlow: Bool { failures.isEmpty && !delays.isEmpty }

    private var delays: [String] {
      zip(quiet.times, attacked.times).compactMap { quiet, attacked in
        let (bound, figure) = (Self.bound(quiet.times), attacked.times.percentile(99))
        return figure > bound ? "p99 of a \(attacked.name) is \(tenths(figure)) ms, more than \(tenths(bound))" : nil
      }
    }

    private var failures: [String] {
      var problems = complaints
      for (failure, count) in attacked.failures.sorted(by: { $0.key < $1.key }) {
        problems.append("others: \(failure), \(count) times")
      }
      for process in peaks where process.peak > Memory.limit(process.role) {
        problems.append("\(process.name) took \(process.peak) MB, more than \(Memory.limit(process.role))")
      }
      return problems
    }

    /// Limit for the p99 of the bystander's calls. Unit: milliseconds.
    private static func bound(_ quiet: Times) -> Double { max(100, 10 * quiet.percentile(99)) }

    func print() {
      let cells =
        zip(quiet.times, attacked.times).map {
          "\(tenths($0.times.percentile(99))) \(tenths($1.times.percentile(99))) \(tenths($1.times.max))"
        }
        + ["\(attacked.failures.values.reduce(0, +))", peaks.map { "\($0.peak)" }.joined(separator: " ")]
      say(Report.line([name] + cells))
      say(
        "    answered: " + answers.sorted { $0.key < $1.key }.map { "\($0.key) ×\($0.value)" }.joined(separator: ", "))
      for problem in problems { say("    WRONG: \(problem)") }
    }
  }

  var rows: [Row] = []
  var isGood: Bool { rows.allSatisfy(\.isGood) }

  static func printHeading() {
    say(
      """
      p99 in quiet, p99 and longest during the attack, ms; peak memory, MB, of gateway, notifier, share service and \
      workers
      """
    )
    say(line(["attack", "near save", "near lookup", "far save", "far lookup", "failed", "memory"]))
  }

  fileprivate static func line(_ cells: [String]) -> String {
    zip(cells, [22, 20, 20, 20, 20, 8, 0]).map { $0 + String(repeating: " ", count: max(0, $1 - $0.count)) }.joined()
  }

  var json: [UInt8] {
    object { writer in
      writer.member("isGood", isGood)
      writer.key("attacks")
      writer.beginArray()
      for row in rows {
        writer.beginObject()
        writer.member("name", row.name)
        writer.member("isGood", row.isGood)
        for (quiet, attacked) in zip(row.quiet.times, row.attacked.times) {
          writer.key(quiet.name)
          writer.beginObject()
          writer.member("quietP99ms", quiet.times.percentile(99))
          writer.member("p99ms", attacked.times.percentile(99))
          writer.member("maxms", attacked.times.max)
          writer.member("calls", attacked.times.count)
          writer.endObject()
        }
        writer.member("failed", row.attacked.failures.values.reduce(0, +))
        writer.key("peakMB")
        writer.beginObject()
        for process in row.peaks { writer.member(process.name, process.peak) }
        writer.endObject()
        writer.key("answers")
        writer.beginObject()
        for (answer, count) in row.answers.sorted(by: { $0.key < $1.key }) { writer.member(answer, count) }
        writer.endObject()
        writer.key("problems")
        writer.beginArray()
        for problem in row.problems { writer.string(problem) }
        writer.endArray()
        writer.endObject()
      }
      writer.endArray()
    }
  }
}
