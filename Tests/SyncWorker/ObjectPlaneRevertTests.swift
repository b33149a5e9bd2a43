// Writes beyond a user's permissions: refused on save, and undone if the permission ended after the save (E5).

import History
import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import Synchronization
import Testing

private let photo = #"{"changeType":"insert","entity":"Photo","objectID":"P","attributes":{"displayName":"x"}}"#
private let deletion = #"{"changeType":"delete","entity":"Photo","objectID":"P"}"#

private func rename(_ name: String) -> String {
  #"{"changeType":"update","entity":"Photo","objectID":"P","attributes":{"displayName":"\#(name)"}}"#
}

private func update(_ entity: String, _ id: String, _ relationships: String) -> String {
  #"{"changeType":"update","entity":"\#(entity)","objectID":"\#(id)","relationships":{\#(relationships)}}"#
}

private func insert(_ entity: String, _ id: String, _ relationships: String = "") -> String {
  #"{"changeType":"insert","entity":"\#(entity)","objectID":"\#(id)","relationships":{\#(relationships)}}"#
}

extension ObjectPlaneWorld {
  /// The public database's live records by name.
  fileprivate func publicRecords() async throws -> [String: Record] {
    try await store.enqueue { _ in }.value
    let id = request("GET", "x", scope: .public).database
    return try await store.read { snapshot in
      guard let row = try snapshot.database(id),
        let zone = try snapshot.zone(named: ReservedName.defaultZone, in: row.key)
      else { return [:] }
      let live = try snapshot.changes(in: zone.key, after: 0, limit: 999).filter { !$0.isDeleted }
      return Dictionary(uniqueKeysWithValues: live.map { ($0.record.recordName, $0.record) })
    }
  }

  /// A schema in which moderators may do what the creators of records may, and bob is one or not.
  fileprivate func setModerator(_ isModerator: Bool, types: Set<String> = ["CD_Photo", "CD_Rating"]) {
    var schema = Schema.initial.merging(
      SchemaGenerator.schema(for: ModelIndex(PhotoModel.model)), replacesConflicts: false)
    schema.roles = ["moderators"]
    for index in schema.recordTypes.indices where types.contains(schema.recordTypes[index].name) {
      schema.recordTypes[index].grants.append(Schema.Grant(permissions: [.write], role: "moderators"))
    }
    schemas.replaceSchema(schema, in: .development)
    schemas.userRoles.withLock { $0 = isModerator ? ["_bob": ["moderators"]] : [:] }
  }

  fileprivate func saveAsBob(_ changes: String) async throws -> PlaneReply {
    try await save("B", changes, query: ["wait": "export"], user: "_bob", scope: .public)
  }

  /// Bob's store, which follows its feed from where it was.
  fileprivate func pull(_ token: inout String?, into graph: inout DeviceGraph) async throws -> [String] {
    let reply = try await get("B/changes", token.map { ["after": $0] } ?? [:], user: "_bob", scope: .public)
    try #require(reply.status == 200, "\(reply.text)")
    token = reply.json["importToken"]?.string
    let changes = reply.json["changes"]?.elements ?? []
    for change in changes { graph.apply(change) }
    return changes.map { "\($0["changeType"]?.string ?? "") \($0["objectID"]?.string ?? "")" }.sorted()
  }
}

@Suite struct `Edits that may not be made` {
  @Test(arguments: StoreKind.allCases)
  func `T-E12 a save of what the user may not write is refused with its place, and stores nothing`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A", user: "_alice", scope: .public)
      try await world.setUp("B", user: "_bob", scope: .public)
      let rating =
        #"""
        {"changeType":"insert","entity":"Rating","objectID":"R","attributes":{"value":3},"relationships":{"photo":"P"}}
        """#
      try await world.save("A", photo + "," + rating, query: ["wait": "export"], user: "_alice", scope: .public)
      let history = try await world.get("B/history", user: "_bob", scope: .public).text
      let before = try await world.publicRecords()
      let refused: [(String, String)] = [
        (
          insert("Tag", "T") + "," + rename("bob's"),
          "transactions[0]: changes[1]: Photo P: WRITE operation not permitted"
        ),
        (deletion, "transactions[0]: changes[0]: Photo P: WRITE operation not permitted"),
        // Through its parent.
        (
          insert("Photo", "Q", #""ratings":["R"]"#),
          "transactions[0]: changes[0]: Photo Q: WRITE operation not permitted"
        ),
      ]
      for (changes, reason) in refused {
        let reply = try await world.saveAsBob(changes)
        #expect(
          reply.status == 403 && reply.json["ckErrorCode"]?.int64 == 10 && reply.reason == reason, "\(reply.text)")
      }
      #expect(try await world.get("B/history", user: "_bob", scope: .public).text == history)
      #expect(try await world.publicRecords() == before)
      // Nor under the cover of what the server does on its own.
      let cover = try await world.saveAsBob(
        #"{"changeType":"update","entity":"Rating","objectID":"R","relationships":{"photo":"nobody"}}"#)
      #expect(cover.status == 403, "\(cover.text)")
      // Bob may write his own object next to others' unchanged ones; an owner may delete objects that others link to.
      #expect(
        try await world.saveAsBob(insert("Tag", "T", #""photos":["P"]"#)).json["event"]?["succeeded"]?.bool == true)
      #expect(try await world.saveAsBob(insert("Rating", "S", #""photo":"P""#)).status == 200)
      let gone = try await world.save(
        "A", #"{"changeType":"delete","entity":"Rating","objectID":"R"},"# + deletion, query: ["wait": "export"],
        user: "_alice", scope: .public)
      #expect(gone.status == 200 && gone.json["event"]?["succeeded"]?.bool == true, "\(gone.text)")
      #expect(try await world.publicRecords().keys.sorted() == ["S", "T"])
      #expect(
        try await world.publicRecords()["S"]?.fields["CD_photo"] == nil, "a cascade goes beyond what its user may write"
      )
    }
  }

  @Test(arguments: StoreKind.allCases)
  func
    `T-E12 an edit that was accepted and may not be made any more is undone by the next import, and an event says so`(
      _ kind: StoreKind
    )
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      world.setModerator(true)
      try await world.setUp("A", user: "_alice", scope: .public)
      try await world.setUp("B", user: "_bob", scope: .public)
      let ratings =
        insert("Rating", "R", #""photo":"P""#) + "," + insert("Rating", "S") + ","
        + insert("Tag", "T", #""photos":["P"]"#)
      try await world.save("A", photo + "," + ratings, query: ["wait": "export"], user: "_alice", scope: .public)
      var (token, graph): (String?, DeviceGraph) = (nil, DeviceGraph())
      _ = try await world.pull(&token, into: &graph)
      let truth = graph
      #expect(try await world.saveAsBob(rename("as a moderator")).json["event"]?["succeeded"]?.bool == true)
      #expect(try await world.publicRecords()["P"]?.fields.string("CD_displayName") == "as a moderator")
      #expect(try await world.saveAsBob(rename("x")).status == 200)
      _ = try await world.pull(&token, into: &graph)
      // Saved with the permission, and not exported before its end.
      let before = try await world.publicRecords()
      func change(
        _ type: HistoryChange.ChangeType, _ entity: String, _ id: String,
        _ relationships: [NamedValue<RelationshipValue>] = []
      ) -> HistoryChange {
        HistoryChange(changeType: type, entity: entity, objectID: id, relationships: relationships)
      }
      let edits = [
        HistoryChange(
          changeType: .update, entity: "Photo", objectID: "P",
          attributes: [NamedValue(name: "displayName", value: .string("lost"))],
          relationships: [NamedValue(name: "ratings", value: .toMany(["S"]))]), change(.delete, "Rating", "R"),
        change(.insert, "Tag", "mine", [NamedValue(name: "photos", value: .toMany(["P"]))]),
      ]
      try await world.appendWithoutExport(
        [HistoryTransaction(transactionID: "late", timestamp: 0, changes: edits)], to: "B", scope: .public)
      world.setModerator(false)
      let event = try await world.saveAsBob(insert("Tag", "next")).json["event"]
      let problems = event?["error"]?["partialErrors"]?.elements ?? []
      #expect(
        event?["succeeded"]?.bool == false && Set(problems.map { $0["objectID"]?.string }) == ["P", "R"],
        "\(event?.text ?? "")")
      #expect(
        problems.allSatisfy {
          $0["serverErrorCode"]?.string == "ACCESS_DENIED"
            && $0["reason"]?.string == "WRITE operation not permitted: the change was undone"
        })
      let after = try await world.publicRecords()
      #expect(after.filter { before[$0.key] != nil } == before && after["mine"] != nil && after["next"] != nil)
      #expect(
        try await world.get("B/quarantine", user: "_bob", scope: .public).json["quarantined"]?.count == 0,
        "nothing waits for a permission")
      // The journal keeps it until bob has the permission again.
      let journal = try await world.store.read { snapshot -> [StoredConflict] in
        guard let database = try snapshot.database(world.request("GET", "x", scope: .public).database) else {
          return []
        }
        return try snapshot.conflicts(in: database.key, afterNumber: 0, ConflictFilter(), limit: 9)
      }
      #expect(journal.map(\.recordName) == ["P", "R"], "\(journal)")
      // The state of bob's device in between.
      graph = DeviceGraph()
      _ = try await world.pull(&token, into: &graph)
      #expect(
        graph.objects.keys.sorted() == ["P", "R", "S"]
          && graph.objects.allSatisfy { truth.objects[$0.key] == $0.value }, "\(graph)")
      #expect(try await world.pull(&token, into: &graph) == [], "once")
    }
  }

  @Test(arguments: StoreKind.allCases) func `T-E12 an object that may not be made is taken away again, with its links`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("B", user: "_bob", scope: .public)
      #expect(try await world.saveAsBob(insert("Tag", "T")).status == 200)
      var (token, graph): (String?, DeviceGraph) = (nil, DeviceGraph())
      _ = try await world.pull(&token, into: &graph)
      let made = HistoryChange(
        changeType: .insert, entity: "Photo", objectID: "P",
        relationships: [NamedValue(name: "tags", value: .toMany(["T"]))])
      try await world.appendWithoutExport(
        [HistoryTransaction(transactionID: "late", timestamp: 0, changes: [made])], to: "B", scope: .public)
      var schema = Schema.initial.merging(
        SchemaGenerator.schema(for: ModelIndex(PhotoModel.model)), replacesConflicts: false)
      for index in schema.recordTypes.indices where schema.recordTypes[index].name == "CD_Photo" {
        schema.recordTypes[index].grants = [Schema.Grant(permissions: [.read], role: "_world")]
      }
      world.schemas.replaceSchema(schema, in: .development)
      let event = try await world.saveAsBob(insert("Tag", "next")).json["event"]
      #expect(
        event?["error"]?["partialErrors"]?.elements.map {
          "\($0["objectID"]?.string ?? "") \($0["reason"]?.string ?? "")"
        } == [
          "P CREATE operation not permitted: the change was undone"
        ])
      let refused = try await world.saveAsBob(insert("Photo", "Q"))
      #expect(
        refused.status == 403
          && refused.reason == "transactions[0]: changes[0]: Photo Q: CREATE operation not permitted", "\(refused.text)"
      )
      #expect(try await world.pull(&token, into: &graph) == ["delete P", "unlink P"])
      #expect(try await world.publicRecords().keys.sorted() == ["T", "next"])
      // With the permission it may be made again.
      world.schemas.replaceSchema(
        Schema.initial.merging(SchemaGenerator.schema(for: ModelIndex(PhotoModel.model)), replacesConflicts: false),
        in: .development)
      #expect(try await world.saveAsBob(insert("Photo", "P")).json["event"]?["succeeded"]?.bool == true)
    }
  }
}
