// The workloads that check answers: a correct server passes, and each fault is noticed.

import HTTPServer
import Testing

@testable import aquifer_load

/// Runs a workload against a naive server.
private func withServer<Value>(_ naive: NaiveServer, _ body: (Target) async throws -> Value) async throws -> Value {
  var configuration = HTTPServer.Configuration()
  configuration.connectionsPerClient = configuration.connectionLimit
  let server = try HTTPServer(configuration: configuration, handler: naive)
  defer { server.stop() }
  return try await body(try #require(Target(url: "http://127.0.0.1:\(server.port)")))
}

private let zone = Feed.zone("Z", path: "/changes/zone")

private func maker(_ target: Target) -> RequestMaker {
  RequestMaker(.w1a, count: 1, target: "/records/modify", host: target.host, zoneName: "Z")
}

struct PullTests {
  private let names = (0..<450).map { "N\($0)" }

  private func told(_ fault: NaiveServer.Fault, devices: Int) async throws -> (pull: Pull, outcome: Pull.Outcome) {
    let naive = NaiveServer(fault)
    naive.add(names)
    return try await withServer(naive) { target in
      let pull = Pull(target: target, feeds: [Feed](repeating: zone, count: devices))
      return (pull, await onOwnThread { pull.run() })
    }
  }

  @Test func `every device follows the tokens to the last page`() async throws {
    let (pull, outcome) = try await told(.none, devices: 3)
    #expect(outcome.measurement.errorCount == 0 && outcome.measurement.latencies.count == 9)
    let told = try pull.names(outcome)
    #expect(told == [names, names, names])
    try pull.check(told, expected: names)
  }

  @Test(arguments: [
    (NaiveServer.Fault.skipsPage(200), "200 of 450", "N200"), (.losesRecord(449), "1 of 450", "N449"),
    (.repeatsRecords, "twice", "N0"),
  ])
  func `a missing or repeated record is named`(fault: NaiveServer.Fault, what: String, name: String) async throws {
    let (pull, outcome) = try await told(fault, devices: 2)
    let error = #expect(throws: LoadError.self) { try pull.check(try pull.names(outcome), expected: names) }
    #expect(error?.description.contains(what) == true && error?.description.contains(name) == true)
  }

  @Test func `a page that can't be read ends the device, not the run`() async throws {
    let outcome = try await withServer(NaiveServer()) { target in
      let pull = Pull(target: target, feeds: [.zone("Z", path: "/nowhere"), zone])
      return await onOwnThread { pull.run() }
    }
    #expect(outcome.measurement.errorCount == 1 && outcome.measurement.latencies.count == 1)
    #expect(outcome.measurement.firstError?.hasPrefix("HTTP/1.1 404") == true)
  }

  @Test func `texts are found where a search of every place finds them`() {
    var generator = SystemRandomNumberGenerator()
    for _ in 0..<2_000 {
      func bytes(_ counts: ClosedRange<Int>) -> [UInt8] {
        (0..<Int.random(in: counts, using: &generator)).map { _ in UInt8.random(in: 97...98, using: &generator) }
      }
      let (all, text) = (bytes(0...12), bytes(1...3))
      let places = all.indices.filter { all[$0...].starts(with: text) }
      let start = Int.random(in: 0...all.count, using: &generator)
      #expect(
        all.position(of: text, from: start) == places.first { $0 >= start }
          && all.lastPosition(of: text) == places.last, "\(text) in \(all) from \(start)")
    }
  }

  @Test func `objects of a store are followed by its import token`() throws {
    let feed = Feed.store(path: "/s", bearer: "t")
    let body =
      #"""
      {"changes":[{"changeType":"save","objectID":"A"},{"changeType":"delete","objectID":"B"}],"importToken":"x+/=",\#
      "moreComing":true,"caughtUp":false}
      """#
    #expect(feed.page(Array(body.utf8)) == Feed.Page(token: "x+/=", moreComing: true))
    #expect(try feed.names(Array(body.utf8)) == ["A"])
    #expect(
      String(decoding: feed.request(after: "x+/=", host: "h"), as: UTF8.self).hasPrefix(
        "GET /s/changes?limit=200&after=x%2B%2F%3D HTTP/1.1\r\n"))
    // A store mirrors every zone of its user, so records of other zones don't matter.
    let pull = Pull(target: try #require(Target(url: "http://127.0.0.1:1")), feeds: [feed])
    try pull.check([["A", "other"]], expected: ["A"])
    #expect(throws: LoadError.self) { try pull.check([["other"]], expected: ["A"]) }
  }
}

struct FeedCheckTests {
  @Test func `everything must be told once, and nothing that nobody saved`() {
    #expect(FeedCheck.problem(expected: ["a", "b"], told: ["b", "a"]) == nil)
    #expect(FeedCheck.problem(expected: ["a", "b"], told: ["b"]) == "1 of 2 records never arrived: a")
    #expect(FeedCheck.problem(expected: ["a"], told: ["a", "a"]) == "records arrived twice: a")
    #expect(FeedCheck.problem(expected: ["a"], told: ["a", "c"]) == "records arrived that nobody saved: c")
    #expect(FeedCheck.problem(expected: ["a"], told: ["a", "c"], possible: ["c", "d"]) == nil)
  }
}

struct FanoutTests {
  private func run(_ fault: NaiveServer.Fault, _ listening: Fanout.Listening, devices: Int = 12, rounds: Int = 3)
    async throws -> Fanout.Outcome
  {
    let naive = NaiveServer(fault)
    naive.add(["first"])
    return try await withServer(naive) { target in
      let pings = (0..<devices).map { device in
        (target, httpRequest("GET", listening == .courier ? "/courier?device=\(device)" : "/pings", host: target.host))
      }
      var fanout = Fanout(
        target: target, pings: pings, listening: listening, feed: zone, token: "1", roundCount: rounds)
      if fault == .leavesOneOut || fault == .lagsBehind { fanout.patience = 2_000_000_000 }
      let maker = maker(target)
      return try await onOwnThread { [fanout] in Result { () throws(LoadError) in try fanout.run(maker) } }.get()
    }
  }

  @Test(arguments: [Fanout.Listening.courier, .stream]) func `every save reaches every listener, and each pulls it`(
    listening: Fanout.Listening
  ) async throws {
    let outcome = try await run(.none, listening)
    #expect(
      outcome.save.latencies.count == 3 && outcome.lastPing.latencies.count == 3
        && outcome.lastPull.latencies.count == 3)
    #expect(zip(outcome.lastPing.latencies, outcome.lastPull.latencies).allSatisfy { $0 <= $1 })
  }

  @Test(arguments: [Fanout.Listening.courier, .stream])
  func `a ping of the save before that comes late is not the save's, and hides none`(listening: Fanout.Listening)
    async throws
  {
    let outcome = try await run(.echoes, listening)
    #expect(outcome.lastPing.latencies.count == 3 && outcome.lastPull.errorCount == 0)
  }

  @Test func `more devices than connections that pull take turns`() async throws {
    let outcome = try await run(.none, .stream, devices: Fanout.pullLimit + 30, rounds: 2)
    #expect(outcome.lastPing.latencies.count == 2 && outcome.lastPull.latencies.count == 2)
  }

  @Test func `a ping counts when it names the token that the device has pulled`() {
    var device = FanoutDevice(token: "1")
    let pulls = [device.hear("1", at: 5), device.hear("2", at: 6)]
    #expect(pulls == [false, true], "it has what the first one tells of")
    device.isPulling = true
    let pullsTwice = device.hear("3", at: 7)
    #expect(!pullsTwice && device.pullsAgain, "it pulls already")
    let pullsOn = device.take(Feed.Page(token: "3", moreComing: false), hasChange: true)
    #expect(!pullsOn && device.isTold && device.pinged == 7, "the page had it all")
    let pullsUntold = device.take(Feed.Page(token: "4", moreComing: false), hasChange: true)
    #expect(!pullsUntold && !device.hasPing, "nobody told it of this one")
  }

  @Test func `tokens of a zone's pings are found among others'`() {
    let pings = [("A", "1"), ("Z", "2"), ("ZZ", "3"), ("Z", "4")].map {
      #"data: {"met":{"zid":"\#($0)","sid":"s","tok":"\#($1)"}}"# + "\n\n"
    }
    #expect(zone.pingTokens(in: Array(pings.joined().utf8)) == ["2", "4"])
    #expect(zone.pingTokens(in: Array(#"{"met":{"zid":"Z","tok":"unfinished"#.utf8)) == [])
  }

  @Test func `a device that is to come later comes later, and that is counted`() async throws {
    let outcome = try await run(.throttles, .stream, rounds: 1)
    #expect(outcome.lastPull.latencies.count == 1 && outcome.lastPull.latencies[0] >= 900_000)
    #expect(outcome.lastPull.errorCount >= 6 && outcome.lastPull.firstError?.hasPrefix("HTTP/1.1 429") == true)
  }

  @Test(
    arguments: [(NaiveServer.Fault.leavesOneOut, "devices have no ping"), (.lagsBehind, "do not have the change")],
    [Fanout.Listening.courier, .stream])
  func `a device that is not told, or finds nothing, fails the run`(
    fault: (NaiveServer.Fault, String), listening: Fanout.Listening
  ) async throws {
    let error = await #expect(throws: LoadError.self) { _ = try await run(fault.0, listening) }
    #expect(error?.description.contains(fault.1) == true, "\(error?.description ?? "")")
  }
}

struct ContestTests {
  private func run(_ fault: NaiveServer.Fault) async throws -> Contest.Outcome {
    let naive = NaiveServer(fault)
    naive.add(["R"])
    return try await withServer(naive) { target in
      let contest = Contest(
        target: target, zoneName: "Z", recordName: "R", modifyPath: "/records/modify", lookupPath: "/records/lookup",
        roundCount: 20)
      return try await onOwnThread { Result { () throws(LoadError) in try contest.run(changeTag: "1") } }.get()
    }
  }

  @Test func `each round one device wins, one is refused, and that one saves after it has asked`() async throws {
    let outcome = try await run(.none)
    #expect(
      outcome.win.latencies.count == 20 && outcome.refusal.latencies.count == 20 && outcome.retry.latencies.count == 20)
  }

  @Test(arguments: [
    (NaiveServer.Fault.everybodyWins, "round 1 of 20: both devices were told"),
    (.nobodyWins, "both devices were refused"),
  ])
  func `two winners fail the run, and so does none`(fault: NaiveServer.Fault, what: String) async throws {
    let error = await #expect(throws: LoadError.self) { _ = try await run(fault) }
    #expect(error?.description.contains(what) == true, "\(error?.description ?? "")")
  }

  @Test func `an answer that is neither the record nor a conflict is no verdict`() throws {
    #expect(
      try Contest.verdict(Array(#"{"records":[{"recordName":"R","recordChangeTag":"2"}]}"#.utf8))
        == .won(changeTag: "2"))
    #expect(
      try Contest.verdict(Array(#"{"records":[{"recordName":"R","serverErrorCode":"CONFLICT"}]}"#.utf8)) == .refused)
    for body in [#"{"records":[{"serverErrorCode":"TRY_AGAIN_LATER"}]}"#, "{}", "x"] {
      #expect(throws: LoadError.self) { _ = try Contest.verdict(Array(body.utf8)) }
    }
  }
}

struct WitnessTests {
  private func run(_ fault: NaiveServer.Fault) async throws -> (outcome: Witness.Outcome, problem: String?) {
    let outcome = try await withServer(NaiveServer(fault)) { target in
      let witness = Witness(target: target, feed: zone, seconds: 0.2)
      let makers = (0..<6).map { _ in maker(target) }
      return await onOwnThread { witness.run(makers) }
    }
    return (outcome, try outcome.problem(zone))
  }

  @Test func `a reader is told of all that was acknowledged, up to the last save`() async throws {
    let (outcome, problem) = try await run(.none)
    #expect(problem == nil)
    #expect(outcome.acknowledged.count == outcome.saves.latencies.count && outcome.acknowledged.count >= 6)
    #expect(outcome.saves.errorCount == 0 && outcome.pages.errorCount == 0 && outcome.unsure.isEmpty)
  }

  @Test func `one acknowledged record that the reader was not told of fails the run and is named`() async throws {
    let (outcome, problem) = try await run(.losesRecord(3))
    let told = Set(try outcome.bodies.flatMap { try zone.names($0) })
    let missing = outcome.acknowledged.filter { !told.contains($0) }
    #expect(missing.count == 1)
    #expect(problem == "1 of \(outcome.acknowledged.count) records never arrived: \(missing.first ?? "")")
  }
}
