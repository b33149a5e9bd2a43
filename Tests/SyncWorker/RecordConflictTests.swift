// CONFLICT with its three records, for clients that ask for them.

import JSON
@testable import RecordPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Testing
@testable import ZoneCommit

extension ObjectPlaneWorld {
  /// `records/modify` in alice's notes.
  fileprivate func modify(_ operations: String, more: String = "") async throws -> JSONValue {
    let zone = request("POST", "x").database
    try await store.enqueue { transaction in
      _ = try transaction.makeZone(named: "Notes", in: try transaction.makeDatabase(zone).key)
    }.value
    let call = DatabaseRequest(
      plane: .record, method: "POST", path: ["records", "modify"], query: [:], database: zone, scope: .private,
      caller: Caller(userRecordName: "_alice"),
      requestID: "\(random.uuid())", baseURL: "https://host")
    let body = #"{"zoneID":{"zoneName":"Notes"},"atomic":false,"operations":[\#(operations)]\#(more)}"#
    return try JSONValue(
      parsing: try await records.respond(to: call, body: Array(body.utf8), in: store, startNext: {}).body)
  }
}

private func operation(_ type: String, _ tag: String?, _ fields: String) -> String {
  let tag = tag.map { #","recordChangeTag":"\#($0)""# } ?? ""
  return #"{"operationType":"\#(type)","record":{"recordName":"a","recordType":"CD_Tag","fields":{\#(fields)}\#(tag)}}"#
}

@Test(arguments: StoreKind.allCases)
func `T-C07 a stale tag is told with client, server and ancestor, and a retry on the server's succeeds`(
  _ kind: StoreKind
)
  async throws
{
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    let made = try await world.modify(operation("create", nil, #""CD_name":{"value":"one"}"#))
    let old = try #require(made["records"]?.elements.first?["recordChangeTag"]?.string)
    _ = try await world.modify(operation("update", old, #""CD_name":{"value":"two"}"#))
    let plain = try await world.modify(operation("update", old, #""CD_name":{"value":"three"}"#))
    #expect(
      plain["records"]?.elements.first?.members.map(\.key) == ["recordName", "serverErrorCode", "reason"],
      "nobody who does not ask is told more")
    let asked = try await world.modify(
      operation("update", old, #""CD_name":{"value":"three"}"#), more: #","conflictRecords":true"#)
    let conflict = try #require(asked["records"]?.elements.first)
    func name(_ which: String) -> String? { conflict[which]?["fields"]?["CD_name"]?["value"]?.string }
    #expect(conflict["serverErrorCode"]?.string == "CONFLICT")
    #expect([name("clientRecord"), name("serverRecord"), name("ancestorRecord")] == ["three", "two", "one"])
    #expect(conflict["ancestorRecord"]?["recordChangeTag"]?.string == old)
    let tag = try #require(conflict["serverRecord"]?["recordChangeTag"]?.string)
    let again = try await world.modify(
      operation("update", tag, #""CD_name":{"value":"two and three"}"#), more: #","conflictRecords":true"#)
    #expect(again["records"]?.elements.first?["fields"]?["CD_name"]?["value"]?.string == "two and three")
    let lost = try await world.modify(
      operation("update", "zz", #""CD_name":{"value":"four"}"#), more: #","conflictRecords":true"#)
    #expect(
      lost["records"]?.elements.first?["ancestorRecord"]?.isNull == true, "a tag that named no state has no ancestor")
    await #expect(throws: RecordError.self) {
      _ = try await world.modify(operation("update", tag, ""), more: #","conflictRecords":1"#)
    }
  }
}

@Test(arguments: StoreKind.allCases) func `T-C08 a creation over an existing name is told with the server's record`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    _ = try await world.modify(operation("create", nil, #""CD_name":{"value":"one"}"#))
    let asked = try await world.modify(
      operation("create", nil, #""CD_name":{"value":"two"}"#), more: #","conflictRecords":true"#)
    let conflict = try #require(asked["records"]?.elements.first)
    #expect(conflict["reason"]?.string == "record to insert already exists")
    #expect(conflict["serverRecord"]?["fields"]?["CD_name"]?["value"]?.string == "one")
    #expect(
      conflict["clientRecord"]?["fields"]?["CD_name"]?["value"]?.string == "two"
        && conflict["ancestorRecord"]?.isNull == true)
  }
}
