import InMemoryRecordStore
import JSON
import ObjectModel

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

private typealias World = RecordPlaneWorld

/// Past states, duplicates and restores of records in shared zones.
struct SharedPastTests {
  /// Alice's zone, with what its records were.
  private func world(_ operations: String...) async throws -> RecordPlaneWorld {
    let random = SeededRandom(seed: 1)
    let world = RecordPlaneWorld(
      try await InMemoryRecordStore(shardCount: 1, makeIncarnation: { random.next() }, keepsPastStates: true).open(
        shard: 0))
    try await world.makeZone()
    if !operations.isEmpty { #expect(try await world.codes(operations).allSatisfy { $0 == nil }) }
    return world
  }

  private func call(_ world: RecordPlaneWorld, _ name: String, query: [String: String] = [:], _ body: String)
    async throws -> JSONValue
  {
    let request = DatabaseRequest(
      plane: .object, method: "POST", path: ["zones", "Trips", name], query: query,
      database: world.request("x").database, scope: .private,
      caller: Caller(userRecordName: "_alice"), requestID: "zone:\(world.random.next())", baseURL: "https://host")
    do {
      let answer = try await MirrorAPI(context: world.context).respond(
        to: request, body: Array(body.utf8), in: world.store, startNext: {})
      return try JSONValue(parsing: answer.body)
    } catch let error as RecordError {
      return try JSONValue(parsing: error.dictionary(uuid: "uuid"))
    }
  }

  private func sequence(_ world: RecordPlaneWorld) async throws -> Int64 {
    let database = world.request("x").database
    return try #require(try await world.store.read { try $0.database(database)?.sequence })
  }

  // MARK: Conflicts

  /// The title that a conflict says the record of a tag had.
  private func ancestor(_ world: RecordPlaneWorld, _ tag: String?, by user: String) async throws -> String? {
    let operation = World.note("x", "create", tag: tag, title: "mine")
    let body = #"{"operations":[\#(operation)],\#(World.zoneID()),"atomic":false,"conflictRecords":true}"#
    let reply = try await world.send(
      world.request("records/modify", user: user, owner: "_alice", scope: user == "_alice" ? .private : .shared), body)
    let item = try #require(reply.records.first)
    #expect(item.code == "CONFLICT" && item["serverRecord"]?.isNull == false, "\(reply.text)")
    return item["ancestorRecord"]?["fields"]?["title"]?["value"]?.string
  }

  @Test func `a conflict tells a participant no state from before the record was shared with him`() async throws {
    let world = try await world(World.note("r"), World.note("f"))
    func write(_ title: String, parent: String? = nil) async throws -> String? {
      try await world.modify([World.note("x", "forceUpdate", parent: parent, title: title)]).records[0].tag
    }
    let secret = try await write("secret")
    let hidden = try await write("hung elsewhere", parent: "f")
    let before = try await write("before it was shared", parent: "r")
    try await world.shareHierarchy("r", with: [("bob", "READ_ONLY")])
    let now = try await write("shared")
    _ = try await write("changed")
    for (tag, title) in [
      (secret, "secret"), (hidden, "hung elsewhere"), (before, "before it was shared"), (now, "shared"),
    ] {
      #expect(try await ancestor(world, tag, by: "_alice") == title)
    }
    // Bob has had the state that was current when he joined.
    #expect(
      try await [secret, hidden, before, now].asyncMap { try await ancestor(world, $0, by: "_bob") } == [
        nil, nil, "before it was shared", "shared",
      ])
    // States from a time outside of the share, or below a record outside of it.
    let out = try await write("out", parent: "f")
    _ = try await write("still out")
    #expect(try await world.codes([World.note("f", "forceUpdate", parent: "r")]) == [nil])
    #expect(try await ancestor(world, out, by: "_bob") == nil)
    let whole = try await world.lookUp(["x"]).records[0].tag
    _ = try await write("in again")
    #expect(try await ancestor(world, whole, by: "_bob") == "still out")
  }

  @Test func `a conflict tells a participant of a whole zone the states since he came`() async throws {
    let world = try await world(World.note("x", title: "secret"))
    let secret = try await world.lookUp(["x"]).records[0].tag
    let current = try await world.modify([World.note("x", "forceUpdate", title: "current")]).records[0].tag
    _ = try await world.shareZone(with: [("bob", "READ_WRITE")])
    _ = try await world.modify([World.note("x", "forceUpdate", title: "new")])
    #expect(try await ancestor(world, secret, by: "_bob") == nil)
    #expect(try await ancestor(world, current, by: "_bob") == "current")
    #expect(try await ancestor(world, secret, by: "_alice") == "secret")
  }

  // MARK: Audits

  /// What an audit tells a participant of a record: each change's type and title.
  private func audit(_ world: RecordPlaneWorld, _ name: String, by user: String = "_bob") async throws -> [String] {
    var (told, last): ([String], Int64) = ([], 0)
    while true {
      let request = DatabaseRequest(
        plane: .object, method: "GET", path: ["stores", "S", "audit"],
        query: ["objectID": name, "after": "\(last)", "limit": "2"],
        database: world.request("x").database, scope: .shared, caller: Caller(userRecordName: user),
        requestID: "audit:\(world.random.next())", baseURL: "https://host")
      let store = GuestRequest.Store(
        modelHash: ModelIndex(PhotoModel.model).modelHash, configuration: nil, deviceName: nil)
      let answer = try await MirrorAPI(context: world.context).respond(
        toGuest: GuestRequest(request, of: store), body: [], in: world.store, startNext: {})
      let page = try JSONValue(parsing: answer.body)
      told += (page["changes"]?.elements ?? []).map { change in
        let title = change["properties"]?.elements.first { $0["property"]?.string == "title" }
        let values = ["old", "new"].map { title?[$0]?["value"]?.string ?? "-" }
        return ([change["changeType"]?.string ?? ""] + values).joined(separator: " ")
      }
      last = try #require(page["last"]?.int64)
      if page["moreComing"]?.bool != true { return told }
    }
  }

  @Test func `an audit tells a participant the states of a record while it hung below a root of his`() async throws {
    let world = try await world(World.note("r"), World.note("f"), World.note("g", parent: "f"))
    func write(_ title: String, parent: String? = nil) async throws {
      #expect(try await world.codes([World.note("x", "forceUpdate", parent: parent, title: title)]) == [nil])
    }
    try await write("secret", parent: "g")
    try await write("hidden")
    try await write("below", parent: "r")
    try await world.shareHierarchy("r", with: [("bob", "READ_ONLY")])
    try await write("shared")
    #expect(try await audit(world, "x") == ["earliest - below", "update below shared"])
    // Out of the share, also by a record above it, and in again.
    try await write("out", parent: "g")
    try await write("still out")
    #expect(try await world.codes([World.note("f", "forceUpdate", parent: "r")]) == [nil])
    try await write("in again")
    #expect(
      try await audit(world, "x") == [
        "earliest - below", "update below shared", "earliest - still out", "update still out in again",
      ])
    #expect(try await world.codes([World.delete("x")]) == [nil])
    #expect(try await audit(world, "x").last == "delete in again -")
  }

  @Test func `an audit tells a participant of a whole zone the states since he came`() async throws {
    let world = try await world(World.note("x", title: "secret"))
    _ = try await world.modify([World.note("x", "forceUpdate", title: "current")])
    _ = try await world.shareZone(with: [("bob", "READ_WRITE")])
    #expect(try await audit(world, "x") == ["earliest - current"])
    _ = try await world.modify([World.note("x", "forceUpdate", title: "new")])
    #expect(try await audit(world, "x") == ["earliest - current", "update current new"])
  }

  // MARK: Zones brought back, and brought in

  @Test func `a root that is restored to what it was before it was shared stays on top of its share`() async throws {
    let world = try await world(World.note("r", title: "first"))
    let then = try await sequence(world)
    let share = try await world.shareHierarchy("r", with: [("bob", "READ_WRITE")])
    _ = try await world.modify([World.note("r", "forceUpdate", title: "second")])
    #expect(try await call(world, "restore", #"{"sequence":\#(then)}"#)["restored"]?.int64 == 1)
    let root = try await world.lookUp(["r"]).records[0]
    #expect(root.value("title")?.string == "first" && root.shortGUID == share.shortGUID)
    #expect(
      try await world.resolve(.resolve, [share.shortGUID ?? ""], by: "_bob")[0]["participantStatus"]?.string
        == "ACCEPTED")
    #expect(try await world.codes([World.delete("r")], by: "_bob") == ["ACCESS_DENIED"])
    #expect(try await world.codes([World.delete("r")]) == [nil])
    #expect(try await world.feed(by: "_bob").code == "ZONE_NOT_FOUND")
    #expect(try await world.sees(["S-r"]) == [false])
  }

  @Test func `an import replaces no share`() async throws {
    let world = try await world(World.note("a"))
    _ = try await world.shareZone(with: [("bob", "READ_WRITE")])
    let stamp = #"{"timestamp":1,"userRecordName":"_alice"}"#
    let line =
      #"""
      {"record":{"recordName":"cloudkit.zoneshare","recordType":"Note","fields":{},"created":\#(stamp),\#
      "modified":\#(stamp)}}
      """#
    let refused = try await call(world, "import", query: ["merge": "true"], line)
    #expect(
      refused["serverErrorCode"]?.string == "BAD_REQUEST" && refused["reason"]?.string?.contains("line 1") == true,
      "\(refused.text)")
    #expect(try await world.currentShare().people.count == 2)
    #expect(try await world.codes([World.delete("cloudkit.zoneshare")]) == [nil])
    #expect(try await world.feed(by: "_bob").code == "ZONE_NOT_FOUND")
  }

  // MARK: Duplicates

  @Test func `a participant merges neither what he may only read nor what is on top of a share`() async throws {
    let world = try await world()
    world.schemas.rules.withLock {
      $0 = EnvironmentRules(unique: [
        EnvironmentRules.Unique(entity: "Tag", attributes: ["name"], policy: .mergeLowestUUID)
      ])
    }
    func tag(_ name: String, _ text: String, parent: String? = nil) -> String {
      let parent = parent.map { #","parent":{"recordName":"\#($0)"}"# } ?? ""
      let fields = #""fields":{"CD_entityName":{"value":"Tag"},"CD_name":{"value":"\#(text)"}}"#
      return World.operation("create", #""recordName":"\#(name)","recordType":"CD_Tag",\#(fields)\#(parent)"#)
    }
    #expect(
      try await world.codes([
        tag("T9", "root"), World.note("b"), tag("T8", "read", parent: "b"), tag("T7", "written", parent: "T9"),
      ]) == [nil, nil, nil, nil])
    try await world.shareHierarchy("T9", with: [("bob", "READ_WRITE")])
    try await world.shareHierarchy("b", with: [("bob", "READ_ONLY")])
    let made = [tag("T1", "root", parent: "T9"), tag("T2", "read", parent: "T9"), tag("T3", "written", parent: "T9")]
    #expect(try await world.codes(made, by: "_bob") == [nil, nil, nil])
    let database = world.request("x").database
    let survivors = try await world.store.read { snapshot in
      let zone = try #require(try snapshot.database(database).flatMap { try snapshot.zone(named: "Trips", in: $0.key) })
      return try ["T9", "T8", "T7"].map { try snapshot.redirect(of: $0, in: zone.key)?.survivor }
    }
    #expect(survivors == [nil, nil, "T3"])
  }
}

extension Array {
  fileprivate func asyncMap<Value>(_ body: (Element) async throws -> Value) async rethrows -> [Value] {
    var values: [Value] = []
    for element in self { values.append(try await body(element)) }
    return values
  }
}
