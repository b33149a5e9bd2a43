import JSON
import RecordStore
import Records
import ServiceBus
import Synchronization
import Testing

private typealias World = RecordPlaneWorld

/// The participants' view of one another, and the messages of a commit that changes the participants.
struct SharePeopleTests {
  private func world() async throws -> RecordPlaneWorld {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    return world
  }

  private func invited(by member: String, _ value: String) -> String {
    #"{"userIdentity":{"lookupInfo":{"\#(member)":"\#(value)"}},"type":"USER","permission":"READ_ONLY"}"#
  }

  // MARK: People without an account

  @Test func `a save that changes who waits in a share leaves news of it, and another save none`() async throws {
    let world = try await world()
    func news() async throws -> [String] {
      let all = try await world.store.read { try $0.shareNews(after: 0, limit: 99) }
      try await world.store.enqueue { try $0.removeShareNews(through: .max) }.value
      return all.compactMap { if case .invitations(let share) = $0.subject { share } else { nil } }
    }
    let share = try await world.shareZone(
      "Trips", World.participants(invited(by: "emailAddress", "bob@example.com")))
    #expect(try await news().isEmpty, "Bob is a user")
    let ids = share.participants.map { #"{"participantId":"\#($0["participantId"]?.string ?? "")"}"# }
    let kept = ids.joined(separator: ",")
    var tag = share.tag
    for (list, isNews) in [
      (World.participants(kept, invited(by: "emailAddress", "nobody@example.com")), true),
      (#""fields":{"cloudkit.title":{"value":"Other"}}"#, false), (World.participants(kept), true),
    ] {
      let saved = try await world.modify([World.share("update", tag: tag, list)]).records[0]
      #expect(try await news() == (isNews ? ["cloudkit.zoneshare"] : []), "\(saved.text)")
      tag = saved.tag
    }
  }

  // MARK: Participants

  @Test func `a user who does not want to be found is not found by an invitation or a block`() async throws {
    let world = try await world()
    let share = try await world.shareZone(
      "Trips",
      World.participants(
        invited(by: "emailAddress", "eve@example.com"), invited(by: "emailAddress", "nobody@example.com"),
        invited(by: "emailAddress", "bob@example.com")))
    func identity(_ participant: JSONValue) -> String {
      participant["userIdentity"]?.text.replacing("eve@", with: "nobody@") ?? ""
    }
    #expect(
      identity(share.participants[1]) == identity(share.participants[2]),
      "an address that is somebody's looks like one that is nobody's")
    #expect(
      share.people == [
        "_alice OWNER ACCEPTED READ_WRITE", "? USER INVITED READ_ONLY", "? USER INVITED READ_ONLY",
        "_bob USER INVITED READ_ONLY",
      ])
    #expect(share.participants[3]["userIdentity"]?["nameComponents"]?["givenName"]?.string == "Bob")
    // A participant named by record name stays so, and nothing is added.
    let emptied = try await world.modify([World.share("update", tag: share.tag, World.participants())]).records[0]
    let named = try await world.modify([
      World.share(
        "update", tag: emptied.tag,
        World.participants(invited(by: "userRecordName", "_eve"), invited(by: "userRecordName", "_nobody")))
    ]).records[0]
    func member(_ index: Int) -> String {
      named.participants[index]["userIdentity"]?.text.replacing("_eve", with: "_nobody") ?? ""
    }
    #expect(named.participants.count == 3 && member(1) == member(2))
    let out = ["eve", "nobody"].map { #"{"lookupInfo":{"emailAddress":"\#($0)@example.com"}}"# }.joined(separator: ",")
    let tag = try await world.modify([
      World.share("update", tag: named.tag, World.participants(), #""blocked":[\#(out)]"#)
    ]).records[0].tag
    let blocked = try await world.currentShare()["blocked"]?.elements ?? []
    #expect(blocked.count == 2 && blocked[0].text.replacing("eve@", with: "nobody@") == blocked[1].text)
    // The invitation finds the user all the same, and names them once they have accepted.
    let invited = World.participants(invited(by: "emailAddress", "eve@example.com"))
    let again = try await world.modify([World.share("update", tag: tag, invited)]).records[0]
    #expect(again.code == nil)
    #expect(try await world.accept(share.shortGUID, by: "_eve")["participantStatus"]?.string == "ACCEPTED")
    let now = try await world.currentShare()
    #expect(
      now.people.last == "_eve USER ACCEPTED READ_ONLY"
        && now.participants[1]["userIdentity"]?["nameComponents"]?["givenName"]?.string == "Eve")
    #expect(now["blocked"]?.elements.count == 1, "who is invited is kept out no more")
  }

  @Test func `nobody is looked up for who may invite nobody, who is answered as if there were no directory`()
    async throws
  {
    let world = try await world()
    let share = try await world.shareZone(with: [("bob", "READ_WRITE")])
    let invitation = World.share("update", tag: share.tag, World.participants(World.participant("carol")))
    let create = World.share("create", World.participants(World.participant("carol")))
    world.people.isAway.store(true, ordering: .relaxed)
    let before = world.people.questionCount.load(ordering: .relaxed)
    for operation in [invitation, create] {
      #expect(
        try await world.modify([operation], by: "_bob").records.first?.code
          == (operation == create ? "CONFLICT" : "ACCESS_DENIED"))
      #expect(try await world.modify([operation], by: "_eve").code == "ZONE_NOT_FOUND")
      #expect(try await world.modify([operation], zone: "Nowhere").code == "ZONE_NOT_FOUND")
    }
    #expect(world.people.questionCount.load(ordering: .relaxed) == before)
    #expect(try await world.modify([invitation]).code == "TRY_AGAIN_LATER")
  }

  // MARK: Requests that are sent again, and that say little

  @Test func `a request that is sent again is answered with the numbers it was answered with`() async throws {
    let world = try await world()
    _ = try await world.modify([World.note("a")])
    let share = try await world.shareZone()
    let twice = World.participants(World.participant("bob"), World.participant("bob"))
    let many = World.participants((0..<101).map { World.participant("user\($0)") }.joined(separator: ","))
    let tag = try await world.lookUp(["a"]).records[0].tag ?? ""
    let requests = [
      World.share("update", tag: share.tag, twice), World.share("update", tag: share.tag, many),
      World.share(name: "S", #""forRecord":{"recordName":"a","recordChangeTag":"\#(tag)"}"#),
    ]
    for (operation, number) in zip(requests, [Int64(37), 29, 30]) {
      let first = try await world.modify([operation], requestID: "gateway:\(number)")
      #expect(first.records[0]["ckErrorCode"]?.int64 == number, "\(first.text)")
      #expect(try await world.modify([operation], requestID: "gateway:\(number)").text == first.text)
    }
  }

  @Test func `a share is updated by a request that says nothing of its type`() async throws {
    let world = try await world()
    let share = try await world.shareZone("Trips", #""publicPermission":"READ_WRITE""#)
    #expect(try await world.accept(share.shortGUID, by: "_dave").code == nil)
    let tag = try await world.currentShare().tag ?? ""
    let closed = try await world.modify([
      World.operation(
        "update", #""recordName":"cloudkit.zoneshare","recordChangeTag":"\#(tag)","publicPermission":"NONE""#)
    ])
    #expect(closed.records.first?["publicPermission"]?.string == "NONE", "\(closed.text)")
    #expect(try await world.feed(by: "_dave").code == "ZONE_NOT_FOUND")
    let empty = World.operation(
      "update", #""recordName":"cloudkit.zoneshare","recordChangeTag":"\#(closed.records.first?.tag ?? "")""#)
    #expect(try await world.modify([empty]).records.first?.code == nil)
  }

  @Test func `an administrator who was removed is told no more of the share by sending his request again`() async throws
  {
    let world = try await world()
    _ = try await world.modify([World.note("a"), World.note("b")])
    try await world.shareHierarchy("b", with: [("bob", "READ_ONLY")])
    let made = try await world.shareHierarchy("a", with: [])
    let invited = World.participants(World.participant("bob", type: "ADMINISTRATOR"))
    _ = try await world.modify([World.share("update", name: "S-a", tag: made.tag, invited)])
    #expect(try await world.accept(made.shortGUID, by: "_bob").code == nil)
    let known = try await world.currentShare("S-a")
    let me = #"{"participantId":"\#(known.participants[1]["participantId"]?.string ?? "")"}"#
    let request = World.share("update", name: "S-a", tag: known.tag, World.participants(me, World.participant("carol")))
    let first = try await world.modify([request], by: "_bob", requestID: "gateway:once")
    #expect(first.records[0].people.count == 3)
    let tag = try await world.currentShare("S-a").tag
    _ = try await world.modify([
      World.share("update", name: "S-a", tag: tag, World.participants(), #""allowsAccessRequests":true"#)
    ])
    let again = try await world.modify([request], by: "_bob", requestID: "gateway:once").records[0]
    #expect(again.name == "S-a" && again.tag == first.records[0].tag)
    #expect(
      again["publicPermission"] == nil && again["participants"] == nil && again["owner"] == nil
        && again["allowsAccessRequests"] == nil)
  }

  // MARK: Hierarchies in one another

  @Test func `of hierarchies that stand in one another the one that lets somebody write decides`() async throws {
    let world = try await world()
    _ = try await world.modify([World.note("a"), World.note("b", parent: "a"), World.note("c", parent: "b")])
    try await world.shareHierarchy("a", with: [("bob", "READ_WRITE"), ("carol", "READ_ONLY")])
    try await world.shareHierarchy("b", with: [("bob", "READ_ONLY"), ("carol", "READ_WRITE")])
    let changes = [World.note("c", "forceUpdate"), World.note("a", "forceUpdate"), World.note("b", "forceUpdate")]
    #expect(try await world.codes(changes, by: "_bob") == [nil, nil, nil])
    #expect(try await world.codes(changes, by: "_carol") == [nil, "ACCESS_DENIED", nil])
    #expect(try await world.codes([World.note("d", parent: "c")], by: "_bob") == [nil])
  }

  // MARK: Subscriptions

  private func subscribe(_ world: RecordPlaneWorld, _ user: String) async throws {
    let query =
      #"""
      "subscriptionType":"query","query":{"recordType":"Note"},"firesOn":["create","update","delete"],\#(World.zoneID())
      """#
    for (name, text) in [("q", query), ("z", #""subscriptionType":"zone",\#(World.zoneID())"#)] {
      let reply = try await world.shared(
        "subscriptions/modify",
        #"{"operations":[{"operationType":"create","subscription":{"subscriptionID":"\#(name)",\#(text)}}]}"#, by: user)
      try #require(reply.json["subscriptions"]?.elements.first?.code == nil, "\(reply.text)")
    }
    _ = try world.told()
  }

  @Test(arguments: [true, false])
  func `a participant who is removed in a commit hears nothing of it, whatever its order`(isAtomic: Bool) async throws {
    let world = try await world()
    _ = try await world.modify([World.note("x"), World.note("y")])
    let share = try await world.shareZone(with: [("bob", "READ_WRITE"), ("carol", "READ_ONLY")])
    for user in ["_bob", "_carol"] { try await subscribe(world, user) }
    let carol = share.participants[2]["participantId"]?.string ?? ""
    let removal = World.share("update", tag: share.tag, World.participants(#"{"participantId":"\#(carol)"}"#))
    let reply = try await world.modify(
      [World.note("x", "forceUpdate"), removal, World.note("y", "forceUpdate"), World.note("n")], isAtomic: isAtomic)
    #expect(reply.records.allSatisfy { $0.code == nil }, "\(reply.text)")
    #expect(
      try world.told() == [
        "_carol q: qry x update", "_carol q: qry y update", "_carol q: qry n create", "_carol z: fet Trips",
      ])
  }

  @Test func `a record that leaves a hierarchy in a commit is not announced, and one that comes into it is`()
    async throws
  {
    let world = try await world()
    _ = try await world.modify([
      World.note("r"), World.note("f", parent: "r"), World.note("g"), World.note("h", parent: "g"),
    ])
    try await world.shareHierarchy("r", with: [("bob", "READ_ONLY")])
    try await subscribe(world, "_bob")
    _ = try await world.modify([
      World.note("c", parent: "f"), World.note("f", "forceUpdate", parent: "g"), World.note("c2", parent: "f"),
    ])
    #expect(try world.told() == ["_bob z: fet Trips"])
    _ = try await world.modify([World.note("h", "forceUpdate"), World.note("g", "forceUpdate", parent: "r")])
    let names = ["h", "g", "f", "c", "c2"]
    #expect(Set(try world.told()) == Set(names.map { "_bob q: qry \($0) update" } + ["_bob z: fet Trips"]))
  }
}
