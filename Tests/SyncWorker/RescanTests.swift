// A zone that lost a store's exports: the store's history fills it again and overwrites nothing (T-H09).

import History
import JSON

@testable import ObjectPlane
import RecordStore
import Records
import ServiceBus
import Testing
@testable import WorkerHost

private func insertTag(_ id: String, _ name: String) -> String {
  #"{"changeType":"insert","entity":"Tag","objectID":"\#(id)","attributes":{"name":"\#(name)"}}"#
}

@Test(arguments: StoreKind.allCases)
func `T-H09 after a lost position a scan of history exports only what has no record`(_ kind: StoreKind) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    try await world.setUp("B")
    for change in [
      insertTag("T1", "old") + "," + insertTag("T2", "two"),
      #"""
      {"changeType":"insert","entity":"Photo","objectID":"P","attributes":{"displayName":"Dunes"},\#
      "relationships":{"tags":["T1","T2"]}}
      """#,
      insertTag("gone", "x"), #"{"changeType":"delete","entity":"Tag","objectID":"gone"}"#,
      #"{"changeType":"update","entity":"Tag","objectID":"T2","attributes":{"name":"second"}}"#,
    ] {
      try await world.save("A", change, query: ["wait": "export"])
    }
    // The exports skip the transactions in which a client notes an import.
    try await world.save(
      "A", insertTag("imported", "x"), author: "NSCloudKitMirroringDelegate.import", query: ["wait": "export"])
    // The zone is lost and made again, by a device that has only one of the tags.
    try await world.store.enqueue { transaction in
      let database = try #require(try transaction.database(world.request("GET", "x").database))
      try transaction.deleteZone(
        try #require(try transaction.zone(named: ReservedName.privateMirrorZone, in: database.key)).key)
    }.value
    try await world.save("B", insertTag("T1", "of B"), query: ["wait": "export"])
    try await world.save("B", insertTag("T3", "dead"), query: ["wait": "export"])
    #expect(try await world.liveRecords().map(\.recordName) == ["T1", "T3"])

    let reply = try await world.send(
      world.request("POST", "stores/A/reset"), #"{"reason":"ZoneDeleted","rescan":true}"#)
    #expect(reply.status == 200 && reply.json["importToken"]?.isNull == true)
    let records = try await world.liveRecords()
    #expect(
      records.filter { $0.recordType != ReservedName.linkRecordType }.map(\.recordName) == ["P", "T1", "T2", "T3"])
    let tags = Dictionary(uniqueKeysWithValues: records.map { ($0.recordName, $0.fields.string("CD_name")) })
    #expect(tags["T1"] == "of B" && tags["T2"] == "second", "what has a record is left alone")
    #expect(records.count { $0.recordType == ReservedName.linkRecordType } == 2, "its links come with an object")
    let device = try await Device("C", world)
    try await device.pull()
    #expect(device.graph.objects.count == 4 && device.graph.links.count == 2)
  }
}

@Test func `T-H09 a scan of a long history goes batch by batch, and said again finds nothing to do`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    for start in stride(from: 0, to: 1000, by: 250) {
      try await world.save(
        "A", (start..<start + 250).map { insertTag("T\($0)", "n") }.joined(separator: ","), query: ["wait": "export"])
    }
    try await world.store.enqueue { transaction in
      let database = try #require(try transaction.database(world.request("GET", "x").database))
      try transaction.deleteZone(
        try #require(try transaction.zone(named: ReservedName.privateMirrorZone, in: database.key)).key)
    }.value
    #expect(try await world.liveRecords().isEmpty)
    let call = StoreCall(
      request: world.request("POST", "stores/A/reset"), body: [], storeIdentifier: "A", user: "_alice",
      store: world.store, plane: world.plane.objects)
    try await call.rescanHistory()
    #expect(try await world.liveRecords().count == 1000)
    let events = try await world.get("A/events", ["type": "export"]).json["events"]?.elements ?? []
    #expect(
      events.suffix(3).map { $0["counts"]?["saved"]?.int64 } == [400, 400, 200]
        && events.allSatisfy { $0["endDate"]?.string != nil })
    try await call.rescanHistory()
    #expect(try await world.get("A/events", ["type": "export"]).json["events"]?.count == events.count)
    #expect(try await world.send(world.request("POST", "stores/A/reset"), #"{"rescan":"yes"}"#).status == 400)
  }
}
