// All measurements, as JSON for programs and as tables for people.

import JSON

struct Report {
  /// One workload, or one of its measured parts.
  struct Line {
    let workload: Workload.Sized
    /// The name of the part; empty when there is only one.
    let part: String
    var runs: [Figures] = []

    var name: String { part.isEmpty ? workload.name : "\(workload.name) \(part)" }
    var median: Figures { Figures(medianOf: runs) }
  }

  /// The common facts of a workload's runs.
  struct Entry {
    let workload: Workload.Sized
    var lines: [Line] = []
    /// Before each run; nil where it could not be measured.
    var noise: [Noise?] = []
    /// The costs of the processes in each run, with the number of records.
    var uses: [(processes: [ProcessUse], recordCount: Int)] = []
    var firstError: String?
    /// The reason why the workload's answers are wrong.
    var failure: String?

    /// Processor time for a record in microseconds, and memory in megabytes: medians, in the first run's order.
    var costs: [(process: String, microseconds: Double, memory: Double)] {
      (uses.first?.processes ?? []).compactMap { process in
        let all = uses.compactMap { use in use.processes.first { $0.name == process.name }.map { ($0, use.recordCount) }
        }.filter { $0.1 > 0 }
        guard !all.isEmpty else { return nil }
        return (
          process.name, Figures.median(all.map { $0.0.processorSeconds * 1e6 / Double($0.1) }),
          Figures.median(all.map(\.0.memory))
        )
      }
    }

    mutating func add(_ parts: [(name: String, figures: Figures)]) {
      for part in parts {
        if let index = lines.firstIndex(where: { $0.part == part.name }) {
          lines[index].runs.append(part.figures)
        } else {
          lines.append(Line(workload: workload, part: part.name, runs: [part.figures]))
        }
      }
    }

    var isGood: Bool { failure == nil && lines.contains { $0.median.requestCount > 0 } }
  }

  /// A limit of the machine, measured without the server.
  struct Limit {
    let name: String
    var runs: [Figures] = []
    var noise: [Noise?] = []
    var median: Figures { Figures(medianOf: runs) }
  }

  let machine: Machine
  let options: Options
  var facts = Facts()
  var limits: [Limit] = []
  var entries: [Entry] = []

  func line(_ name: String) -> Line? { entries.lazy.flatMap(\.lines).first { $0.name == name && !$0.runs.isEmpty } }
  func limit(_ name: String) -> Figures? { limits.first { $0.name == name }?.median }

  // MARK: JSON

  var json: [UInt8] {
    var writer = JSONWriter(reservingByteCount: 64 * 1024)
    writer.beginObject()
    writer.member("url", options.url)
    writer.key("machine")
    machine.write(to: &writer)
    if let commit = facts.commit { writer.member("commit", commit) }
    if let command = facts.command { writer.member("command", command) }
    writer.member("seed", Int64(clamping: options.seed))
    writer.member("seconds", options.seconds)
    writer.member("runs", options.runCount)
    write("workloads", entries, &writer) { Self.write($0, &$1) }
    write("limits", limits, &writer) { limit, writer in
      writer.beginObject()
      writer.member("name", limit.name)
      Self.write(limit.runs, limit.median, limit.noise, &writer)
      writer.endObject()
    }
    write("postgres", facts.postgres, &writer) { limit, writer in
      writer.beginObject()
      writer.member("name", limit.name)
      writer.member("workload", limit.workload)
      writer.member("recordsPerSecond", limit.recordsPerSecond)
      writer.member("p50ms", limit.p50)
      writer.endObject()
    }
    if let note = facts.postgresNote { writer.member("postgresNote", note) }
    if let footprint = facts.footprint {
      writer.key("footprint")
      footprint.write(to: &writer)
    }
    writer.endObject()
    return writer.bytes
  }

  private func write<Element>(
    _ key: String, _ elements: [Element], _ writer: inout JSONWriter, _ body: (Element, inout JSONWriter) -> Void
  ) {
    writer.key(key)
    writer.beginArray()
    for element in elements { body(element, &writer) }
    writer.endArray()
  }

  private static func write(_ entry: Entry, _ writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("workload", entry.workload.workload.rawValue)
    writer.member("clients", entry.workload.clientCount)
    if case .rate(let rate) = entry.workload.pace { writer.member("requestsPerSecond", rate) }
    writer.key("parts")
    writer.beginArray()
    for line in entry.lines {
      writer.beginObject()
      if !line.part.isEmpty { writer.member("part", line.part) }
      write(line.runs, line.median, entry.noise, &writer)
      writer.endObject()
    }
    writer.endArray()
    writer.key("processes")
    writer.beginArray()
    for cost in entry.costs {
      writer.beginObject()
      writer.member("process", cost.process)
      writer.member("microsecondsPerRecord", cost.microseconds.rounded(toPlaces: 2))
      writer.member("memoryMB", cost.memory.rounded(toPlaces: 1))
      writer.endObject()
    }
    writer.endArray()
    if let error = entry.firstError { writer.member("firstError", error) }
    if let failure = entry.failure { writer.member("failure", failure) }
    writer.endObject()
  }

  private static func write(_ runs: [Figures], _ median: Figures, _ noise: [Noise?], _ writer: inout JSONWriter) {
    writer.key("median")
    median.write(to: &writer)
    writer.key("runs")
    writer.beginArray()
    for run in runs { run.write(to: &writer) }
    writer.endArray()
    writer.key("noiseBeforeRuns")
    writer.beginArray()
    for noise in noise { if let noise { noise.write(to: &writer) } else { writer.null() } }
    writer.endArray()
  }
}

extension Facts.Footprint {
  func write(to writer: inout JSONWriter) {
    writer.beginObject()
    writer.key("startMilliseconds")
    writer.beginArray()
    for time in startMilliseconds { writer.double(time) }
    writer.endArray()
    writer.key("idle")
    writer.beginArray()
    for (process, memory) in idle {
      writer.beginObject()
      writer.member("process", process)
      writer.member("memoryMB", memory)
      writer.endObject()
    }
    writer.endArray()
    writer.key("binaries")
    writer.beginArray()
    for (name, byteCount, libraryByteCount) in binaries {
      writer.beginObject()
      writer.member("name", name)
      writer.member("bytes", byteCount)
      writer.member("libraryBytes", libraryByteCount)
      writer.endObject()
    }
    writer.endArray()
    writer.endObject()
  }
}
