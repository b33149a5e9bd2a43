// The report: its tables, its JSON, and the files that it reads.

import JSON
import Testing

@testable import aquifer_load

struct MachineTests {
  @Test func `processor and memory are what the kernel says`() {
    let machine = Machine(
      processors: "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nprocessor\t: 1\nmodel name\t: Other\n",
      memory: "MemTotal:       24683520 kB\nMemFree: 1 kB\n",
      kernel: "6.1", coreCount: 2)
    #expect(machine.summary == "2 × Some CPU @ 2 GHz, 24105 MB of memory, Linux 6.1")
    #expect(
      Machine(processors: "", memory: "", kernel: "k", coreCount: 1).summary == "1 × unknown, 0 MB of memory, Linux k")
  }
}

struct UsageTests {
  private static let metrics = """
    # TYPE process_cpu_seconds_total counter
    process_cpu_seconds_total 12.5
    process_resident_memory_bytes 2.097152e+06
    aquifer_build_info{version="1"} 1
    """

  @Test func `a process says its time and memory`() {
    #expect(
      ProcessState(name: "w", metrics: Self.metrics)
        == ProcessState(name: "w", processorSeconds: 12.5, memory: 2_097_152))
    #expect(ProcessState(name: "w", metrics: "process_cpu_seconds_total 1\n") == nil)
  }

  @Test func `a run's use is the difference, for processes that lived through it`() {
    let before = [
      ProcessState(name: "a", processorSeconds: 1, memory: 0),
      ProcessState(name: "restarted", processorSeconds: 5, memory: 0),
    ]
    let after = [
      ProcessState(name: "a", processorSeconds: 3, memory: 1_048_576),
      ProcessState(name: "restarted", processorSeconds: 1, memory: 0),
      ProcessState(name: "new", processorSeconds: 1, memory: 0),
    ]
    #expect(ProcessUse.between(before, after) == [ProcessUse(name: "a", processorSeconds: 2, memory: 1)])
  }
}

struct ReportTests {
  private func report() throws -> Report {
    let options = try Options(["--operator-token", "t", "--seed", "5", "--runs", "3"], environment: [:])
    var report = Report(machine: Machine(processors: "", memory: "", kernel: "k", coreCount: 2), options: options)
    var save = Report.Entry(workload: .init(.w1a, 16))
    for rate in [4000.0, 5000, 6000] {
      save.add([("", Figures(Measurement(latencies: [2000, 4000], seconds: 1), recordCount: Int(rate)))])
      save.noise.append(nil)
      save.uses.append(([ProcessUse(name: "worker-1", processorSeconds: 0.5, memory: 40)], Int(rate)))
    }
    var listen = Report.Entry(workload: .init(.w3, 1000))
    listen.add([("last ping", Figures(Measurement(latencies: [89_500]), recordCount: 0))])
    listen.failure = "a device was pinged and did not find X"
    report.entries = [save, listen]
    let commits = Figures(Measurement(latencies: [1], seconds: 1), recordCount: 10_000)
    report.limits = [Report.Limit(name: StorageLimit(fileCount: 4, recordsPerCommit: 1).name, runs: [commits])]
    report.facts = try Facts(
      json: JSONValue(
        parsing: Array(
          #"""
          {"commit":"abc","command":"deploy/bench","postgres":{"note":"n","limits":[{"name":"PostgreSQL",\#
          "workload":"w1a:16","recordsPerSecond":2500,"p50ms":1.5}]},
          "footprint":{"startMilliseconds":[300,250,400],"idle":[{"process":"worker","memoryMB":30.5}],\#
          "binaries":[{"name":"aquifer","bytes":2097152,"libraryBytes":1048576}]}}
          """#.utf8)))
    return report
  }

  @Test func `results stand beside this machine's limits and the best peers`() throws {
    let tables = try report().tables
    #expect(
      tables.map(\.title) == [
        "Beside limits and peers", "Results", "Processor time for a record (µs) and memory (MB)",
        "Limits of this machine", "Start and footprint",
      ])
    #expect(
      tables[0].rows[0].prefix(6) == ["w1a:16", "save one record, 16 clients, records/s", "5000", "50 %", "", "200 %"])
    #expect(tables[0].rows[0].suffix(4) == ["CouchDB 1163", "4.30", "Redis Streams 27 415", "0.18"])
    #expect(try report().markdown.contains("| save one record, 16 clients, records/s | 5000 | CouchDB 1163 | 4.30 |\n"))
    // For latencies the smaller figure is better.
    #expect(tables[0].rows[1].suffix(4) == ["CouchDB 179", "2.00", "Redis Streams 18.0", "0.20"])
    #expect(tables[1].rows[0] == ["w1a:16", "5000", "2", "2.00", "4.00", "4.00", "0", "4000 5000 6000", "? ? ?"])
    #expect(tables[1].notes.contains("w3:1000 FAILED: a device was pinged and did not find X"))
    #expect(tables[2].rows == [["w1a:16", "100 · 40"]])
    #expect(tables[4].rows.first == ["`aquifer dev` until everything answers, ms, median", "300"])
  }

  @Test func `a failed workload is not good, whatever its figures`() throws {
    #expect(try report().entries.map(\.isGood) == [true, false])
    #expect(!Report.Entry(workload: .init(.w2, 1)).isGood)
  }

  @Test func `the JSON has machine, seed, medians, runs and costs`() throws {
    let json = try JSONValue(parsing: try report().json)
    #expect(json["machine"]?["cores"]?.int64 == 2 && json["seed"]?.int64 == 5 && json["commit"]?.string == "abc")
    let save = try #require(json["workloads"]?.elements.first)
    #expect(
      save["parts"]?.elements.first?["median"]?["recordsPerSecond"]?.double == 5000
        && save["parts"]?.elements.first?["runs"]?.count == 3)
    #expect(save["processes"]?.elements.first?["microsecondsPerRecord"]?.double == 100)
    #expect(
      json["workloads"]?.elements.last?["failure"]?.string != nil && json["postgres"]?.count == 1
        && json["footprint"]?["idle"]?.count == 1)
  }

  @Test func `a table is aligned on a terminal, and Markdown on a page`() {
    var table = Table("T", "what:", "n")
    table.rows = [["a|b", "1"], ["c", "100"]]
    table.notes = ["Why."]
    #expect(table.text == "T\nwhat    n\na|b     1\nc     100\nWhy.\n")
    #expect(table.markdown == "### T\n\n| what | n |\n| --- | --: |\n| a\\|b | 1 |\n| c | 100 |\n\nWhy.\n")
  }

  @Test func `every peer's figure is of a workload that is compared`() {
    #expect(Peer.best(.service, for: "w2:8")?.system == "Kinto on PostgreSQL")
    #expect(Peer.best(.store, for: "w4:2 refusal", smallerIsBetter: true)?.figure == 0.45)
    #expect(Peer.best(.store, for: "w1c:16") == nil)
  }
}
