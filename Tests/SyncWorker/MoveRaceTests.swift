// Moves during concurrent writes, repeated requests, and graphs that are too large.

import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing
import WebServices

@testable import WorkerHost
@testable import ZoneActions
@testable import ZoneCommit

private let home = ReservedName.privateMirrorZone

extension ObjectPlaneWorld {
  /// A request of store A, with a concurrent action after one of its reads.
  fileprivate func post(_ path: String, _ body: String, id: String? = nil, in store: (any ShardStore)? = nil)
    async throws -> PlaneReply
  {
    let call = request("POST", "stores/A/\(path)")
    let named = DatabaseRequest(
      call.route, query: call.query, database: call.database, scope: call.scope, caller: call.caller,
      requestID: id ?? call.requestID, baseURL: call.baseURL)
    do {
      let answer = try await plane.respond(to: named, body: Array(body.utf8), in: store ?? self.store, startNext: {})
      return PlaneReply(status: answer.status, bytes: answer.body, json: try JSONValue(parsing: answer.body))
    } catch let error as RecordError {
      let bytes = error.mirrorDictionary(uuid: "uuid")
      return PlaneReply(status: error.status, bytes: bytes, json: try JSONValue(parsing: bytes))
    }
  }

  fileprivate func purge(_ zone: String, keepsCopy: Bool, id: String? = nil) async throws -> PlaneReply {
    try await post("purge", #"{"zoneID":{"zoneName":"\#(zone)"},"keepCopy":\#(keepsCopy)}"#, id: id)
  }

  fileprivate func shareZone(_ zone: String) async throws -> JSONValue {
    let share =
      #"{"operationType":"create","record":{"recordName":"cloudkit.zoneshare","recordType":"cloudkit.share"}}"#
    let saved = try await callRecords("records/modify", #"{"operations":[\#(share)],"zoneID":{"zoneName":"\#(zone)"}}"#)
    return try #require(saved["records"]?.elements.first)
  }
}

extension JSONValue {
  /// Copies of a purge by the objects they were made of.
  var copies: [String: String] {
    let pairs = (self["copies"]?.elements ?? []).compactMap { copy in
      copy["objectID"]?.string.flatMap { id in copy["copyID"]?.string.map { (id, $0) } }
    }
    return Dictionary(pairs, uniquingKeysWith: { first, _ in first })
  }

  var movedNames: [String] { (self["moved"]?.elements ?? []).compactMap(\.string) }
}

@Suite struct `Moves beside which others write` {
  /// Runs a request with something that is done behind its first read, its second, and so on to its last.
  private func behindEveryRead(
    _ setUp: (ObjectPlaneWorld) async throws -> Void,
    meddle: @escaping @Sendable (ObjectPlaneWorld) async throws -> Void,
    run: (ObjectPlaneWorld, MeddlingStore) async throws -> Void
  ) async throws {
    var (number, isOver) = (1, false)
    while !isOver {
      try await ObjectPlaneWorld.with(.memory) { world in
        try await setUp(world)
        let store = MeddlingStore(world.store, behindRead: number) { try await meddle(world) }
        try await run(world, store)
        isOver = store.readCount < number
      }
      number += 1
    }
    #expect(number > 3)
  }

  @Test func `R16 an object that is made meanwhile where the graph points to goes along, whenever it is made`()
    async throws
  {
    try await behindEveryRead { world in
      for store in ["A", "B"] { try await world.setUp(store) }
      // A rating of a photo that no device has yet.
      try await world.save("A", objectChange("insert", "Rating", "R", #""photo":"P""#), query: ["wait": "export"])
      try await world.makeZone("Trips")
    } meddle: { world in
      let saved = try await world.save("B", objectChange("insert", "Photo", "P"), query: ["wait": "export"])
      #expect(saved.status == 200, "\(saved.text)")
    } run: { world, store in
      let moved = try await world.post("move", #"{"objectIDs":["R"],"to":{"zoneName":"Trips"}}"#, in: store)
      #expect(moved.status == 200, "\(moved.text)")
      let zones = try await world.zones()
      #expect(zones[home] == [] && zones["Trips"]?.first { $0.hasPrefix("R") } == "R→P", "\(zones)")
    }
  }

  @Test func `a plan is given up where more was written meanwhile than its commit would read`() async throws {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      try await world.setUp("A")
      try await world.saveGraph(by: "A")
      let database = world.request("GET", "x").database
      let schema = try await world.schemas.schema(of: database.container, database.environment)
      let model = try #require(schema.mirrorModels[ObjectPlaneWorld.modelHash])
      let plan = try await world.store.read { snapshot in
        let row = try #require(try snapshot.database(database))
        let mirror = try #require(try snapshot.mirror("A", in: row.key))
        return try PlannedMove(
          of: ["P"], of: mirror, to: "Work", model, schema, in: snapshot, mayLeave: { _, _ in }, progress: { _ in })
      }
      let saved = try await world.save("A", objectChange("insert", "Tag", "other"), query: ["wait": "export"])
      #expect(saved.status == 200, "\(saved.text)")
      try await world.store.read { (snapshot) throws in
        #expect(try plan.holds(schema, in: snapshot))
        #expect(try !plan.holds(schema, in: snapshot, byteLimit: 10))
      }
    }
  }

  @Test func `T-P03 an object that becomes shared meanwhile is not taken out of its share`() async throws {
    let wasThere = Mutex(false)
    try await behindEveryRead { world in
      wasThere.withLock { $0 = false }
      try await world.setUp("A")
      try await world.makeZone("Work")
      try await world.saveGraph(by: "A")
      #expect(try await world.move("A", ["P"], to: "Work").status == 200)
    } meddle: { world in
      let isThere = try await world.zones()["Work"]?.contains("P") == true
      wasThere.withLock { $0 = isThere }
      let share = try await world.shareZone("Work")
      #expect(share["serverErrorCode"] == nil, "\(share.text)")
    } run: { world, store in
      let shared = try await world.post("shares", #"{"objectIDs":["P"],"to":null,"title":"Trip"}"#, in: store)
      if wasThere.withLock({ $0 }) {
        // Refused, or added to the share that there is by then.
        #expect(
          shared.status == 200
            ? shared.json["zoneID"]?["zoneName"]?.string == "Work" : shared.json["cocoaErrorCode"]?.int64 == 134060,
          "\(shared.text)")
        #expect(try await world.zones()["Work"]?.contains("P") == true)
      }
    }
  }
}

@Suite struct `Moves that are asked for again, and what is too much` {
  @Test(arguments: StoreKind.allCases)
  func `T-P11 a purge that is sent again tells of the copies that the first one made`(_ kind: StoreKind) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      try await world.saveGraph(by: "A")
      let zone = try #require(
        try await world.post("shares", #"{"objectIDs":["P"],"to":null}"#).json["zoneID"]?["zoneName"]?.string)
      let first = try await world.purge(zone, keepsCopy: true, id: "one")
      #expect(first.status == 200 && Set(first.json.copies.keys) == ["P", "D", "R", "T"], "\(first.text)")
      let again = try await world.purge(zone, keepsCopy: true, id: "one")
      #expect(
        again.status == 200 && again.json.copies == first.json.copies
          && again.json["purged"]?.int64 == first.json["purged"]?.int64, "\(again.text)")
      #expect(try await world.zones()[home]?.count == 6)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a purge that found no zone ends none that was made since, however late it is sent again`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      let a = try await Device("A", world)
      try await world.save("A", objectChange("insert", "Tag", "T", "", ""), query: ["wait": "export"])
      #expect(try await world.purge(home, keepsCopy: false).json["purged"]?.int64 == 1)
      #expect(try await world.purge(home, keepsCopy: false, id: "late").json["purged"]?.int64 == 0)
      try await a.pull()
      try await world.save("A", objectChange("insert", "Tag", "N", "", ""), query: ["wait": "export"])
      #expect(try await world.liveRecords().map(\.recordName) == ["N"])
      #expect(try await world.purge(home, keepsCopy: false, id: "late").json["purged"]?.int64 == 0)
      #expect(try await world.liveRecords().map(\.recordName) == ["N"])
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a move that is sent again is answered as it was, whatever has come to its zone since`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      try await world.saveGraph(by: "A")
      try await world.makeZone("Trips")
      let first = try await world.move("A", ["P"], to: "Trips", request: "one")
      for number in 0..<20 {
        try await world.saveRecord("CD_Tag", "T\(number)", #""CD_entityName":{"value":"Tag"}"#, in: "Trips")
      }
      #expect(try await world.move("A", ["T"], to: nil).status == 200)
      #expect(try await world.move("A", ["T"], to: "Trips").status == 200)
      let again = try await world.move("A", ["P"], to: "Trips", request: "one")
      #expect(
        again.status == 200 && again.json.movedNames == first.json.movedNames && first.json.movedNames.count == 4,
        "\(again.text)")
    }
  }

  @Test func `T-L01 a share makes no zone beyond the limit of a database`() async throws {
    try await ObjectPlaneWorld.with(.memory) { world in
      try await world.setUp("A")
      try await world.saveGraph(by: "A")
      let id = world.request("GET", "x").database
      try await world.store.enqueue { transaction in
        let database = try transaction.makeDatabase(id)
        // The default zone is one of them.
        for number in 1..<Limit.zonesPerDatabase { _ = try transaction.makeZone(named: "Z\(number)", in: database.key) }
      }.value
      let refused = try await world.post("shares", #"{"objectIDs":["P"],"to":null}"#)
      #expect(refused.status == 413 || refused.json["serverErrorCode"]?.string == "QUOTA_EXCEEDED", "\(refused.text)")
      #expect(try await world.zones()[home]?.contains("P") == true)
      #expect(try await world.move("A", ["P"], to: "Z7").status == 200)
      // Where there is one less there is room.
      #expect(try await world.purge("Z9", keepsCopy: false).status == 200)
      #expect(try await world.post("shares", #"{"objectIDs":["alone"],"to":null}"#).status == 200)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `T-D05 copies are unique as what is there is, and a rule that refuses duplicates refuses the purge`(
    _ kind: StoreKind
  )
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      world.schemas.declare(EnvironmentRules.Unique(entity: "Tag", attributes: ["name"], policy: .mergeLowestUUID))
      let a = try await Device("A", world)
      try await world.saveGraph(by: "A")
      let zone = try #require(
        try await world.post("shares", #"{"objectIDs":["P"],"to":null}"#).json["zoneID"]?["zoneName"]?.string)
      let low = "00000000-0000-4000-8000-000000000001"
      try await world.save("A", objectChange("insert", "Tag", low, "", #""name":"desert""#), query: ["wait": "export"])
      world.schemas.declare(EnvironmentRules.Unique(entity: "Tag", attributes: ["name"], policy: .reject))
      let refused = try await world.purge(zone, keepsCopy: true)
      #expect(refused.json["serverErrorCode"]?.string == "UNIQUE_FIELD_ERROR", "\(refused.text)")
      #expect(try await world.zones()[zone]?.contains("P") == true)
      world.schemas.declare(EnvironmentRules.Unique(entity: "Tag", attributes: ["name"], policy: .mergeLowestUUID))
      let purged = try await world.purge(zone, keepsCopy: true)
      #expect(purged.status == 200, "\(purged.text)")
      let photo = try #require(purged.json.copies["P"])
      try await a.pull()
      #expect(a.graph.links.contains("Photo.tags \(photo)→\(low)") && a.graph.links.count == 1, "\(a.graph.links)")
      try await world.verify()
    }
  }

  @Test func `T-R02 a store with more zones than its token names hears of the end of each of them`() async throws {
    try await ObjectPlaneWorld.with(.memory) { world in
      let (_, b) = (try await Device("A", world), try await Device("B", world))
      let names = (1...40).map { "Z\($0)" }
      for name in names { try await world.makeZone(name, photo: "P\(name)") }
      try await b.pull()
      #expect(b.graph.objects.count == 40)
      try await world.save("A", objectChange("insert", "Photo", "alone"), query: ["wait": "export"])
      for name in names {
        #expect(try await world.purge(name, keepsCopy: false).status == 200)
        // Once, however many pages the run has.
        for tag in ["first", "second"] {
          try await world.saveRecord(
            "CD_Tag", tag, #""CD_entityName":{"value":"Tag"},"CD_name":{"value":"\#(name)"}"#, in: home)
        }
        let told = try await b.pull(limit: 1).filter { $0["changeType"]?.string == "zone" }
        #expect(told.map { $0["zoneID"]?["zoneName"]?.string } == [name])
        #expect(try await b.pull().isEmpty)
      }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `T-P02 an object that moved between two pages to a zone that is purged before the second one is gone`(
    _ kind: StoreKind
  )
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      let (_, b) = (try await Device("A", world), try await Device("B", world))
      try await world.saveGraph(by: "A")
      try await world.makeZone("Trips")
      var copy = ZonedCopy()
      copy.apply(try await b.pull())
      #expect(copy.zones.count == 5)
      #expect(try await world.move("A", ["P"], to: "Trips").status == 200)
      let edits = [
        ("Photo", "P", #""displayName":"sand""#), ("PhotoData", "D", #""data":"AQI=""#), ("Rating", "R", #""value":1"#),
        ("Tag", "T", #""name":"sand""#),
      ]
      for (entity, name, value) in edits {
        try await world.save("A", objectChange("update", entity, name, "", value), query: ["wait": "export"])
      }
      // A page that ends behind the tombstones and before most of the rows.
      let page = try await b.page(limit: 2)
      #expect(page["moreComing"]?.bool == true)
      copy.apply(page["changes"]?.elements ?? [])
      #expect(try await world.purge("Trips", keepsCopy: false).status == 200)
      copy.apply(try await b.pull(limit: 2))
      #expect(copy.zones == ["alone": home])
      #expect(try await b.pull().isEmpty)
    }
  }

  @Test func `P4 a zone beyond those that a token names waits for its user's decision like any other`() async throws {
    try await ObjectPlaneWorld.with(.memory) { world in
      try await world.setUp("A")
      let b = try await Device("B", world)
      try await world.setUp("B", more: #","zonePolicy":{"purged":"keep-and-pause"}"#)
      let names = (1...40).map { "Z\($0)" }
      for name in names { try await world.makeZone(name, photo: "P\(name)") }
      try await b.pull()
      let ended = names.prefix(30)
      for name in ended { #expect(try await world.purge(name, keepsCopy: false).status == 200) }
      let held = try await b.pull()
      #expect(Set(held.compactMap { $0["zoneID"]?["zoneName"]?.string }) == Set(ended), "\(held.count)")
      #expect(try await b.pull().isEmpty)
      for name in ended {
        let resumed = try await world.send(
          world.request("POST", "stores/B/zones/\(name)/resume"), #"{"action":"delete"}"#)
        #expect(resumed.status == 200, "\(resumed.text)")
        #expect(try await b.pull().map { $0["zoneID"]?["zoneName"]?.string } == [name])
      }
    }
  }
}
