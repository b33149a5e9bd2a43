// The purge of history: the low-water mark of export and consumers, and a forced purge, which loses no saved change.

import FixedClocks
import History
import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import Testing
import WebServices

private func insertTag(_ id: String) -> String {
  #"{"changeType":"insert","entity":"Tag","objectID":"\#(id)","attributes":{"name":"\#(id)"}}"#
}

private func unexported(_ count: Int) -> [HistoryTransaction] {
  (1...count).map { number in
    HistoryTransaction(
      transactionID: "late \(number)", timestamp: 0,
      changes: [HistoryChange(changeType: .insert, entity: "Tag", objectID: "late \(number)")])
  }
}

extension ObjectPlaneWorld {
  fileprivate func purge(_ query: [String: String]) async throws -> PlaneReply {
    try await send(request("DELETE", "stores/A/history", query: query))
  }

  fileprivate func consumer(_ method: String, _ name: String, _ body: String = "", user: String = "_alice") async throws
    -> PlaneReply
  {
    try await send(request(method, "stores/A/consumers/\(name)", user: user), body)
  }

  fileprivate func tokens() async throws -> [String] {
    try await get("A/history").json["transactions"]?.elements.compactMap { $0["token"]?.string } ?? []
  }
}

@Test(arguments: StoreKind.allCases) func `T-H07 a purge above what a consumer has dealt with is refused, and names it`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    for number in 1...25 { try await world.save("A", insertTag("T\(number)"), query: ["wait": "export"]) }
    let tokens = try await world.tokens()
    #expect(
      try await world.consumer("PUT", "widget", #"{"historyToken":"\#(tokens[9])"}"#).json["historyToken"]?.string
        == tokens[9])
    #expect(
      try await world.consumer("PUT", "search").json["historyToken"]?.string == tokens[24],
      "without a token it begins with what comes")
    let refused = try await world.purge(["before": tokens[19]])
    #expect(
      refused.status == 400 && refused.reason?.contains("low-water mark is \(tokens[9])") == true
        && refused.reason?.contains("'widget'") == true)
    #expect(try await world.get("A/history").json["transactions"]?.count == 25)
    let list = try await world.get("A/consumers").json
    #expect(
      list["consumers"]?.elements.map { $0["name"]?.string } == ["search", "widget"]
        && list["lowWaterMark"]?.string == tokens[9])
    #expect(try await world.purge(["before": tokens[9]]).json["deletedTransactions"]?.int64 == 10)
    // The consumer reads on, and by that says what it has dealt with.
    #expect(try await world.get("A/history", ["consumer": "widget"]).json["transactions"]?.count == 15)
    #expect(
      try await world.get("A/history", ["consumer": "widget", "after": tokens[14]]).json["transactions"]?.count == 10)
    #expect(try await world.get("A/history", ["consumer": "widget", "after": tokens[11]]).status == 200)
    #expect(
      try await world.get("A/consumers").json["lowWaterMark"]?.string == tokens[14],
      "a late request moves it back no more")
    #expect(try await world.purge(["before": tokens[14]]).json["deletedTransactions"]?.int64 == 5)
    #expect(try await world.consumer("DELETE", "widget").status == 200)
    #expect(try await world.purge(["before": tokens[24]]).json["deletedTransactions"]?.int64 == 10)
  }
}

@Test(arguments: StoreKind.allCases)
func `T-H07 by force a consumer has to start over, and no acknowledged save is lost`(_ kind: StoreKind) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    for number in 1...3 { try await world.save("A", insertTag("T\(number)"), query: ["wait": "export"]) }
    let first = try await world.tokens()[0]
    _ = try await world.consumer("PUT", "widget", #"{"historyToken":"\#(first)"}"#)
    try await world.appendWithoutExport(unexported(2), to: "A")
    let last = try #require(try await world.tokens().last)
    let refused = try await world.purge(["before": last, "force": "false"])
    #expect(refused.status == 400 && refused.reason?.contains("low-water mark") == true)
    #expect(try await world.purge(["before": last, "force": "true"]).json["deletedTransactions"]?.int64 == 5)
    #expect(
      try await world.liveRecords().map(\.recordName) == ["T1", "T2", "T3", "late 1", "late 2"],
      "what was not exported was exported first")
    let event = try #require(try await world.get("A/events", ["type": "export"]).json["events"]?.elements.last)
    #expect(event["succeeded"]?.bool == true && event["endDate"]?.string != nil)
    // The consumer: told that it has to start over, holding nothing meanwhile, and not in the way of saves and exports.
    let expired = try await world.get("A/history", ["consumer": "widget"])
    #expect(expired.status == 410 && expired.json["cocoaErrorCode"]?.int64 == 134301)
    let list = try await world.get("A/consumers").json
    #expect(list["consumers"]?.elements.first?["expired"]?.bool == true && list["lowWaterMark"]?.string == last)
    try await world.save("A", insertTag("U"), query: ["wait": "export"])
    let next = try #require(try await world.tokens().last)
    #expect(try await world.purge(["before": next]).json["deletedTransactions"]?.int64 == 1)
    // It takes everything from the records and registers again.
    #expect(
      try await Device("B", world).pull().map { $0["objectID"]?.string } == ["T1", "T2", "T3", "late 1", "late 2", "U"])
    #expect(try await world.consumer("PUT", "widget").json["expired"]?.bool == false)
    try await world.save("A", insertTag("V"))
    #expect(try await world.get("A/history", ["consumer": "widget"]).json["transactions"]?.count == 1)
  }
}

@Test func `T-H07 a forced purge exports batch after batch and purges with the last`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    try await world.appendWithoutExport(unexported(1000), to: "A")
    let half = try await world.get("A/history", ["resultType": "count", "limit": "500"]).json["historyToken"]?.string
    #expect(
      try await world.purge(["before": try #require(half), "force": "true"]).json["deletedTransactions"]?.int64 == 500)
    #expect(try await world.liveRecords().count == 1000)
    #expect(try await world.get("A/history", ["resultType": "count"]).json["count"]?.int64 == 500)
    let events = try await world.get("A/events", ["type": "export"]).json["events"]?.elements ?? []
    #expect(events.count == 1 && events[0]["endDate"]?.string != nil && events[0]["counts"]?["saved"]?.int64 == 1000)
    #expect(try await world.get("A/status").json["pendingUploads"]?.int64 == 0)
  }
}

@Test func `T-H07 a store that can't be exported keeps its history, also by force`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    try await world.save("A", insertTag("T"), query: ["wait": "export"])
    let exported = try #require(try await world.tokens().last)
    try await world.appendWithoutExport(unexported(1), to: "A")
    let last = try #require(try await world.tokens().last)
    world.schemas.forgetModels(in: .development)
    let refused = try await world.purge(["before": last, "force": "true"])
    #expect(refused.status == 409 && refused.code == "CONFLICT")
    #expect(try await world.tokens().count == 2)
    #expect(
      try await world.purge(["before": exported, "force": "true"]).json["deletedTransactions"]?.int64 == 1,
      "what is exported may go")
  }
}

@Test func `H8 an export that finds its history purged says 134301 and goes on`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    let mirrorKey = try await world.appendWithoutExport(unexported(1), to: "A")
    // By no call of the API: as in a shard whose history was lost otherwise.
    _ = try await world.store.enqueue { try $0.purgeTransactions(of: mirrorKey, through: 1) }.value
    try await world.save("A", insertTag("U"), query: ["wait": "export"])
    let event = try #require(try await world.get("A/events", ["type": "export"]).json["events"]?.elements.last)
    #expect(event["succeeded"]?.bool == false)
    #expect(event["error"]?["partialErrors"]?.elements.first?["cocoaErrorCode"]?.int64 == 134301)
    #expect(try await world.liveRecords().map(\.recordName) == ["U"])
  }
}

@Test(arguments: StoreKind.allCases) func `consumers are registered within their store, for its user only`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    try await world.save("A", insertTag("T"), query: ["wait": "export"])
    for (method, name, body, status) in [
      ("PUT", "_x", "", 400), ("PUT", "widget", #"{"historyToken":"AAAA"}"#, 400),
      ("PUT", "widget", #"{"historyToken":7}"#, 400), ("PUT", "widget", "[]", 400),
      ("DELETE", "widget", "", 404), ("GET", "widget", "", 405),
    ] {
      #expect(try await world.consumer(method, name, body).status == status, "\(method) \(name) \(body)")
    }
    #expect(try await world.get("A/history", ["consumer": "widget"]).status == 404)
    #expect(try await world.consumer("PUT", "widget", user: "_mallory").status == 404)
    #expect(try await world.send(world.request("POST", "stores/A/consumers")).status == 405)
    for number in 0..<100 { #expect(try await world.consumer("PUT", "c\(number)").status == 200) }
    #expect(try await world.consumer("PUT", "c100").status == 400)
    #expect(try await world.consumer("PUT", "c99").status == 200, "one that is there is moved")
    // A store that is reset is new: readers of its history start over.
    _ = try await world.send(world.request("POST", "stores/A/reset"), "{}")
    #expect(try await world.get("A/consumers").json["consumers"]?.count == 0)
  }
}

@Test func `a consumer that only reads is noted to be there, at most once an hour`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    try await world.save("A", insertTag("T"), query: ["wait": "export"])
    _ = try await world.consumer("PUT", "widget")
    func seen() async throws -> String? {
      try await world.get("A/consumers").json["consumers"]?.elements.first?["lastSeen"]?.string
    }
    let registered = try #require(try await seen())
    world.clock.advance(by: 60_000)
    _ = try await world.get("A/history", ["consumer": "widget"])
    #expect(try await seen() == registered)
    world.clock.advance(by: 3_600_000)
    _ = try await world.get("A/history", ["consumer": "widget"])
    #expect(try await seen() == MirrorDate.text(world.clock.now))
  }
}
