// createShortGUID, records/resolve and records/accept in the worker (docs/protocol/record-plane.md#records-resolve).

import JSON
@testable import RecordPlane
import RecordStore
import Records
import ServiceBus
import Testing

@Suite struct `Short GUIDs` {
  private func save(
    _ world: RecordPlaneWorld, _ kind: String, _ name: String = "root", createsShortGUID: Bool? = nil,
    zone: String = "Trips"
  ) async throws -> JSONValue {
    let flag = createsShortGUID.map { #","createShortGUID":\#($0)"# } ?? ""
    let reply = try await world.post(
      "records/modify",
      #"""
      {"operations":[{"operationType":"\#(kind)","record":{"recordName":"\#(name)","recordType":"Note",\#
      "fields":{"title":{"value":"T"},"n":{"value":1}}\#(flag)}}],"zoneID":{"zoneName":"\#(zone)"}}
      """#
    )
    return try #require(reply.records.first, "\(reply.text)")
  }

  private func resolve(
    _ world: RecordPlaneWorld, _ shortGUIDs: [String], as user: String? = "_alice",
    purpose: ResolveShortGUIDs.Purpose = .resolve,
    container: ContainerID = RecordPlaneWorld.container, environment: Records.Environment = .development,
    fetches: Bool = false, keys: [String]? = nil
  ) async throws -> [JSONValue] {
    let request = ResolveShortGUIDs(
      purpose: purpose, shard: 0, container: container, environment: environment, caller: Caller(userRecordName: user),
      items: shortGUIDs.map { .init(shortGUID: $0, fetchesRootRecord: fetches, desiredKeys: keys) },
      baseURL: "https://host")
    return try JSONValue(
      parsing: try await ShareResolution(context: world.plane.context, request: request).answer(from: world.store)
    ).elements
  }

  @Test func `a record gets one when it is asked for, and keeps it`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    #expect(try await save(world, "create")["shortGUID"] == nil)
    #expect(try await save(world, "forceUpdate", createsShortGUID: false)["shortGUID"] == nil)
    let shortGUID = try #require(try await save(world, "forceUpdate", createsShortGUID: true)["shortGUID"]?.string)
    #expect(ShortGUID(shortGUID)?.shard == 0)
    for kind in ["forceUpdate", "forceReplace"] {
      #expect(try await save(world, kind, createsShortGUID: true)["shortGUID"]?.string == shortGUID)
      #expect(try await save(world, kind)["shortGUID"]?.string == shortGUID)
    }
    #expect(try await world.lookUp(["root"]).records[0]["shortGUID"]?.string == shortGUID)
    #expect(try await world.changes(since: nil)["records"]?.elements.last?["shortGUID"]?.string == shortGUID)
    #expect(try await save(world, "create", "other", createsShortGUID: true)["shortGUID"]?.string != shortGUID)
    let refused = try await world.post(
      "records/modify",
      #"""
      {"operations":[{"operationType":"create","record":{"recordName":"x","recordType":"Note",\#
      "createShortGUID":"yes"}}],"zoneID":"Trips"}
      """#
    )
    #expect(refused.records[0].reason == "createShortGUID must be true or false")
  }

  @Test func `a repeated request answers the one it made`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let body =
      #"""
      {"operations":[{"operationType":"create","record":{"recordName":"a","recordType":"Note",\#
      "createShortGUID":true}}],"zoneID":"Trips"}
      """#
    let first = try await world.send(world.request("records/modify", requestID: "_alice:R"), body)
    #expect(first.records[0]["shortGUID"] != nil)
    #expect(try await world.send(world.request("records/modify", requestID: "_alice:R"), body).text == first.text)
  }

  @Test func `the owner learns what his own leads to`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let saved = try await save(world, "create", createsShortGUID: true)
    let shortGUID = try #require(saved["shortGUID"]?.string)
    let results = try await resolve(world, ["0nothing", shortGUID])
    #expect(results[0].isNull)
    #expect(
      results[1].text
        == #"""
        {"containerIdentifier":"iCloud.org.example.notes","environment":"development","databaseScope":"PRIVATE",\#
        "zoneID":{"zoneName":"Trips","ownerRecordName":"_alice","zoneType":"REGULAR_CUSTOM_ZONE"},\#
        "rootRecordName":"root","ownerIdentity":{"userRecordName":"_alice"},"participantType":"OWNER",\#
        "participantStatus":"ACCEPTED","participantPermission":"READ_WRITE","potentialMatchList":[]}
        """#
    )
    #expect(try await resolve(world, [shortGUID], fetches: true)[0]["rootRecord"]?.text == saved.text)
    #expect(
      try await resolve(world, [shortGUID], fetches: true, keys: ["n"])[0]["rootRecord"]?["fields"]?.members.map(\.key)
        == ["n"])
  }

  @Test func `to everybody else, and elsewhere, it is one that was never given out`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let shortGUID = try #require(try await save(world, "create", createsShortGUID: true)["shortGUID"]?.string)
    for user in ["_bob", nil] { #expect(try await resolve(world, [shortGUID], as: user)[0].isNull) }
    #expect(try await resolve(world, [shortGUID], environment: .production)[0].isNull)
    #expect(try await resolve(world, [shortGUID], container: #require(ContainerID(rawValue: "iCloud.other")))[0].isNull)
    #expect(try await resolve(world, [shortGUID], purpose: .accept)[0].isNull)
    #expect(try await !resolve(world, [shortGUID])[0].isNull)
    _ = try await world.operate("forceDelete", "root")
    #expect(try await resolve(world, [shortGUID])[0].isNull)
    #expect(try await save(world, "create")["shortGUID"] == nil)
    #expect(try await resolve(world, [shortGUID])[0].isNull)
    let second = try #require(try await save(world, "forceUpdate", createsShortGUID: true)["shortGUID"]?.string)
    #expect(second != shortGUID)
    _ = try await world.post("zones/modify", #"{"operations":[{"operationType":"delete","zone":{"zoneID":"Trips"}}]}"#)
    #expect(try await resolve(world, [second])[0].isNull)
  }

  @Test func `the worker's planes know resolve and accept on no other path`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    for path in ["records/resolve", "records/accept"] {
      #expect(try await world.post(path, #"{"shortGUIDs":[]}"#).status == 404)
    }
  }
}
