// Runs the benchmark as operators do, with a moment of every workload. It tests the complete path, not the speed.

import Foundation
import Testing

@Suite struct BenchTests {
  /// Runs deploy/bench with these binaries.
  /// - Returns: what it prints; when it fails, its progress and the reason as well.
  private func bench(_ arguments: [String]) throws -> (status: Int32, output: String) {
    let output = Pipe()
    let log = FileManager.default.temporaryDirectory.appending(path: "aquifer-bench-\(UUID().uuidString).log")
    #expect(FileManager.default.createFile(atPath: log.path, contents: nil))
    defer { try? FileManager.default.removeItem(at: log) }
    let progress = try FileHandle(forWritingTo: log)
    let run = Process()
    run.executableURL = Checkout.root.appending(path: "deploy/bench")
    run.arguments = arguments
    run.environment = ProcessInfo.processInfo.environment.merging(["AQUIFER_BIN": Checkout.products.path]) { $1 }
    run.standardOutput = output
    run.standardError = progress
    try run.runUnblocked()
    let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    run.waitUntilExit()
    try progress.close()
    let reason = run.terminationStatus == 0 ? "" : try String(contentsOf: log, encoding: .utf8)
    return (run.terminationStatus, text + reason)
  }

  private static let workloads = [
    "w0:2", "w1a:2", "w1a:2@50", "w1b:2", "w1c:2", "w2:2", "w2o:2", "w3:5", "w3s:5", "w4:2", "w5:3", "qe:2", "qs:2",
  ]
  private static let small = [
    "--", "--changes", "400", "--rounds", "5", "--saves", "2", "--records", "1000", "--batch", "20",
  ]

  @Test(.timeLimit(.minutes(2)))
  func `every workload, limit and figure comes out of deploy/bench, and none of the workloads finds a fault`() throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "aquifer-bench-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let (json, markdown) = (folder.appending(path: "report.json"), folder.appending(path: "report.md"))
    let options = [
      "--workload", Self.workloads.joined(separator: ","), "--seconds", "0.5", "--runs", "1", "--json", json.path,
      "--markdown", markdown.path,
    ]
    let (status, output) = try bench(options + Self.small)
    #expect(status == 0, "\(output)")

    let report = try Value(json: Array(Data(contentsOf: json)))
    let entries = report["workloads"].elements
    let names = entries.map { entry in
      let rate = entry["requestsPerSecond"].integer.map { "@\($0)" } ?? ""
      return "\(entry["workload"].string ?? ""):\(entry["clients"].integer ?? 0)\(rate)"
    }
    #expect(names == Self.workloads)
    for entry in entries {
      #expect(entry["failure"] == .null && entry["firstError"] == .null, "\(entry)")
      #expect(entry["parts"].elements.contains { ($0["median"]["requests"].integer ?? 0) > 0 }, "\(entry)")
      let processes = Set(entry["processes"].elements.compactMap { $0["process"].string })
      #expect(processes.isSuperset(of: ["gateway", "worker-1", "share", "notifier", "generator"]), "\(entry)")
    }
    #expect(report["limits"].elements.count == 7)
    #expect(report["postgresNote"].string?.contains("PostgreSQL") == true)
    let footprint = report["footprint"]
    #expect(
      [footprint["startMilliseconds"], footprint["idle"], footprint["binaries"]].map(\.elements.count) == [3, 5, 5])
    #expect(report["machine"]["cores"].integer ?? 0 > 0 && report["seed"].integer != nil)
    let page = try String(contentsOf: markdown, encoding: .utf8)
    for title in ["Beside limits and peers", "Results", "Limits of this machine", "Start and footprint"] {
      #expect(output.contains(title + "\n") && page.contains("### \(title)\n"))
    }
  }

  @Test(.timeLimit(.minutes(1))) func `a run of pgbench that ends before it has connected is repeated for longer`()
    throws
  {
    let folder = FileManager.default.temporaryDirectory.appending(path: "aquifer-bench-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    // Its runs of one second make no transaction.
    let naive = """
      #!/bin/sh
      case " $* " in
        *" -T 1 "*)
          echo 'number of transactions actually processed: 0'
          for word in "$@"; do case $word in --log-prefix=*) : >"${word#*=}.1" ;; esac; done
          ;;
        *) exec "$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)/pgbench" "$@" ;;
      esac
      """
    let program = folder.appending(path: "pgbench")
    try Data(naive.utf8).write(to: program)
    for path in [folder.path, program.path] {
      try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: path)
    }
    let script = Checkout.root.appending(path: "Tests/Load/postgres").path
    let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
    let done = try CommandLineTool.run(
      ["PATH=\(folder.path):\(path)", script, "--seconds", "1", "--runs", "1"],
      executable: URL(filePath: "/usr/bin/env"))
    #expect(done.code == 0, "\(done.problem)")
    let limits = try Value(json: Array(done.output.utf8))["limits"].elements
    #expect(limits.count == 3 && limits.allSatisfy { $0["recordsPerSecond"].double ?? 0 > 0 }, "\(done.output)")
  }

  @Test(.timeLimit(.minutes(1)))
  func `the client's figures come beside bare SQLite, and a missed floor is exit code 1`()
    throws
  {
    let folder = FileManager.default.temporaryDirectory.appending(path: "aquifer-bench-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let (floors, json) = (folder.appending(path: "floors.json"), folder.appending(path: "report.json"))
    func measure(_ floor: String) throws -> (status: Int32, report: Value, output: String) {
      let keys = [
        "firstImport", "importMemory", "fileImport", "saves", "savesP99", "insertAll", "fetch", "fetchScreen",
        "countText", "latency", "pin", "queue", "equal", "idleMemory", "binary",
      ]
      let figures = keys.map { key in
        let limit = key == "saves" ? #","isLeast":true,"floor":\#(floor)"# : ""
        return #"{"key":"\#(key)","name":"\#(key)","unit":"ms"\#(limit)}"#
      }
      try Data("[\(figures.joined(separator: ","))]".utf8).write(to: floors)
      let (status, output) = try bench(
        ["--client", "--objects", "1000", "--floors", floors.path, "--json", json.path])
      return (status, try Value(json: Array(Data(contentsOf: json))), output)
    }
    let kept = try measure("0.001")
    #expect(kept.status == 0, "\(kept.output)")
    let figures = kept.report["figures"].elements
    #expect(figures.count == 15 && figures.allSatisfy { $0["value"] != .null }, "\(kept.output)")
    #expect(figures.filter { $0["bare"] != .null }.count == 6 && kept.output.contains("| saves, ms |"))
    let missed = try measure("1000000000")
    #expect(missed.status == 1 && missed.output.contains("missed"), "\(missed.output)")
  }

  @Test(.timeLimit(.minutes(1))) func `the waking of devices is measured, and a missing figure is exit 1`() throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "aquifer-bench-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let (floors, json) = (folder.appending(path: "floors.json"), folder.appending(path: "report.json"))
    let keys = ["lastDevice", "processor", "pushes", "notifierMemory", "registered", "known", "other"]
    let list = keys.map { key in #"{"key":"\#(key)","name":"\#(key)","unit":"u"}"# }.joined(separator: ",")
    try Data("[\(list)]".utf8).write(to: floors)
    let (status, output) = try bench(
      ["--push", "--registrations", "20", "--floors", floors.path, "--json", json.path])
    #expect(status == 1, "\(output)")
    let figures = try Value(json: Array(Data(contentsOf: json)))["figures"].elements
    #expect(figures.filter { $0["value"] == .null }.map { $0["key"].string } == ["other"], "\(output)")
    #expect(output.contains("| lastDevice, u |") && !output.contains("bare SQLite"))
  }

  @Test(.timeLimit(.minutes(2)))
  func `other systems are measured in the same run with their costs, or the table says which are left out`() throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "aquifer-bench-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let json = folder.appending(path: "report.json")
    let (status, output) = try bench(["--peers", "--seconds", "0.5", "--runs", "1", "--json", json.path])
    #expect(status == 0, "\(output)")
    let report = try Value(json: Array(Data(contentsOf: json)))
    let systems = report["systems"].elements
    let leftOut = report["leftOut"].elements.compactMap(\.string).joined()
    let words = [("Redis Streams", "redis"), ("etcd over HTTP", "etcd"), ("PostgreSQL over its socket", "PostgreSQL")]
    for (system, word) in [("Aquifer", "-")] + words {
      guard let found = systems.first(where: { $0["system"].string == system }) else {
        #expect(leftOut.contains(word), "\(system): \(leftOut)")
        continue
      }
      for workload in ["w1a:1", "w1a:16", "w1b:16"] {
        let figures = found["workloads"][workload]
        for key in ["recordsPerSecond", "p50ms", "processorSeconds", "writtenBytes", "memoryMB"] {
          #expect(figures[key].double ?? 0 > 0, "\(system), \(workload), \(key): \(figures)")
        }
      }
      #expect(output.contains("| \(system) |"))
    }
    let own = systems.first { $0["system"].string == "Aquifer" }
    #expect(own?["idle"]["memoryMB"].double ?? 0 > 0, "\(output)")
  }

  @Test(.timeLimit(.minutes(1))) func `both engines are measured in one run, and a figure below its floor is told`()
    throws
  {
    let folder = FileManager.default.temporaryDirectory.appending(path: "aquifer-bench-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let (floors, json) = (folder.appending(path: "floors.json"), folder.appending(path: "report.json"))
    let line = #""workload":"w1a:2","part":"","figure":"recordsPerSecond","counts""#
    try Data(#"[{\#(line):"ratio","floor":0.001},{\#(line):"own","floor":0}]"#.utf8).write(to: floors)
    let (status, output) = try bench([
      "--engine", "both", "--standby", "--seconds", "0.5", "--runs", "1", "--workload", "w1a:2",
      "--floors", floors.path, "--json", json.path,
    ])
    #expect(status == 1, "\(output)")
    let report = try Value(json: Array(Data(contentsOf: json)))
    #expect(report["lines"].elements.map { $0["isEnough"] } == [.bool(true), .bool(false)], "\(output)")
    for engine in ["SQLite", "PostgreSQL"] {
      #expect(report["figures"][engine]["w1a:2"][""]["recordsPerSecond"].double ?? 0 > 0, "\(output)")
    }
    #expect(output.contains("below its floor") && output.contains("with a synchronous standby"))
  }

  @Test(.timeLimit(.minutes(1)), .enabled(if: FaultyNetwork.isPossible, "takes root and /dev/net/tun"))
  func `a database behind a wire is measured, and the floors of that round trip count alone`() throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "aquifer-bench-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let (floors, json) = (folder.appending(path: "floors.json"), folder.appending(path: "report.json"))
    let line = #""workload":"w1a:2","part":"","figure":"recordsPerSecond","floor""#
    let lines = [
      #"{\#(line):1e9,"counts":"ratio"}"#, #"{\#(line):1e9,"counts":"own rate","roundTrip":9}"#,
      #"{\#(line):0.001,"counts":"own rate","roundTrip":2000}"#,
    ]
    try Data("[\(lines.joined(separator: ","))]".utf8).write(to: floors)
    let (status, output) = try bench([
      "--engine", "both", "--round-trip", "2000", "--seconds", "0.5", "--runs", "1", "--workload", "w1a:2",
      "--floors", floors.path, "--json", json.path,
    ])
    #expect(status == 0, "\(output)")
    let report = try Value(json: Array(Data(contentsOf: json)))
    #expect(report["lines"].elements.map { $0["floor"].double } == [nil, 0.001], "\(output)")
    // No packet is earlier than the wire lets it be.
    #expect(report["roundTrip"].double ?? 0 >= 2000)
    #expect(report["figures"]["PostgreSQL"]["w1a:2"][""]["p50ms"].double ?? 0 >= 2, "\(output)")
  }

  @Test(.timeLimit(.minutes(1))) func `an installation that runs is measured where it is, and goes on`() async throws {
    try await Installation.run { installation in
      let ready = installation.ready
      let options = ["--no-limits", "--seconds", "0.5", "--runs", "1", "--workload", "w1a:1,w4"]
      let (status, output) = try bench(
        ["--url", ready.gateway, "--operator-token", ready.operatorToken] + options + Self.small)
      #expect(status == 0 && output.contains("w4:2 refusal"), "\(output)")
      #expect(!output.contains("Start and footprint") && !output.contains("Limits of this machine"))
      #expect(!output.contains(ready.operatorToken))
      #expect(try await installation.admin("GET", "/admin/1/status")["members"].elements.count == 4)
    }
  }

  @Test(.timeLimit(.minutes(1))) func `a scenario is measured with its users' tokens alone, and left without a trace`()
    async throws
  {
    try await Installation.run { installation in
      let app = try await App(
        installation, model: Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path)
      let alice = try await app.user("alice")
      let before = try await alice.records("zones/list", [:])["zones"].elements.count
      let scenario = installation.folder.appending(path: "scenario.json")
      let members: Value = [
        "container": .string(app.container), "apiToken": .string(app.apiToken),
        "clients": [["webAuthToken": .string(alice.token)]],
      ]
      try Data(members.json).write(to: scenario)

      let load = Process()
      load.executableURL = Checkout.products.appending(path: "aquifer-load")
      load.arguments = [
        "--url", installation.ready.gateway, "--scenario", scenario.path, "--workload", "w1a:1,w2:2,w3:3,w3s:3,w4,w5:2",
        "--changes", "200", "--rounds", "3", "--saves",
        "1",
        "--seconds", "0.5", "--json", "-",
      ]
      let output = Pipe()
      load.standardOutput = output
      load.standardError = FileHandle.nullDevice
      try load.runUnblocked()
      let report = try Value(json: Array(output.fileHandleForReading.readDataToEndOfFile()))
      load.waitUntilExit()
      #expect(load.terminationStatus == 0, "\(report)")
      #expect(report["workloads"].elements.allSatisfy { $0["failure"] == .null && $0["processes"] == [] }, "\(report)")
      #expect(try await alice.records("zones/list", [:])["zones"].elements.count == before)
    }
  }
}
