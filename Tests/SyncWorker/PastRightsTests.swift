// Past states of records that their readers could not read then: no answer tells them.

import JSON
import Mirroring
import ObjectModel

@testable import RecordPlane
import RecordStore
import Records
import ServiceBus
import Testing
@testable import WorkerHost
@testable import ZoneCommit

extension ObjectPlaneWorld {
  /// A public database in which each record is its creator's alone.
  fileprivate static func withSecrets(
    _ kind: StoreKind, _ model: ManagedObjectModel = PhotoModel.model, _ body: (ObjectPlaneWorld) async throws -> Void
  ) async throws {
    try await with(kind, models: [.development: [model], .production: []], keepsPastStates: true) { world in
      var schema = Schema.initial.merging(SchemaGenerator.schema(for: ModelIndex(model)), replacesConflicts: false)
      for index in schema.recordTypes.indices {
        schema.recordTypes[index].grants = [
          Schema.Grant(permissions: [.read, .write], role: "_creator"),
          Schema.Grant(permissions: [.create], role: "_icloud"),
        ]
      }
      world.schemas.replaceSchema(schema, in: .development)
      try await world.setUp("A", user: "_alice", scope: .public)
      try await world.setUp("B", user: "_bob", scope: .public)
      try await body(world)
    }
  }

  /// One operation of the record plane on a record of the public database.
  fileprivate func operate(
    _ kind: String, _ entity: String, _ name: String, _ fields: String = "", tag: String? = nil, by user: String
  ) async throws -> JSONValue {
    let tag = tag.map { #","recordChangeTag":"\#($0)""# } ?? ""
    let fields = #""fields":{"CD_entityName":{"value":"\#(entity)"}\#(fields)}"#
    let record = #""recordName":"\#(name)","recordType":"CD_\#(entity)",\#(fields)\#(tag)"#
    let body =
      #"{"operations":[{"operationType":"\#(kind)","record":{\#(record)}}],"atomic":false,"conflictRecords":true}"#
    let answer = try await records.respond(
      to: request("POST", "records/modify", on: .record, user: user, scope: .public), body: Array(body.utf8),
      in: store, startNext: {})
    return try #require(try JSONValue(parsing: answer.body)["records"]?.elements.first)
  }

  /// The whole audit of an object of the public database, in pages of one state.
  fileprivate func audit(_ store: String, _ objectID: String, by user: String) async throws -> [JSONValue] {
    var (changes, last): ([JSONValue], Int64) = ([], 0)
    while true {
      let page = try await get(
        "\(store)/audit", ["objectID": objectID, "limit": "1", "after": "\(last)"], user: user, scope: .public)
      try #require(page.status == 200, "\(page.text)")
      changes += page.json["changes"]?.elements ?? []
      last = try #require(page.json["last"]?.int64)
      if page.json["moreComing"]?.bool != true { break }
    }
    let whole = try await get("\(store)/audit", ["objectID": objectID], user: user, scope: .public).json
    #expect(whole["changes"]?.elements.map(\.text) == changes.map(\.text))
    return changes
  }
}

private func tag(_ name: String) -> String { #","CD_name":{"value":"\#(name)"}"# }

@Suite struct `The past of what was another's` {
  @Test(arguments: StoreKind.allCases)
  func `an audit tells none of the states of a record that another had under the name before`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.withSecrets(kind) { world in
      _ = try await world.operate("create", "Tag", "T", tag("secret"), by: "_alice")
      _ = try await world.operate("forceDelete", "Tag", "T", by: "_alice")
      _ = try await world.operate("create", "Tag", "T", tag("Bob's"), by: "_bob")
      _ = try await world.operate("forceUpdate", "Tag", "T", tag("Bob's second"), by: "_bob")
      let told = try await world.audit("B", "T", by: "_bob")
      #expect(told.map { $0["changeType"]?.string } == ["insert", "update"], "\(told.map(\.text))")
      #expect(told.allSatisfy { !$0.text.contains("secret") && !$0.text.contains("_alice") }, "\(told.map(\.text))")
      let known = try await world.get("B/audit", ["objectID": "T"], user: "_bob", scope: .public).json["knownFrom"]
      #expect(known?.int64 == told.first?["sequence"]?.int64, "the past from before is not known")
      #expect(try await world.get("A/audit", ["objectID": "T"], scope: .public).status == 404)
      // It is hers again: she is told hers, and nothing of his.
      _ = try await world.operate("forceDelete", "Tag", "T", by: "_bob")
      _ = try await world.operate("create", "Tag", "T", tag("again"), by: "_alice")
      let hers = try await world.audit("A", "T", by: "_alice")
      #expect(hers.map { $0["changeType"]?.string } == ["insert", "delete", "insert"], "\(hers.map(\.text))")
      #expect(hers.allSatisfy { !$0.text.contains("Bob") && !$0.text.contains("_bob") }, "\(hers.map(\.text))")
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a conflict tells no ancestor that was another's record`(_ kind: StoreKind) async throws {
    try await ObjectPlaneWorld.withSecrets(kind) { world in
      let secret = try await world.operate("create", "Tag", "T", tag("secret"), by: "_alice").tag
      _ = try await world.operate("forceDelete", "Tag", "T", by: "_alice")
      let own = try await world.operate("create", "Tag", "T", tag("Bob's"), by: "_bob").tag
      _ = try await world.operate("forceUpdate", "Tag", "T", tag("Bob's second"), by: "_bob")
      let refused = try await world.operate("update", "Tag", "T", tag: secret, by: "_bob")
      #expect(refused.code == "CONFLICT" && refused["ancestorRecord"]?.isNull == true)
      #expect(!refused.text.contains("secret"), "\(refused.text)")
      let known = try await world.operate("update", "Tag", "T", tag: own, by: "_bob")
      #expect(known["ancestorRecord"]?.value("CD_name")?.string == "Bob's")
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `the journal tells no ancestor that was another's record`(_ kind: StoreKind) async throws {
    try await ObjectPlaneWorld.withSecrets(kind) { world in
      _ = try await world.operate("create", "Tag", "T", tag("secret"), by: "_alice")
      _ = try await world.operate("create", "Tag", "mine", tag("Bob's"), by: "_bob")
      let token = try await world.get("B/changes", user: "_bob", scope: .public).json["importToken"]?.string
      _ = try await world.operate("forceDelete", "Tag", "T", by: "_alice")
      for name in ["T", "mine"] {
        _ = try await world.operate("forceUpdate", "Tag", name, tag("on the web"), by: "_bob")
        try await world.edit(
          "B", #"{"changeType":"update","entity":"Tag","objectID":"\#(name)","attributes":{"name":"phone"}}"#,
          token: token, scope: .public, user: "_bob")
      }
      let told = try await world.conflicts("B", user: "_bob", scope: .public)
      #expect(told.allSatisfy { !$0.text.contains("secret") }, "\(told.map(\.text))")
      #expect(
        told.contains { $0["objectID"]?.string == "T" && $0["lost"]?["name"]?.string == "on the web" },
        "\(told.map(\.text))")
      // An ancestor of his own is told.
      #expect(told.contains { $0["ancestor"]?["name"]?.string == "Bob's" }, "\(told.map(\.text))")
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `an edit of what another deleted neither tells it nor brings it back`(_ kind: StoreKind) async throws {
    try await ObjectPlaneWorld.withSecrets(kind, PhotoModel.withPolicies) { world in
      _ = try await world.operate("create", "Photo", "P", #","CD_displayName":{"value":"secret"}"#, by: "_alice")
      _ = try await world.operate("create", "Rating", "R", #","CD_value":{"value":4711}"#, by: "_alice")
      for (entity, name) in [("Photo", "P"), ("Rating", "R")] {
        _ = try await world.operate("forceDelete", entity, name, by: "_alice")
      }
      // For a rating, edits win over deletions.
      try await world.edit(
        "B", #"{"changeType":"update","entity":"Photo","objectID":"P","attributes":{"ratio":1}}"#, scope: .public,
        user: "_bob")
      let saved = try await world.edit(
        "B", #"{"changeType":"update","entity":"Rating","objectID":"R","attributes":{"value":1}}"#, scope: .public,
        user: "_bob")
      let told = try await world.conflicts("B", user: "_bob", scope: .public)
      #expect(told.map { $0["objectID"]?.string } == ["P", "R"], "\(told.map(\.text)) \(saved.text)")
      #expect(told.allSatisfy { !$0.text.contains("secret") && !$0.text.contains("4711") }, "\(told.map(\.text))")
      let database = world.request("GET", "x", scope: .public).database
      let alive = try await world.store.read { snapshot in
        let zone = try #require(
          try snapshot.database(database).flatMap { try snapshot.zone(named: ReservedName.defaultZone, in: $0.key) })
        return try snapshot.recordCount(in: zone.key)
      }
      #expect(alive == 0)
    }
  }

  @Test func `an audit tells a participant nothing of the time that an object was in zones of its owner's alone`()
    async throws
  {
    try await SharedWorld.with(keepsPastStates: true) { world in
      func rename(_ name: String) async throws {
        try await world.ownSave(objectChange("update", "Photo", "P", "", #""displayName":"\#(name)""#))
      }
      try await world.setUpOwner()
      try await world.setUp()
      try await rename("second")
      let zone = try await world.ownShare("P").zone
      try await rename("third")
      try await world.ownMove("P", to: nil)
      try await rename("hidden")
      try await rename("back")
      try await world.ownMove("P", to: zone)
      for limit in 1...9 {
        var (told, last): ([String], Int64) = ([], 0)
        while true {
          let page = try await world.send(
            "GET", "audit", ["objectID": "P", "property": "displayName", "limit": "\(limit)", "after": "\(last)"])
          try #require(page.status == 200, "\(page.text)")
          for change in page.json["changes"]?.elements ?? [] {
            let values = ["old", "new"].map { change["properties"]?.elements.first?[$0]?["value"]?.string ?? "-" }
            told.append(([change["changeType"]?.string ?? ""] + values).joined(separator: " "))
          }
          last = try #require(page.json["last"]?.int64)
          if page.json["moreComing"]?.bool != true { break }
        }
        #expect(told == ["earliest - second", "update second third", "delete third -", "earliest - back"], "\(limit)")
      }
    }
  }
}
