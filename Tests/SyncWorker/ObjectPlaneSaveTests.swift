// Setting up stores, saving transactions, and their export.

import FixedClocks
import History
import JSON
import Mirroring
import ObjectModel

@testable import ObjectPlane
import RecordStore
import Records
import ServiceBus
import Synchronization
import Testing
@testable import SharedStores
@testable import WorkerHost
@testable import ZoneCommit

private let graph = #"""
  {"changeType":"insert","entity":"Photo","objectID":"P","attributes":{"displayName":"Dunes","views":3},\#
  "relationships":{"photoData":"D","tags":["T"]}},
  {"changeType":"insert","entity":"PhotoData","objectID":"D","attributes":{"data":"AAEC"}},
  {"changeType":"insert","entity":"Rating","objectID":"R","attributes":{"value":5},"relationships":{"photo":"P"}},
  {"changeType":"insert","entity":"Tag","objectID":"T","attributes":{"name":"desert"}}
  """#

@Test(arguments: StoreKind.allCases) func `a saved graph is in the zone as records, field by field`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    let reply = try await world.save("A", graph, id: "TX", query: ["wait": "export"])
    #expect(reply.status == 200)
    #expect(reply.json["transactions"]?.elements.map { $0["transactionNumber"]?.int64 } == [1])
    #expect(reply.json["event"]?["type"]?.string == "export")
    #expect(reply.json["event"]?["counts"]?["saved"]?.int64 == 5)
    let records = Dictionary(uniqueKeysWithValues: try await world.liveRecords().map { ($0.recordType, $0) })
    #expect(
      records["CD_Photo"]?.fields == [
        "CD_entityName": .string("Photo"), "CD_displayName": .string("Dunes"), "CD_views": .int64(3),
        "CD_photoData": .string("D"),
      ])
    #expect(
      records["CD_PhotoData"]?.fields == [
        "CD_entityName": .string("PhotoData"), "CD_data": .bytes([0, 1, 2]), "CD_photo": .string("P"),
      ])
    #expect(
      records["CD_Rating"]?.fields == [
        "CD_entityName": .string("Rating"), "CD_value": .int64(5), "CD_photo": .string("P"),
      ])
    #expect(records["CD_Tag"]?.fields == ["CD_entityName": .string("Tag"), "CD_name": .string("desert")])
    #expect(
      records["CDMR"]?.fields == [
        "CD_entityNames": .string("Photo:Tag"), "CD_relationships": .string("tags:photos"),
        "CD_recordNames": .string("P:T"),
      ])
    #expect(records["CD_Photo"]?.modified == Stamp(timestamp: world.clock.now, userRecordName: "_alice", deviceID: "A"))
  }
}

@Test(arguments: StoreKind.allCases) func `a save that is sent again has its first outcome and stores nothing`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    let first = try await world.save("A", graph, id: "TX")
    let before = try await world.liveRecords()
    let again = try await world.save("A", graph, id: "TX")
    #expect(again.bytes == first.bytes)
    let other = try await world.save("A", #"{"changeType":"delete","entity":"Rating","objectID":"R"}"#, id: "TX")
    #expect(other.bytes == first.bytes)
    #expect(try await world.liveRecords() == before)
    let next = try await world.save(
      "A", #"{"changeType":"update","entity":"Tag","objectID":"T","attributes":{"name":"sand"}}"#, id: "TX2")
    #expect(next.json["transactions"]?.elements.first?["transactionNumber"]?.int64 == 2)
    try await world.setUp("B")
    let elsewhere = try await world.save("B", "", id: "TX")
    #expect(
      elsewhere.json["transactions"]?.elements.first?["transactionNumber"]?.int64 == 1, "identifiers are a store's own")
  }
}

@Test func `a request with one bad change stores nothing of any of its transactions`() async throws {
  try await ObjectPlaneWorld.with(.memory) { world in
    try await world.setUp("A")
    let reply = try await world.send(
      world.request("POST", "stores/A/transactions"),
      #"""
      {"transactions":[{"transactionID":"1","changes":[{"changeType":"insert","entity":"Tag","objectID":"T"}]},\#
      {"transactionID":"2","changes":[{"changeType":"insert","entity":"Tag","objectID":"U",\#
      "attributes":{"colour":"red"}}]}]}
      """#
    )
    #expect(reply.status == 400)
    #expect(reply.reason == "transactions[1]: changes[0]: Tag.colour: the model has no such attribute")
    #expect(reply.json["ckErrorCode"]?.int64 == 12)
    #expect(try await world.liveRecords().isEmpty)
    #expect(try await world.get("A/history").json["transactions"]?.count == 0)
  }
}

@Test func `an export tells everybody but its own device, and asks for one ping a zone`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.withExports {
      try await world.setUp("A")
      #expect(world.changes.take().map(\.originStore) == [nil], "the zone was made")
      try await world.setUp("B")
      #expect(world.changes.take().isEmpty)
      try await world.save("A", graph, query: ["wait": "export"])
      let pings = try await world.published(1)
      #expect(pings.map(\.originStore) == ["A"])
      #expect(pings.map(\.zoneName) == [ReservedName.privateMirrorZone])
      #expect(pings.map(\.audience) == [["_alice"]])
      try await world.save("B", #"{"changeType":"delete","entity":"Photo","objectID":"P"}"#, query: ["wait": "export"])
      #expect(
        try await world.published(1).map(\.originStore) == [nil], "clearing the rating's photo was the server's doing")
    }
  }
}

@Test(arguments: StoreKind.allCases) func `E09 transactions that a predecessor left are exported when the shard opens`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    // As if the worker had died between the save's commit and its export.
    let change = HistoryChange(
      changeType: .insert, entity: "Tag", objectID: "T", attributes: [NamedValue(name: "name", value: .string("x"))])
    try await world.appendWithoutExport(
      [HistoryTransaction(transactionID: "TX", timestamp: 0, changes: [change])], to: "A")
    #expect(try await world.get("A/status").json["pendingUploads"]?.int64 == 1)
    #expect(try await world.get("A/objects/T").json["syncState"]?.string == "dirty")
    _ = world.changes.take()
    try await world.withExports {
      let pings = try await world.published(1)
      #expect(pings.map(\.originStore) == ["A"])
    }
    #expect(try await world.liveRecords().map(\.recordName) == ["T"])
    #expect(try await world.get("A/objects/T").json["syncState"]?.string == "clean")
  }
}

@Test func `T-V01 a long run has one event, visible from its first batch, and batches of whole transactions`()
  async throws
{
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    let transactions = (1...10).map { number in
      let changes = (0..<100).map { HistoryChange(changeType: .insert, entity: "Tag", objectID: "T\(number)-\($0)") }
      return HistoryTransaction(transactionID: "TX\(number)", timestamp: 0, changes: changes)
    }
    let mirrorKey = try await world.appendWithoutExport(transactions, to: "A")
    let schema = try await world.schemas.schema(of: ObjectPlaneWorld.container, .development)
    var run = ExportRun(
      mirrorKey: mirrorKey, shard: 0, database: world.request("GET", "stores/A").database,
      model: try #require(schema.mirrorModels[ObjectPlaneWorld.modelHash]),
      schema: schema, context: world.plane.context.object)
    var positions: [Int64] = []
    var identifiers: Set<String> = []
    while true {
      let batch = run
      let outcome = try await world.store.enqueue { try batch.callAsFunction($0) }.value
      positions.append(outcome.exportedNumber)
      let event = try #require(try await world.get("A/events", ["type": "export"]).json["events"]?.elements.first)
      identifiers.insert(event["identifier"]?.string ?? "")
      #expect(event["endDate"]?.isNull == outcome.moreComing)
      #expect(event["counts"]?["saved"]?.int64 == outcome.exportedNumber * 100)
      if !outcome.moreComing { break }
      run.advance(after: outcome)
    }
    #expect(positions == [4, 8, 10])
    #expect(identifiers.count == 1)
    #expect(try await world.get("A/events", ["type": "export"]).json["events"]?.count == 1)
    #expect(try await world.liveRecords().count == 1000)
  }
}

@Test(arguments: StoreKind.allCases)
func `an edit of a deleted object is listed in the event and does not hold up the others`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    try await world.setUp("B")
    try await world.save("A", graph)
    try await world.save("B", #"{"changeType":"delete","entity":"Tag","objectID":"T"}"#)
    let reply = try await world.save(
      "A",
      #"""
      {"changeType":"update","entity":"Tag","objectID":"T","attributes":{"name":"x"}},{"changeType":"update",\#
      "entity":"Photo","objectID":"P","attributes":{"views":4}}
      """#,
      query: ["wait": "export"])
    #expect(reply.status == 200)
    let event = try #require(reply.json["event"])
    #expect(event["succeeded"]?.bool == false)
    #expect(event["error"]?["ckErrorCode"]?.int64 == 2)
    #expect(
      event["error"]?["partialErrors"]?.elements.map {
        "\($0["ckErrorCode"]?.int64 ?? 0) \($0["objectID"]?.string ?? "")"
      } == ["11 T"])
    #expect(event["counts"]?["saved"]?.int64 == 1)
    #expect(try await world.get("A/status").json["quarantined"]?.int64 == 0)
    #expect(
      try await world.conflicts("A").compactMap { $0["kind"]?.string } == ["lostObject"],
      "it did not know of the deletion")
    #expect(try await world.liveRecords().first { $0.recordName == "P" }?.fields["CD_views"] == Field(.int64(4)))
  }
}

@Test
func
  `a value too large for its record becomes an asset, one that fits stays inline, and both arrive as they were sent`()
  async throws
{
  try await ObjectPlaneWorld.with(.sqlite) { world in
    let a = try await Device("A", world)
    let b = try await Device("B", world)
    for (id, byteCount) in [("small", 50_000), ("middle", 300_000), ("large", 700_001)] {
      let text = String(repeating: "ü", count: byteCount / 2) + String(repeating: "x", count: byteCount % 2)
      try await world.save(
        "A", #"{"changeType":"insert","entity":"Photo","objectID":"\#(id)","attributes":{"displayName":"\#(text)"}}"#)
      let record = try #require(try await world.liveRecords().first { $0.recordName == id })
      #expect((record.fields["CD_displayName"] != nil) == (byteCount <= 700_000))
      #expect((record.fields["CD_displayName_ckAsset"] != nil) == (byteCount > 700_000))
      let change = try #require(try await b.pull().first)
      #expect(change["attributes"]?["displayName"]?.isString(text) == true)
      let history = try await world.get("A/history", ["limit": "10"])
      #expect(
        history.json["transactions"]?.elements.last?["changes"]?.elements.first?["attributes"]?["displayName"]?
          .isString(text) == true)
    }
    #expect(try await a.pull().isEmpty)
  }
}

@Test func `a save that fails in the store is refused, and nothing of it is exported`() async throws {
  let isFull = FailureSwitch()
  try await ObjectPlaneWorld.with(.memory, commitFailure: { _ in isFull.failure }) { world in
    try await world.setUp("A")
    isFull.set(.full("no space"))
    let reply = try await world.save("A", graph, id: "TX")
    #expect(reply.status == 503 && reply.code == "TRY_AGAIN_LATER")
    isFull.set(nil)
    #expect(try await world.liveRecords().isEmpty)
    #expect(try await world.save("A", graph, id: "TX").status == 200)
    #expect(try await world.liveRecords().count == 5)
  }
}

// MARK: Setting up

@Test(arguments: StoreKind.allCases)
func `setting up answers with a history token, again and again, and keeps what the store has`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    let first = try await world.setUp("A")
    #expect(first.json["storeIdentifier"]?.string == "A")
    #expect(first.json["importToken"]?.isNull == true)
    let token = try #require(first.json["historyToken"]?.string)
    try await world.save("A", graph)
    let second = try await world.setUp("A")
    #expect(second.json["historyToken"]?.string != token)
    #expect(try await world.get("A/history", ["after": token]).json["transactions"]?.count == 1)
    #expect(try await world.get("A/events", ["type": "setup"]).json["events"]?.count == 2)
  }
}

@Test func `T-S12 a model the environment does not know is refused with what is missing, before any save`() async throws
{
  var newer = PhotoModel.model
  newer.entities[newer.entities.firstIndex { $0.name == "Tag" }!].attributes.append(
    Attribute(name: "color", type: .string))
  try await ObjectPlaneWorld.with(
    .memory, models: [.development: [PhotoModel.model, newer], .production: [PhotoModel.model]]
  ) { world in
    func setUp(_ hash: String) async throws -> PlaneReply {
      try await world.send(world.request("PUT", "stores/A", environment: .production), #"{"modelHash":"\#(hash)"}"#)
    }
    let unknown = try await setUp("nobody's")
    #expect(unknown.status == 409 && unknown.code == "CONFLICT")
    #expect(unknown.json["schemaGap"]?.count == 0)
    let gap = try await setUp(ModelIndex(newer).modelHash)
    #expect(gap.status == 409)
    #expect(
      gap.json["schemaGap"]?.elements.map { "\($0["recordType"]?.string ?? "").\($0["field"]?.string ?? "")" }.sorted()
        == ["CD_Tag.CD_color", "CD_Tag.CD_color_ckAsset"])
    #expect(try await setUp(ObjectPlaneWorld.modelHash).status == 200)
    world.schemas.replaceSchema(Schema.initial, in: .production)
    #expect(try await setUp(ObjectPlaneWorld.modelHash).status == 409, "the schema was taken away under the model")
    world.schemas.replaceSchema(Schema.initial, in: .development)
    #expect(try await world.setUp("A").status == 200)
    let extended = world.schemas.extended.withLock { $0 }
    #expect(
      extended.contains { $0.recordType == "CD_Photo" && $0.field == "CD_taken" && $0.type == .timestamp },
      "development makes it")
  }
}

@Test func `entities outside the store's configuration are refused in saves and left out of imports`() async throws {
  try await ObjectPlaneWorld.with(.memory) { world in
    try await world.setUp("A")
    try await world.setUp("C", more: #","configuration":"Cloud""#)
    try await world.save("A", graph)
    let reply = try await world.save("C", #"{"changeType":"insert","entity":"Rating","objectID":"x"}"#)
    #expect(reply.status == 400 && reply.reason?.contains("Rating") == true)
    let changes = try await world.get("C/changes").json["changes"]?.elements ?? []
    #expect(Set(changes.compactMap { $0["entity"]?.string }) == ["Photo", "Tag"])
    let bad = try await world.send(
      world.request("PUT", "stores/D"), #"{"modelHash":"\#(ObjectPlaneWorld.modelHash)","configuration":"Nope"}"#)
    #expect(bad.status == 400 && bad.reason?.contains("configuration") == true)
  }
}
