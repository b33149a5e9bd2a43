// The audit of records: the user, time and device of each change, read from kept states (T-X02).

import FixedClocks
import JSON
import RecordStore
import Records
import ServiceBus
import Testing

@testable import WorkerHost
@testable import ZoneCommit

private func update(_ name: String) -> String {
  #"{"changeType":"update","entity":"Tag","objectID":"T","attributes":{"name":"\#(name)"}}"#
}

@Test(arguments: StoreKind.allCases)
func `T-X02 an audit lists a property's authors in order, with device and values before and after`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    try await world.setUp("A")
    try await world.setUp("B")
    let insert = #"{"changeType":"insert","entity":"Tag","objectID":"T","attributes":{"name":"one"}}"#
    try await world.save("A", insert, query: ["wait": "export"])
    world.clock.advance(by: 1000)
    try await world.save("B", update("two"), query: ["wait": "export"])
    // The audit leaves out changes of other properties.
    try await world.save(
      "A", #"{"changeType":"insert","entity":"Photo","objectID":"P","relationships":{"tags":["T"]}}"#,
      query: ["wait": "export"])
    try await world.save("A", update("three"), query: ["wait": "export"])
    try await world.save("B", #"{"changeType":"delete","entity":"Tag","objectID":"T"}"#, query: ["wait": "export"])
    try await world.save("A", insert, query: ["wait": "export"])
    let answer = try await world.get("A/audit", ["objectID": "T", "property": "name"]).json
    let changes = try #require(answer["changes"]?.elements)
    #expect(changes.map { $0["changeType"]?.string } == ["insert", "update", "update", "delete", "insert"])
    #expect(
      changes.map { $0["device"]?.string } == ["A", "B", "A", "B", "A"]
        && changes.allSatisfy { $0["author"]?.string == "_alice" })
    let values = changes.compactMap { $0["properties"]?.elements.first }
    #expect(values.allSatisfy { $0["property"]?.string == "name" })
    #expect(values.map { $0["old"]?["value"]?.string } == [nil, "one", "two", "three", nil])
    #expect(values.map { $0["new"]?["value"]?.string } == ["one", "two", "three", nil, "one"])
    let sequences = changes.compactMap { $0["sequence"]?.int64 }
    #expect(sequences == sequences.sorted() && Set(sequences).count == 5 && answer["moreComing"]?.bool == false)
    #expect(changes[0]["timestamp"]?.string != changes[1]["timestamp"]?.string)
    let rest =
      try await world.get("A/audit", ["objectID": "T", "property": "name", "after": String(sequences[1])]).json[
        "changes"]?.elements ?? []
    #expect(rest.map { $0["properties"]?.elements.first?["old"]?["value"]?.string } == ["two", "three", nil])
    // The whole object: its making sets the entity's name, too.
    let all = try await world.get("A/audit", ["objectID": "T"]).json["changes"]?.elements ?? []
    #expect(all.first?["properties"]?.elements.map { $0["property"]?.string } == ["entityName", "name"])
    // The audit marks forgotten history and names no user for it.
    _ = try await world.store.enqueue { try $0.forgetPast(replacedBefore: .max, limit: 2) }.value
    let late = try await world.get("A/audit", ["objectID": "T", "property": "name"]).json
    #expect(
      late["changes"]?.elements.first?["changeType"]?.string == "earliest"
        && late["knownFrom"]?.int64 == late["changes"]?.elements.first?["sequence"]?.int64)
    #expect(try await world.get("A/audit", ["objectID": "nobody"]).status == 404)
    #expect(try await world.get("A/audit").status == 400)
    #expect(try await world.get("A/audit", ["objectID": "T"], user: "_mallory").status == 404)
  }
}

@Test func `T-X02 an audit of a record names its fields, page by page`() async throws {
  try await ObjectPlaneWorld.with(.sqlite, keepsPastStates: true) { world in
    try await world.setUp("A")
    try await world.save("A", #"{"changeType":"insert","entity":"Tag","objectID":"T"}"#, query: ["wait": "export"])
    for number in 0..<30 { try await world.save("A", update("\(number)")) }
    try await world.store.enqueue { _ in }.value
    func audit(_ query: [String: String]) async throws -> JSONValue {
      let request = DatabaseRequest(
        plane: .object, method: "GET", path: ["zones", ReservedName.privateMirrorZone, "audit"],
        query: query.merging(["recordName": "T"]) { $1 },
        database: world.request("GET", "x").database, scope: .private,
        caller: Caller(userRecordName: nil, isOperator: true), requestID: "r", baseURL: "https://host")
      return try JSONValue(
        parsing: try await world.plane.respond(to: request, body: [], in: world.store, startNext: {}).body)
    }
    let first = try await audit(["field": "CD_name", "limit": "12"])
    #expect(
      first["moreComing"]?.bool == true
        && first["changes"]?.elements.last?["properties"]?.elements.first?["property"]?.string == "CD_name")
    let second = try await audit(["field": "CD_name", "after": String(try #require(first["last"]?.int64))])
    #expect(second["moreComing"]?.bool == false)
    let values = [first, second].flatMap {
      $0["changes"]?.elements.map { $0["properties"]?.elements.first?["new"]?["value"]?.string } ?? []
    }
    #expect(values == (0..<30).map { "\($0)" })
  }
}
