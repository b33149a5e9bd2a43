// References that record clients set between mirrored records hold when the object plane deletes them, and GRANTs when
// it saves.

import JSON
import ObjectModel
@testable import ObjectPlane
@testable import RecordPlane
import RecordStore
import Records
import ServiceBus
import Synchronization
import Testing
@testable import WorkerHost
@testable import ZoneCommit

@Suite struct `References and grants on the object plane` {
  /// Saves a record beside the mirrored ones, as a record client does.
  private func saveRecord(
    _ world: ObjectPlaneWorld, _ name: String, _ action: String, to target: String, type: String = "CD_Note",
    scope: DatabaseScope = .private
  ) async throws -> JSONValue {
    let body =
      #"""
      {"operations":[{"operationType":"forceUpdate","record":{"recordName":"\#(name)","recordType":"\#(type)",\#
      "fields":{"to":{"value":{"recordName":"\#(target)","action":"\#(action)"}}}}}],\#
      "zoneID":"\#(scope == .public ? ReservedName.defaultZone : ReservedName.privateMirrorZone)"}
      """#
    let request = DatabaseRequest(
      plane: .record, method: "POST", path: ["records", "modify"], query: [:],
      database: world.request("GET", "x", scope: scope).database, scope: scope,
      caller: Caller(userRecordName: "_alice"), requestID: "\(name)\(action)\(target)", baseURL: "https://host")
    let answer = try await world.records.respond(to: request, body: Array(body.utf8), in: world.store, startNext: {})
    return try #require(try JSONValue(parsing: answer.body)["records"]?.elements.first)
  }

  private func with(_ kind: StoreKind, _ body: (ObjectPlaneWorld) async throws -> Void) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      // The record client's type is declared; ModelSchemas learns nothing.
      let schema = Schema.initial.merging(
        SchemaGenerator.schema(for: ModelIndex(PhotoModel.model)), replacesConflicts: false)
      let note = Schema.RecordType(name: "CD_Note", fields: [Schema.Field(name: "to", type: .reference)], grants: [])
      world.schemas.replaceSchema(
        schema.merging(Schema(recordTypes: [note]), replacesConflicts: false), in: .development)
      try await body(world)
    }
  }

  private static let photo =
    #"{"changeType":"insert","entity":"Photo","objectID":"P","attributes":{"displayName":"x"}}"#
  private static let deletion = #"{"changeType":"delete","entity":"Photo","objectID":"P"}"#

  @Test(arguments: StoreKind.allCases) func `an object that is deleted takes along what record clients tied to it`(
    _ kind: StoreKind
  )
    async throws
  {
    try await with(kind) { world in
      try await world.setUp("A")
      try await world.save("A", Self.photo, query: ["wait": "export"])
      #expect(try await saveRecord(world, "note", "DELETE_SELF", to: "P")["serverErrorCode"] == nil)
      #expect(try await saveRecord(world, "note of note", "DELETE_SELF", to: "note")["serverErrorCode"] == nil)
      #expect(try await saveRecord(world, "free", "NONE", to: "P")["serverErrorCode"] == nil)
      try await world.save("A", Self.deletion, query: ["wait": "export"])
      #expect(try await world.liveRecords().map(\.recordName) == ["free"])
      let event = try #require(try await world.get("A/events", ["type": "export"]).json["events"]?.elements.last)
      #expect(event["counts"]?["deleted"]?.int64 == 3 && event["succeeded"]?.bool == true)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `an object that a record is validated against is not deleted, and its siblings are`(_ kind: StoreKind)
    async throws
  {
    try await with(kind) { world in
      try await world.setUp("A")
      try await world.save(
        "A", Self.photo + #",{"changeType":"insert","entity":"Tag","objectID":"T","attributes":{"name":"t"}}"#,
        query: ["wait": "export"])
      #expect(try await saveRecord(world, "note", "VALIDATE", to: "P")["serverErrorCode"] == nil)
      try await world.save(
        "A", Self.deletion + #",{"changeType":"delete","entity":"Tag","objectID":"T"}"#, query: ["wait": "export"])
      #expect(try await world.liveRecords().map(\.recordName) == ["P", "note"])
      let event = try #require(try await world.get("A/events", ["type": "export"]).json["events"]?.elements.last)
      #expect(event["succeeded"]?.bool == false && event["counts"]?["deleted"]?.int64 == 1)
      #expect(
        event.text.contains("VALIDATING_REFERENCE_ERROR")
          && event.text.contains("Record delete would violate validating reference, rejecting update"), "\(event.text)")
      #expect(try await saveRecord(world, "note", "NONE", to: "P")["serverErrorCode"] == nil)
      try await world.save("A", Self.deletion, query: ["wait": "export"])
      #expect(try await world.liveRecords().map(\.recordName) == ["note"])
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a record may be validated against an object, and not against one that is gone`(_ kind: StoreKind) async throws {
    try await with(kind) { world in
      try await world.setUp("A")
      try await world.save("A", Self.photo, query: ["wait": "export"])
      try await world.save("A", Self.deletion, query: ["wait": "export"])
      #expect(
        try await saveRecord(world, "note", "VALIDATE", to: "P")["serverErrorCode"]?.string
          == "VALIDATING_REFERENCE_ERROR")
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a deletion that is restored from the journal takes along what record clients tied to its object`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      func declare(writers: String) {
        var schema = Schema.initial.merging(
          SchemaGenerator.schema(for: ModelIndex(PhotoModel.model)), replacesConflicts: false)
        for index in schema.recordTypes.indices where schema.recordTypes[index].name == "CD_Photo" {
          schema.recordTypes[index].grants = [
            Schema.Grant(permissions: [.read], role: "_world"), Schema.Grant(permissions: [.create], role: "_icloud"),
            Schema.Grant(permissions: [.write], role: writers),
          ]
        }
        let note = Schema.RecordType(
          name: "CD_Note", fields: [Schema.Field(name: "to", type: .reference)],
          grants: [Schema.Grant(permissions: [.read, .create, .write], role: "_icloud")])
        world.schemas.replaceSchema(
          schema.merging(Schema(recordTypes: [note]), replacesConflicts: false), in: .development)
      }
      declare(writers: "_icloud")
      try await world.setUp("A", user: "_alice", scope: .public)
      try await world.setUp("B", user: "_bob", scope: .public)
      try await world.save("A", Self.photo, query: ["wait": "export"], user: "_alice", scope: .public)
      #expect(try await saveRecord(world, "note", "DELETE_SELF", to: "P", scope: .public)["serverErrorCode"] == nil)
      // Bob loses the permission between the save and its export.
      let key = try #require(
        try await world.store.read { try $0.mirrors(afterKey: 0, limit: 9).first { $0.userRecordName == "_bob" }?.key })
      world.plane.objects.exports.throttle([key: .max], on: 0)
      #expect(try await world.save("B", Self.deletion, user: "_bob", scope: .public).status == 200)
      declare(writers: "_creator")
      world.plane.objects.exports.throttle([:], on: 0)
      #expect(try await world.get("B/changes", user: "_bob", scope: .public).status == 200)
      let lost = try #require(try await world.conflicts("B", user: "_bob", scope: .public).first)
      let path = "stores/B/conflicts/\(lost["number"]?.int64 ?? 0)/restore"
      declare(writers: "_icloud")
      let restored = try await world.send(world.request("POST", path, user: "_bob", scope: .public))
      #expect(restored.status == 200, "\(restored.text)")
      let database = world.request("GET", "x", scope: .public).database
      let live = try await world.store.read { snapshot -> [String] in
        guard let row = try snapshot.database(database),
          let zone = try snapshot.zone(named: ReservedName.defaultZone, in: row.key)
        else { return [] }
        let changes = try snapshot.changes(in: zone.key, after: 0, limit: 100)
        return changes.filter { !$0.isDeleted }.map(\.record.recordName)
      }
      #expect(live == [])
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a record that the caller may not read is in no import, no list and no object`(_ kind: StoreKind) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      var schema = Schema.initial.merging(
        SchemaGenerator.schema(for: ModelIndex(PhotoModel.model)), replacesConflicts: false)
      for index in schema.recordTypes.indices where schema.recordTypes[index].name == "CD_Photo" {
        schema.recordTypes[index].grants = [
          Schema.Grant(permissions: [.write], role: "_creator"), Schema.Grant(permissions: [.create], role: "_icloud"),
        ]
      }
      world.schemas.replaceSchema(schema, in: .development)
      try await world.setUp("A", user: "_alice", scope: .public)
      try await world.setUp("B", user: "_bob", scope: .public)
      try await world.setUp("C", user: "_alice", scope: .public)
      let tag = #"{"changeType":"insert","entity":"Tag","objectID":"T","attributes":{"name":"t"}}"#
      try await world.save("A", Self.photo + "," + tag, query: ["wait": "export"], user: "_alice", scope: .public)
      func imported(_ store: String, _ user: String) async throws -> [String?] {
        try await world.get("\(store)/changes", user: user, scope: .public).json["changes"]?.elements.map {
          $0["objectID"]?.string
        } ?? []
      }
      #expect(try await imported("B", "_bob") == ["T"])
      #expect(Set(try await imported("C", "_alice")) == ["P", "T"])
      #expect(try await world.get("B/objects/P", user: "_bob", scope: .public).status == 404)
      #expect(try await world.get("C/objects/P", user: "_alice", scope: .public).status == 200)
      let records = try await world.send(
        world.request("POST", "stores/B/records", user: "_bob", scope: .public), #"{"objectIDs":["P","T"]}"#)
      #expect(records.records.map(\.code) == ["NOT_FOUND", nil])
    }
  }
}
