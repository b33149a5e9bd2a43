// Resets that keep the data, expired tokens, accounts and leases.

import FixedClocks
import History
import JSON
import Mirroring

@testable import ObjectPlane
import RecordStore
import Records
import ServiceBus
import Testing
import WebServices
@testable import WorkerHost
@testable import ZoneCommit

private func tag(_ id: String, _ name: String = "x", _ changeType: String = "insert") -> String {
  #"{"changeType":"\#(changeType)","entity":"Tag","objectID":"\#(id)","attributes":{"name":"\#(name)"}}"#
}

private func saved(_ changes: [JSONValue]) -> [String] {
  changes.compactMap { $0["changeType"]?.string == "save" ? $0["objectID"]?.string : nil }
}

extension ObjectPlaneWorld {
  fileprivate func reset(_ store: String, _ reason: String = "HistoryExpired") async throws -> PlaneReply {
    try await send(request("POST", "stores/\(store)/reset"), #"{"reason":"\#(reason)"}"#)
  }
}

@Test(arguments: StoreKind.allCases)
func `T-R05 an expired import token is told as such, and starting over makes no duplicates`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    let (a, b) = (try await Device("A", world), try await Device("B", world))
    try await world.save("A", tag("T") + "," + tag("U"), query: ["wait": "export"])
    try await b.pull()
    let id = world.request("GET", "stores/x").database
    // As after a restore from a backup: statements about the past do not hold any more.
    try await world.store.enqueue { store in
      if let database = try store.database(id) { try store.renew(database.key, generation: database.generation) }
    }.value
    let expired = try await world.get("B/changes", ["after": try #require(b.token)])
    #expect(expired.status == 410 && expired.json["ckErrorCode"]?.int64 == 21 && expired.json["recovery"]?.int64 == 294)
    #expect(expired.reason == "Unknown sync continuation type")
    #expect(saved(try await world.get("B/changes").json["changes"]?.elements ?? []) == ["T", "U"])
    try await world.save("B", tag("T", "x") + "," + tag("U", "x"), query: ["wait": "export"])
    #expect(try await world.liveRecords().map(\.recordName) == ["T", "U"])
    #expect(try await a.pull().isEmpty, "what was sent again is what there was")
  }
}

@Test(arguments: StoreKind.allCases)
func `T-R06 a reset store imports into a new copy until it is told that this is whole`(_ kind: StoreKind) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    let (a, b) = (try await Device("A", world), try await Device("B", world))
    for number in 0..<5 { try await world.save("A", tag("A\(number)"), query: ["wait": "export"]) }
    try await world.save("B", tag("B0"), query: ["wait": "export"])
    try await a.pull()
    try await b.pull()
    let events = try await world.get("A/events").json["events"]?.count ?? 0
    // Saved and not exported: kept, though the history goes.
    try await world.appendWithoutExport(
      [
        HistoryTransaction(
          transactionID: "late", timestamp: 0,
          changes: [HistoryChange(changeType: .insert, entity: "Tag", objectID: "late")])
      ], to: "A")
    let reply = try await world.reset("A")
    #expect(
      reply.status == 200 && reply.json["importToken"]?.isNull == true
        && reply.json["reset"]?["reason"]?.string == "HistoryExpired")
    let through = try #require(reply.json["reset"]?["through"]?.string)
    #expect(try await world.get("A/status").json["reset"]?.string == "HistoryExpired")
    #expect(try await world.get("A/status", ["caughtUp": through]).json["caughtUp"]?.bool == false)
    #expect(
      (try await world.get("A/events").json["events"]?.count ?? 0) == events + 2,
      "its events are kept, and the export and the reset have theirs")
    // A save meanwhile, to the old copy, is in the new one.
    try await world.save("A", tag("A0", "edited", "update"), query: ["wait": "export"])
    var names: [String] = []
    var token: String?
    var done: [Bool] = []
    while done.last != true, done.count < 9 {
      let page = try await world.get("A/changes", ["limit": "3", "after": token ?? ""]).json
      names += saved(page["changes"]?.elements ?? [])
      token = page["importToken"]?.string
      done.append(page["reset"]?["done"]?.bool == true)
      let progress = page["progress"]
      #expect(
        (progress?["done"]?.int64 ?? -1) <= (progress?["total"]?.int64 ?? -1) && progress?["total"]?.int64 ?? 0 > 0)
    }
    #expect(Set(names) == ["A0", "A1", "A2", "A3", "A4", "B0", "late"] && done.count == 3)
    #expect(
      try await world.get("A/status").json["reset"]?.string == "HistoryExpired",
      "nobody knows yet that the client has it")
    let after = try await world.get("A/changes", ["after": try #require(token)]).json
    #expect(after["changes"]?.count == 0)
    #expect(try await world.get("A/status").json["reset"]?.isNull == true)
    #expect(try await world.get("A/status", ["caughtUp": through]).json["caughtUp"]?.bool == true)
    #expect(try await world.get("A/changes", ["after": try #require(token)]).json["reset"] == nil)
  }
}

@Test func `a token from before a reset is not refused: who goes on with it is sent everything once`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    let (a, b) = (try await Device("A", world), try await Device("B", world))
    try await world.save("A", tag("T"), query: ["wait": "export"])
    try await world.save("B", tag("U"), query: ["wait": "export"])
    try await a.pull()
    try await b.pull()
    #expect(try await world.reset("A").status == 200)
    let changes = try await a.pull()
    #expect(saved(changes) == ["T", "U"] && changes.allSatisfy { $0["redelivered"]?.bool == true })
    #expect(try await a.pull().isEmpty)
    #expect(try await world.get("A/status").json["reset"]?.isNull == true)
  }
}

@Test(arguments: StoreKind.allCases)
func `T-R09 a store that is reset again and again is stopped after two, with its data and an event`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    let a = try await Device("A", world)
    try await world.save("A", tag("T") + "," + tag("U"), query: ["wait": "export"])
    try await a.pull()
    for _ in 0..<2 {
      #expect(try await world.reset("A", "SchemaGap").status == 200)
      _ = try await world.get("A/changes", ["limit": "1"])
    }
    let history = try await world.get("A/history").json["historyToken"]?.string
    let refused = try await world.reset("A")
    #expect(refused.status == 409 && refused.code == "CONFLICT" && refused.json["cocoaErrorCode"]?.int64 == 134410)
    let event = try #require(try await world.get("A/events", ["type": "setup"]).json["events"]?.elements.last)
    #expect(event["succeeded"]?.bool == false && event["error"]?["cocoaErrorCode"]?.int64 == 134410)
    #expect(try await world.get("A/history").json["historyToken"]?.string == history, "nothing of the store is touched")
    #expect(try await world.liveRecords().count == 2)
    // A store that imports to the end is free again.
    let page = try await world.get("A/changes").json
    #expect(
      saved(page["changes"]?.elements ?? []) == ["T", "U"] && page["reset"]?["done"]?.bool == true
        && page["reset"]?["reason"]?.string == "Other")
    _ = try await world.get("A/changes", ["after": try #require(page["importToken"]?.string)])
    #expect(try await world.reset("A").status == 200)
  }
}

// MARK: Accounts

@Test(arguments: StoreKind.allCases)
func `T-R07 after a switch of accounts nobody sees another's rows, and whoever comes back finds his own`(
  _ kind: StoreKind
)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    func setUp(_ user: String, account: String?) async throws -> PlaneReply {
      let member = account.map { #","account":\#($0)"# } ?? ""
      return try await world.send(
        world.request("PUT", "stores/S", user: user), #"{"modelHash":"\#(ObjectPlaneWorld.modelHash)"\#(member)}"#)
    }
    #expect(try await setUp("_alice", account: #""_alice""#).json["accountChange"] == nil)
    try await world.save("S", tag("mine", "a"), query: ["wait": "export"])
    let token = try #require(try await world.get("S/changes").json["importToken"]?.string)
    // The same device, and another user.
    let changed = try await setUp("_bob", account: #""_alice""#)
    #expect(changed.status == 200 && changed.json["accountChange"]?["reason"]?.string == "AccountChange")
    #expect(
      changed.json["accountChange"]?["action"]?.string == "delete"
        && changed.json["accountChange"]?["cocoaErrorCode"]?.int64 == 134405)
    let event = try #require(try await world.get("S/events", user: "_bob").json["events"]?.elements.first)
    #expect(event["type"]?.string == "setup" && event["error"]?["cocoaErrorCode"]?.int64 == 134405)
    #expect(try await world.get("S/changes", user: "_bob").json["changes"]?.count == 0)
    #expect(try await world.get("S/history", user: "_bob").json["transactions"]?.count == 0)
    try await world.save("S", tag("his", "b"), query: ["wait": "export"], user: "_bob")
    // And back: nothing is told of what was in between.
    #expect(try await setUp("_alice", account: #""_bob""#).json["accountChange"]?["reason"]?.string == "AccountChange")
    #expect(try await world.get("S/changes", ["after": token]).json["changes"]?.count == 0, "her token still holds")
    #expect(try await world.get("S/objects/mine").status == 200)
    #expect(try await world.get("S/objects/his").status == 404)
  }
}

@Test(arguments: StoreKind.allCases)
func `T-R08 rows from before the sign-in are uploaded once, beside what the server has`(_ kind: StoreKind) async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    let b = try await Device("B", world)
    try await world.save("B", tag("both", "server") + "," + tag("server", "server"), query: ["wait": "export"])
    let signedIn = try await world.send(
      world.request("PUT", "stores/S"), #"{"modelHash":"\#(ObjectPlaneWorld.modelHash)","account":null}"#)
    #expect(
      signedIn.json["accountChange"]?["reason"]?.string == "AccountLogin"
        && signedIn.json["accountChange"]?["action"]?.string == "reupload")
    let rows = tag("both", "device") + "," + tag("device", "device")
    for _ in 0..<2 {
      #expect(try await world.save("S", rows, id: "first upload", query: ["wait": "export"]).status == 200)
    }
    #expect(try await world.liveRecords().map(\.recordName) == ["both", "device", "server"])
    #expect(saved(try await world.get("S/changes").json["changes"]?.elements ?? []).contains("server"))
    let changes = try await b.pull()
    #expect(saved(changes) == ["both", "device"])
    #expect(try await world.get("S/history").json["transactions"]?.count == 1)
  }
}

// MARK: Leases

@Test(arguments: StoreKind.allCases)
func `T-L05 of two processes with the same store one is fenced off with a clear error`(_ kind: StoreKind) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    func setUp(_ more: String) async throws -> PlaneReply {
      try await world.send(world.request("PUT", "stores/S"), #"{"modelHash":"\#(ObjectPlaneWorld.modelHash)"\#(more)}"#)
    }
    func save(_ id: String, _ lease: String?) async throws -> PlaneReply {
      try await world.save("S", tag(id), query: lease.map { ["lease": $0, "wait": "export"] } ?? ["wait": "export"])
    }
    let first = try #require(try await setUp(#","lease":60"#).json["leaseToken"]?.string)
    #expect(try await save("1", first).status == 200)
    for reply in [
      try await setUp(#","lease":true"#), try await setUp(""), try await save("2", nil),
      try await world.get("S/changes"),
    ] {
      #expect(
        reply.status == 409 && reply.json["cocoaErrorCode"]?.int64 == 134410
          && reply.reason?.contains("Another process") == true, "\(reply.text)")
      #expect(reply.json["retryAfter"]?.int64 == 60)
    }
    #expect(try await world.get("S/status").status == 200, "who only looks may")
    #expect(
      try await setUp(#","lease":30,"leaseToken":"\#(first)""#).json["leaseToken"]?.string == first,
      "more time for who has it")
    // Taken over, or left to run out: the first is fenced off for good.
    let second = try #require(try await setUp(#","lease":30,"takeOver":true"#).json["leaseToken"]?.string)
    #expect(second != first)
    #expect(try await save("3", first).status == 409)
    #expect(try await save("3", second).status == 200)
    world.clock.advance(by: 31_000)
    #expect(try await save("4", second).status == 200, "nobody else took it")
    #expect(try await save("5", first).status == 409)
    let third = try #require(try await setUp(#","lease":30"#).json["leaseToken"]?.string)
    #expect(try await save("6", second).status == 409)
    #expect(try await save("6", third).status == 200)
    // A client that chooses the token may ask again when no answer came, and still fences others off.
    world.clock.advance(by: 31_000)
    for _ in 0..<2 { #expect(try await setUp(#","lease":30,"newLeaseToken":77"#).json["leaseToken"]?.string == "77") }
    #expect(try await save("7", "77").status == 200)
    #expect(try await save("8", third).status == 409)
    #expect(try await setUp(#","lease":30,"newLeaseToken":78"#).status == 409)
    #expect(try await setUp(#","lease":30,"leaseToken":"77","newLeaseToken":79"#).json["leaseToken"]?.string == "77")
    for token in ["0", "9007199254740992", #""x""#] {
      #expect(try await setUp(#","lease":30,"newLeaseToken":\#(token)"#).reason?.contains("newLeaseToken") == true)
    }
    for lease in ["0", "4000", #""x""#, "{}"] {
      #expect(try await setUp(#","lease":\#(lease)"#).reason?.contains("lease") == true)
    }
    #expect(try await world.liveRecords().map(\.recordName) == ["1", "3", "4", "6", "7"])
  }
}

@Test func `T-L05 a lease lasts as long as it was promised, whatever becomes of the wall clock`() async throws {
  try await ObjectPlaneWorld.with(.memory) { world in
    let steady = FixedClock()
    let plane = MirrorAPI(context: world.plane.context.timingLeases(by: steady))
    func setUp(_ more: String) async throws -> (status: Int, json: JSONValue) {
      let body = Array(#"{"modelHash":"\#(ObjectPlaneWorld.modelHash)"\#(more)}"#.utf8)
      do {
        let answer = try await plane.respond(
          to: world.request("PUT", "stores/S"), body: body, in: world.store, startNext: {})
        return (answer.status, try JSONValue(parsing: answer.body))
      } catch let error as RecordError {
        return (error.status, try JSONValue(parsing: error.mirrorDictionary(uuid: "uuid")))
      }
    }
    #expect(try await setUp(#","lease":60"#).status == 200)
    // The wall clock is set on, then back by more than an hour.
    world.clock.advance(by: 3_600_000)
    steady.advance(by: 30_000)
    let refused = try await setUp(#","lease":60"#)
    #expect(refused.status == 409 && refused.json["retryAfter"]?.int64 == 30, "it does not end before its time")
    world.clock.advance(by: -9_000_000)
    #expect(try await setUp(#","lease":60"#).status == 409)
    steady.advance(by: 30_001)
    let taken = try await setUp(#","lease":60"#)
    #expect(taken.status == 200, "it does not live longer")
    #expect(
      taken.json["leaseUntil"]?.string == MirrorDate.text(world.clock.now + 60_000),
      "what the client is told is what its clock says")
  }
}
