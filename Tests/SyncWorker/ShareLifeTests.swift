import JSON
import RecordStore
import Records
import ServiceBus
import Synchronization
import Testing

private typealias World = RecordPlaneWorld

/// Shares from their making to their end, on the record plane.
struct ShareLifeTests {
  private func world() async throws -> RecordPlaneWorld {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    return world
  }

  @Test func `a zone is shared, accepted, written to by both, left and stopped`() async throws {
    let world = try await world()
    _ = try await world.modify([World.note("a")])
    let share = try await world.shareZone(
      "Trips", World.participants(World.participant("bob"), World.participant("nobody", "READ_ONLY")))
    #expect(
      share.people == ["_alice OWNER ACCEPTED READ_WRITE", "_bob USER INVITED READ_WRITE", "? USER INVITED READ_ONLY"])
    #expect(share["publicPermission"]?.string == "NONE" && share["owner"]?["type"]?.string == "OWNER")
    #expect(share["currentUserParticipant"]?["userIdentity"]?["userRecordName"]?.string == "_alice")
    #expect(share.value("cloudkit.title")?.string == "Trip" && share["requesters"] != nil)
    let guid = try #require(share.shortGUID)
    #expect(guid.count == 25)
    // Before the acceptance the zone does not exist for bob.
    #expect(
      try await world.shared("records/lookup", #"{"records":[{"recordName":"a"}],\#(World.zoneID())}"#, by: "_bob").code
        == "ZONE_NOT_FOUND")
    #expect(try await world.sharedZones(by: "_bob").zones.isEmpty)
    let offer = try await world.resolve(.resolve, [guid], by: "_bob")[0]
    #expect(
      offer["participantStatus"]?.string == "INVITED" && offer["participantPermission"]?.string == "READ_WRITE"
        && offer["databaseScope"]?.string == "SHARED")
    #expect(
      offer["share"]?.people == ["_alice OWNER ACCEPTED READ_WRITE", "_bob USER INVITED READ_WRITE"],
      "not who else is invited")
    #expect(
      offer["ownerIdentity"]?["nameComponents"]?["givenName"]?.string == "Alice"
        && offer["webpageURL"]?.string == "https://host/share/\(guid)")
    let accepted = try await world.accept(guid, by: "_bob")
    #expect(accepted["participantStatus"]?.string == "ACCEPTED" && accepted["share"]?.tag != share.tag)
    #expect(try await world.accept(guid, by: "_bob")["share"]?.tag == accepted["share"]?.tag, "once is enough")
    // Now it is there, and written to.
    #expect(
      try await world.sharedZones(by: "_bob").zones.map { $0["zoneID"]?["ownerRecordName"]?.string } == ["_alice"])
    #expect(try await world.feed(by: "_bob").feedNames == ["a", "cloudkit.zoneshare"])
    #expect(try await world.shared("zones/list", "", by: "_bob", method: "GET").zones.count == 1)
    let made = try await world.modify([World.note("b")], by: "_bob").records[0]
    #expect(
      made["created"]?["userRecordName"]?.string == "_bob" && made["zoneID"]?["ownerRecordName"]?.string == "_alice")
    #expect(try await world.lookUp(["b"]).records[0].value("title")?.string == "a title")
    let query = #"{"query":{"recordType":"Note"},\#(World.zoneID())}"#
    #expect(try await world.shared("records/query", query, by: "_bob").records.map(\.name) == ["a", "b"])
    #expect(
      try await world.shared("records/query", #"{"query":{"recordType":"Note"},"zoneWide":true}"#, by: "_bob").records
        .count == 2)
    // Bob leaves, and no other user notices.
    let token = try await world.sharedZones(by: "_bob").syncToken
    let left = try await world.modify(
      [World.operation("forceDelete", #""recordName":"cloudkit.zoneshare""#)], by: "_bob", requestID: "gateway:leave")
    #expect(left.records[0].text == #"{"recordName":"cloudkit.zoneshare","deleted":true}"#)
    let again = try await world.modify(
      [World.operation("forceDelete", #""recordName":"cloudkit.zoneshare""#)], by: "_bob", requestID: "gateway:leave")
    #expect(again.text == left.text, "a repetition is answered the same")
    #expect(try await world.feed(by: "_bob").code == "ZONE_NOT_FOUND")
    #expect(try await world.sharedZones(by: "_bob", since: token).zones.map { $0["deleted"]?.bool } == [true])
    #expect(try await world.currentShare().people == ["_alice OWNER ACCEPTED READ_WRITE", "? USER INVITED READ_ONLY"])
    #expect(try await world.lookUp(["a", "b"]).records.allSatisfy { $0.code == nil })
  }

  @Test func `T-P17 a zone and a record that are shared again have the URLs they had`() async throws {
    let world = try await world()
    for (name, more) in [
      ("cloudkit.zoneshare", [String]()), ("S", [#""forRecord":{"recordName":"root","recordChangeTag":"TAG"}"#]),
    ] {
      var root = try await world.modify([World.note("root", "forceUpdate")]).records[0]
      var guids: [String?] = []
      for _ in 0..<2 {
        root = try await world.lookUp(["root"]).records[0]
        let members =
          more.map { $0.replacing("TAG", with: root.tag ?? "") } + [World.participants(World.participant("bob"))]
        let share = try await world.modify([
          World.operation(
            "create", ([#""recordName":"\#(name)","recordType":"cloudkit.share""#] + members).joined(separator: ","))
        ])
        .records[0]
        #expect(share.code == nil, "\(share.text)")
        guids.append(share.shortGUID)
        #expect(try await world.accept(share.shortGUID, by: "_bob").code == nil)
        #expect(try await world.feed(by: "_bob").feedNames.contains("root"))
        let stopped = try await world.modify([World.operation("forceDelete", #""recordName":"\#(name)""#)]).records[0]
        #expect(stopped["deleted"]?.bool == true)
        #expect(try await world.feed(by: "_bob").code == "ZONE_NOT_FOUND", "T-P10: it is gone for everybody else")
        #expect(try await world.lookUp(["root"]).records[0].code == nil)
        #expect(try await world.resolve(.resolve, [share.shortGUID ?? ""], by: "_bob")[0].isNull)
      }
      #expect(guids[0] != nil && guids[0] == guids[1])
    }
  }

  @Test func `T-C15 an owner who saves a share that changed meets a conflict, adopts it and applies the change again`()
    async throws
  {
    let world = try await world()
    let share = try await world.shareZone("Trips", World.participants(World.participant("bob", type: "ADMINISTRATOR")))
    _ = try await world.accept(share.shortGUID, by: "_bob")
    let known = try await world.currentShare()
    func list(_ share: JSONValue, adding user: String) -> String {
      let kept = share.participants.map { #"{"participantId":"\#($0["participantId"]?.string ?? "")"}"# }
      return World.participants((kept + [World.participant(user)]).joined(separator: ","))
    }
    let byBob = try await world.modify(
      [World.share("update", tag: known.tag, list(known, adding: "carol"))], by: "_bob"
    ).records[0]
    #expect(byBob.code == nil, "\(byBob.text)")
    for kind in ["update", "forceUpdate", "replace", "forceReplace"] {
      let stale = try await world.modify([World.share(kind, tag: known.tag, list(known, adding: "dave"))]).records[0]
      #expect(stale.code == "CONFLICT")
      #expect(
        try await world.modify([World.share(kind, tag: nil, list(known, adding: "dave"))]).records[0].code
          == "CONFLICT", "not even by force")
    }
    let current = try await world.currentShare()
    let byAlice = try await world.modify([World.share("update", tag: current.tag, list(current, adding: "dave"))])
      .records[0]
    #expect(byAlice.people.map { String($0.prefix(6)) } == ["_alice", "_bob A", "_carol", "_dave "])
  }

  @Test func `T-P16 an administrator adds and removes participants, and neither ends the share nor the zone`()
    async throws
  {
    let world = try await world()
    let share = try await world.shareZone("Trips", World.participants(World.participant("bob", type: "ADMINISTRATOR")))
    _ = try await world.accept(share.shortGUID, by: "_bob")
    let known = try await world.currentShare()
    let me = #"{"participantId":"\#(known.participants[1]["participantId"]?.string ?? "")"}"#
    let added = try await world.modify(
      [World.share("update", tag: known.tag, World.participants(me, World.participant("carol")))], by: "_bob"
    ).records[0]
    #expect(added.people.count == 3)
    #expect(try await world.accept(share.shortGUID, by: "_carol").code == nil)
    #expect(try await world.modify([World.note("c")], by: "_carol").records[0].code == nil)
    let tag = try await world.currentShare().tag
    for more in [
      #""publicPermission":"READ_ONLY""#, #""allowsAccessRequests":true"#,
      World.participants(me, World.participant("dave", type: "ADMINISTRATOR")),
    ] {
      #expect(
        try await world.modify([World.share("update", tag: tag, more)], by: "_bob").records[0].code == "ACCESS_DENIED")
    }
    let removed = try await world.modify([World.share("update", tag: tag, World.participants(me))], by: "_bob").records[
      0]
    #expect(removed.people.count == 2)
    #expect(try await world.feed(by: "_carol").code == "ZONE_NOT_FOUND")
    let zone = #"{"operations":[{"operationType":"delete","zone":{\#(World.zoneID())}}]}"#
    #expect(try await world.shared("zones/modify", zone, by: "_bob").code == "BAD_REQUEST")
    // A participant who deletes the share leaves it; only the owner's deletion ends it.
    #expect(
      try await world.modify([World.operation("forceDelete", #""recordName":"cloudkit.zoneshare""#)], by: "_bob")
        .records[0]["deleted"]?.bool == true)
    #expect(try await world.currentShare().people == ["_alice OWNER ACCEPTED READ_WRITE"])
  }

  @Test func `T-P07 T-P08 links are open to everybody or to the first, and close again`() async throws {
    let world = try await world()
    let share = try await world.shareZone(
      "Trips", World.participants(#"{"permission":"READ_WRITE"}"#, World.participant("bob")))
    let once = try #require(share.participants[1]["oneTimeShortGUID"]?.string)
    #expect(try await world.resolve(.resolve, [once], by: "_carol")[0]["participantStatus"]?.string == "INVITED")
    #expect(try await world.accept(once, by: "_carol")["participantStatus"]?.string == "ACCEPTED")
    #expect(try await world.accept(once, by: "_dave").isNull)
    #expect(try await world.resolve(.resolve, [once], by: "_dave")[0].isNull)
    #expect(try await world.accept(once, by: "_carol")["participantStatus"]?.string == "ACCEPTED")
    #expect(try await world.accept(share.shortGUID, by: "_dave").isNull)
    var tag = try await world.currentShare().tag
    tag = try await world.modify([World.share("update", tag: tag, #""publicPermission":"READ_ONLY""#)]).records[0].tag
    #expect(try await world.currentShare().people.count == 2, "the invitation that nobody accepted is void")
    #expect(try await world.accept(share.shortGUID, by: "_dave")["participantType"]?.string == "PUBLIC_USER")
    #expect(try await world.modify([World.note("d")], by: "_dave").records[0].code == "ACCESS_DENIED")
    tag = try await world.currentShare().tag
    let adding = try await world.modify([World.share("update", tag: tag, World.participants(World.participant("bob")))])
      .records[0]
    #expect(adding.code == "BAD_REQUEST")
    _ = try await world.modify([World.share("update", tag: tag, #""publicPermission":"NONE""#)])
    #expect(try await world.currentShare().people == ["_alice OWNER ACCEPTED READ_WRITE"])
    for user in ["_carol", "_dave"] { #expect(try await world.feed(by: user).code == "ZONE_NOT_FOUND") }
  }

  @Test func `T-P06 a user who may ask for access learns only that, and is let in, denied or blocked`() async throws {
    let world = try await world()
    let share = try await world.shareZone()
    let guid = try #require(share.shortGUID)
    for purpose in [ResolveShortGUIDs.Purpose.resolve, .accept, .requestAccess, .decline] {
      #expect(try await world.resolve(purpose, [guid], by: "_dave")[0].isNull)
    }
    var tag = try await world.modify([World.share("update", tag: share.tag, #""allowsAccessRequests":true"#)]).records[
      0
    ].tag
    let seen = try await world.resolve(.resolve, [guid], by: "_dave")[0]
    #expect(
      seen["share"] == nil && seen["zoneID"] == nil && seen["allowsAccessRequests"]?.bool == true
        && seen["participantStatus"]?.string == "UNKNOWN")
    #expect(try await world.accept(guid, by: "_dave").isNull)
    for user in ["_dave", "_carol"] {
      #expect(try await world.resolve(.requestAccess, [guid], by: user)[0]["participantStatus"]?.string == "REQUESTED")
    }
    let asked = try await world.currentShare()
    #expect(
      asked["requesters"]?.elements.map { $0["userIdentity"]?["userRecordName"]?.string } == ["_dave", "_carol"]
        && asked.tag != tag)
    tag = asked.tag
    let approved = try await world.modify([
      World.share("update", tag: tag, World.participants(World.participant("carol")))
    ]).records[0]
    #expect(
      approved.participants[1]["isApprovedRequester"]?.bool == true && approved["requesters"]?.elements.count == 1)
    #expect(try await world.accept(guid, by: "_carol").code == nil)
    #expect(try await world.resolve(.requestAccess, [guid], by: "_carol")[0].code == "EXISTS")
    tag = try await world.currentShare().tag
    tag = try await world.modify([
      World.share("update", tag: tag, #""blocked":[{"userRecordName":"_dave"},{"userRecordName":"_carol"}]"#)
    ]).records[0].tag
    #expect(try await world.feed(by: "_carol").code == "ZONE_NOT_FOUND")
    for user in ["_dave", "_carol"] { #expect(try await world.resolve(.requestAccess, [guid], by: user)[0].isNull) }
    _ = try await world.modify([World.share("update", tag: tag, #""blocked":[]"#)])
    #expect(try await world.resolve(.requestAccess, [guid], by: "_dave")[0]["participantStatus"]?.string == "REQUESTED")
  }

  @Test func `T-P14 the hundred-and-first participant is refused`() async throws {
    let world = try await world()
    let hundred = (0..<100).map { World.participant("user\($0)") }.joined(separator: ",")
    let share = try await world.shareZone("Trips", World.participants(hundred))
    #expect(share.participants.count == 101)
    let kept = share.participants.map { #"{"participantId":"\#($0["participantId"]?.string ?? "")"}"# }.joined(
      separator: ",")
    let refused = try await world.modify([
      World.share("update", tag: share.tag, World.participants(kept, World.participant("bob")))
    ]).records[0]
    #expect(refused.code == "BAD_REQUEST" && refused.reason == "A share has at most 100 participants besides its owner")
  }

  @Test func `a record that can't be shared is refused, with the reason`() async throws {
    let world = try await world()
    let root = try await world.modify([World.note("root"), World.note("other")]).records[0]
    func fails(_ operation: String, _ code: String, zone: String = "Trips") async throws {
      let reply = try await world.modify([operation], zone: zone)
      #expect((reply.records.first ?? reply.json).code == code, "\(operation) \(reply.text)")
    }
    try await fails(World.share(name: "S"), "NOT_FOUND")
    try await fails(World.share(name: "S", #""forRecord":{"recordName":"nothing","recordChangeTag":"1"}"#), "NOT_FOUND")
    try await fails(World.share(name: "S", #""forRecord":{"recordName":"root","recordChangeTag":"1"}"#), "CONFLICT")
    try await fails(World.share("create", #""forRecord":{"recordName":"root","recordChangeTag":"1"}"#), "NOT_FOUND")
    try await fails(World.share(), "BAD_REQUEST", zone: "_defaultZone")
    try await fails(World.share("create", #""fields":{"title":{"value":1}}"#), "BAD_REQUEST")
    try await fails(World.share("create", #""publicPermission":"SOME""#), "BAD_REQUEST")
    try await fails(
      World.share("create", #""participants":[{"userIdentity":{"lookupInfo":{"emailAddress":"no address"}}}]"#),
      "BAD_REQUEST")
    try await fails(World.share("update", tag: "1"), "NOT_FOUND")
    let shared = try await world.modify([
      World.share(name: "S", #""forRecord":{"recordName":"root","recordChangeTag":"\#(root.tag ?? "")"}"#)
    ]).records[0]
    #expect(shared.code == nil && shared.shortGUID != nil)
    let now = try await world.lookUp(["root"]).records[0]
    #expect(now["share"]?["recordName"]?.string == "S" && now.tag != root.tag && now.shortGUID == shared.shortGUID)
    try await fails(
      World.share(name: "S2", #""forRecord":{"recordName":"root","recordChangeTag":"\#(now.tag ?? "")"}"#), "EXISTS")
    try await fails(World.share(), "EXISTS")
    try await fails(World.share(name: "S"), "CONFLICT")
    let whole = try await world.modify([World.operation("forceDelete", #""recordName":"S""#), World.share()]).records
    #expect(whole.map(\.code) == [nil, nil])
    #expect(try await world.lookUp(["root"]).records[0]["share"] == nil)
    try await fails(World.share(name: "S", #""forRecord":{"recordName":"other","recordChangeTag":"1"}"#), "EXISTS")
  }

  @Test func `changes of a shared zone are told to everybody who sees it`() async throws {
    let world = try await world()
    _ = try await world.shareZone(with: [("bob", "READ_WRITE"), ("carol", "READ_ONLY")])
    _ = world.changes.take()
    _ = try await world.modify([World.note("a")])
    #expect(world.changes.take().map(\.audience) == [["_alice", "_bob", "_carol"]])
    try await world.makeZone("Own")
    _ = try await world.modify([World.note("a")], zone: "Own")
    #expect(world.changes.take().last?.audience == ["_alice"])
  }

  @Test func `while the directory is away nobody is invited or recognised, and everything else goes on`() async throws {
    let world = try await world()
    let share = try await world.shareZone(with: [("bob", "READ_WRITE")])
    world.people.isAway.store(true, ordering: .relaxed)
    #expect(try await world.modify([World.note("a")], by: "_bob").records[0].code == nil)
    #expect(
      try await world.modify([World.share("update", tag: share.tag, World.participants())]).code == "TRY_AGAIN_LATER")
    await #expect(throws: RecordError.self) { try await world.accept(share.shortGUID, by: "_bob") }
    await #expect(throws: RecordError.self, "what leads nowhere is no exception") {
      try await world.resolve(.resolve, ["0" + String(repeating: "x", count: 24)], by: "_bob")
    }
  }
}
