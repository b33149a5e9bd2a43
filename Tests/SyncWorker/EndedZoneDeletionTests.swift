// Deletions that a device saves before it hears of its zone's end: the zone has nothing of the objects then.

import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import Testing

private let photo = #"{"changeType":"insert","entity":"Photo","objectID":"P","attributes":{"displayName":"Dunes"}}"#
private let tag = #"{"changeType":"insert","entity":"Tag","objectID":"T","attributes":{"name":"one"}}"#
private let pairing =
  #"{"changeType":"update","entity":"Photo","objectID":"P","relationships":{"tags":{"add":["T"]}}}"#
private let deletion = #"{"changeType":"delete","entity":"Tag","objectID":"T"}"#
private let naming = #"{"changeType":"update","entity":"Tag","objectID":"T","attributes":{"name":"two"}}"#

extension ObjectPlaneWorld {
  fileprivate func put(_ store: String, _ changes: String..., author: String = "app") async throws {
    let reply = try await save(store, changes.joined(separator: ","), author: author, query: ["wait": "export"])
    try #require(reply.status == 200, "\(reply.text)")
  }

  fileprivate func sendAgain(_ store: String, _ changes: String...) async throws {
    try await put(store, changes.joined(separator: ","), author: ReservedName.reuploadAuthor)
  }

  /// Two devices with a photo and a tag whose zone has ended, which neither has heard.
  fileprivate func devicesOfEndedZone() async throws -> (a: Device, b: Device) {
    let (a, b) = (try await Device("A", self), try await Device("B", self))
    try await put("A", photo, tag)
    for device in [a, b] { try await device.pull() }
    try await endZone(.deleted)
    return (a, b)
  }

  fileprivate func liveNames() async throws -> [String] { try await liveRecords().map(\.recordName) }
}

@Test(arguments: StoreKind.allCases, [["A", "B"], ["B", "A"]])
func `T-R01 an object that was deleted before its device heard of the zone's end stays away, and so do its pairs`(
  _ kind: StoreKind, _ order: [String]
) async throws {
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    let (a, b) = try await world.devicesOfEndedZone()
    try await world.put("A", pairing, deletion)
    for device in [a, b] { try await device.pull() }
    for store in order {
      if store == "A" { try await world.sendAgain("A", photo) } else { try await world.sendAgain("B", photo, tag) }
    }
    for device in [a, b] { try await device.pull() }
    #expect(try await world.liveNames() == ["P"])
    let fresh = try await Device("C", world)
    try await fresh.pull()
    for device in [a, b, fresh] {
      #expect(device.graph.objects["T"] == nil && device.graph.links.isEmpty, "\(device.store)")
    }
    #expect(b.graph.objects["P"] == fresh.graph.objects["P"])
    #expect(try await world.get("A/quarantine").json["quarantined"]?.count == 0)
  }
}

@Test(arguments: StoreKind.allCases)
func `T-R01 the pair of a held-back edit goes with a deletion of a later save, and stays away if the object is new`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    let (a, b) = try await world.devicesOfEndedZone()
    try await world.put("A", pairing)
    try await world.put("A", deletion)
    try await world.sendAgain("B", photo, tag)
    for device in [a, b] { try await device.pull() }
    try await world.sendAgain("A", photo)
    #expect(try await world.liveNames() == ["P"])
    try await world.put("A", tag)
    for device in [a, b] { try await device.pull() }
    #expect(try await world.liveNames() == ["P", "T"])
    #expect(a.graph.links.isEmpty && b.graph.links.isEmpty)
  }
}

@Test(arguments: StoreKind.allCases)
func `T-R01 a deletion of an object that the zone lacks is told once, and an edit by others does not bring it back`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    let (a, b) = try await world.devicesOfEndedZone()
    try await world.put("A", deletion)
    try await world.put("B", naming)
    try await b.pull()
    try await world.sendAgain("B", photo, tag)
    for device in [a, b] { try await device.pull() }
    #expect(try await world.liveNames() == ["P"])
    #expect(a.graph.objects["T"] == nil && b.graph.objects["T"] == nil)
    // What is made and deleted before an export leaves nothing, and a repeated deletion nothing more.
    try await world.put(
      "A", deletion, tag.replacing("\"T\"", with: "\"V\""), deletion.replacing("\"T\"", with: "\"V\""))
    for device in [a, b] { #expect(try await device.pull().isEmpty, "\(device.store)") }
  }
}

@Test(arguments: StoreKind.allCases, [false, true])
func `a deletion of an object that nobody has leaves a tombstone only where its user may make such an object`(
  _ kind: StoreKind, _ mayCreate: Bool
) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    var schema = Schema.initial.merging(
      SchemaGenerator.schema(for: ModelIndex(PhotoModel.model)), replacesConflicts: false)
    schema.roles = ["makers"]
    for index in schema.recordTypes.indices {
      schema.recordTypes[index].grants = [
        Schema.Grant(permissions: [.read], role: "_world"),
        Schema.Grant(permissions: [.create, .write], role: mayCreate ? "_icloud" : "makers"),
      ]
    }
    world.schemas.replaceSchema(schema, in: .development)
    try await world.setUp("B", user: "_bob", scope: .public)
    let reply = try await world.save("B", deletion, query: ["wait": "export"], user: "_bob", scope: .public)
    #expect(reply.status == 200 && reply.json["event"]?["succeeded"]?.bool != false, "\(reply.text)")
    let id = world.request("GET", "x", scope: .public).database
    let tombstones = try await world.store.read { snapshot in
      let zone = try snapshot.database(id).flatMap { try snapshot.zone(named: ReservedName.defaultZone, in: $0.key) }
      return try zone.map { try snapshot.changes(in: $0.key, after: 0, limit: 99).map(\.record.recordName) } ?? []
    }
    #expect(tombstones == (mayCreate ? ["T"] : []))
  }
}
