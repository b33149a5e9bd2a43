import JSON
import RecordStore
import Records
import ServiceBus
import Testing

private typealias World = RecordPlaneWorld

/// A request looks at no more of a hierarchy than its limit, and at no fields of the records that it only passes.
struct HierarchyWalkTests {
  /// Puts records below others, without requests.
  /// - Parameter links: children with their parents.
  private func put(
    _ links: [(child: String, parent: String)], isDeleted: Bool = false, text: String = "", in world: RecordPlaneWorld
  ) async throws {
    let database = world.request("records/modify", method: "POST").database
    try await world.store.enqueue { transaction in
      guard let row = try transaction.database(database),
        let zone = try transaction.zone(named: "Trips", in: row.key)
      else { throw CancellationError() }
      let stamp = Stamp(timestamp: 1, userRecordName: "_alice")
      for link in links {
        var record = Record(
          recordName: link.child, recordType: "Note", fields: Fields(), created: stamp, modified: stamp)
        record.parent = link.parent
        if !text.isEmpty { record.fields["title"] = Field(.string(text)) }
        let pointer = OutgoingReference(field: ReservedName.parentReference, target: link.parent)
        try transaction.put(
          StoredRecord(
            record: record, isDeleted: isDeleted, sequence: try transaction.nextSequence(in: row.key), origin: 0,
            sequenceOfOthers: 0),
          in: zone.key, references: [pointer], isNew: true)
      }
    }.value
  }

  @Test func `a record above too many deleted ones moves into no share, and out of none`() async throws {
    let world = try await World.withZone(after: World.note("r"), World.note("p"), World.note("q", parent: "r"))
    try await world.shareHierarchy("r", with: [("bob", "READ_WRITE")])
    for name in ["p", "q"] {
      let links = (0...Limit.hierarchyStepCount).map { ("\(name)\($0)", name) }
      try await put(links, isDeleted: true, in: world)
    }
    for move in [World.note("p", "forceUpdate", parent: "r"), World.note("q", "forceUpdate", parent: "p")] {
      let refused = try await world.modify([move])
      #expect(refused.status == 400)
      #expect(refused.json["reason"]?.string?.contains("over more than 20000 records") == true, "\(refused.json.text)")
    }
    #expect(try await world.lookUp(["p"]).records[0]["parent"] == nil)
    #expect(try await world.sees(["p", "q"], by: "_bob") == [false, true])
    #expect(try await world.codes([World.note("n", parent: "r")], by: "_bob") == [nil])
  }

  @Test func `a participant makes no record above too many deleted ones`() async throws {
    let world = try await World.withZone(after: World.note("r"))
    try await world.shareHierarchy("r", with: [("bob", "READ_WRITE")])
    try await put((0...Limit.hierarchyStepCount).map { ("n\($0)", "new") }, isDeleted: true, in: world)
    #expect(try await world.modify([World.note("new", parent: "r")], by: "_bob").status == 400)
    #expect(try await world.codes([World.note("other", parent: "r")], by: "_bob") == [nil])
  }

  @Test(arguments: ["_alice", "_bob"])
  func `the records of one request share the way up`(user: String) async throws {
    let world = try await World.withZone(after: World.note("r"))
    try await world.shareHierarchy("r", with: [("bob", "READ_WRITE")])
    try await put((0..<450).map { ("c\($0)", $0 == 0 ? "r" : "c\($0 - 1)") }, in: world)
    let few = (0..<20).map { World.note("few\($0)", parent: "c449") }
    #expect(try await world.codes(few, by: user).allSatisfy { $0 == nil })
    let many = (0..<100).map { World.note("many\($0)", parent: "c449") }
    #expect(try await world.modify(many, by: user).status == 400)
    #expect(try await world.sees(["few0", "many0"]) == [true, false])
  }

  @Test func `records that follow another one into a share have a limit of bytes`() async throws {
    let world = try await World.withZone(after: World.note("r"), World.note("p"))
    try await world.shareHierarchy("r", with: [("bob", "READ_WRITE")])
    let text = String(repeating: "x", count: 900_000)
    try await put((0..<70).map { ("p\($0)", "p") }, text: text, in: world)
    #expect(try await world.codes([World.note("p", "forceUpdate", parent: "r")]) == [nil])
    #expect(try await world.sees(["p69"], by: "_bob") == [true])
    try await put((70..<80).map { ("p\($0)", "p") }, text: text, in: world)
    let refused = try await world.modify([
      World.operation("forceUpdate", #""recordName":"p","recordType":"Note","parent":null"#)
    ])
    #expect(refused.status == 400)
    #expect(refused.json["reason"]?.string?.contains("more than 64 MB") == true, "\(refused.json.text)")
    #expect(try await world.sees(["p", "p69"], by: "_bob") == [true, true])
  }
}
