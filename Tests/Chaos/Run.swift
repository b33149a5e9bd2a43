// A run: an installation, clients, what is done to it, and the check.

import Glibc

struct Run {
  let options: Options
  private let folder: String
  private let installation: Installation
  private let fleet: Fleet
  private let ledger: Ledger
  private let calls: Calls

  init(_ options: Options, binaries: String) throws {
    self.options = options
    var template = Array(("/tmp/chaos-" + String(repeating: "X", count: 6)).utf8CString)
    guard mkdtemp(&template) != nil else { throw ChaosError("no folder can be made in /tmp") }
    folder = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    installation = try Installation(binaries: binaries, folder: folder, gatewayCount: options.gatewayCount, shardCount: options.shardCount)
    fleet = Fleet(installation)
    ledger = try Ledger(path: folder + "/ledger")
    calls = Calls(gateways: installation.gateways.map(\.url))
  }

  /// Runs, checks, and removes everything unless something is wrong.
  func report() async throws -> Report {
    let watch = Task { await fleet.watch() }
    let start = monotonicNanoseconds()
    let report: Report
    do {
      try await startAll()
      report = try await play(since: start)
    } catch {
      await end(watch)
      throw ChaosError("\(error); its logs are in \(installation.logs)")
    }
    await end(watch)
    if report.isGood, !options.keepsFolder { removeFolder() } else { print("data and logs are in \(folder)") }
    return report
  }

  private func startAll() async throws {
    for role in Role.allCases {
      let count = role == .worker ? options.workerCount : role == .gateway ? options.gatewayCount : 1
      for number in 1...count { try await fleet.start(role, number) }
    }
    guard await fleet.waitUntilWhole() else { throw ChaosError("the installation does not start") }
  }

  private func end(_ watch: Task<Void, Never>) async {
    await fleet.stopAll()
    watch.cancel()
    await watch.value
  }

  private func removeFolder() {
    var arguments: [UnsafeMutablePointer<CChar>?] = ["rm", "-rf", folder].map { (word: String) in strdup(word) } + [nil]
    var pid: pid_t = 0
    if posix_spawnp(&pid, "rm", nil, nil, &arguments, environ) == 0 { waitpid(pid, nil, 0) }
    for argument in arguments { free(argument) }
  }

  private func play(since start: UInt64) async throws -> Report {
    let population = try await Population(calls, userCount: options.userCount, ledger: ledger)
    let writers = Writers(population, options, ledger)
    let readers = population.databases.enumerated().map { Reader(population, $1, index: $0) }
    let happenings = await withTaskGroup(of: Void.self) { group in
      writers.start(in: &group)
      for reader in readers { group.addTask { await reader.run(ledger) } }
      let happenings = await torment()
      ledger.end()
      return happenings
    }
    let seconds = Double(monotonicNanoseconds() - start) / 1e9
    let expected = Checker.expected(of: ledger.saves)
    var final: [String: [String: Int64]] = [:]
    var feeds: [Feed] = []
    for (index, reader) in readers.enumerated() {
      let database = population.databases[index]
      try await reader.read(until: expected[database.name] ?? [:])
      feeds.append(await reader.feed)
      let newcomer = Reader(population, database, index: 100 + index)
      try await newcomer.read(until: expected[database.name] ?? [:])
      final[database.name] = await newcomer.copy
    }
    let logs = try await writers.logs()
    let faults = await fleet.faults
    var history = ledger.history { history in
      history.feeds = feeds
      history.final = final
      history.logs = logs
      history.refusals += faults
    }
    options.planted.spoil(&history)
    return Report(
      options: options, history: history, verdict: Checker.verdict(on: history), happenings: happenings, repetitions: calls.repetitions, seconds: seconds)
  }

  private func torment() async -> [Happening] {
    var nemesis = Nemesis(fleet, ledger, options)
    switch options.plan {
    case .faults: await nemesis.rage(for: .seconds(options.seconds))
    case .kills: await nemesis.killWorkers(options.killCount ?? Int(options.seconds * 2))
    case .scale:
      await nemesis.scale {
        for (reason, count) in calls.repetitions { ledger.refused("\(count) calls failed with \(reason) while workers came and went") }
      }
    case .power: break
    }
    return nemesis.happenings
  }
}

/// Everybody who saves.
struct Writers: Sendable {
  private var records: [RecordClient] = []
  private var objects: [ObjectClient] = []

  init(_ population: Population, _ options: Options, _ ledger: Ledger) {
    for index in 0..<options.clientCount {
      let database = population.databases[index % population.databases.count]
      switch database.plane {
      case .records: records.append(RecordClient(population, database, index: index, seed: options.seed, ledger: ledger))
      case .objects:
        objects.append(
          ObjectClient(population, database, index: index, seed: options.seed, waitPercent: options.plan == .scale ? 0 : 20, ledger: ledger))
      }
    }
  }

  func start(in group: inout TaskGroup<Void>) {
    for client in records { group.addTask { await client.run() } }
    for client in objects { group.addTask { await client.run() } }
  }

  func logs() async throws -> [TransactionLog] {
    var logs: [TransactionLog] = []
    for client in objects { logs.append(try await client.log()) }
    return logs
  }
}
