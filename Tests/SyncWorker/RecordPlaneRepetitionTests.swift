import FixedClocks
import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import Synchronization
import Testing
import WebServices
@testable import ZoneCommit

@Suite struct `A repeated request` {
  @Test func `a repeated request is answered alike and changes nothing`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.operate("create", "gone")
    _ = world.changes.take()
    let body = #"""
      {"operations":[{"operationType":"create","record":{"recordType":"Note","fields":{"n":{"value":1}}}},
                     {"operationType":"forceUpdate","record":{"recordType":"Note","recordName":"b",\#
      "fields":{"n":{"value":2}}}},
                     {"operationType":"forceDelete","record":{"recordName":"gone"}},
                     {"operationType":"delete","record":{"recordName":"missing","recordChangeTag":"1"}}],
       "zoneID":{"zoneName":"Trips"},"atomic":false}
      """#
    let request = world.request("records/modify", requestID: "_alice:once")
    let first = try await world.send(request, body)
    #expect(world.changes.take().count == 1)
    world.clock.advance(by: 1000)
    let second = try await world.send(request, body)
    #expect(second.text == first.text)
    #expect(first.records.map(\.code) == [nil, nil, nil, "NOT_FOUND"])
    #expect(world.changes.take().isEmpty)
  }

  @Test func `a repetition after another's change keeps its own tag, so that the next save conflicts`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let first = try await world.operate("forceUpdate", "a", fields: #"{"n":{"value":1}}"#, requestID: "x:1")
    _ = try await world.operate("forceUpdate", "a", fields: #"{"n":{"value":2},"m":{"value":3}}"#)
    let second = try await world.operate("forceUpdate", "a", fields: #"{"n":{"value":1}}"#, requestID: "x:1")
    #expect(second.records[0].tag == first.records[0].tag)
    #expect(second.records[0].value("n")?.int64 == 1)
    #expect(try await world.operate("update", "a", tag: second.records[0].tag).records[0].code == "CONFLICT")
    #expect(try await world.lookUp(["a"]).records[0].value("n")?.int64 == 2)
    _ = try await world.operate("forceDelete", "a")
    let third = try await world.operate("forceUpdate", "a", fields: #"{"n":{"value":1}}"#, requestID: "x:1")
    #expect(third.records[0].tag == first.records[0].tag)
    #expect(try await world.lookUp(["a"]).records[0].code == "NOT_FOUND")
  }

  @Test func `a repetition is answered as stored, also when its record has no room for it any more`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let text = String(repeating: "x", count: 600_000)
    func save(_ name: String, _ field: String, _ text: String, _ id: String) async throws -> JSONValue {
      try await world.operate("forceUpdate", name, fields: #"{"\#(field)":{"value":"\#(text)"}}"#, requestID: id)
        .records[0]
    }
    let first = try await save("a", "mine", text, "x:1")
    _ = try await save("a", "mine", "", "x:2")
    _ = try await save("a", "other", text, "x:3")
    let again = try await save("a", "mine", text, "x:1")
    #expect(again.code == nil && again.tag == first.tag, "\(again.code ?? "")")
    #expect(again.value("mine")?.string == text)
  }

  @Test func `a request identifier is refused for another request, and free for other people`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.operate("create", "a", requestID: "1")
    let other = try await world.operate("create", "b", requestID: "1")
    #expect(other.status == 400 && other.reason == "The request identifier was used for another request")
    #expect(
      try await world.operate("create", "a", zone: "_defaultZone", user: "_bob", requestID: "1").records[0].code == nil)
  }

  @Test func `an operation that failed or had nothing to do is not done by a repetition either`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.operate("create", "a")
    #expect(try await world.operate("create", "a", fields: "{}", requestID: "1").records[0].code == "CONFLICT")
    _ = try await world.operate("forceDelete", "b", requestID: "2")
    let batch = `records/modify and records/lookup`.mixed.replacing("ATOMIC", with: "").replacing(
      #""old""#, with: #""a""#)
    let failed = try await world.send(world.request("records/modify", requestID: "3"), batch)
    _ = try await world.operate("forceDelete", "a")
    _ = try await world.operate("create", "b")
    #expect(try await world.operate("create", "a", fields: "{}", requestID: "1").records[0].code == "CONFLICT")
    #expect(try await world.operate("forceDelete", "b", requestID: "2").records[0]["deleted"]?.bool == true)
    #expect(try await world.send(world.request("records/modify", requestID: "3"), batch).text == failed.text)
    #expect(try await world.lookUp(["a", "b", "new"]).records.map(\.code) == ["NOT_FOUND", nil, "NOT_FOUND"])
  }

  @Test func `outcomes are forgotten after a day, in small steps`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    let keys = (0..<400).map { "k:\($0)" }
    for key in keys { _ = try await world.operate("forceUpdate", "a", zone: "_defaultZone", requestID: key) }
    func remembered() async throws -> Int {
      try await world.store.read { snapshot in
        try keys.filter { key in
          let request = DatabaseRequest(
            plane: .record, method: "POST", path: ["records", "modify"], query: [:],
            database: DatabaseID(container: RecordPlaneWorld.container, environment: .development, owner: "_alice"),
            scope: .private,
            caller: Caller(userRecordName: "_alice"), requestID: key, baseURL: "")
          let body =
            #"""
            {"operations":[{"operationType":"forceUpdate","record":{"recordName":"a","recordType":"Note"}}],\#
            "zoneID":{"zoneName":"_defaultZone"},"atomic":false}
            """#
          return try IdempotencyKey(request: request, body: Array(body.utf8)).outcome(in: snapshot) != nil
        }.count
      }
    }
    #expect(try await remembered() == 400)
    world.clock.advance(by: 24 * 60 * 60 * 1000)
    for index in 0..<200 {
      _ = try await world.operate("forceUpdate", "a", zone: "_defaultZone", requestID: "early:\(index)")
    }
    #expect(try await remembered() == 400)
    world.clock.advance(by: 1)
    for index in 0..<1000 {
      _ = try await world.operate("forceUpdate", "a", zone: "_defaultZone", requestID: "late:\(index)")
    }
    #expect(try await remembered() == 0)
  }
}
