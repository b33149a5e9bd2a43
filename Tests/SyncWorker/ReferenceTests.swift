// DELETE_SELF, VALIDATE and NONE, case by case (docs/protocol/record-plane.md#fields).

import JSON
import RecordStore
import Records
import ServiceBus
import Testing

@Suite struct `References between records` {
  private func save(
    _ name: String, _ action: String? = nil, to target: String = "parent", kind: String = "forceReplace"
  ) -> String {
    let field = action.map { #""parent":{"value":{"recordName":"\#(target)","action":"\#($0)"}}"# } ?? ""
    return #"{"operationType":"\#(kind)","record":{"recordName":"\#(name)","recordType":"Node","fields":{\#(field)}}}"#
  }

  private func delete(_ name: String) -> String {
    #"{"operationType":"forceDelete","record":{"recordName":"\#(name)"}}"#
  }

  private func modify(_ world: RecordPlaneWorld, _ operations: [String], zone: String = "Trips", atomic: Bool? = nil)
    async throws -> PlaneReply
  {
    let atomic = atomic.map { #","atomic":\#($0)"# } ?? ""
    return try await world.post(
      "records/modify",
      #"{"operations":[\#(operations.joined(separator: ","))],"zoneID":{"zoneName":"\#(zone)"}\#(atomic)}"#)
  }

  private func world() async throws -> RecordPlaneWorld {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    return world
  }

  private func names(_ world: RecordPlaneWorld, _ names: [String], zone: String = "Trips") async throws -> [String] {
    try await world.lookUp(names, zone: zone).records.filter { $0.code == nil }.compactMap(\.name)
  }

  @Test func `a deleted target takes its sources and theirs along, in one commit and one ping`() async throws {
    let world = try await world()
    _ = try await modify(
      world,
      [
        save("parent"), save("child", "DELETE_SELF"), save("grandchild", "DELETE_SELF", to: "child"),
        save("friend", "NONE"), save("other"),
      ])
    _ = world.changes.take()
    let token = try await world.changes(since: nil)["syncToken"]?.string
    let reply = try await modify(world, [delete("parent")])
    #expect(reply.text == #"{"records":[{"recordName":"parent","deleted":true}]}"#)
    #expect(try await names(world, ["parent", "child", "grandchild", "friend", "other"]) == ["friend", "other"])
    let page = try await world.changes(since: token)
    #expect(page["records"]?.elements.map { $0["deleted"]?.bool } == [true, true, true])
    #expect(page["records"]?.names == ["parent", "child", "grandchild"])
    let pings = world.changes.take()
    #expect(pings.count == 1 && pings[0].syncToken == page["syncToken"]?.string)
    // A dangling pointer stays as it is.
    #expect(try await world.lookUp(["friend"]).records[0].value("parent")?["recordName"]?.string == "parent")
  }

  @Test func `a ring of DELETE_SELF goes as a whole`() async throws {
    let world = try await world()
    _ = try await modify(
      world,
      [
        save("a", "DELETE_SELF", to: "b"), save("b", "DELETE_SELF", to: "c"), save("c", "DELETE_SELF", to: "a"),
        save("d", "DELETE_SELF", to: "d"),
      ])
    _ = try await modify(world, [delete("b"), delete("d")])
    #expect(try await names(world, ["a", "b", "c", "d"]).isEmpty)
  }

  @Test func `a source that is deleted in the same request counts as deleted, with its tag or without`() async throws {
    for atomic in [true, false] {
      let world = try await world()
      let saved = try await modify(world, [save("parent"), save("child", "DELETE_SELF")])
      let tag = try #require(saved.records[1].tag)
      let reply = try await modify(
        world,
        [delete("parent"), #"{"operationType":"delete","record":{"recordName":"child","recordChangeTag":"\#(tag)"}}"#],
        atomic: atomic)
      #expect(
        reply.text == #"{"records":[{"recordName":"parent","deleted":true},{"recordName":"child","deleted":true}]}"#)
    }
  }

  @Test func `in an atomic batch the state after all of it decides, whatever the order`() async throws {
    for isReversed in [true, false] {
      let world = try await world()
      _ = try await modify(world, [save("parent"), save("stays", "DELETE_SELF"), save("leaves", "DELETE_SELF")])
      let operations = [
        delete("parent"), save("stays", "DELETE_SELF"), save("leaves", "NONE"), save("new", "DELETE_SELF"),
      ]
      let reply = try await modify(world, isReversed ? operations.reversed() : operations)
      #expect(reply.status == 200)
      #expect(
        reply.records.filter { $0["deleted"]?.bool == true }.compactMap(\.name).sorted() == ["new", "parent", "stays"])
      #expect(try await names(world, ["parent", "stays", "leaves", "new"]) == ["leaves"])
      #expect(try await world.changes(since: nil)["records"]?.names.contains("new") == false)
    }
  }

  @Test func `without atomicity operations follow one another`() async throws {
    let world = try await world()
    _ = try await modify(world, [save("parent"), save("child", "DELETE_SELF")])
    let reply = try await modify(
      world,
      [
        delete("parent"),
        #"{"operationType":"update","record":{"recordName":"child","recordType":"Node","recordChangeTag":"3"}}"#,
      ], atomic: false)
    #expect(reply.records.map(\.code) == [nil, "NOT_FOUND"])
    _ = try await modify(world, [save("parent"), save("child", "DELETE_SELF"), save("other", "DELETE_SELF")])
    let again = try await modify(
      world, [delete("parent"), save("child", "DELETE_SELF", kind: "create"), delete("other")], atomic: false)
    #expect(again.records.map(\.code) == [nil, nil, nil])
    // Made again after its target had gone, it stays.
    #expect(try await names(world, ["parent", "child", "other"]) == ["child"])
  }

  @Test func `a validated target must be there, or come with the same batch`() async throws {
    let world = try await world()
    let refused = try await modify(world, [save("child", "VALIDATE")])
    #expect(refused.status == 200 && refused.records[0].code == "VALIDATING_REFERENCE_ERROR")
    #expect(
      refused.records[0].reason
        == """
        Record save would violate validating reference, rejecting update: Node.parent names a record that does not \
        exist
        """
    )
    #expect(try await names(world, ["child"]).isEmpty)
    #expect(try await modify(world, [save("child", "VALIDATE"), save("parent")]).status == 200)
    // One after the other, the second comes too late.
    let late = try await modify(world, [save("child", "VALIDATE", to: "late"), save("late")], atomic: false)
    #expect(late.records.map(\.code) == ["VALIDATING_REFERENCE_ERROR", nil])
    #expect(try await modify(world, [save("self", "VALIDATE", to: "self")]).records[0].code == nil)
  }

  @Test func `a validated target stays until its sources go or let go`() async throws {
    let world = try await world()
    _ = try await modify(world, [save("parent"), save("child", "VALIDATE")])
    let refused = try await modify(world, [delete("parent")])
    #expect(
      refused.text
        == #"""
        {"records":[{"recordName":"parent","serverErrorCode":"VALIDATING_REFERENCE_ERROR","reason":"Record delete \#
        would violate validating reference, rejecting update"}]}
        """#
    )
    let batch = try await modify(world, [delete("parent"), save("bystander")])
    #expect(batch.status == 400 && batch.records.map(\.code) == ["VALIDATING_REFERENCE_ERROR", "ATOMIC_ERROR"])
    #expect(try await names(world, ["parent", "child", "bystander"]) == ["parent", "child"])
    #expect(try await modify(world, [delete("parent"), delete("child")]).status == 200)
    _ = try await modify(world, [save("parent"), save("child", "VALIDATE")])
    #expect(try await modify(world, [delete("parent"), save("child", "NONE")]).status == 200)
  }

  @Test func `a cascade that meets a validated record is refused as a whole`() async throws {
    let world = try await world()
    _ = try await modify(
      world, [save("parent"), save("child", "DELETE_SELF"), save("witness", "VALIDATE", to: "child")])
    let refused = try await modify(world, [delete("parent")])
    #expect(refused.records[0].code == "VALIDATING_REFERENCE_ERROR" && refused.records[0].name == "parent")
    #expect(try await names(world, ["parent", "child", "witness"]).count == 3)
    #expect(try await modify(world, [delete("witness"), delete("parent")]).status == 200)
    #expect(try await names(world, ["parent", "child", "witness"]).isEmpty)
  }

  @Test func `a repeated request is answered as before and deletes nothing more`() async throws {
    let world = try await world()
    _ = try await modify(world, [save("parent"), save("child", "DELETE_SELF")])
    let request = world.request("records/modify", requestID: "_alice:R1")
    let body = #"{"operations":[\#(delete("parent"))],"zoneID":{"zoneName":"Trips"}}"#
    let first = try await world.send(request, body)
    _ = try await modify(world, [save("child", "DELETE_SELF")])
    #expect(try await world.send(request, body).text == first.text)
    #expect(try await names(world, ["child"]) == ["child"])
  }

  @Test func `a reference that binds two records can't leave its zone`() async throws {
    let world = try await world()
    for action in ["DELETE_SELF", "VALIDATE"] {
      let field = #"{"value":{"recordName":"x","action":"\#(action)","zoneID":{"zoneName":"Elsewhere"}}}"#
      for value in [
        field, #"{"value":[{"recordName":"x","action":"\#(action)","zoneID":"Elsewhere"}],"type":"REFERENCE_LIST"}"#,
      ] {
        let reply = try await world.operate("create", "a", fields: #"{"to":\#(value)}"#)
        #expect(reply.records[0].reason == "Note.to: a reference with the action \(action) can't leave its zone")
      }
    }
    // Spelled out, the record's own zone is no other.
    let own =
      #"""
      {"to":{"value":{"recordName":"a","action":"VALIDATE","zoneID":{"zoneName":"Trips","ownerRecordName":"_alice"}}}}
      """#
    #expect(try await world.operate("create", "a", fields: own).records[0].code == nil)
  }

  @Test func `sources in another zone of the same name as before are nobody's`() async throws {
    let world = try await world()
    _ = try await modify(world, [save("parent"), save("child", "VALIDATE")])
    let zone = #"{"operations":[{"operationType":"KIND","zone":{"zoneID":"Trips"}}]}"#
    #expect(try await world.post("zones/modify", zone.replacing("KIND", with: "delete")).zones[0].code == nil)
    _ = try await world.post("zones/modify", zone.replacing("KIND", with: "create"))
    #expect(try await modify(world, [save("parent")]).records[0].code == nil)
    #expect(try await modify(world, [delete("parent")]).records[0].code == nil)
  }

  // MARK: Limits

  @Test func `the 751st source of a target is refused, and room that was made is used`() async throws {
    let world = try await world()
    _ = try await modify(world, [save("parent")])
    for start in stride(from: 0, to: 750, by: 150) {
      #expect(try await modify(world, (start..<start + 150).map { save("s\($0)", "DELETE_SELF") }).status == 200)
    }
    let refused = try await modify(world, [save("one more", "DELETE_SELF")])
    #expect(
      refused.records[0].reason
        == "Node.parent: 750 records have a DELETE_SELF reference to 'parent', which is the limit")
    #expect(refused.records[0].code == "BAD_REQUEST")
    #expect(try await names(world, ["one more"]).isEmpty)
    // Those that were there may be saved again; others take the place of those that go in the same batch.
    #expect(try await modify(world, [save("s0", "DELETE_SELF")]).records[0].code == nil)
    #expect(
      try await modify(
        world, [save("one more", "DELETE_SELF"), delete("s1"), save("s2", "NONE"), save("another", "DELETE_SELF")]
      ).status == 200)
    #expect(
      try await modify(world, [save("too many", "DELETE_SELF"), save("bystander")], atomic: false).records.map(\.code)
        == ["BAD_REQUEST", nil])
    #expect(try await modify(world, [save("plain", "NONE"), save("validates", "VALIDATE")]).status == 200)
    #expect(try await modify(world, [delete("validates"), delete("parent")]).status == 200)
    #expect(
      try await world.post("records/query", #"{"query":{"recordType":"Node"},"zoneID":"Trips"}"#).records.compactMap(
        \.name) == ["bystander", "plain", "s2"])
  }

  @Test func `a cascade that is larger than a request may be is refused, and deletes nothing`() async throws {
    try await withTemporaryFolder { folder in
      let shard = try await SQLiteRecordStore(SQLiteConfiguration(directory: folder), shardCount: 1).open(shard: 0)
      let world = RecordPlaneWorld(shard)
      try await world.makeZone()
      // A tree of 10 × 600: more than the limit below its root, less below each branch.
      _ = try await modify(world, [save("root")] + (0..<10).map { save("b\($0)", "DELETE_SELF", to: "root") })
      for branch in 0..<10 {
        for start in stride(from: 0, to: 600, by: 200) {
          #expect(
            try await modify(
              world, (start..<start + 200).map { save("b\(branch)-\($0)", "DELETE_SELF", to: "b\(branch)") }
            ).status == 200)
        }
      }
      let token = try await world.changes(since: nil, limit: 1)["syncToken"]?.string
      let refused = try await modify(world, [delete("root")])
      #expect(refused.records[0].code == "BAD_REQUEST")
      #expect(refused.records[0].reason?.contains("more than 5000 further records") == true)
      #expect(try await names(world, ["root", "b0", "b9-599"]).count == 3)
      #expect(token != nil)
      // The limit is the request's: nine branches are too many, too, one by one.
      let branches = try await modify(world, (0..<10).map { delete("b\($0)") }, atomic: false)
      #expect(branches.records.map(\.code) == Array(repeating: nil, count: 8) + ["BAD_REQUEST", "BAD_REQUEST"])
      #expect(try await modify(world, [delete("root")]).records[0].code == nil)
      #expect(
        try await world.post("records/query", #"{"query":{"recordType":"Node"},"zoneID":"Trips","resultsLimit":1}"#)
          .records.isEmpty)
      #expect(try await (shard as? SQLiteShardStore)?.verify().problems == [])
      await shard.close()
    }
  }
}
