// Cases that need much data, unlucky timing, or records of other programs.

import History
import JSON
import Mirroring

@testable import RecordPlane
import RecordStore
import Records
import ServiceBus
import Testing
import WebServices
@testable import WorkerHost
@testable import ZoneCommit

private func tag(_ objectID: String, _ name: String, _ changeType: HistoryChange.ChangeType = .insert) -> HistoryChange
{
  HistoryChange(
    changeType: changeType, entity: "Tag", objectID: objectID,
    attributes: [NamedValue(name: "name", value: .string(name))], relationships: [])
}

private func transaction(_ id: String, _ change: HistoryChange) -> HistoryTransaction {
  HistoryTransaction(
    transactionID: id, timestamp: 0, author: "app", contextName: nil, bundleID: nil, processID: nil, changes: [change])
}

@Test(arguments: StoreKind.allCases) func `an import sees its zone behind a thousand deleted ones`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    let a = try await Device("A", world)
    let b = try await Device("B", world)
    let id = world.request("GET", "stores/x").database
    try await world.store.enqueue { store in
      guard let database = try store.database(id) else { throw CancellationError() }
      for index in 0..<Limit.zonesPerDatabase {
        try store.deleteZone(try store.makeZone(named: "Old\(index)", in: database.key).key)
      }
    }.value
    try await world.save(a.store, #"{"changeType":"insert","entity":"Tag","objectID":"T"}"#, query: ["wait": "export"])
    #expect(try await world.get("B/status").json["caughtUp"]?.bool == false)
    // It may have seen them, and lost the token: their ends are told.
    #expect(try await b.pull().compactMap { $0["objectID"]?.string } == ["T"])
    #expect(try await b.pull().isEmpty)
  }
}

@Test(arguments: StoreKind.allCases) func `records of the default zone, which no store mirrors, are no news`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    let a = try await Device("A", world)
    let b = try await Device("B", world)
    try await world.save(a.store, #"{"changeType":"insert","entity":"Tag","objectID":"T"}"#, query: ["wait": "export"])
    try await b.pull()
    let id = world.request("GET", "stores/x").database
    try await world.store.enqueue { store in
      guard let database = try store.database(id) else { throw CancellationError() }
      let stamp = Stamp(timestamp: 1, userRecordName: id.owner)
      let record = Record(recordName: "N", recordType: "Note", fields: [:], created: stamp, modified: stamp)
      let zone = try store.makeZone(named: ReservedName.defaultZone, in: database.key)
      _ = try world.plane.context.writer(to: zone, in: store).save(record, replacing: nil)
    }.value
    #expect(try await world.get("B/status").json["caughtUp"]?.bool == true)
    #expect(try await b.pull().isEmpty)
  }
}

@Test(arguments: StoreKind.allCases) func `a transaction sent again before its export is exported as it was first sent`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    try await world.appendWithoutExport([transaction("TX", tag("T", "first"))], to: "A")
    let again = try await world.save(
      "A", #"{"changeType":"insert","entity":"Tag","objectID":"T","attributes":{"name":"second"}}"#, id: "TX")
    #expect(again.status == 200)
    #expect(try await world.liveRecords().map { $0.fields["CD_name"]?.value } == [.string("first")])
  }
}

@Test(arguments: StoreKind.allCases) func `T-V01 a backlog exported by an import has one event with an end`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    try await world.appendWithoutExport((0..<900).map { transaction("\($0)", tag("T\($0)", "name")) }, to: "A")
    #expect(try await world.get("A/changes").status == 200)
    let events = try await world.get("A/events", ["type": "export"]).json["events"]?.elements ?? []
    #expect(events.count == 1)
    #expect(events.allSatisfy { $0["endDate"]?.string != nil })
    #expect(events.first?["counts"]?["saved"]?.int64 == 900)
  }
}

@Test func `records that are too large for one answer are refused in their places`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    let names = (0..<6).map { "T\($0)" }
    let text = String(repeating: "x", count: 690_000)
    for name in names {
      let reply = try await world.save(
        "A", #"{"changeType":"insert","entity":"Tag","objectID":"\#(name)","attributes":{"name":"\#(text)"}}"#)
      #expect(reply.status == 200)
    }
    _ = try await world.liveRecords()
    let list = names.map { "\"\($0)\"" }.joined(separator: ",")
    let reply = try await world.send(world.request("POST", "stores/A/records"), #"{"objectIDs":[\#(list)]}"#)
    let records = reply.json["records"]?.elements ?? []
    #expect(records.map { $0["recordName"]?.string } == names)
    #expect(records.map { $0["serverErrorCode"]?.string } == [nil, nil, nil, nil, nil, "BAD_REQUEST"])
  }
}

@Test func `R10 an object whose record does not fit the model is refused naming the attribute`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    try await world.save("A", #"{"changeType":"insert","entity":"Rating","objectID":"R","attributes":{"value":5}}"#)
    _ = try await world.liveRecords()
    let body =
      #"""
      {"zoneID":{"zoneName":"com.apple.coredata.cloudkit.zone"},"operations":[{"operationType":"forceUpdate",\#
      "record":{"recordType":"CD_Rating","recordName":"R","fields":{"CD_value":{"value":100000}}}}]}
      """#
    let answer = try await world.records.respond(
      to: world.request("POST", "records/modify", on: .record), body: Array(body.utf8), in: world.store, startNext: {})
    #expect(answer.status == 200)
    let reply = try await world.get("A/objects/R")
    #expect(reply.status == 400)
    #expect(reply.reason?.contains("Rating.value") == true)
  }
}
