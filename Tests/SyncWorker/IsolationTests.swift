// At every endpoint another user's zone gets the same answer as a missing one, apart from the names in the request.

import JSON
import RecordStore
import Records
import ServiceBus
import Testing

@Suite struct `Another user's zone looks like one that does not exist` {
  /// Bodies with ZONE in place of a zone ID.
  static let requests: [(path: String, body: String)] = [
    (
      "records/modify",
      #"""
      {"operations":[{"operationType":"forceUpdate","record":{"recordName":"secret","recordType":"Note",\#
      "fields":{"n":{"value":1}}}}],"zoneID":ZONE}
      """#
    ),
    (
      "records/modify",
      #"{"operations":[{"operationType":"forceDelete","record":{"recordName":"secret"}}],"zoneID":ZONE,"atomic":false}"#
    ),
    (
      "records/modify",
      #"""
      {"operations":[{"operationType":"update","record":{"recordName":"secret","recordChangeTag":"2",\#
      "fields":{"title":{"value":7}}}}],"zoneID":ZONE}
      """#
    ),
    ("records/lookup", #"{"records":[{"recordName":"secret"}],"zoneID":ZONE}"#),
    ("records/query", #"{"query":{"recordType":"Note"},"zoneID":ZONE}"#),
    (
      "records/query",
      #"""
      {"query":{"recordType":"Note","filterBy":[{"systemFieldName":"recordName","comparator":"EQUALS",\#
      "fieldValue":{"value":{"recordName":"secret"}}}]},"zoneID":ZONE,"zoneWide":true}
      """#
    ),
    ("records/changes", #"{"zoneID":ZONE}"#), ("records/changes", #"{"zoneID":ZONE,"syncToken":"TOKEN"}"#),
    ("changes/zone", #"{"zones":[{"zoneID":ZONE}]}"#),
    ("changes/zone", #"{"zones":[{"zoneID":ZONE,"syncToken":"TOKEN"}]}"#), ("zones/lookup", #"{"zones":[ZONE]}"#),
    ("zones/modify", #"{"operations":[{"operationType":"delete","zone":{"zoneID":ZONE}}]}"#),
    ("zones/modify", #"{"operations":[{"operationType":"create","zone":{"zoneID":ZONE}}]}"#),
  ]

  private static func zone(_ name: String) -> String { #"{"zoneName":"\#(name)","ownerRecordName":"_alice"}"# }

  @Test(arguments: requests, [DatabaseScope.private, .shared])
  func `the same status, code and words`(request: (path: String, body: String), scope: DatabaseScope) async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.operate("create", "secret", fields: #"{"title":{"value":"A"}}"#)
    let token = try #require(try await world.changes(since: nil)["syncToken"]?.string)
    func answer(_ name: String) async throws -> PlaneReply {
      let body = request.body.replacing("ZONE", with: Self.zone(name)).replacing("TOKEN", with: token)
      return try await world.send(
        world.request(request.path, user: "_bob", scope: scope, requestID: "gateway:\(name)"), body)
    }
    let (foreign, missing) = (try await answer("Trips"), try await answer("Nowhere"))
    #expect(foreign.status == missing.status)
    #expect(foreign.text.replacing("Trips", with: "Nowhere") == missing.text)
    let codes = [foreign.code] + foreign.zones.map(\.code) + foreign.records.map(\.code)
    #expect(codes.contains("ZONE_NOT_FOUND") || (request.path == "zones/modify" && scope == .shared), "\(foreign.text)")
    #expect(!foreign.text.contains("secret") && !foreign.text.contains(#""A""#))
    // And nothing happened to it.
    #expect(try await world.lookUp(["secret"]).records[0].value("title")?.string == "A")
    #expect(try await world.changes(since: token)["records"]?.elements.isEmpty == true)
  }

  @Test func `nothing of others is in lists and feeds`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone("Secret")
    _ = try await world.operate("create", "secret", zone: "Secret")
    for (path, body) in [
      ("zones/list", ""), ("changes/database", "{}"), ("zones/changes", "{}"),
      ("records/query", #"{"query":{"recordType":"Note"},"zoneWide":true}"#),
    ] {
      for scope in [DatabaseScope.private, .shared] {
        let reply = try await world.post(path, body, user: "_bob", scope: scope)
        #expect(reply.status == 200 && !reply.text.lowercased().contains("secret"), "\(path) \(reply.text)")
      }
    }
  }

  @Test func `a name that exists elsewhere is free`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.operate("create", "a", fields: #"{"n":{"value":1}}"#)
    let made = try await world.post(
      "zones/modify", #"{"operations":[{"operationType":"create","zone":{"zoneID":"Trips"}}]}"#, user: "_bob")
    #expect(made.zones[0].code == nil)
    #expect(try await world.lookUp(["a"], user: "_bob").records[0].code == "NOT_FOUND")
    #expect(try await world.operate("create", "a", user: "_bob").records[0].code == nil)
    // A VALIDATE reference sees the caller's own zone only.
    let reference = #"{"to":{"value":{"recordName":"b","action":"VALIDATE"}}}"#
    _ = try await world.operate("create", "b")
    #expect(
      try await world.operate("create", "c", fields: reference, user: "_bob").records[0].code
        == "VALIDATING_REFERENCE_ERROR")
  }
}
