import InMemoryRecordStore
import JSON
import RecordStore
import Records
import ServiceBus
import Synchronization
import Testing

@testable import RecordPlane
@testable import ZoneCommit

private typealias World = RecordPlaneWorld

/// Access to a shared zone: hierarchies, strangers, and commits that fail.
struct ShareAccessTests {
  private static func root(_ world: RecordPlaneWorld, _ name: String) async throws -> JSONValue {
    let tag = try await world.lookUp([name]).records[0].tag ?? ""
    let share =
      #"""
      "recordName":"S-\#(name)","recordType":"cloudkit.share","forRecord":{"recordName":"\#(name)",\#
      "recordChangeTag":"\#(tag)"}
      """#
    let invited = World.participants(World.participant("bob"), World.participant("carol", "READ_ONLY"))
    let made = try await world.modify([World.operation("create", share + "," + invited)])
    return try #require(made.records.first)
  }

  @Test func `of a shared hierarchy one sees what hangs below its root, writes there, and is told what leaves it`()
    async throws
  {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.modify([
      World.note("r"), World.note("c1", parent: "r"), World.note("c2", parent: "c1"), World.note("x"),
      World.note("y", parent: "x"),
    ])
    let share = try await Self.root(world, "r")
    #expect(share.code == nil, "\(share.text)")
    for user in ["_bob", "_carol"] { #expect(try await world.accept(share.shortGUID, by: user).code == nil) }
    let first = try await world.feed(by: "_bob")
    #expect(Set(first.feedNames) == ["c1", "c2", "r", "S-r"])
    func lookUp(_ names: [String]) async throws -> [String?] {
      let list = names.map { #"{"recordName":"\#($0)"}"# }.joined(separator: ",")
      return try await world.shared("records/lookup", #"{"records":[\#(list)],\#(World.zoneID())}"#, by: "_bob").records
        .map(\.code)
    }
    #expect(
      try await lookUp(["r", "c2", "S-r", "x", "y", "nothing"]) == [
        nil, nil, nil, "NOT_FOUND", "NOT_FOUND", "NOT_FOUND",
      ])
    let query = #"{"query":{"recordType":"Note"},\#(World.zoneID())}"#
    #expect(try await world.shared("records/query", query, by: "_bob").records.map(\.name) == ["c1", "c2", "r"])
    // A writer writes below the root only; a reader writes nowhere.
    let writes = try await world.modify(
      [
        World.note("c3", parent: "c2"), World.note("n"), World.note("m", parent: "x"), World.note("x", "forceUpdate"),
        World.operation("forceDelete", #""recordName":"y""#),
      ], by: "_bob")
    #expect(writes.records.map(\.code) == [nil, "ACCESS_DENIED", "ACCESS_DENIED", "ACCESS_DENIED", nil])
    #expect(try await world.lookUp(["y"]).records[0].code == nil, "what he does not see he did not delete")
    for kind in ["create", "update", "forceUpdate", "forceReplace", "delete", "forceDelete"] {
      let hidden = try await world.modify([World.note("x", kind)], by: "_bob").records[0].text
      let missing = try await world.modify([World.note("z", kind)], by: "_bob").records[0].text
      #expect(hidden.replacing(#""x""#, with: #""z""#) == missing, "\(kind)")
    }
    #expect(try await world.modify([World.note("c4", parent: "r")], by: "_carol").records[0].code == "ACCESS_DENIED")
    let both = try await world.modify(
      [World.note("d2", parent: "d1"), World.note("d1", parent: "r")], by: "_bob", isAtomic: true)
    #expect(both.records.map(\.code) == [nil, nil])
    #expect(
      try await world.modify([World.operation("forceDelete", #""recordName":"r""#)], by: "_bob").records[0].code
        == "ACCESS_DENIED")
    // A child that leaves with its parent is a deletion; one that arrives is present.
    let token = try await world.feed(by: "_bob")["syncToken"]?.string
    _ = try await world.modify([
      World.note("c1", "forceUpdate", parent: "x"), World.note("y", "forceUpdate", parent: "r"),
    ])
    let moved = try await world.feed(by: "_bob", since: token)
    #expect(Set(moved.feedNames) == ["-c1", "-c2", "-c3", "y"], "\(moved.text)")
    _ = try await world.modify([World.note("c1", "forceUpdate", parent: "r")])
    #expect(Set(try await world.feed(by: "_bob", since: moved["syncToken"]?.string).feedNames) == ["c1", "c2", "c3"])
    // Another hierarchy of the zone comes whole, however far the feed is.
    let known = try await world.feed(by: "_bob")["syncToken"]?.string
    let other = try await Self.root(world, "x")
    #expect(try await world.accept(other.shortGUID, by: "_bob").code == nil)
    #expect(Set(try await world.feed(by: "_bob", since: known).feedNames).isSuperset(of: ["x", "S-x", "r"]))
    // A root that goes takes its share along.
    _ = try await world.modify([World.operation("forceDelete", #""recordName":"r""#)])
    #expect(try await world.feed(by: "_carol").code == "ZONE_NOT_FOUND")
    #expect(try await world.lookUp(["S-r"]).records[0].code == "NOT_FOUND")
    #expect(try await lookUp(["x", "c1"]) == [nil, "NOT_FOUND"])
  }

  /// Every endpoint with a zone of Alice's, for a user's shared database.
  private static let requests: [(path: String, body: String)] = [
    ("records/lookup", #"{"records":[{"recordName":"a"}],ZONE}"#),
    ("records/query", #"{"query":{"recordType":"Note"},ZONE}"#),
    ("records/changes", "{ZONE}"), ("changes/zone", "{\"zones\":[{ZONE}]}"),
    ("zones/lookup", #"{"zones":[{"zoneName":"NAME","ownerRecordName":"_alice"}]}"#),
    (
      "records/modify",
      #"""
      {"operations":[{"operationType":"forceUpdate","record":{"recordName":"a","recordType":"Note","fields":{}}}],ZONE}
      """#
    ),
    (
      "records/modify",
      #"{"operations":[{"operationType":"forceDelete","record":{"recordName":"cloudkit.zoneshare"}}],ZONE}"#
    ),
    (
      "records/modify",
      #"""
      {"operations":[{"operationType":"create","record":{"recordName":"cloudkit.zoneshare",\#
      "recordType":"cloudkit.share"}}],ZONE}
      """#
    ),
    ("assets/rereference", #"{"assets":[{"recordName":"a","fieldName":"f"}],ZONE}"#),
    (
      "subscriptions/modify",
      #"""
      {"operations":[{"operationType":"create","subscription":{"subscriptionID":"s","subscriptionType":"zone",ZONE}}]}
      """#
    ),
    ("zones/modify", #"{"operations":[{"operationType":"delete","zone":{ZONE}}]}"#),
  ]

  @Test(arguments: ["_eve", "_dave"])
  func `T-P18 T-P19 to a stranger and to who was removed a shared zone is one that does not exist, whatever he asks`(
    user: String
  ) async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.modify([World.note("a")])
    let share = try await world.shareZone(with: [("bob", "READ_WRITE"), ("dave", "READ_WRITE")])
    let bob =
      share.participants.first { $0["userIdentity"]?["userRecordName"]?.string == "_bob" }?["participantId"]?.string
      ?? ""
    let removed = try await world.modify([
      World.share("update", tag: share.tag, World.participants(#"{"participantId":"\#(bob)"}"#))
    ]).records[0]
    #expect(removed.people.count == 2)
    let before = try await world.store.read { try Script.lines(of: $0) }
    for (path, body) in Self.requests {
      var answers: [String] = []
      for (owner, zone) in [("_alice", "Trips"), ("_alice", "Nowhere"), ("_nobody", "Trips")] {
        let text = body.replacing("ZONE", with: World.zoneID(zone, owner: owner)).replacing("NAME", with: zone)
          .replacing(
            #""ownerRecordName":"_alice""#, with: #""ownerRecordName":"\#(owner)""#)
        let request = world.request(
          path, user: user, owner: owner, scope: .shared, requestID: "gateway:\(path)\(body.count)\(owner)\(zone)")
        answers.append(
          try await world.send(request, text).text.replacing(request.uuid, with: "UUID").replacing(
            "Nowhere", with: "Trips"
          ).replacing("_nobody", with: "_alice"))
      }
      #expect(answers[0] == answers[1], "\(path) \(user)")
      #expect(answers[0] == answers[2], "\(path) \(user)")
    }
    for purpose in [ResolveShortGUIDs.Purpose.resolve, .accept, .requestAccess, .decline] {
      #expect(try await world.resolve(purpose, [share.shortGUID ?? ""], by: user)[0].isNull)
      #expect(try await world.resolve(purpose, [share.shortGUID ?? ""], by: nil)[0].isNull)
    }
    #expect(try await world.store.read { try Script.lines(of: $0) } == before, "nothing changed")
    #expect(world.plane.context.audit.deniedCount > 0)
  }

  @Test func `a participant who may only read changes nothing`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.modify([World.note("a")])
    let share = try await world.shareZone(with: [("carol", "READ_ONLY")])
    let before = try await world.store.read { try Script.lines(of: $0) }
    for operation in [
      World.note("a", "forceUpdate", title: "mine"), World.note("b"),
      World.operation("forceDelete", #""recordName":"a""#),
      World.share("update", tag: share.tag, #""fields":{"cloudkit.title":{"value":"mine"}}"#),
      World.share("update", tag: share.tag, #""publicPermission":"READ_WRITE""#),
    ] {
      #expect(try await world.modify([operation], by: "_carol").records[0].code == "ACCESS_DENIED", "\(operation)")
    }
    #expect(try await world.store.read { try Script.lines(of: $0) } == before)
    #expect(try await world.feed(by: "_carol").feedNames == ["a", "cloudkit.zoneshare"])
  }

  @Test func `a commit that fails leaves no half of a share, and its repetition makes it whole`() async throws {
    let failures = Mutex(0)
    let store = try await InMemoryRecordStore(
      shardCount: 1, makeIncarnation: { 7 },
      commitFailure: { _ in
        failures.withLock { left in
          left -= 1
          return left >= 0 ? StoreError.io("planned") : nil
        }
      }
    ).open(shard: 0)
    let world = RecordPlaneWorld(store)
    try await world.makeZone()
    _ = try await world.modify([World.note("a")])
    /// Fails once or twice, and then does it; nothing is seen of it before.
    func persist(_ step: String, _ body: () async throws -> JSONValue?) async throws -> JSONValue {
      for count in 1...2 {
        let before = try await store.read { try Script.lines(of: $0) }
        failures.withLock { $0 = count }
        for _ in 0..<count {
          // Dropped because the failure is what was planned.
          _ = try? await body()
          #expect(try await store.read { try Script.lines(of: $0) } == before, "\(step)")
        }
        failures.withLock { $0 = 0 }
      }
      return try #require(try await body(), "\(step)")
    }
    let share = try await persist("share") {
      try await world.modify([
        World.share("create", World.participants(World.participant("bob"), World.participant("carol")))
      ]).records.first
    }
    for user in ["_bob", "_carol"] {
      let accepted = try await persist("accept") {
        try await world.resolve(.accept, [share.shortGUID ?? ""], by: user).first
      }
      #expect(accepted["participantStatus"]?.string == "ACCEPTED")
    }
    _ = try await persist("leave") {
      try await world.modify([World.operation("forceDelete", #""recordName":"cloudkit.zoneshare""#)], by: "_carol")
        .records.first
    }
    #expect(try await world.currentShare().people.count == 2)
    _ = try await persist("stop") {
      try await world.modify([World.operation("forceDelete", #""recordName":"cloudkit.zoneshare""#)]).records.first
    }
    #expect(try await world.feed(by: "_bob").code == "ZONE_NOT_FOUND")
  }
}

/// A shard's content as lines that can be compared.
private enum Script {
  static func lines(of snapshot: any ShardSnapshot) throws -> [String] {
    var lines: [String] = []
    for database in try snapshot.databases(afterKey: 0, limit: 99) {
      lines.append("\(database)")
      for zone in try snapshot.zones(in: database.key, after: 0, limit: 99) {
        lines.append("\(zone)")
        lines += try snapshot.changes(in: zone.key, after: 0, limit: 999).map { "\($0)" }
        lines += try snapshot.shares(in: zone.key, afterName: nil, limit: 99).map { "\($0)" }
      }
    }
    lines += try snapshot.members(after: nil, limit: 999).map { "\($0)" }
    return lines + (try snapshot.shareNews(after: 0, limit: 999)).map { "\($0)" }
  }
}
