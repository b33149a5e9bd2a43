// One workload against one server: the preparation of each run, and the run itself.

import JSON

/// The results of a run.
struct RunOutcome {
  var parts: [(name: String, measurement: Measurement, recordCount: Int)]
  /// The records of all parts, for the costs of the processes.
  var recordCount: Int
  /// Throws when the answers are wrong. Called after the measurement.
  var check: () throws -> Void = {}
}

struct Bench {
  private let workload: Workload.Sized
  private let options: Options
  private let target: Target
  private let admin: Admin
  private let scenario: Scenario
  private let population: QueryPopulation?
  /// The feed that devices pull, and the names in it.
  private var pulled: (feed: PullSource, names: [String])?

  /// The couriers' addresses of listening devices, one for each.
  private var couriers: [String] = []

  private enum PullSource {
    case zone(String)
    /// A separate store for each pulling device.
    case stores
  }

  init(
    _ workload: Workload.Sized, _ options: Options, _ target: Target, _ admin: Admin, _ scenario: Scenario,
    _ population: QueryPopulation?, _ random: inout FastRandom
  ) async throws {
    self.workload = workload
    self.options = options
    self.target = target
    self.admin = admin
    self.scenario = scenario
    self.population = population
    // A new user where possible, because a store mirrors every zone of its user.
    token =
      workload.workload.hasUserForEachClient || options.scenarioPath != nil
      ? scenario.webAuthTokens[0] : try await Scenario.makeUser(with: admin)
    switch workload.workload {
    case .w2:
      let zoneName = try await scenario.makeZone(token: token, with: admin)
      pulled = (.zone(zoneName), try await fill(zoneMaker(.w1b, zoneName, token, count: Feed.pageSize, &random)))
    case .w2o:
      let store = try await scenario.makeStore(token: token, with: admin)
      pulled = (.stores, try await fill(storeMaker(store, token, count: Feed.pageSize, &random), over: 1))
    case .w3: couriers = try await scenario.couriers(workload.clientCount, token: token, target)
    // The courier's address tells where the notifier is.
    case .w3s: couriers = try await scenario.couriers(1, token: token, target)
    default: break
    }
  }

  /// The token of the user of all devices, in workloads with a single user.
  private let token: String

  /// Prepares the next run's data, and returns the run.
  func prepare(_ random: inout FastRandom) async throws -> () async throws -> RunOutcome {
    switch workload.workload {
    case .w0, .w1a, .w1b, .w1c, .qe, .qs: try await closedLoop(&random)
    case .w2, .w2o: try await pull()
    case .w3, .w3s: try await fanout(&random)
    case .w4: try await contest(&random)
    case .w5: try await witness(&random)
    }
  }

  // MARK: Closed loops

  /// Makes a request maker for each client, with a zone or store of its own that is new in this run.
  private func closedLoop(_ random: inout FastRandom) async throws -> () async throws -> RunOutcome {
    var makers: [RequestMaker] = []
    let tokens = scenario.webAuthTokens
    for client in 0..<workload.clientCount {
      let token = tokens[client % tokens.count]
      switch workload.workload {
      case .w0:
        makers.append(
          RequestMaker(
            .w0, count: 1, target: scenario.recordPlane("public/users/caller", token: token), host: target.host,
            random: random.split()))
      case .w1c:
        makers.append(storeMaker(try await scenario.makeStore(token: token, with: admin), token, count: 5, &random))
      case .qe, .qs:
        guard let population else { throw LoadError(description: "there is no zone to query") }
        makers.append(population.maker(workload.workload, host: target.host, random: random.split()))
      default:
        let count = workload.workload.recordCount(batch: options.batch)
        makers.append(
          zoneMaker(
            workload.workload, try await scenario.makeZone(token: token, with: admin), token, count: count, &random))
      }
    }
    let perRequest = workload.workload.recordCount(batch: options.batch)
    return { [makers, target, options, pace = workload.pace] in
      let measurement = await runClosedLoops(
        target, makers, threadCount: options.threadCount, length: RunLength(seconds: options.seconds), pace: pace)
      let count = measurement.latencies.count
      return RunOutcome(
        parts: [("", measurement, count * perRequest)], recordCount: (count + measurement.warmUpCount) * perRequest)
    }
  }

  private func zoneMaker(
    _ workload: Workload, _ zoneName: String, _ token: String, count: Int, _ random: inout FastRandom
  ) -> RequestMaker {
    RequestMaker(
      workload, count: count, target: scenario.recordPlane("private/records/modify", token: token), host: target.host,
      zoneName: zoneName, random: random.split())
  }

  private func storeMaker(_ store: Scenario.Store, _ token: String, count: Int, _ random: inout FastRandom)
    -> RequestMaker
  {
    RequestMaker(
      .w1c, count: count, target: "\(store.path)/transactions?wait=export", host: target.host, bearer: token,
      random: random.split())
  }

  /// Saves the records that devices will pull.
  /// - Returns: their names.
  private func fill(_ maker: RequestMaker, over width: Int = 4) async throws -> [String] {
    var maker = maker
    var (requests, names): ([[UInt8]], [String]) = ([], [])
    while names.count < options.changeCount {
      maker.advance()
      requests.append(maker.request)
      names += maker.names
    }
    _ = try await exchange(requests, with: target, over: width)
    return names
  }

  // MARK: Devices of one user

  private func pull() async throws -> () async throws -> RunOutcome {
    guard let pulled else { throw LoadError(description: "there is nothing to pull") }
    var feeds: [Feed] = []
    for _ in 0..<workload.clientCount {
      switch pulled.feed {
      case .zone(let name): feeds.append(zoneFeed(name))
      case .stores:
        feeds.append(.store(path: try await scenario.makeStore(token: token, with: admin).path, bearer: token))
      }
    }
    let pull = Pull(target: target, feeds: feeds, recordCount: pulled.names.count)
    return {
      let outcome = await onOwnThread { pull.run() }
      let told = try pull.names(outcome)
      let count = told.reduce(0) { $0 + $1.count }
      return RunOutcome(parts: [("", outcome.measurement, count)], recordCount: count) {
        try pull.check(told, expected: pulled.names)
      }
    }
  }

  private func fanout(_ random: inout FastRandom) async throws -> () async throws -> RunOutcome {
    let zoneName = try await scenario.makeZone(token: token, with: admin)
    let maker = zoneMaker(.w1a, zoneName, token, count: 1, &random)
    let feed = zoneFeed(zoneName)
    // The zone has some records already, so that all devices begin with a token.
    let first =
      try await exchange([maker.request], with: target)
      + exchange([feed.request(after: nil, host: target.host)], with: target)
    guard let page = feed.page(first[1]) else { throw LoadError(description: "changes/zone names no syncToken") }
    let listening: Fanout.Listening = workload.workload == .w3 ? .courier : .stream
    var pings: [(target: Target, request: [UInt8])] = []
    for courier in couriers {
      guard let notifier = Target(url: courier), let path = courier.dropFirst("http://".count).firstIndex(of: "/")
      else {
        throw LoadError(description: "the courier '\(courier)' is not an http URL of a known host")
      }
      switch listening {
      case .courier: pings.append((notifier, httpRequest("GET", String(courier[path...]), host: notifier.host)))
      case .stream:
        let headers = ["Accept: text/event-stream", "Authorization: Bearer \(token)"]
        let request = httpRequest(
          "GET", "/mirror/1/\(scenario.container)/\(scenario.environment)/pings", host: notifier.host, headers: headers)
        pings = .init(repeating: (notifier, request), count: workload.clientCount)
      }
    }
    let fanout = Fanout(
      target: target, pings: pings, listening: listening, feed: feed, token: page.token, roundCount: options.saveCount)
    return {
      let outcome = try await onOwnThread { Result { () throws(LoadError) in try fanout.run(maker) } }.get()
      let count = fanout.pings.count * fanout.roundCount
      return RunOutcome(
        parts: [("save", outcome.save, 0), ("last ping", outcome.lastPing, 0), ("last pull", outcome.lastPull, 0)],
        recordCount: count)
    }
  }

  private func contest(_ random: inout FastRandom) async throws -> () async throws -> RunOutcome {
    let zoneName = try await scenario.makeZone(token: token, with: admin)
    let maker = zoneMaker(.w1a, zoneName, token, count: 1, &random)
    guard case .won(let changeTag) = try Contest.verdict(try await exchange([maker.request], with: target)[0]) else {
      throw LoadError(description: "the record is there already")
    }
    let contest = Contest(
      target: target, zoneName: zoneName, recordName: maker.names[0],
      modifyPath: scenario.recordPlane("private/records/modify", token: token),
      lookupPath: scenario.recordPlane("private/records/lookup", token: token), roundCount: options.roundCount)
    return {
      let outcome = try await onOwnThread { Result { () throws(LoadError) in try contest.run(changeTag: changeTag) } }
        .get()
      return RunOutcome(
        parts: [("win", outcome.win, 0), ("refusal", outcome.refusal, 0), ("retry", outcome.retry, 0)],
        recordCount: 2 * contest.roundCount)
    }
  }

  private func witness(_ random: inout FastRandom) async throws -> () async throws -> RunOutcome {
    let zoneName = try await scenario.makeZone(token: token, with: admin)
    let makers = (0..<workload.clientCount).map { _ in zoneMaker(.w1a, zoneName, token, count: 1, &random) }
    let witness = Witness(target: target, feed: zoneFeed(zoneName), seconds: options.seconds)
    return {
      let outcome = await onOwnThread { witness.run(makers) }
      let count = outcome.acknowledged.count
      return RunOutcome(parts: [("save", outcome.saves, count), ("page", outcome.pages, 0)], recordCount: count) {
        if let problem = try outcome.problem(witness.feed) { throw LoadError(description: problem) }
      }
    }
  }

  private func zoneFeed(_ zoneName: String) -> Feed {
    .zone(zoneName, path: scenario.recordPlane("private/changes/zone", token: token))
  }
}
