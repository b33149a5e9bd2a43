// Changes that were held back in a zone that ended: they share the fate of its objects.

import FixedClocks
import History
import JSON
import Mirroring
import RecordStore
import Records
import ServiceBus
import Testing

private let home = ReservedName.privateMirrorZone

extension ObjectPlaneWorld {
  fileprivate func post(_ path: String, _ body: String) async throws -> PlaneReply {
    try await send(request("POST", "stores/\(path)"), body)
  }

  fileprivate func held(_ store: String) async throws -> [String] {
    try await get("\(store)/quarantine").json["quarantined"]?.elements.map {
      "\($0["objectID"]?.string ?? "") \($0["cause"]?.string ?? "")"
    } ?? []
  }

  /// The objects of the store's unexported changes, as its journal has them.
  fileprivate func unexported(_ store: String) async throws -> [String] {
    try await conflicts(store).filter { $0["kind"]?.string == "unexported" }.compactMap { $0["objectID"]?.string }
  }

  /// Has the store hold back a new tag: the zone has a record of another type under its name.
  fileprivate func holdTag(_ name: String, of store: String, in zone: String, with relationships: String = "")
    async throws
  {
    try await saveRecord("CD_Rating", name, #""CD_entityName":{"value":"Rating"}"#, in: zone)
    let saved = try await save(
      store, objectChange("insert", "Tag", name, relationships, #""name":"held""#), query: ["wait": "export"])
    #expect(saved.status == 200, "\(saved.text)")
    #expect(try await held(store) == ["\(name) other"])
  }

  /// Tries again what is due after some minutes, without any save.
  fileprivate func retryLater(_ store: String) async throws {
    clock.advance(by: 600_000)
    // A purge exports first; this one finds no zone.
    #expect(try await post("\(store)/purge", #"{"zoneID":"nowhere"}"#).json["purged"]?.int64 == 0)
  }

  /// Ends a zone as purged, with a store that has let its objects go, and nothing else done: as if the worker had died.
  fileprivate func endZone(_ zoneName: String, letGoBy store: String) async throws {
    let (id, now) = (request("GET", "x").database, clock.now)
    try await self.store.enqueue { transaction in
      let database = try #require(try transaction.database(id))
      let zone = try #require(try transaction.zone(named: zoneName, in: database.key))
      let mirror = try #require(try transaction.mirror(store, in: database.key))
      try transaction.deleteZone(zone.key, as: .purged)
      let ended = try #require(try transaction.zone(key: zone.key))
      try transaction.put(
        StoredZoneHold(
          zoneName: zoneName, end: .purged, endSequence: ended.endSequence, heldAt: now,
          decision: ZonePolicy.delete.rawValue), of: mirror.key)
    }.value
  }
}

@Suite struct `Held-back changes of a zone that ended` {
  @Test(arguments: StoreKind.allCases) func `go with a purged zone, also one that is not the default zone`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      try await world.makeZone("Z", photo: "P")
      try await world.holdTag("X", of: "A", in: "Z", with: #""photos":["P"]"#)
      #expect(try await world.post("A/purge", #"{"zoneID":{"zoneName":"Z"}}"#).json["purged"]?.int64 == 2)
      #expect(try await world.held("A") == [])
      #expect(try await world.unexported("A") == ["X"])
      try await world.retryLater("A")
      #expect(try await world.zones()["Z"] == nil, "nothing makes the zone again")
    }
  }

  @Test(arguments: StoreKind.allCases, ["delete", "reupload"])
  func `wait for the decision about a zone that is not the default zone, and no longer`(
    _ kind: StoreKind, _ decision: String
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      try await world.makeZone("Z", photo: "P")
      let b = try await Device("B", world)
      try await world.setUp("B", more: #","zonePolicy":{"purged":"keep-and-pause"}"#)
      try await b.pull()
      #expect(try await world.post("A/purge", #"{"zoneID":{"zoneName":"Z"}}"#).json["purged"]?.int64 == 1)
      try await world.save("B", objectChange("delete", "Photo", "P"), query: ["wait": "export"])
      try await b.pull()
      #expect(try await world.held("B") == ["P zonePaused"])
      let resumed = try await world.post("B/zones/Z/resume", #"{"action":"\#(decision)"}"#)
      #expect(resumed.status == 200, "\(resumed.text)")
      try await world.retryLater("B")
      #expect(try await world.held("B") == [])
      #expect(try await world.unexported("B") == (decision == "delete" ? ["P"] : []))
      #expect(try await world.zones()["Z"] == nil)
    }
  }

  @Test(arguments: StoreKind.allCases) func `stay when another zone is purged`(_ kind: StoreKind) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      try await world.save("A", objectChange("insert", "Tag", "T"), query: ["wait": "export"])
      try await world.makeZone("Z", photo: "P")
      try await world.holdTag("X", of: "A", in: "Z", with: #""photos":["P"]"#)
      // The store will send the objects of a deleted zone again.
      _ = try await world.callRecords(
        "zones/modify", #"{"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"Z"}}}]}"#)
      #expect(try await world.zones() == [home: ["T"]])
      #expect(try await world.post("A/purge", #"{"zoneID":"\#(home)"}"#).json["purged"]?.int64 == 1)
      #expect(try await world.held("A") == ["X other"])
      #expect(try await world.unexported("A") == [])
    }
  }

  @Test(arguments: StoreKind.allCases, ["Z", home])
  func `go with the objects that their store let go, also if the worker died before it said so`(
    _ kind: StoreKind, _ zone: String
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      try await world.makeZone(zone, photo: "P")
      try await world.holdTag("X", of: "A", in: zone, with: #""photos":["P"]"#)
      world.clock.advance(by: 1000)
      try await world.endZone(zone, letGoBy: "A")
      try await world.retryLater("A")
      #expect(try await world.zones()[zone] == nil, "nothing makes the zone again")
      #expect(try await world.held("A") == [])
      #expect(try await world.unexported("A") == ["X"])
      // Later saves of the store are new.
      try await world.save("A", objectChange("insert", "Photo", "N"), query: ["wait": "export"])
      #expect(try await world.zones() == [home: ["N"]])
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `are told from those that came since their store let the objects go`(_ kind: StoreKind) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      try await world.makeZone(home, photo: "P")
      try await world.endZone(home, letGoBy: "A")
      world.clock.advance(by: 1000)
      try await world.makeZone(home, photo: "Q")
      try await world.holdTag("X", of: "A", in: home)
      try await world.retryLater("A")
      #expect(try await world.held("A") == ["X other"])
      #expect(try await world.unexported("A") == [])
    }
  }

  @Test(arguments: StoreKind.allCases, ["purge", "resume"])
  func `are told from those that came since, also when the call that let the objects go is sent again`(
    _ kind: StoreKind, _ call: String
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      let b = try await Device("B", world)
      try await world.setUp("B", more: #","zonePolicy":{"purged":"keep-and-pause"}"#)
      try await world.makeZone(home, photo: "P")
      try await b.pull()
      let calls = [
        "purge": (world.request("POST", "stores/A/purge"), #"{"zoneID":"\#(home)"}"#),
        "resume": (world.request("POST", "stores/B/zones/\(home)/resume"), #"{"action":"delete"}"#),
      ]
      let purged = try await world.send(try #require(calls["purge"]).0, try #require(calls["purge"]).1)
      #expect(purged.json["purged"]?.int64 == 1, "\(purged.text)")
      if call == "resume" { try await b.pull() }
      let (request, body) = try #require(calls[call])
      let first = try await world.send(request, body)
      #expect(first.status == 200, "\(first.text)")
      world.clock.advance(by: 1000)
      try await world.makeZone(home, photo: "Q")
      let store = call == "purge" ? "A" : "B"
      try await world.holdTag("X", of: store, in: home)
      #expect(try await world.send(request, body).text == first.text)
      #expect(try await world.held(store) == ["X other"])
      #expect(try await world.unexported(store) == [])
    }
  }
}
