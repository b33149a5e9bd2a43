// Conflicts, audits, restores and duplicates of an object follow it through moves.

import Foundation
import History
import JSON
import Mirroring
import ObjectModel
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Testing

@testable import RecordPlane
@testable import WorkerHost
@testable import ZoneCommit

private let home = ReservedName.privateMirrorZone

private func rename(_ name: String) -> String { objectChange("update", "Photo", "P", "", #""displayName":"\#(name)""#) }

extension ObjectPlaneWorld {
  fileprivate func restore(_ zone: String, to sequence: Int64) async throws -> JSONValue {
    let request = DatabaseRequest(
      plane: .object, method: "POST", path: ["zones", zone, "restore"], query: [:],
      database: request("GET", "x").database, scope: .private,
      caller: Caller(userRecordName: "_alice"), requestID: random.uuid(), baseURL: "https://host")
    let answer = try await plane.respond(
      to: request, body: Array(#"{"sequence":\#(sequence)}"#.utf8), in: store, startNext: {})
    return try JSONValue(parsing: answer.body)
  }

  fileprivate func sequence() async throws -> Int64 {
    let id = request("GET", "x").database
    return try await store.read { try $0.database(id)?.sequence ?? 0 }
  }
}

@Suite struct `The past of what was moved` {
  @Test(arguments: StoreKind.allCases)
  func `T-C02 an edit from before the move is compared with what was said since, on both sides of it`(_ kind: StoreKind)
    async throws
  {
    for moves in [false, true] {
      try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
        let (_, b) = (try await Device("A", world), try await Device("B", world))
        try await world.saveGraph(by: "A")
        try await b.pull()
        try await world.makeZone("Trips")
        let token = b.token
        try await world.edit("A", rename("by A"))
        if moves { #expect(try await world.move("A", ["P"], to: "Trips").status == 200) }
        // Two fields: A has changed one since, and no device has changed the other.
        try await world.edit(
          "B", objectChange("update", "Photo", "P", "", #""displayName":"by B","views":4"#), token: token)
        let lost = try await world.conflicts("A")
        #expect(lost.count == 1 && lost.first?["kind"]?.string == "lostValue", "\(moves): \(lost.map(\.text))")
        let restored = try await world.send(
          world.request("POST", "stores/A/conflicts/\(try #require(lost.first?["number"]?.int64))/restore"))
        #expect(restored.status == 200, "\(restored.text)")
        let photo = try await world.get("A/objects/P").json
        #expect(photo["attributes"]?["displayName"]?.string == "by A" && photo["attributes"]?["views"]?.int64 == 4)
        #expect(photo["zoneID"]?["zoneName"]?.string == (moves ? "Trips" : home))
      }
    }
  }

  @Test func `a loss from before a move is restored in the object's present zone`() async throws {
    try await ObjectPlaneWorld.with(.sqlite, keepsPastStates: true) { world in
      let (_, b) = (try await Device("A", world), try await Device("B", world))
      try await world.saveGraph(by: "A")
      try await b.pull()
      try await world.makeZone("Trips")
      try await world.edit("A", rename("by A"))
      try await world.edit("B", rename("by B"), token: b.token)
      let number = try #require(try await world.conflicts("A").first?["number"]?.int64)
      #expect(try await world.move("A", ["P"], to: "Trips").status == 200)
      #expect(try await world.send(world.request("POST", "stores/A/conflicts/\(number)/restore")).status == 200)
      #expect(try await world.get("A/objects/P").json["attributes"]?["displayName"]?.string == "by A")
      #expect(try await world.zones() == ["Trips": movedGraph, home: ["alone"]])
    }
  }

  @Test(arguments: StoreKind.allCases) func `T-X02 an audit follows an object through its moves`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
      try await world.setUp("A")
      try await world.setUp("B")
      try await world.saveGraph(by: "A")
      try await world.makeZone("Trips")
      try await world.edit("B", rename("two"))
      #expect(try await world.move("A", ["P"], to: "Trips").status == 200)
      try await world.edit("A", rename("three"))
      #expect(try await world.move("B", ["P"], to: nil).status == 200)
      try await world.edit("B", rename("four"))
      let all = try await world.get("A/audit", ["objectID": "P"]).json
      let changes = all["changes"]?.elements ?? []
      #expect(
        changes.map { $0["changeType"]?.string } == ["insert", "update", "move", "update", "move", "update"],
        "\(all.text)")
      #expect(changes.map { $0["device"]?.string } == ["A", "B", "A", "A", "B", "B"])
      #expect(
        changes[2]["from"]?.string == home && changes[2]["to"]?.string == "Trips" && changes[4]["to"]?.string == home)
      #expect(
        changes.allSatisfy { $0["properties"]?.elements.allSatisfy { $0["property"]?.string != "moveReceipt" } == true }
      )
      let names =
        try await world.get("A/audit", ["objectID": "P", "property": "displayName"]).json["changes"]?.elements ?? []
      #expect(
        names.map { $0["properties"]?.elements.first?["new"]?["value"]?.string } == ["dunes", "two", "three", "four"])
      #expect(
        names.map { $0["properties"]?.elements.first?["old"]?["value"]?.string } == [nil, "dunes", "two", "three"])
      // Page by page, also where a page ends with a move.
      for limit in 1...4 {
        var (paged, last): ([String], Int64) = ([], 0)
        while true {
          let page = try await world.get("A/audit", ["objectID": "P", "limit": "\(limit)", "after": "\(last)"]).json
          paged += page["changes"]?.elements.map(\.text) ?? []
          last = try #require(page["last"]?.int64)
          if page["moreComing"]?.bool != true { break }
        }
        #expect(paged == changes.map(\.text), "\(limit)")
      }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `T-X03 a restore to before a move gives objects their values of then, where they are, and makes no second ones`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
      let a = try await Device("A", world)
      try await world.saveGraph(by: "A")
      try await world.makeZone("Trips")
      let before = try await world.sequence()
      try await world.edit("A", rename("later"))
      #expect(try await world.move("A", ["P"], to: "Trips").status == 200)
      try await world.edit("A", rename("last") + "," + objectChange("insert", "Rating", "new", #""photo":"P""#))
      try await a.pull()
      // The zone existed before, so its earlier state is known.
      _ = try await world.restore(home, to: before)
      #expect(try await world.zones() == ["Trips": (movedGraph + ["new→P"]).sorted(), home: ["alone"]])
      _ = try await world.restore("Trips", to: before)
      #expect(try await world.zones() == ["Trips": movedGraph, home: ["alone"]])
      let told = try await a.pull()
      #expect(told.told.sorted() == ["delete new", "save P"], "\(told.told)")
      #expect(a.graph.objects["P"]?["displayName"] == #""dunes""#)
      // Deleted after the move, it is nowhere: where it was then it is brought back.
      try await world.edit("A", objectChange("delete", "Tag", "T"))
      _ = try await world.restore(home, to: before)
      #expect(try await world.zones() == ["Trips": ["D→P", "P", "R→P"], home: ["T", "alone"]])
      try await world.verify()
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `duplicates go along with what they stand for, and meet others in the new zone`(_ kind: StoreKind) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      world.schemas.declare(EnvironmentRules.Unique(entity: "Tag", attributes: ["name"], policy: .mergeLowestUUID))
      let (a, b) = (try await Device("A", world), try await Device("B", world))
      try await world.saveGraph(by: "A")
      try await world.save("B", objectChange("insert", "Tag", "U", "", #""name":"desert""#), query: ["wait": "export"])
      try await world.makeZone("Trips")
      try await world.saveRecord(
        "CD_Tag", "S", #""CD_entityName":{"value":"Tag"},"CD_name":{"value":"desert"}"#, in: "Trips")
      for device in [a, b] { try await device.pull() }
      let moved = try await world.move("A", ["P"], to: "Trips")
      #expect(moved.status == 200, "\(moved.text)")
      // T and U, which stood for one another, are there with S, which is the lowest name of the three.
      let zones = try await world.zones()
      #expect(zones["Trips"]?.contains("link→P:S") == true && zones[home] == ["alone"], "\(zones)")
      for name in ["U", "T"] {
        try await world.save(
          "B", objectChange("insert", "Photo", "with \(name)", #""tags":["\#(name)"]"#), query: ["wait": "export"])
        let trips = try await world.zones()["Trips"] ?? []
        #expect(trips.contains("link→with \(name):S"), "\(name): \(trips)")
      }
    }
  }

  @Test(arguments: ["Photo", "link"])
  func `a receipt that a participant wrote brings a restore nothing of another zone`(_ kind: String) async throws {
    try await SharedWorld.with(keepsPastStates: true) { world in
      try await world.setUpOwner()
      try await world.setUp()
      // A link's receipt is that of its first end, which did move.
      let (zone, _) = try await world.ownShare("P")
      try await world.put("X", "Photo", ["displayName": "secret"], in: home, of: "_alice")
      let store = try world.store(of: "_alice")
      let (before, incarnation) = try await store.read { snapshot in
        let database = try #require(try snapshot.database(SharedWorld.database("_alice")))
        return (database.sequence, database.incarnation)
      }
      let moves = #"[{"zoneName":"\#(home)","movedAt":1,"sequence":\#(before + 1)}]"#
      let receipt = Data(#"{"database":"\#(incarnation)","moves":\#(moves)}"#.utf8).base64EncodedString()
      let receiptField = #""CD_moveReceipt":{"value":"\#(receipt)","type":"BYTES"}"#
      let fields =
        kind == "link"
        ? [
          ReservedName.linkRecordNames: "P:T", ReservedName.linkEntityNames: "Photo:Tag",
          ReservedName.linkRelationships: "tags:photos",
        ].map { #""\#($0)":{"value":"\#($1)"}"# }.joined(separator: ",")
        : #""CD_entityName":{"value":"Photo"},"# + receiptField
      let type = kind == "link" ? ReservedName.linkRecordType : "CD_Photo"
      let saving = DatabaseRequest(
        plane: .record, method: "POST", path: ["records", "modify"], query: [:],
        database: SharedWorld.database("_alice"), scope: .shared, caller: Caller(userRecordName: "_bob"),
        requestID: world.random.uuid(), baseURL: "https://host")
      let body =
        #"""
        {"operations":[{"operationType":"create","record":{"recordType":"\#(type)","recordName":"X",\#
        "fields":{\#(fields)}}}],"zoneID":{"zoneName":"\#(zone)","ownerRecordName":"_alice"}}
        """#
      let saved = try JSONValue(
        parsing: try await RecordPlane(context: world.plane.context.records()).respond(
          to: saving, body: Array(body.utf8), in: store, startNext: {}
        ).body)
      try #require(saved["records"]?.elements.first?["serverErrorCode"] == nil, "\(saved.text)")
      let restoring = DatabaseRequest(
        plane: .object, method: "POST", path: ["zones", zone, "restore"], query: [:],
        database: SharedWorld.database("_alice"), scope: .private, caller: Caller(userRecordName: "_alice"),
        requestID: world.random.uuid(), baseURL: "https://host")
      let restored = try await world.plane.respond(
        to: restoring, body: Array(#"{"sequence":\#(before)}"#.utf8), in: store, startNext: {})
      #expect(restored.status == 200)
      #expect(try await world.records(zone, of: "_alice")["X"] == nil, "X came later")
      #expect(try await world.records(zone, of: "_alice")["P"] == "dunes")
    }
  }
}
