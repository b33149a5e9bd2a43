// Objects of several zones in one store: edits and new objects go to their zones, and nothing connects across zones.

import History
import JSON
import Mirroring
@testable import RecordPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Testing
@testable import ZoneCommit

private let home = ReservedName.privateMirrorZone

private func change(
  _ kind: String, _ entity: String, _ id: String, _ relationships: String = "", _ attributes: String = ""
) -> String {
  #"""
  {"changeType":"\#(kind)","entity":"\#(entity)","objectID":"\#(id)","attributes":{\#(attributes)},\#
  "relationships":{\#(relationships)}}
  """#
}

private func insert(_ entity: String, _ id: String, _ relationships: String = "", _ attributes: String = "") -> String {
  change("insert", entity, id, relationships, attributes)
}

@Suite struct `Stores of several zones` {
  @Test(arguments: StoreKind.allCases)
  func `T-E05 an object is edited in its zone, and new ones go to the zone of what they are connected with`(
    _ kind: StoreKind
  )
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      let (a, b) = (try await Device("A", world), try await Device("B", world))
      try await world.makeZone("Trips", photo: "P")
      try await a.pull()
      #expect(a.graph.objects["P"]?["displayName"] == #""of Trips""#)
      let edit = change("update", "Photo", "P", #""ratings":["R"],"tags":{"add":["T"]}"#, #""displayName":"mine""#)
      let saved = try await world.save(
        "A",
        [
          edit, insert("Rating", "R", "", #""value":4"#), insert("Tag", "T"), insert("Tag", "alone"),
          insert("PhotoData", "D", #""photo":"P""#),
        ].joined(separator: ","),
        query: ["wait": "export"])
      #expect(saved.json["event"]?["succeeded"]?.bool == true, "\(saved.text)")
      #expect(try await world.zones() == ["Trips": ["D→P", "P", "R→P", "T", "link→P:T"], home: ["alone"]])
      // Later objects follow, also through assigned objects; so does a second device.
      try await b.pull()
      try await world.save(
        "B",
        [insert("Photo", "Q", #""tags":["T"]"#), insert("Photo", "H", #""tags":["alone"]"#)].joined(separator: ","),
        query: ["wait": "export"])
      #expect(
        try await world.zones() == [
          "Trips": ["D→P", "P", "Q", "R→P", "T", "link→P:T", "link→Q:T"], home: ["H", "alone", "link→H:alone"],
        ])
      try await a.pull()
      try await b.pull()
      #expect(a.graph.objects["Q"] != nil && b.graph.objects["P"]?["displayName"] == #""mine""#)
      // Each zone's listeners hear of their own.
      #expect(Set(world.changes.take().map(\.zoneName)) == ["Trips", home])
      // Every call finds it there.
      let object = try await world.get("A/objects/R").json
      #expect(
        object["zoneID"]?["zoneName"]?.string == "Trips" && object["attributes"]?["value"]?.int64 == 4
          && object["syncState"]?.string == "clean")
      #expect(
        try await world.get("A/objects/T").json["relationships"]?["photos"]?.elements.compactMap(\.string) == [
          "P", "Q",
        ])
      let records =
        try await world.send(world.request("POST", "stores/A/records"), #"{"objectIDs":["R","H"]}"#).json["records"]?
        .elements ?? []
      #expect(records.map { $0["zoneID"]?["zoneName"]?.string } == ["Trips", home])
      #expect(try await world.get("A/objects/R/explain").json["zoneID"]?["zoneName"]?.string == "Trips")
      // A deletion takes what it has to from its own zone, with what the model preserves.
      try await world.save(
        "A", change("delete", "Rating", "R") + "," + change("delete", "Tag", "T"), query: ["wait": "export"])
      #expect(try await world.zones()["Trips"] == ["D→P", "P", "Q"])
      let history = try await world.get("A/history", ["changeType": "delete"]).text
      #expect(history.contains(#""value":4"#), "\(history)")
      if let store = world.store as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `T-E06 a save that would connect two zones is refused, naming both, and stores nothing`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      let a = try await Device("A", world)
      try await world.makeZone("Trips", photo: "P")
      try await world.makeZone("Work", photo: "W")
      try await a.pull()
      try await world.save(
        "A", insert("Tag", "T", #""photos":["P"]"#) + "," + insert("Photo", "H"), query: ["wait": "export"])
      let before = (try await world.zones(), try await world.get("A/history").text)
      let crossings = [
        insert("Tag", "N", #""photos":["P","W"]"#), change("update", "Tag", "T", #""photos":{"add":["W"]}"#),
        insert("Rating", "R") + "," + change("update", "Photo", "P", #""ratings":["R"]"#) + ","
          + change("update", "Photo", "H", #""ratings":["R"]"#),
        insert("Tag", "fine") + "," + change("update", "Tag", "T", #""photos":{"add":["H"]}"#),
      ]
      for crossing in crossings {
        let refused = try await world.save("A", crossing)
        #expect(refused.status == 400 && refused.json["cocoaErrorCode"]?.int64 == 134060, "\(refused.text)")
        #expect(
          refused.reason?.contains("Object graph corruption detected") == true
            && refused.reason?.contains("'Trips'") == true, "\(refused.text)")
      }
      #expect(try await world.save("A", crossings[1]).reason?.hasPrefix("transactions[0]: changes[0]: Tag T: ") == true)
      #expect(try await (world.zones(), world.get("A/history").text) == before)
      // Others are not held up, and the same objects may be related within their zones.
      let fine = try await world.save(
        "A",
        change("update", "Tag", "T", #""photos":{"remove":["P","W"]}"#) + "," + insert("Tag", "N", #""photos":["W"]"#),
        query: ["wait": "export"])
      #expect(fine.json["event"]?["succeeded"]?.bool == true, "\(fine.text)")
      #expect(try await world.zones() == ["Trips": ["P", "T"], "Work": ["N", "W", "link→W:N"], home: ["H"]])
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a save that is not exported goes with the objects that are connected with it later`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      let a = try await Device("A", world)
      try await world.makeZone("Trips", photo: "P")
      try await a.pull()
      let waiting = [
        HistoryChange(changeType: .insert, entity: "Tag", objectID: "T"),
        HistoryChange(
          changeType: .insert, entity: "Photo", objectID: "Q",
          relationships: [NamedValue(name: "tags", value: .toMany(["T"]))]),
      ]
      try await world.appendWithoutExport(
        [HistoryTransaction(transactionID: "1", timestamp: 0, changes: waiting)], to: "A")
      try await world.save("A", change("update", "Photo", "P", #""tags":{"add":["T"]}"#), query: ["wait": "export"])
      let zones = try await world.zones()
      #expect(zones == ["Trips": ["P", "Q", "T", "link→P:T", "link→Q:T"], home: []])
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `objects that came together behind a save's back are not connected across their zones`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      let a = try await Device("A", world)
      try await world.makeZone("Trips", photo: "P")
      try await a.pull()
      try await world.save("A", insert("Rating", "R"), query: ["wait": "export"])
      // The server accepted it before it knew the other zone's object.
      let crossing = HistoryChange(
        changeType: .update, entity: "Rating", objectID: "R",
        attributes: [NamedValue(name: "value", value: .integer(3))],
        relationships: [NamedValue(name: "photo", value: .toOne("P"))])
      try await world.appendWithoutExport(
        [HistoryTransaction(transactionID: "1", timestamp: 0, changes: [crossing])], to: "A")
      let event = try await world.save("A", insert("Tag", "N"), query: ["wait": "export"]).json["event"]
      #expect(
        event?["error"]?["partialErrors"]?.elements.map {
          "\($0["objectID"]?.string ?? "") \($0["cocoaErrorCode"]?.int64 ?? 0)"
        } == ["R 134060"], "\(event?.text ?? "")")
      #expect(try await world.zones() == ["Trips": ["P"], home: ["N", "R"]], "the rest of it is exported")
      #expect(try await world.get("A/quarantine").json["quarantined"]?.elements.map { $0["objectID"]?.string } == ["R"])
      #expect(try await world.get("A/objects/R").json["attributes"]?["value"]?.int64 == 3)
    }
  }

  @Test(arguments: StoreKind.allCases) func `an object's held-back changes wait for its own zone`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      let a = try await Device("A", world)
      try await world.makeZone("Trips", photo: "P")
      try await a.pull()
      let event = try await world.save(
        "A", change("update", "Photo", "P", #""ratings":["R"]"#), query: ["wait": "export"]
      ).json["event"]
      #expect(event?["error"]?["partialErrors"]?.elements.map { $0["objectID"]?.string } == ["R"])
      try await world.save("A", insert("Rating", "R"), query: ["wait": "export"])
      #expect(try await world.zones() == ["Trips": ["P", "R→P"], home: []])
      #expect(try await world.get("A/quarantine").json["quarantined"]?.count == 0)
    }
  }

  private func end(_ world: ObjectPlaneWorld, _ zone: String) async throws {
    try await world.callRecords(
      "zones/modify", #"{"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"\#(zone)"}}}]}"#)
  }

  @Test(arguments: StoreKind.allCases)
  func `a zone that is deleted takes its objects along, and what its store makes again is made there`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      let a = try await Device("A", world)
      try await world.makeZone("Trips", photo: "P")
      try await a.pull()
      try await end(world, "Trips")
      try await a.pull()
      try await a.pull()
      try await world.save("A", insert("Tag", "new"), query: ["wait": "export"])
      #expect(try await world.zones() == [home: ["new"]], "what is new goes home, and no deletion makes a zone")
      try await world.save(
        "A", insert("Photo", "P") + "," + insert("Tag", "T", #""photos":["P"]"#), query: ["wait": "export"])
      #expect(try await world.zones() == ["Trips": ["P", "T", "link→P:T"], home: ["new"]])
      if let store = world.store as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `T-R02 a save for another zone, made before its end was known, is written nowhere else`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      let a = try await Device("A", world)
      try await world.makeZone("Trips", photo: "P")
      try await a.pull()
      try await world.save("A", insert("Tag", "old", #""photos":["P"]"#), query: ["wait": "export"])
      try await world.setUp("B")
      let purged = try await world.send(world.request("POST", "stores/B/purge"), #"{"zoneID":{"zoneName":"Trips"}}"#)
      #expect(purged.status == 200 && purged.json["purged"]?.int64 == 3, "\(purged.text)")
      // A store that has not heard of it goes on, and what it saves lands in the journal, not at home.
      let saved = try await world.save(
        "A",
        change("update", "Photo", "P", "", #""displayName":"late""#) + "," + change("update", "Tag", "old") + ","
          + insert("Tag", "free"), query: ["wait": "export"])
      #expect(saved.status == 200, "\(saved.text)")
      let zones = try await world.zones()
      #expect(zones[home] == ["free"] && zones["Trips"] == nil, "\(zones)")
      // Nor does a rescan bring it back.
      _ = try await world.send(world.request("POST", "stores/A/reset"), #"{"rescan":true}"#)
      #expect(try await world.zones()[home] == ["free"])
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `an object that is deleted in one zone and made again in another is made there`(_ kind: StoreKind) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      let a = try await Device("A", world)
      try await world.makeZone("Trips", photo: "P")
      try await world.makeZone("Work", photo: "W")
      try await a.pull()
      try await world.save(
        "A",
        insert("Tag", "T", #""photos":["P"]"#) + "," + insert("Tag", "U", #""photos":["P"]"#) + ","
          + insert("Photo", "H"), query: ["wait": "export"])
      try await world.save(
        "A", change("delete", "Tag", "T") + "," + change("delete", "Tag", "U"), query: ["wait": "export"])
      try await world.save(
        "A", insert("Tag", "T", #""photos":["H"]"#) + "," + insert("Tag", "U", #""photos":["W"]"#),
        query: ["wait": "export"])
      #expect(
        try await world.zones() == ["Trips": ["P"], "Work": ["U", "W", "link→W:U"], home: ["H", "T", "link→H:T"]])
      #expect(try await world.get("A/quarantine").json["quarantined"]?.count == 0)
      // An object that ended before its export binds no other.
      let brief = [
        HistoryChange(
          changeType: .insert, entity: "Tag", objectID: "brief",
          relationships: [NamedValue(name: "photos", value: .toMany(["P"]))]),
        HistoryChange(changeType: .delete, entity: "Tag", objectID: "brief"),
      ]
      try await world.appendWithoutExport(
        [HistoryTransaction(transactionID: "1", timestamp: 0, changes: brief)], to: "A")
      try await world.save("A", change("update", "Photo", "P"), query: ["wait": "export"])
      #expect(
        try await world.save("A", insert("Tag", "brief", #""photos":["H"]"#), query: ["wait": "export"]).json["event"]?[
          "succeeded"]?.bool == true)
      #expect(try await world.zones()[home]?.contains("link→H:brief") == true)
    }
  }

  @Test(arguments: StoreKind.allCases) func `nobody's name that an object at home points to is at home`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      let a = try await Device("A", world)
      try await world.makeZone("Trips", photo: "P")
      try await a.pull()
      try await world.save("A", insert("Photo", "H", #""tags":["X"]"#), query: ["wait": "export"])
      let refused = try await world.save("A", insert("Tag", "X", #""photos":["P"]"#))
      #expect(refused.status == 400 && refused.json["cocoaErrorCode"]?.int64 == 134060, "\(refused.text)")
      try await world.save("A", insert("Tag", "X"), query: ["wait": "export"])
      #expect(try await world.zones() == ["Trips": ["P"], home: ["H", "X", "link→H:X"]])
      for name in ["X", "P"] { #expect(try await world.get("A/audit", ["objectID": name]).status == 200) }
    }
  }

  @Test(arguments: StoreKind.allCases) func `a relationship across zones in a long backlog is left out of the export`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      let a = try await Device("A", world)
      try await world.makeZone("Trips", photo: "P")
      try await a.pull()
      let others = (0..<150).map { index in
        HistoryTransaction(
          transactionID: "t\(index)", timestamp: 0,
          changes: [HistoryChange(changeType: .insert, entity: "PhotoData", objectID: "D\(index)")])
      }
      let last = HistoryTransaction(
        transactionID: "last", timestamp: 0,
        changes: [
          HistoryChange(changeType: .insert, entity: "Tag", objectID: "T"),
          HistoryChange(
            changeType: .insert, entity: "Photo", objectID: "Q",
            relationships: [NamedValue(name: "tags", value: .toMany(["T"]))]),
        ])
      try await world.appendWithoutExport(others + [last], to: "A")
      try await world.save("A", change("update", "Photo", "P", #""tags":{"add":["T"]}"#), query: ["wait": "export"])
      let zones = try await world.zones()
      #expect(zones["Trips"]?.contains("link→P:T") != (zones[home]?.contains("link→Q:T") ?? false), "\(zones)")
      #expect(try await world.get("A/quarantine").json["quarantined"]?.count == 1)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a name that record clients use in two zones means the default one's object`(_ kind: StoreKind) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      try await world.makeZone("Trips", photo: "P")
      try await world.saveRecord("CD_Photo", "P", #""CD_entityName":{"value":"Photo"}"#, in: home)
      try await world.save(
        "A", change("update", "Photo", "P", #""ratings":["R"]"#) + "," + insert("Rating", "R"),
        query: ["wait": "export"])
      #expect(try await world.zones() == ["Trips": ["P"], home: ["P", "R→P"]])
    }
  }

  @Test(arguments: StoreKind.allCases) func `a large transaction of two zones is exported in slices to both`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      let a = try await Device("A", world)
      try await world.makeZone("Trips", photo: "P")
      try await a.pull()
      let changes = (0..<900).map {
        $0 % 2 == 0 ? insert("Rating", "R\($0)", #""photo":"P""#) : insert("Tag", "T\($0)")
      }
      let saved = try await world.save("A", changes.joined(separator: ","), query: ["wait": "export"])
      // The call's own run, behind the batch that was queued with the save: 400 objects, then 100 with 300 pointers of
      // earlier ones, then 150 pointers.
      #expect(saved.json["event"]?["counts"]?["saved"]?.int64 == 950, "\(saved.json["event"]?.text ?? saved.text)")
      let zones = try await world.zones()
      #expect(zones["Trips"]?.count == 451 && zones[home]?.count == 450 && zones["Trips"]?.contains("R898→P") == true)
      // A store that lost its position resends nothing that any zone has.
      #expect(try await world.send(world.request("POST", "stores/A/reset"), #"{"rescan":true}"#).status == 200)
      #expect(try await world.zones() == zones)
    }
  }
}
