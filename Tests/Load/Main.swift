// The load generator of the benchmark: options, population, runs, report.

import CLinux
import Crypto
import Glibc
import HTTPClient
import JSON

@main
struct Load {
  static func main() async {
    let arguments = Array(CommandLine.arguments.dropFirst())
    if arguments.contains("--help") || arguments.contains("-h") {
      print(Options.help)
      HTTPClient.endProcess(0)
    }
    raiseFileLimit()
    do {
      let options = try Options(arguments, environment: environment())
      let report = try await Load(options).run()
      try publish(report, options)
      HTTPClient.endProcess(report.entries.allSatisfy(\.isGood) ? 0 : 1)
    } catch let error as Options.UsageError {
      say("aquifer-load: \(error.reason); aquifer-load --help tells more")
      HTTPClient.endProcess(2)
    } catch let error as HTTPClientError {
      say("aquifer-load: \(error.reason)")
      HTTPClient.endProcess(1)
    } catch let error as JSONError {
      say("aquifer-load: \(error.reason)")
      HTTPClient.endProcess(1)
    } catch {
      say("aquifer-load: \(error)")
      HTTPClient.endProcess(1)
    }
  }

  let options: Options
  let target: Target
  let admin: Admin

  init(_ options: Options) throws {
    self.options = options
    guard let target = Target(url: options.url) else {
      throw LoadError(description: "'\(options.url)' is not an http URL of a known host")
    }
    self.target = target
    admin = Admin(
      url: options.url.hasSuffix("/") ? String(options.url.dropLast()) : options.url,
      operatorToken: options.operatorToken)
  }

  func run() async throws -> Report {
    var report = Report(machine: .here(), options: options)
    if let path = options.factsPath { report.facts = try Facts(json: JSONValue(parsing: TextFile.read(path))) }
    say(report.heading)
    if options.measuresLimits { report.limits = try await limits() }
    if let peer = options.peer {
      try await measure(peer, &report)
      return report
    }

    let userCount = options.workloads.map { $0.workload.hasUserForEachClient ? $0.clientCount : 1 }.max() ?? 1
    let scenario =
      if let path = options.scenarioPath { try Scenario(json: JSONValue(parsing: TextFile.read(path))) } else {
        try await Scenario(making: userCount, with: admin)
      }
    guard !scenario.webAuthTokens.isEmpty else { throw LoadError(description: "the scenario has no clients") }
    let watch = await ProcessWatch(admin)
    var random = FastRandom(seed: options.seed)
    let population = options.workloads.contains(where: \.workload.isQuery) ? try await populate(scenario) : nil
    for workload in options.workloads {
      var entry = Report.Entry(workload: workload)
      do {
        try Self.requireFiles(workload)
        let bench = try await Bench(workload, options, target, admin, scenario, population, &random)
        for number in 1...options.runCount {
          let run = try await bench.prepare(&random)
          entry.noise.append(
            try await number == 1
              ? Noise.measure(onceQuietWithin: .seconds(min(3 * options.seconds, 10))) : Noise.measure())
          let before = await watch.look()
          let outcome = try await run()
          entry.uses.append((ProcessUse.between(before, await watch.look()), outcome.recordCount))
          entry.add(outcome.parts.map { ($0.name, Figures($0.measurement, recordCount: $0.recordCount)) })
          entry.firstError = entry.firstError ?? outcome.parts.lazy.compactMap(\.measurement.firstError).first
          report.progress(entry, number)
          try outcome.check()
        }
      } catch let error as LoadError {
        entry.failure = error.description
        say("\(workload.name) FAILED: \(error.description)")
      }
      report.entries.append(entry)
    }
    await scenario.cleanUp(with: admin)
    return report
  }

  /// Saves to another system, each client into a part of its own.
  private func measure(_ peer: PeerService, _ report: inout Report) async throws {
    var random = FastRandom(seed: options.seed)
    for workload in options.workloads {
      var entry = Report.Entry(workload: workload)
      let count = workload.workload.recordCount(batch: options.batch)
      for number in 1...options.runCount {
        let makers = (0..<workload.clientCount).map { client in
          peer.maker(
            count: count, client: client, host: target.host, authorization: options.peerAuthorization,
            random: random.split())
        }
        entry.noise.append(try await Noise.measure())
        let measurement = await runClosedLoops(
          target, makers, threadCount: options.threadCount, length: RunLength(seconds: options.seconds),
          pace: workload.pace)
        entry.add([("", Figures(measurement, recordCount: measurement.latencies.count * count))])
        entry.firstError = entry.firstError ?? measurement.firstError
        report.progress(entry, number)
      }
      report.entries.append(entry)
    }
  }

  private func limits() async throws -> [Report.Limit] {
    let folder = (options.scratchPath ?? "/tmp") + "/aquifer-limit-" + Hex.encode(SecureRandom.bytes(6))
    guard mkdir(folder, 0o700) == 0 else {
      throw LoadError(description: "can't make \(folder): \(String(cString: strerror(errno)))")
    }
    defer { Folder.remove(folder) }
    var limits: [Report.Limit] = []
    for limit in StorageLimit.all {
      var line = Report.Limit(name: limit.name)
      for _ in 1...options.runCount {
        line.noise.append(try await Noise.measure())
        let measurement = try await limit.measure(in: folder, seconds: options.seconds)
        line.runs.append(Figures(measurement, recordCount: measurement.latencies.count * limit.recordsPerCommit))
        Folder.empty(folder)
      }
      say("\(line.name): \(line.median.recordsPerSecond.text(0)) records/s")
      limits.append(line)
    }
    for limit in ProtocolLimit.all {
      var line = Report.Limit(name: limit.name)
      for _ in 1...options.runCount {
        line.noise.append(try await Noise.measure())
        let measurement = try await limit.measure(
          batch: options.batch, threadCount: options.threadCount, length: RunLength(seconds: options.seconds))
        line.runs.append(
          Figures(
            measurement, recordCount: measurement.latencies.count * limit.workload.recordCount(batch: options.batch)))
      }
      say("\(line.name): \(line.median.recordsPerSecond.text(0)) records/s")
      limits.append(line)
    }
    return limits
  }

  /// Makes the zone that all clients query, and waits for its indexes.
  private func populate(_ scenario: Scenario) async throws -> QueryPopulation {
    let token = scenario.webAuthTokens[0]
    let zoneName = try await scenario.makeZone(token: token, with: admin)
    let population = QueryPopulation(scenario, token: token, zoneName: zoneName, recordCount: options.recordCount)
    let start = Connections.now()
    try await population.fill(with: admin)
    let filled = Connections.now()
    try await population.waitForIndexes(with: admin)
    let seconds = [start, filled, Connections.now()].map { Double($0) / 1e9 }
    say(
      """
      \(options.recordCount) records to query written in \((seconds[1] - seconds[0]).text(1)) s, indexes ready after \
      \((seconds[2] - seconds[1]).text(1)) s
      """
    )
    return population
  }

  private static func publish(_ report: Report, _ options: Options) throws {
    let outputs = [
      (options.jsonPath, report.json + [UInt8(ascii: "\n")]), (options.markdownPath, Array(report.markdown.utf8)),
    ]
    for case (let path?, let bytes) in outputs {
      if path == "-" {
        print(String(decoding: bytes, as: UTF8.self), terminator: "")
      } else {
        try TextFile.write(bytes, to: path)
      }
    }
    if options.jsonPath != "-", options.markdownPath != "-" {
      print("\(report.heading)\n\n" + report.tables.map(\.text).joined(separator: "\n"), terminator: "")
    }
  }

  private static func environment() -> [String: String] {
    var values: [String: String] = [:]
    for name in ["AQUIFER_SERVER", "AQUIFER_OPERATOR_TOKEN", "PEER_AUTHORIZATION", "TMPDIR"] {
      if let value = getenv(name) { values[name] = String(cString: value) }
    }
    return values
  }

  /// - Throws: when the workload needs more connections than open files are allowed.
  private static func requireFiles(_ workload: Workload.Sized) throws {
    var limit = rlimit()
    // The program itself needs some files.
    let needed = workload.connectionCount + 64
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0, limit.rlim_cur < rlim_t(needed) else {
      return
    }
    throw LoadError(
      description: "it needs \(needed) open files, and \(limit.rlim_cur) are allowed: raise the limit (ulimit -Hn)")
  }

  /// Every device needs a connection or two.
  private static func raiseFileLimit() {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0, limit.rlim_cur < limit.rlim_max else {
      return
    }
    limit.rlim_cur = limit.rlim_max
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
  }
}

extension Report {
  /// Prints a line of progress.
  fileprivate func progress(_ entry: Entry, _ number: Int) {
    for line in entry.lines {
      guard let figures = line.runs.last else { continue }
      let rate = figures.recordsPerSecond > 0 ? ", \(figures.recordsPerSecond.text(0)) records/s" : ""
      let errors = figures.errorCount > 0 ? ", \(figures.errorCount) ERRORS" : ""
      say(
        """
        \(line.name) (\(number) of \(options.runCount))\(rate), p50 \(figures.p50.text(2)) ms, p99 \
        \(figures.p99.text(2)) ms\(errors)
        """
      )
    }
  }
}

/// Prints progress and complaints separately from the report.
private func say(_ text: String) {
  let line = Array("\(text)\n".utf8)
  // Dropped because there is no other place to complain.
  _ = write(STDERR_FILENO, line, line.count)
}
