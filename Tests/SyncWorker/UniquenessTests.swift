// Policy `reject`: a second object with the same values is refused, and the refusal names the first (D6).

import History
import JSON
import Mirroring
import ObjectModel
import RecordStore
import Records
import ServiceBus
import Testing
@testable import ZoneCommit

@Test(arguments: StoreKind.allCases)
func `T-D06 the second create is refused with the winner's ID, which the client adopts`(_ kind: StoreKind) async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    world.declareTags(.reject)
    try await world.setUp("A")
    let b = try await Device("B", world)
    try await world.export("A", Edit.insertTag("T1"))
    let refused = try await world.save(
      "B", [Edit.insertTag("T2"), Edit.insertPhoto("P", tags: ["T2"])].joined(separator: ","), id: "TX")
    #expect(refused.status == 409)
    #expect(refused.code == "UNIQUE_FIELD_ERROR" && refused.json["ckErrorCode"]?.int64 == 19)
    #expect(refused.reason == "Tag T2: Tag(name) must be unique in its zone: 'T1' has the same")
    let conflict = try #require(refused.json["conflicts"]?.elements.first)
    #expect(
      conflict["objectID"]?.string == "T2" && conflict["entity"]?.string == "Tag" && conflict["winner"]?.string == "T1")
    #expect(try await world.tags() == ["T1=x"])
    #expect(try await world.get("B/history").json["transactions"]?.count == 0, "nothing of it is stored")
    let adopted = try await world.save(
      "B", Edit.insertPhoto("P", tags: [try #require(conflict["winner"]?.string)]), id: "TX", query: ["wait": "export"])
    #expect(adopted.status == 200)
    #expect(try await world.pairs() == ["P:T1"])
    try await b.pull()
    #expect(b.graph.objects["T1"]?["name"] == #""x""#)
    // A repeated save gets its first answer.
    #expect(try await world.save("B", Edit.insertTag("T9"), id: "TX").status == 200)
  }
}

@Test func `a save may take what it lets go of itself, and not the same twice`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    world.declareTags(.reject)
    try await world.setUp("A")
    try await world.export("A", Edit.insertTag("T1"), Edit.insertTag("T2", "y"))
    #expect(
      try await world.export("A", Edit.insertTag("T3", "z"), Edit.insertTag("T4", "z")).json["conflicts"]?.elements
        .first?["winner"]?.string == "T3")
    #expect(try await world.export("A", Edit.renameTag("T2", "x")).status == 409)
    #expect(try await world.export("A", Edit.renameTag("T2", "y")).status == 200, "as it is")
    #expect(
      try await world.export("A", Edit.renameTag("T1", "y"), Edit.renameTag("T2", "x")).status == 200,
      "they change places")
    #expect(try await world.export("A", Edit.delete("Tag", "T1"), Edit.insertTag("T5", "y")).status == 200)
    #expect(try await world.tags() == ["T2=x", "T5=y"])
    #expect(try await world.get("A/quarantine").json["quarantined"]?.count == 0)
  }
}

@Test func `a conflict that a save could not see is held back by the export, and goes through when the name is free`()
  async throws
{
  try await ObjectPlaneWorld.with(.sqlite) { world in
    world.declareTags(.reject)
    try await world.setUp("A")
    try await world.setUp("B")
    try await world.export("A", Edit.insertTag("T1"))
    let change = HistoryChange(
      changeType: .insert, entity: "Tag", objectID: "T2", attributes: [NamedValue(name: "name", value: .string("x"))])
    try await world.appendWithoutExport(
      [HistoryTransaction(transactionID: "late", timestamp: 0, author: "app", changes: [change])], to: "B")
    try await world.export("B", Edit.insertPhoto("P", tags: ["T2"]))
    #expect(try await world.tags() == ["T1=x"])
    let held = try #require(try await world.get("B/quarantine").json["quarantined"]?.elements.first)
    #expect(held["objectID"]?.string == "T2")
    #expect(held["reason"]?.string == "Tag(name) must be unique in its zone: 'T1' has the same")
    try await world.export("A", Edit.renameTag("T1", "y"))
    _ = try await world.send(world.request("POST", "stores/B/quarantine/retry"), "{}")
    try await world.export("B", Edit.insertPhoto("Q"))
    #expect(try await world.tags() == ["T1=y", "T2=x"])
  }
}

@Test func `the record plane refuses the item, and an atomic batch with it`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    world.declareTags(.reject)
    try await world.setUp("A")
    try await world.export("A", Edit.insertTag("T1"))
    let reply = try await world.modify(
      tagOperation("create", "T2"), tagOperation("create", "T3", name: "y"), tagOperation("create", "T4", name: "y"))
    #expect(reply.status == 200)
    #expect(reply.records.map(\.code) == ["UNIQUE_FIELD_ERROR", nil, "UNIQUE_FIELD_ERROR"])
    #expect(reply.records[0].reason == "Tag(name) must be unique in its zone: 'T1' has the same")
    #expect(reply.records[0].members.map(\.key).sorted() == ["reason", "recordName", "serverErrorCode"])
    let atomic = try await world.modify(
      tagOperation("create", "T5", name: "z"), tagOperation("create", "T6", name: "z"), isAtomic: true)
    #expect(atomic.records.map(\.code) == ["ATOMIC_ERROR", "UNIQUE_FIELD_ERROR"])
    #expect(
      try await world.modify(tagOperation("forceDelete", "T1"), tagOperation("create", "T7"), isAtomic: true).records
        .allSatisfy { $0.code == nil })
    #expect(try await world.tags() == ["T3=y", "T7=x"])
  }
}

@Test func `a caller who may not read the winner does not learn its name`() async throws {
  try await ObjectPlaneWorld.with(.memory) { world in
    world.declareTags(.reject)
    var schema = try await world.schemas.schema(of: ObjectPlaneWorld.container, .development).schema
    for index in schema.recordTypes.indices where schema.recordTypes[index].name.hasPrefix("CD") {
      schema.recordTypes[index].grants = [
        Schema.Grant(permissions: [.create], role: "_icloud"),
        Schema.Grant(permissions: [.read, .write], role: "_creator"),
      ]
    }
    world.schemas.replaceSchema(schema, in: .development)
    try await world.setUp("A", scope: .public)
    try await world.setUp("B", user: "_bob", scope: .public)
    try await world.export("A", Edit.insertTag("T1"), scope: .public)
    let refused = try await world.save("B", Edit.insertTag("T2"), user: "_bob", scope: .public)
    #expect(refused.status == 409)
    #expect(refused.reason == "Tag T2: Tag(name) must be unique in its zone: another record has the same")
    #expect(refused.json["conflicts"]?.elements.first?["winner"]?.isNull == true)
  }
}
