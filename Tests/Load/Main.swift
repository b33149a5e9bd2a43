// The load generator of the benchmark: options, population, runs, report.

import Crypto
import Glibc
import HTTPClient

@main
struct Load {
  static func main() async {
    let arguments = Array(CommandLine.arguments.dropFirst())
    if arguments.contains("--help") || arguments.contains("-h") {
      print(Options.help)
      exit(0)
    }
    do {
      let options = try Options(arguments, environment: environment())
      let report = try await Load(options).run()
      if options.wantsJSON { print(String(decoding: report.json, as: UTF8.self)) }
      exit(report.lines.allSatisfy { $0.median.requestCount > 0 } ? 0 : 1)
    } catch let error as Options.UsageError {
      complain("\(error.reason); aquifer-load --help tells more")
      exit(2)
    } catch let error as HTTPClientError {
      complain(error.reason)
      exit(1)
    } catch {
      complain("\(error)")
      exit(1)
    }
  }

  let options: Options
  let target: Target
  let admin: Admin

  init(_ options: Options) throws {
    self.options = options
    guard let target = Target(url: options.url) else { throw LoadError(description: "'\(options.url)' is no http URL of a host that can be found") }
    self.target = target
    admin = Admin(url: options.url.hasSuffix("/") ? String(options.url.dropLast()) : options.url, operatorToken: options.operatorToken)
  }

  func run() async throws -> Report {
    let scenario =
      if let path = options.scenarioPath { try Scenario(path: path) } else { try await Scenario(making: options.clientCount, with: admin) }
    guard !scenario.webAuthTokens.isEmpty else { throw LoadError(description: "the scenario has no clients") }
    var report = Report(url: options.url, seconds: options.seconds)
    let population = options.workloads.contains(where: \.isQuery) ? try await populate(scenario) : nil
    say(Report.tableHead)
    for workload in options.workloads {
      var line = Report.Line(
        workload: workload, recordsPerRequest: workload.recordCount(batch: options.batch),
        clientCount: min(options.clientCount, scenario.webAuthTokens.count), runs: [])
      for number in 1...options.runCount {
        let makers =
          if let population, workload.isQuery {
            (0..<line.clientCount).map { _ in population.maker(workload, host: target.host) }
          } else { try await makers(workload, scenario, count: line.clientCount) }
        let noise = try await Noise.measure()
        let measurement = await measure(target, makers, threadCount: options.threadCount, length: RunLength(seconds: options.seconds))
        let figures = Figures(measurement, recordsPerRequest: line.recordsPerRequest)
        line.runs.append(figures)
        line.noise.append(noise)
        line.firstError = line.firstError ?? measurement.firstError
        say(Report.row(line, String(number), figures, noise))
      }
      if options.runCount > 1 { say(Report.row(line, "med", line.median)) }
      if let error = line.firstError { complain("\(workload.rawValue): the first error was: \(error)") }
      report.lines.append(line)
    }
    return report
  }

  /// The zone that all clients query, with its indexes ready.
  private func populate(_ scenario: Scenario) async throws -> QueryPopulation {
    let population = QueryPopulation(scenario, token: scenario.webAuthTokens[0], recordCount: options.recordCount)
    let start = Generator.now()
    try await population.fill(with: admin)
    let filled = Generator.now()
    try await population.waitForIndexes(with: admin)
    let seconds = [start, filled, Generator.now()].map { Double($0) / 1e9 }
    say("\(options.recordCount) records written in \((seconds[1] - seconds[0]).text(1)) s, indexes ready after \((seconds[2] - seconds[1]).text(1)) s")
    return population
  }

  /// A maker for each client, with a zone or store of its own that is new for this run.
  private func makers(_ workload: Workload, _ scenario: Scenario, count: Int) async throws -> [RequestMaker] {
    var makers: [RequestMaker] = []
    for token in scenario.webAuthTokens.prefix(count) {
      let zoneName = "Load-" + Hex.encode(SecureRandom.bytes(6))
      let path: String
      switch workload {
      case .qe, .qs: throw LoadError(description: "queries have one zone for all clients")
      case .w0: path = scenario.recordPlane("public/users/caller", token: token)
      case .w1a, .w1b:
        try await scenario.makeZone(zoneName, token: token, with: admin)
        path = scenario.recordPlane("private/records/modify", token: token)
      case .w1c:
        var random = FastRandom()
        let name = random.uuid()
        try await scenario.makeStore(name, token: token, with: admin)
        path = "/mirror/1/\(scenario.container)/\(scenario.environment)/private/stores/\(name)/transactions?wait=export"
      }
      makers.append(
        RequestMaker(workload, batch: options.batch, target: path, host: target.host, bearer: workload == .w1c ? token : nil, zoneName: zoneName))
    }
    return makers
  }

  private func say(_ line: String) {
    if !options.wantsJSON { print(line) }
  }

  private static func environment() -> [String: String] {
    var values: [String: String] = [:]
    for name in ["AQUIFER_SERVER", "AQUIFER_OPERATOR_TOKEN"] {
      if let value = getenv(name) { values[name] = String(cString: value) }
    }
    return values
  }
}

private func complain(_ text: String) {
  let line = Array("aquifer-load: \(text)\n".utf8)
  // Dropped because there is nowhere left to complain to.
  _ = write(STDERR_FILENO, line, line.count)
}
