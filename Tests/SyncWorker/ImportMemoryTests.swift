// The server's memory of imports: a client's position, records left out, and updates for a richer model.

import FixedClocks
import History
import JSON
import Mirroring
import ObjectModel

@testable import ObjectPlane
import RecordStore
import Records
import ServiceBus
import Testing
@testable import WorkerHost
@testable import ZoneCommit

private func tag(_ id: String, _ name: String = "x") -> String {
  #"{"changeType":"insert","entity":"Tag","objectID":"\#(id)","attributes":{"name":"\#(name)"}}"#
}

private func saved(_ changes: [JSONValue]) -> [String] {
  changes.compactMap { $0["changeType"]?.string == "save" ? $0["objectID"]?.string : nil }
}

extension ObjectPlaneWorld {
  /// Another worker's plane over the same shard: it remembers nothing of this one's.
  fileprivate func anotherPlane() -> MirrorAPI { MirrorAPI(context: plane.context) }

  fileprivate func left(_ store: String) async throws -> [JSONValue] {
    try await get("\(store)/quarantine", ["direction": "import"]).json["quarantined"]?.elements ?? []
  }
}

@Suite struct `Imports remember` {
  @Test(arguments: StoreKind.allCases) func `T-V02 a client's position is known after a restart, too`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      let b = try await Device("B", world)
      try await world.setUp("A")
      let reply = try await world.save("A", tag("T"), query: ["wait": "export"])
      let target = try #require(reply.json["syncToken"]?.string)
      try await b.pull()
      try await b.pull()
      let other = world.anotherPlane()
      let answer = try await other.respond(
        to: world.request("GET", "stores/B/status", query: ["caughtUp": target]), body: [], in: world.store,
        startNext: {})
      let status = try JSONValue(parsing: answer.body)
      #expect(status["caughtUp"]?.bool == true && status["pending"]?["downloads"]?.int64 == 0)
      #expect(status["initialImport"]?["done"]?.bool == true && status["initialImport"]?["date"]?.string != nil)
    }
  }

  // MARK: Left out

  @Test(arguments: ["p:t:u", "p", ":t"])
  func `T-M21 a malformed link record is left out and shown, and the records beside it are imported`(_ names: String)
    async throws
  {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      let b = try await Device("B", world)
      try await world.setUp("A")
      try await world.save("A", (0..<3).map { tag("T\($0)") }.joined(separator: ","), query: ["wait": "export"])
      let fields = [
        ("CD_entityNames", "Photo:Tag"), ("CD_relationships", "tags:photos"), ("CD_recordNames", names),
      ].map { #""\#($0)":{"value":"\#($1)"}"# }
      let zone = ReservedName.privateMirrorZone
      try await world.saveRecord(
        ReservedName.linkRecordType, "L", fields.joined(separator: ","), in: zone)
      try await world.save("A", tag("T3"), query: ["wait": "export"])
      #expect(Set(saved(try await b.pull(limit: 64))) == ["T0", "T1", "T2", "T3"])
      #expect(b.graph.links.isEmpty)
      #expect(try await world.left("B").map { $0["objectID"]?.string } == ["L"])
    }
  }

  @Test func `a damaged record blocks no other, is shown, and is tried again with ever more patience`()
    async throws
  {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      let b = try await Device("B", world)
      try await world.setUp("A")
      try await world.save("A", (0..<200).map { tag("T\($0)") }.joined(separator: ","), query: ["wait": "export"])
      try world.damage("record SET sum = sum + 1 WHERE name = 'T100'")
      let changes = try await b.pull(limit: 64)
      #expect(Set(saved(changes)) == Set((0..<200).map { "T\($0)" }).subtracting(["T100"]))
      let row = try #require(try await world.left("B").first)
      #expect(row["objectID"]?.string == "T100" && row["attempts"]?.int64 == 1 && row["retryDate"]?.string != nil)
      #expect(row["zoneID"]?["zoneName"]?.string == ReservedName.privateMirrorZone)
      #expect(try await world.get("B/status").json["pending"]?["notImported"]?.int64 == 1)
      #expect(try await b.pull().isEmpty)
      #expect(try await world.left("B").first?["attempts"]?.int64 == 1, "it is not read at each poll")
      world.clock.advance(by: 60_001)
      #expect(try await b.pull().isEmpty)
      #expect(try await world.left("B").first?["attempts"]?.int64 == 2)
      world.clock.advance(by: 60_001)
      #expect(try await b.pull().isEmpty)
      #expect(try await world.left("B").first?["attempts"]?.int64 == 2, "twice as long")
      // A repaired record comes with the next poll that finds it due, without any change of it.
      try world.damage("record SET sum = sum - 1 WHERE name = 'T100'")
      #expect(
        try await world.send(world.request("POST", "stores/B/quarantine/retry"), "{}").json["retried"]?.int64 == 1)
      #expect(saved(try await b.pull()) == ["T100"])
      #expect(try await world.left("B").isEmpty)
      #expect(b.graph.objects.count == 200)
    }
  }

  @Test func `a record that does not fit the model is forgotten when it fits, and when it is deleted`() async throws {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      let b = try await Device("B", world)
      try await world.setUp("A")
      try await world.save("A", tag("T") + "," + tag("U"), query: ["wait": "export"])
      let database = world.request("GET", "stores/A").database
      func write(_ name: String, _ value: FieldValue?) async throws {
        try await world.store.enqueue { store in
          guard let row = try store.database(database),
            let zone = try store.zone(named: ReservedName.privateMirrorZone, in: row.key),
            let stored = try store.record(named: name, in: zone.key)
          else { throw CancellationError() }
          let writer = try world.plane.context.writer(to: zone, in: store)
          var record = stored.record
          record.fields["CD_name"] = value.map { Field($0) }
          _ =
            value == nil
            ? try writer.delete(stored, modified: stored.record.modified) : try writer.save(record, replacing: stored)
        }.value
      }
      try await write("T", .int64(5))
      try await write("U", .int64(6))
      #expect(saved(try await b.pull()).isEmpty)
      let rows = try await world.left("B")
      #expect(rows.map { $0["objectID"]?.string } == ["T", "U"] && rows.allSatisfy { $0["retryDate"]?.isNull == true })
      world.clock.advance(by: 7 * 3_600_000)
      #expect(try await b.pull().isEmpty, "time does not mend it")
      try await write("T", .string("mended"))
      try await write("U", nil)
      #expect(saved(try await b.pull()) == ["T"])
      #expect(try await world.left("B").isEmpty)
    }
  }

  // MARK: Richer models

  /// PhotoModel with one attribute and one entity more.
  private static let richer: ManagedObjectModel = {
    var model = PhotoModel.model
    for index in model.entities.indices where model.entities[index].name == "Tag" {
      model.entities[index].attributes.append(Attribute(name: "color", type: .string, defaultValue: "grey"))
    }
    model.entities.append(Entity(name: "Album", attributes: [Attribute(name: "title", type: .string)]))
    return model
  }()

  @Test(arguments: StoreKind.allCases)
  func `T-I03 T-I06 after a model upgrade what the old model could not read is sent again, own records included`(
    _ kind: StoreKind
  )
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      world.schemas.add(Self.richer, to: .development)
      let hash = ModelIndex(Self.richer).modelHash
      func setUp(_ store: String, _ hash: String) async throws {
        #expect(
          try await world.send(world.request("PUT", "stores/\(store)"), #"{"modelHash":"\#(hash)"}"#).status == 200)
      }
      let old = try await Device("old", world)
      try await setUp("new", hash)
      try await world.save("old", tag("own"), query: ["wait": "export"])
      try await world.save(
        "old", #"{"changeType":"insert","entity":"Photo","objectID":"P","attributes":{"displayName":"p"}}"#,
        query: ["wait": "export"])
      try await world.save(
        "new",
        #"""
        {"changeType":"insert","entity":"Tag","objectID":"T","attributes":{"name":"t","color":"blue"}},\#
        {"changeType":"insert","entity":"Album","objectID":"A","attributes":{"title":"a"}}
        """#,
        query: ["wait": "export"])
      #expect(saved(try await old.pull()) == ["T"], "an album is nothing to the old model, and is kept on the server")
      #expect(old.graph.objects["T"]?["color"] == nil)
      try await setUp("old", hash)
      var news: [JSONValue] = []
      var pages = 0
      while true {
        let page = try await old.page(limit: 1)
        news += page["changes"]?.elements ?? []
        pages += 1
        if page["moreComing"]?.bool != true { break }
      }
      #expect(
        Set(saved(news)) == ["own", "T", "A"] && news.allSatisfy { $0["redelivered"]?.bool == true } && pages >= 3)
      #expect(
        old.graph.objects["T"]?["color"] == "\"blue\"" && old.graph.objects["own"]?["color"] == "\"grey\""
          && old.graph.objects["A"]?["title"] == "\"a\"")
      #expect(try await old.pull().isEmpty)
      try await setUp("old", hash)
      #expect(try await old.pull().isEmpty, "the same model again is nothing new")
      // After a change to the poorer model and back, no change in between is missed.
      try await setUp("old", ObjectPlaneWorld.modelHash)
      try await world.save(
        "new", #"{"changeType":"insert","entity":"Album","objectID":"B","attributes":{"title":"b"}}"#,
        query: ["wait": "export"])
      #expect(saved(try await old.pull()).isEmpty)
      try await setUp("old", hash)
      #expect(Set(saved(try await old.pull())).isSuperset(of: ["B"]))
    }
  }

  @Test func `a model that nobody knows any more has everything sent again`() async throws {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      let a = try await Device("A", world)
      try await world.save(
        "A", tag("T") + #",{"changeType":"insert","entity":"Photo","objectID":"P"}"#, query: ["wait": "export"])
      try await a.pull()
      world.schemas.forgetModels(in: .development)
      world.schemas.add(Self.richer, to: .development)
      #expect(
        try await world.send(
          world.request("PUT", "stores/A"), #"{"modelHash":"\#(ModelIndex(Self.richer).modelHash)"}"#
        ).status == 200)
      #expect(Set(saved(try await a.pull())) == ["T", "P"])
      #expect(try await a.pull().isEmpty)
    }
  }
}
