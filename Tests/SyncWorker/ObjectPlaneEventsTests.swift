// Events, status and explanations of a store: a client's view of its own way to the server (V1, V3).

import FixedClocks
import History
import InMemoryRecordStore
import JSON
import Mirroring

@testable import ObjectPlane
import RecordStore
import Records
import ServiceBus
import Synchronization
import Testing
import WebServices
@testable import SharedStores
@testable import WorkerHost
@testable import ZoneCommit

private func tag(_ id: String) -> String {
  #"{"changeType":"insert","entity":"Tag","objectID":"\#(id)","attributes":{"name":"x"}}"#
}

private func transaction(_ id: String, _ tags: [String]) -> HistoryTransaction {
  HistoryTransaction(
    transactionID: id, timestamp: 0,
    changes: tags.map { HistoryChange(changeType: .insert, entity: "Tag", objectID: $0) })
}

extension ObjectPlaneWorld {
  fileprivate func events(_ store: String, _ query: [String: String] = ["type": "export"]) async throws -> [JSONValue] {
    try await get("\(store)/events", query).json["events"]?.elements ?? []
  }

  fileprivate func mayWait(_ path: String, _ query: [String: String]) async throws -> Bool {
    try await plane.respond(to: request("GET", "stores/\(path)", query: query), body: [], in: store, startNext: {})
      .mayWait
  }
}

@Test(arguments: StoreKind.allCases)
func `T-V01 a reader of an event's start reads its end, even if later events came between`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    try await world.setUp("B")
    try await world.save("B", (0..<4).map { tag("T\($0)") }.joined(separator: ","), query: ["wait": "export"])
    let device = try await Device("A", world)
    _ = try await device.page(limit: 2)
    try await world.save("A", tag("own"), query: ["wait": "export"])
    let before = try await world.get("A/events").json
    let started = try #require(before["events"]?.elements.first { $0["type"]?.string == "import" })
    #expect(started["endDate"]?.isNull == true)
    try await device.pull(limit: 2)
    let after = try await world.events("A", ["after": try #require(before["lastEvent"]?.string)])
    #expect(after.map { $0["identifier"]?.string } == [started["identifier"]?.string])
    #expect(after.first?["endDate"]?.string != nil && after.first?["succeeded"]?.bool == true)
    #expect(after.first?["counts"]?["saved"]?.int64 == 4)
    #expect(
      try await world.events("A", ["after": started["identifier"]?.string ?? ""]).isEmpty,
      "an identifier is where its event is now")
  }
}

@Test
func
  `T-V04 a run that its worker did not end is ended with a reason when the shard is opened, and the next run goes on`()
  async throws
{
  try await ObjectPlaneWorld.with(.memory) { world in
    let records = InMemoryRecordStore(shardCount: 1)
    let first = try await records.open(shard: 0)
    let setUp = world.request("PUT", "stores/A")
    _ = try await world.plane.respond(
      to: setUp, body: Array(#"{"modelHash":"\#(ObjectPlaneWorld.modelHash)"}"#.utf8), in: first, startNext: {})
    try await first.enqueue { store in
      guard let database = try store.database(setUp.database), let mirror = try store.mirror("A", in: database.key)
      else { throw CancellationError() }
      try store.append(
        StoredTransaction(
          number: 1, transactionID: "1", author: nil, appendedAt: 0, payload: transaction("1", ["T"]).encoded()),
        to: mirror.key)
      _ = try store.put(
        StoredEvent(identifier: "cut", kind: .export, startedAt: 5, succeeded: true, savedCount: 7), of: mirror.key)
    }.value
    await first.close()

    let second = try await records.open(shard: 0)
    let lines = Lines()
    let background = Task { await world.plane.run(on: LineShard(base: second, lines: lines)) }
    var events: [JSONValue] = []
    while events.count < 2 || events.contains(where: { $0["endDate"]?.isNull == true }) {
      await Task.yield()
      let answer = try await world.plane.respond(
        to: world.request("GET", "stores/A/events", query: ["type": "export"]), body: [], in: second, startNext: {})
      events = try JSONValue(parsing: answer.body)["events"]?.elements ?? []
    }
    background.cancel()
    await background.value
    let cut = try #require(events.first { $0["identifier"]?.string == "cut" })
    #expect(cut["succeeded"]?.bool == false && cut["counts"]?["saved"]?.int64 == 7)
    #expect(cut["error"]?["cocoaErrorCode"]?.int64 == 134409)
    #expect(
      cut["error"]?["reason"]?.string == "The server stopped during this run; the next run continues where it ended")
    let next = try #require(events.first { $0["identifier"]?.string != "cut" })
    #expect(next["succeeded"]?.bool == true && next["counts"]?["saved"]?.int64 == 1)
    #expect(
      lines.take() == [Caller(userRecordName: "_alice").party(in: ObjectPlaneWorld.container)],
      "what is exported takes its user's turns")
    await second.close()
  }
}

@Test func `T-V04 a worker that lost a shard and got it back goes on with an import whose run was ended meanwhile`()
  async throws
{
  try await ObjectPlaneWorld.with(.memory) { world in
    let records = InMemoryRecordStore(shardCount: 1)
    func answer(
      _ method: String, _ path: String, _ body: String = "", query: [String: String] = [:], in store: any ShardStore
    ) async throws -> JSONValue {
      let request = world.request(method, "stores/\(path)", query: query)
      return try JSONValue(
        parsing: try await world.plane.respond(to: request, body: Array(body.utf8), in: store, startNext: {}).body)
    }
    let first = try await records.open(shard: 0)
    for name in ["A", "B"] {
      _ = try await answer("PUT", name, #"{"modelHash":"\#(ObjectPlaneWorld.modelHash)"}"#, in: first)
    }
    let tags = (0..<4).map { tag("T\($0)") }.joined(separator: ",")
    let transaction =
      #"{"transactionID":"1","timestamp":"2026-11-20T07:33:24.123Z","author":"app","changes":[\#(tags)]}"#
    _ = try await answer(
      "POST", "B/transactions", #"{"transactions":[\#(transaction)]}"#, query: ["wait": "export"], in: first)
    let page = try await answer("GET", "A/changes", query: ["limit": "2"], in: first)
    #expect(page["moreComing"]?.bool == true)
    await first.close()

    let second = try await records.open(shard: 0)
    await RunEvents(store: second, context: world.plane.context.object).endAbandoned()
    let last = try await answer(
      "GET", "A/changes", query: ["after": try #require(page["importToken"]?.string)], in: second)
    #expect(last["moreComing"]?.bool == false && last["changes"]?.elements.count == 2)
    let events = try await answer("GET", "A/events", query: ["type": "import"], in: second)["events"]?.elements ?? []
    #expect(events.map { $0["succeeded"]?.bool } == [false, true], "the run that was cut, and the one that went on")
    #expect(events.map { $0["counts"]?["saved"]?.int64 } == [2, 2])
    await second.close()
  }
}

@Test func `the records that an interrupted run had left out stay in its error`() throws {
  let earlier = MirrorErrors.partialFailure([
    MirroringProblem(recordName: "r", entity: "Tag", code: .badRequest, reason: "no")
  ])
  let error = try JSONValue(parsing: MirrorErrors.interrupted(earlier))
  #expect(error["partialErrors"]?.elements.map { $0["objectID"]?.string } == ["r"])
  #expect(try JSONValue(parsing: MirrorErrors.interrupted(nil))["partialErrors"] == nil)
}

/// Lets so many commits through and fails the next one.
private final class FailingCommit: Sendable {
  private let left = Mutex<Int?>(nil)
  func arm(after count: Int) { left.withLock { $0 = count } }
  var failure: StoreError? {
    left.withLock { left in
      guard let count = left else { return nil }
      left = count == 0 ? nil : count - 1
      return count == 0 ? .io("the disk") : nil
    }
  }
}

@Test func `exports that fail in a row have one event, which says why, and status says that they fail`() async throws {
  let failing = FailingCommit()
  try await ObjectPlaneWorld.with(.memory, commitFailure: { _ in failing.failure }) { world in
    try await world.setUp("A")
    try await world.withExports {
      // The loop ends what was left open first, in a commit of its own.
      while (world.store.statistics.first { $0.name == "commits_total" }?.value ?? 0) < 2 { await Task.yield() }
      failing.arm(after: 1)
      #expect(try await world.save("A", tag("T")).status == 200)
      while try await world.events("A").isEmpty { await Task.yield() }
      let failed = try #require(try await world.events("A").first)
      #expect(failed["succeeded"]?.bool == false && failed["endDate"]?.string != nil)
      #expect(
        failed["error"]?["reason"]?.string == "The server could not read or write its data"
          && failed["error"]?["ckErrorCode"]?.int64 == 1)
      // The loop hears of it behind the event, and would wait from the later time on.
      while world.plane.objects.exports.throttledCount == 0 { await Task.yield() }
      world.clock.advance(by: 600_000)
      #expect(try await world.save("A", tag("U"), query: ["wait": "export"]).json["event"]?["succeeded"]?.bool == true)
      let outcomes = try await world.events("A").map { $0["succeeded"]?.bool }
      #expect(
        outcomes.first == false && outcomes.count > 1 && outcomes.dropFirst().allSatisfy { $0 == true }, "\(outcomes)")
    }
  }
  let runs = ExportActivity()
  let id = MirrorID(shard: 1, key: 2)
  #expect(runs.failed(id) && !runs.failed(id) && runs.isFailing(id))
  #expect(!runs.isFailing(MirrorID(shard: 2, key: 2)), "another shard's store of the same key is another one")
  runs.succeeded(id)
  #expect(!runs.isFailing(id) && runs.failed(id))
}

@Test func `events are asked for by date, kind and number, and refused by name`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    try await world.save("A", tag("T"), query: ["wait": "export"])
    world.clock.advance(by: 60_000)
    try await world.save("A", tag("U"), query: ["wait": "export"])
    let all = try await world.events("A", [:])
    #expect(all.count == 3)
    let date = try #require(all[1]["startDate"]?.string)
    #expect(
      try await world.events("A", ["afterDate": date]).map { $0["identifier"]?.string } == [
        all[2]["identifier"]?.string
      ])
    #expect(try await world.events("A", ["afterDate": "2020-01-01T00:00:00Z"]).count == 3)
    for (query, count) in [([:], 3), (["type": "export"], 2), (["type": "import"], 0), (["afterDate": date], 1)]
      as [([String: String], Int64)]
    {
      let reply = try await world.get("A/events", query.merging(["resultType": "count"]) { a, _ in a }).json
      #expect(reply["count"]?.int64 == count && reply["events"] == nil)
    }
    for (query, reason) in [
      (["resultType": "all"], "resultType must be events or count"),
      (["type": "merge"], "type must be setup, import or export"),
      (["afterDate": "yesterday"], "afterDate must be a date such as 2026-11-20T07:33:24.123Z"),
    ] {
      let reply = try await world.get("A/events", query)
      #expect(reply.status == 400 && reply.reason == reason)
    }
  }
}

@Test func `a waiter for a store's events gets them when they come, and of no other store`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    try await world.setUp("B")
    try await world.withExports {
      try await world.save("A", tag("1"), query: ["wait": "export"])
      #expect(world.changes.takeStores().isEmpty, "nobody waits")
      let last = try #require(try await world.get("A/events").json["lastEvent"]?.string)
      #expect(try await world.mayWait("A/events", ["after": last, "wait": "30"]))
      #expect(try await world.mayWait("A/events", ["after": last]) == false)
      #expect(try await world.mayWait("A/events", ["wait": "30"]) == false, "there are events")
      try await world.save("B", tag("2"), query: ["wait": "export"])
      try await world.save("A", tag("3"), query: ["wait": "export"])
      var told: [StoreChange] = []
      while told.isEmpty {
        told = world.changes.takeStores()
        await Task.yield()
      }
      #expect(Set(told.map(\.storeIdentifier)) == ["A"])
      world.clock.advance(by: 100_000)
      try await world.save("A", tag("4"), query: ["wait": "export"])
      _ = try await world.published(1)
    }
    #expect(world.changes.takeStores().isEmpty, "nobody has asked for a while")
  }
}

@Test(arguments: StoreKind.allCases)
func `T-V02 a waiter for a sequence is let go when the client has stored it, not when it was sent`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    let b = try await Device("B", world)
    try await b.pull()
    let target = try #require(try await world.save("A", tag("T"), query: ["wait": "export"]).syncToken)
    func isPassed(_ store: String, _ token: String) async throws -> Bool? {
      try await world.get("\(store)/status", ["caughtUp": token]).json["caughtUp"]?.bool
    }
    #expect(try await isPassed("B", target) == false)
    #expect(try await isPassed("A", target) == true, "its own save is no news to it")
    #expect(try await world.mayWait("B/status", ["caughtUp": target, "wait": "30"]))
    _ = try await b.page()
    #expect(try await world.get("B/status").json["caughtUp"]?.bool == true, "everything was sent")
    #expect(try await isPassed("B", target) == false, "and nobody knows yet whether it arrived")
    _ = world.changes.takeStores()
    _ = try await b.page()
    #expect(try await isPassed("B", target) == true)
    #expect(world.changes.takeStores().map(\.storeIdentifier) == ["B"])
    #expect(try await world.mayWait("B/status", ["caughtUp": target, "wait": "30"]) == false)
    #expect(try await isPassed("B", try #require(b.token)) == true, "an import token names a sequence, too")
    for wrong in [
      "nonsense", SyncToken(.zone, incarnation: 1, sequence: 1).text,
      SyncToken(.database, incarnation: 1, sequence: 1).text,
    ] {
      #expect(try await world.get("B/status", ["caughtUp": wrong]).reason == "Unknown sync continuation type")
    }
    #expect(try await world.get("B/status", ["wait": "5"]).status == 400)
  }
}

@Test(arguments: StoreKind.allCases)
func `T-V03 two import requests at once, or one that is repeated, are one import with one event`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    try await world.setUp("B")
    try await world.save("A", (0..<6).map { tag("T\($0)") }.joined(separator: ","), query: ["wait": "export"])
    var token: String?
    for limit in ["4", "200"] {
      var query = ["limit": limit]
      if let token { query["after"] = token }
      let asked = query
      async let one = world.get("B/changes", asked)
      async let other = world.get("B/changes", asked)
      let (first, second) = try await (one, other)
      #expect(first.bytes == second.bytes)
      token = first.json["importToken"]?.string
    }
    _ = try await world.get("B/changes", ["limit": "4"])
    let events = try await world.events("B", ["type": "import"])
    #expect(events.count == 1)
    #expect(events.first?["counts"]?["saved"]?.int64 == 6 && events.first?["endDate"]?.string != nil)
  }
}

@Test func `status counts what waits in either direction, and says what the store does`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    try await world.setUp("B")
    #expect(try await world.get("A/status").json["idle"]?.string == "nothingPending")
    try await world.save("B", (0..<3).map { tag("B\($0)") }.joined(separator: ","), query: ["wait": "export"])
    let saved = [transaction("1", ["T", "U"]), transaction("2", ["T"])]
    try await world.appendWithoutExport(saved, to: "A")
    let status = try await world.get("A/status").json
    let pending = try #require(status["pending"])
    #expect(pending["uploads"]?.int64 == 2 && pending["objects"]?.int64 == 2 && pending["downloads"]?.int64 == 3)
    #expect(pending["links"]?.int64 == 0 && pending["quarantined"]?.int64 == 0 && pending["conflicts"]?.int64 == 0)
    #expect(
      pending["bytes"]?.int64 == Int64(saved.reduce(0) { $0 + $1.encoded().count })
        && pending["isPartial"]?.bool == false)
    #expect(status["idle"]?.string == "exporting" && status["throttledUntil"]?.isNull == true)
    #expect(status["pendingUploads"]?.int64 == 2 && status["caughtUp"]?.bool == false)
  }
}

@Test(arguments: StoreKind.allCases)
func `an object is explained from its first save to its deletion, and one nobody heard of is not found`(
  _ kind: StoreKind
)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    func explained(_ id: String) async throws -> JSONValue { try await world.get("A/objects/\(id)/explain").json }
    func codes(_ explanation: JSONValue) -> [String?] {
      explanation["reasons"]?.elements.map { $0["code"]?.string } ?? []
    }
    #expect(try await world.get("A/objects/T/explain").status == 404)
    #expect(try await world.get("X/objects/T/explain").status == 404)
    try await world.appendWithoutExport([transaction("1", ["T"]), transaction("2", ["U"])], to: "A")
    let dirty = try await explained("U")
    #expect(dirty["syncState"]?.string == "dirty" && codes(dirty) == ["notExported", "waiting"])
    #expect(dirty["pendingTransactions"]?.elements.map(\.int64) == [2] && dirty["recordChangeTag"]?.isNull == true)
    #expect(dirty["zoneID"]?["zoneName"]?.string == ReservedName.privateMirrorZone)
    try await world.save("A", tag("V"), query: ["wait": "export"])
    let clean = try await explained("U")
    #expect(
      clean["syncState"]?.string == "clean" && codes(clean) == ["exported"] && clean["recordChangeTag"]?.string != nil)
    #expect(clean["lastExport"]?["succeeded"]?.bool == true)
    try await world.save("A", #"{"changeType":"delete","entity":"Tag","objectID":"U"}"#, query: ["wait": "export"])
    let deleted = try await explained("U")
    #expect(codes(deleted) == ["deleted"] && deleted["isDeleted"]?.bool == true)
  }
}
