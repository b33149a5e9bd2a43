// A run: an installation, clients, events, and the check.

import Glibc
import Installations
import PowerLoss

struct Run {
  let options: Options
  private let folder: String
  private let installation: Installation
  private let fleet: Fleet
  private let ledger: Ledger
  private let calls: Calls
  private let loss: PowerLoss?

  init(_ options: Options, binaries: String) throws {
    self.options = options
    folder = try temporaryFolder(named: "chaos")
    let folder = folder
    loss = options.shim.map {
      PowerLoss(root: folder + "/data", notes: folder + "/notes", library: $0, isControl: options.isControl)
    }
    installation = try Installation(
      binaries: binaries, folder: folder, gatewayCount: options.gatewayCount, shardCount: options.shardCount,
      shareCount: options.shareCount, environment: loss?.environment ?? [:])
    fleet = Fleet(installation, binaries: options.earlier)
    ledger = try Ledger(path: folder + "/ledger")
    calls = Calls(gateways: installation.gateways.map(\.url))
  }

  /// Runs and checks. Removes the installation unless a fault was found.
  func report() async throws -> Report {
    let watch = Task { await fleet.watch() }
    let start = monotonicNanoseconds()
    let report: Report
    do {
      try await startAll()
      report = try await play(since: start)
    } catch {
      await end(watch)
      throw RunError("\(error); its logs are in \(installation.logs)")
    }
    await end(watch)
    let isAsExpected = report.isGood || options.isControl || options.planted != .none
    if isAsExpected, !options.keepsFolder { removeFolder(folder) } else { print("data and logs are in \(folder)") }
    return report
  }

  private func startAll() async throws {
    for role in Role.allCases {
      let counts: [Role: Int] = [
        .share: options.shareCount, .worker: options.workerCount, .gateway: options.gatewayCount,
      ]
      let count = counts[role] ?? 1
      for number in 1...count { try await fleet.start(role, number) }
    }
    guard await fleet.waitUntilWhole() else { throw RunError("the installation does not start") }
  }

  private func end(_ watch: Task<Void, Never>) async {
    await fleet.stopAll()
    watch.cancel()
    await watch.value
  }

  private func play(since start: UInt64) async throws -> Report {
    let population = try await Population(calls, userCount: options.userCount, ledger: ledger)
    let writers = Writers(population, options, ledger)
    let readers = population.databases.enumerated().map { Reader(population, $1, index: $0) }
    let nemesis = await withTaskGroup(of: Void.self) { group in
      writers.start(in: &group)
      for reader in readers { group.addTask { await reader.run(ledger) } }
      let nemesis = await torment()
      ledger.end()
      return nemesis
    }
    let seconds = Double(monotonicNanoseconds() - start) / 1e9
    if let earlier = options.earlier {
      try await Downgrade(installation, binaries: earlier, fleet, ledger).run(population)
    }
    let expected = Checker.expected(of: ledger.saves)
    var final: [String: [String: Int64]] = [:]
    var feeds: [Feed] = []
    // An installation that does not start again would let the readers wait in vain.
    for (index, reader) in readers.enumerated() where !nemesis.isBeyondRepair {
      let database = population.databases[index]
      let newcomer = Reader(population, database, index: 100 + index)
      for reader in [reader, newcomer] {
        do {
          try await reader.read(until: expected[database.name] ?? [:])
        } catch {
          ledger.refused("\(error)")
        }
      }
      feeds.append(await reader.feed)
      final[database.name] = await newcomer.copy
    }
    let logs = nemesis.isBeyondRepair ? [] : await writers.logs(ledger)
    let others =
      nemesis.isBeyondRepair ? "the installation does not start again" : await writers.checkOthers(population, ledger)
    let faults = await fleet.faults
    var history = ledger.history { history in
      history.feeds = feeds
      history.final = final
      history.logs = logs
      history.refusals += faults
    }
    options.planted.spoil(&history)
    return Report(
      options: options, history: history, verdict: Checker.verdict(on: history), happenings: nemesis.happenings,
      repetitions: calls.repetitions,
      seconds: seconds, others: others, takenBack: nemesis.takenBack)
  }

  private func torment() async -> Nemesis {
    var nemesis = Nemesis(fleet, ledger, options)
    switch options.plan {
    case .faults: await nemesis.rage(for: .seconds(options.seconds))
    case .kills: await nemesis.killWorkers(options.killCount ?? Int(options.seconds * 2))
    case .scale:
      await nemesis.scale {
        for (reason, count) in calls.repetitions {
          ledger.refused("\(count) calls failed with \(reason) while workers came and went")
        }
      }
    case .away: await nemesis.sendAway(for: .seconds(options.seconds)) { calls.repetitions }
    case .upgrade: await nemesis.upgrade(options.order, from: installation.binaries) { calls.repetitions }
    case .power: if let loss { await nemesis.cutPower(options.roundCount, loss) }
    }
    return nemesis
  }
}

/// All clients that save.
struct Writers: Sendable {
  private var records: [RecordClient] = []
  private var objects: [ObjectClient] = []
  private let maker: OperatorClient
  /// Creating users needs the share service, and fails when it is away for long.
  private let runsMaker: Bool
  private let uploader: UploadClient

  init(_ population: Population, _ options: Options, _ ledger: Ledger) {
    // Counted apart: while the only share service restarts, its callers are told to come later.
    maker = OperatorClient(population.calls.apart(), ledger: ledger)
    runsMaker = options.plan != .away
    uploader = UploadClient(population, population.databases[0], seed: options.seed, ledger: ledger)
    for index in 0..<options.clientCount {
      let database = population.databases[index % population.databases.count]
      switch database.plane {
      case .records:
        records.append(RecordClient(population, database, index: index, seed: options.seed, ledger: ledger))
      case .objects:
        objects.append(
          ObjectClient(
            population, database, index: index, seed: options.seed, waitPercent: options.plan == .scale ? 0 : 20,
            ledger: ledger))
      }
    }
  }

  func start(in group: inout TaskGroup<Void>) {
    for client in records { group.addTask { await client.run() } }
    for client in objects { group.addTask { await client.run() } }
    if runsMaker { group.addTask { await maker.run() } }
    group.addTask { await uploader.run() }
  }

  /// - Returns: the acknowledged work besides saves that is still there.
  func checkOthers(_ population: Population, _ ledger: Ledger) async -> String {
    do {
      return "\(try await maker.check(population)) users and \(try await uploader.check()) uploads acknowledged"
    } catch {
      ledger.refused("\(error)")
      return "users and uploads can't be looked at"
    }
  }

  func logs(_ ledger: Ledger) async -> [TransactionLog] {
    var logs: [TransactionLog] = []
    for client in objects {
      do {
        logs.append(try await client.log())
      } catch {
        ledger.refused("\(error)")
      }
    }
    return logs
  }
}
