// The report's tables: results beside limits and peers, costs, and footprint.

extension Report {
  /// The tables that have rows.
  var tables: [Table] { [comparison, results, costs, limitTable, footprint].filter { !$0.rows.isEmpty } }

  /// The heading, the headline and all tables as Markdown.
  var markdown: String {
    "\(heading).\n\n" + ([headline].filter { !$0.rows.isEmpty } + tables).map(\.markdown).joined(separator: "\n")
  }

  /// The machine, the commit and the method of the measurement.
  var heading: String {
    let commit = facts.commit.map { "commit \($0), " } ?? ""
    return "Aquifer on \(machine.summary); \(commit)seed \(options.seed), medians of \(options.runCount) runs"
      + (facts.command.map { ", by `\($0)`" } ?? "")
  }

  // MARK: Beside limits and peers

  /// A workload's line with the figures to compare it with.
  private struct Comparison {
    let line: String
    let meaning: String
    var storage: StorageLimit? = nil
    var network: ProtocolLimit? = nil
    var isLatency = false
  }

  private var comparisons: [Comparison] {
    let batch = options.batch
    return [
      Comparison(
        line: "w1a:1", meaning: "save one record, 1 client, records/s",
        storage: StorageLimit(fileCount: 1, recordsPerCommit: 1),
        network: ProtocolLimit(workload: .w1a, clientCount: 1)),
      Comparison(
        line: "w1a:16", meaning: "save one record, 16 clients, records/s",
        storage: StorageLimit(fileCount: 4, recordsPerCommit: 1),
        network: ProtocolLimit(workload: .w1a, clientCount: 16)),
      Comparison(
        line: "w1b:16", meaning: "save \(batch) records at once, 16 clients, records/s",
        storage: StorageLimit(fileCount: 4, recordsPerCommit: 200),
        network: ProtocolLimit(workload: .w1b, clientCount: 16)),
      Comparison(line: "w1c:16", meaning: "save 5 objects and export them, 16 clients, objects/s"),
      Comparison(line: "w2:1", meaning: "pull \(options.changeCount) records, 1 device, records/s"),
      Comparison(line: "w2:8", meaning: "the same, 8 devices, records/s"),
      Comparison(line: "w2o:1", meaning: "pull \(options.changeCount) objects, 1 device, objects/s"),
      Comparison(line: "w2o:8", meaning: "the same, 8 devices, objects/s"),
      Comparison(
        line: "w3:1000 last ping", meaning: "1000 listeners (long poll), a save until the last ping, ms",
        isLatency: true),
      Comparison(line: "w3:1000 last pull", meaning: "the same, until the last has the change, ms", isLatency: true),
      Comparison(
        line: "w3s:1000 last ping", meaning: "1000 listeners (event stream), a save until the last ping, ms",
        isLatency: true),
      Comparison(line: "w3s:1000 last pull", meaning: "the same, until the last has the change, ms", isLatency: true),
      Comparison(line: "w4:2 refusal", meaning: "refusal of a stale update, p50, ms", isLatency: true),
      Comparison(line: "w4:2 retry", meaning: "the refused device asks and saves again, p50, ms", isLatency: true),
    ]
  }

  /// The figures beside those of comparable services.
  private var headline: Table {
    var table = Table("In short", "what:", "Aquifer", "best sync service:", "×")
    table.rows = comparison.rows.filter { !$0[6].isEmpty }.map { [$0[1], $0[2], $0[6], $0[7]] }
    return table
  }

  private var comparison: Table {
    var table = Table(
      "Beside limits and peers", "workload:", "what:", "Aquifer", "of SQLite", "of HTTP", "of PostgreSQL",
      "best sync service:", "×", "fastest durable store:", "×")
    for comparison in comparisons {
      guard let figures = line(comparison.line)?.median, figures.requestCount > 0 else { continue }
      let value = comparison.isLatency ? figures.p50 : figures.recordsPerSecond
      func share(_ limit: Double?) -> String { limit.map { $0 > 0 ? "\((value / $0 * 100).text(0)) %" : "" } ?? "" }
      func peer(_ kind: Peer.Kind) -> [String] {
        // Both ways of listening are compared with the peers' single one.
        let key = comparison.line.replacing("w3s", with: "w3")
        guard let peer = Peer.best(kind, for: key, smallerIsBetter: comparison.isLatency), value > 0 else {
          return ["", ""]
        }
        return [
          "\(peer.system) \(peer.figure.short)",
          (comparison.isLatency ? peer.figure / value : value / peer.figure).short,
        ]
      }
      table.rows.append(
        [
          comparison.line, comparison.meaning, value.short,
          share(comparison.storage.flatMap { limit($0.name)?.recordsPerSecond }),
          share(comparison.network.flatMap { limit($0.name)?.recordsPerSecond }),
          share(facts.postgres.first { $0.workload == comparison.line }?.recordsPerSecond),
        ] + peer(.service) + peer(.store))
    }
    table.notes = [
      "SQLite, HTTP and PostgreSQL are limits measured in the same run, each doing nothing but its part.",
      """
      Peers' figures come from another run on a machine of the same kind (two cores, the generator beside the server); \
      × above 1 is ahead of the peer.
      """,
      "Stores have no HTTP, no users and no semantics.",
    ]
    return table
  }

  // MARK: Results

  private var results: Table {
    var table = Table(
      "Results", "workload:", "records/s", "requests/s", "p50 ms", "p99 ms", "max ms", "errors", "runs:",
      "load/busy before:")
    for entry in entries {
      for (index, line) in entry.lines.enumerated() {
        let median = line.median
        func rate(_ value: Double) -> String { value > 0 ? value.text(0) : "–" }
        let isRate = median.recordsPerSecond > 0
        table.rows.append([
          line.name, rate(median.recordsPerSecond), rate(median.requestsPerSecond), median.p50.text(2),
          median.p99.text(2), median.longest.text(2),
          String(median.errorCount),
          line.runs.map { isRate ? $0.recordsPerSecond.text(0) : $0.p50.text(2) }.joined(separator: " "),
          index == 0 ? entry.noise.map { $0?.summary ?? "?" }.joined(separator: " ") : "",
        ])
      }
      if let failure = entry.failure { table.notes.append("\(entry.workload.name) FAILED: \(failure)") }
      if let error = entry.firstError { table.notes.append("\(entry.workload.name): the first error was: \(error)") }
    }
    table.notes.append(
      """
      Runs: records/s of each, or p50 ms where there is no rate. Before each run: the load average, and how busy the \
      processors were in a quarter of a second.
      """
    )
    return table
  }

  // MARK: Costs

  private var costs: Table {
    var names: [String] = []
    for cost in entries.flatMap(\.costs) where !names.contains(cost.process) { names.append(cost.process) }
    var table = Table("Processor time for a record (µs) and memory (MB)", "workload:", names: names)
    for entry in entries where !entry.costs.isEmpty {
      table.rows.append(
        [entry.workload.name]
          + names.map { name in
            entry.costs.first { $0.process == name }.map { "\($0.microseconds.short) · \($0.memory.text(0))" } ?? ""
          })
    }
    table.notes = [
      """
      Warming up counts in both. Of w3 a record is one device's ping and pull, of w4 an update that won; the generator \
      runs on the same machine.
      """
    ]
    return table
  }

  // MARK: Limits

  private var limitTable: Table {
    var table = Table("Limits of this machine", "limit:", "records/s", "p50 ms", "p99 ms", "runs:", "load/busy before:")
    for limit in limits {
      let median = limit.median
      table.rows.append([
        limit.name, median.recordsPerSecond.text(0), median.p50.text(3), median.p99.text(3),
        limit.runs.map { $0.recordsPerSecond.text(0) }.joined(separator: " "),
        limit.noise.map { $0?.summary ?? "?" }.joined(separator: " "),
      ])
    }
    for limit in facts.postgres {
      table.rows.append([limit.name, limit.recordsPerSecond.text(0), limit.p50.text(3), "", "", ""])
    }
    if let note = facts.postgresNote { table.notes.append(note) }
    return table
  }

  // MARK: Footprint

  private var footprint: Table {
    var table = Table("Start and footprint", "what:", "figure")
    guard let footprint = facts.footprint else { return table }
    if !footprint.startMilliseconds.isEmpty {
      table.rows.append([
        "`aquifer dev` until everything answers, ms, median", Figures.median(footprint.startMilliseconds).text(0),
      ])
    }
    for (process, memory) in footprint.idle {
      table.rows.append(["\(process), resident when idle, MB", memory.text(1)])
    }
    if !footprint.idle.isEmpty {
      table.rows.append(["all processes, resident when idle, MB", footprint.idle.reduce(0) { $0 + $1.memory }.text(1)])
    }
    let megabyte = 1_048_576.0
    for (name, byteCount, libraryByteCount) in footprint.binaries {
      table.rows.append(["\(name), MB", (byteCount / megabyte).text(1)])
      if libraryByteCount > 0 {
        table.rows.append(["\(name), shared libraries of Swift besides, MB", (libraryByteCount / megabyte).text(1)])
      }
    }
    return table
  }
}

extension Table {
  fileprivate init(_ title: String, _ first: String, names: [String]) {
    self.init(title, columns: [(String(first.dropLast()), true)] + names.map { ($0, false) })
  }
}
