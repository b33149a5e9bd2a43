// Moves of objects between an owner's zones (A8, A9): no reader sees half a move or a deletion.

import History
import JSON
import Mirroring
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Testing

private let home = ReservedName.privateMirrorZone

func objectChange(
  _ kind: String, _ entity: String, _ id: String, _ relationships: String = "", _ attributes: String = ""
) -> String {
  #"""
  {"changeType":"\#(kind)","entity":"\#(entity)","objectID":"\#(id)","attributes":{\#(attributes)},\#
  "relationships":{\#(relationships)}}
  """#
}

extension ObjectPlaneWorld {
  /// Moves objects from the default zone to another, or back.
  func move(_ store: String, _ objectIDs: [String], to zone: String?, request id: String? = nil) async throws
    -> PlaneReply
  {
    var call = request("POST", "stores/\(store)/move")
    if let id {
      call = DatabaseRequest(
        call.route, query: call.query, database: call.database, scope: call.scope, caller: call.caller, requestID: id,
        baseURL: call.baseURL)
    }
    let names = objectIDs.map { #""\#($0)""# }.joined(separator: ",")
    return try await send(call, #"{"objectIDs":[\#(names)],"to":\#(zone.map { #"{"zoneName":"\#($0)"}"# } ?? "null")}"#)
  }

  func makeZone(_ name: String) async throws {
    let made = try await callRecords(
      "zones/modify", #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"\#(name)"}}}]}"#)
    #expect(made["zones"]?.elements.first?["serverErrorCode"] == nil, "\(made.text)")
  }

  /// A photo with data, a rating and a tag, and a photo that has nothing to do with them.
  func saveGraph(by store: String) async throws {
    let saved = try await save(
      store,
      [
        objectChange("insert", "Photo", "P", #""photoData":"D","tags":["T"]"#, #""displayName":"dunes""#),
        objectChange("insert", "PhotoData", "D", "", #""data":"AQID""#),
        objectChange("insert", "Rating", "R", #""photo":"P""#, #""value":3"#),
        objectChange("insert", "Tag", "T", "", #""name":"desert""#),
        objectChange("insert", "Photo", "alone"),
      ].joined(separator: ","), query: ["wait": "export"])
    #expect(saved.json["event"]?["succeeded"]?.bool == true, "\(saved.text)")
  }

  /// The shard is whole.
  func verify() async throws {
    if let store = store as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
  }
}

extension [JSONValue] {
  /// Kinds of changes with the objects they are about.
  var told: [String] { map { "\($0["changeType"]?.string ?? "") \($0["objectID"]?.string ?? "")" } }
}

let movedGraph = ["D→P", "P", "R→P", "T", "link→P:T"]

@Suite struct `Moves between zones` {
  @Test(arguments: StoreKind.allCases)
  func `T-P02 everything that is connected moves, and every store hears of a move and of no deletion`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      let (a, b) = (try await Device("A", world), try await Device("B", world))
      try await world.saveGraph(by: "A")
      try await b.pull()
      try await world.makeZone("Trips")
      _ = world.changes.take()
      let moved = try await world.move("A", ["R"], to: "Trips")
      #expect(
        moved.status == 200 && Set(moved.json["moved"]?.elements.compactMap(\.string) ?? []) == ["P", "D", "R", "T"],
        "\(moved.text)")
      #expect(moved.json["zoneID"]?["zoneName"]?.string == "Trips")
      #expect(try await world.zones() == ["Trips": movedGraph, home: ["alone"]])
      #expect(Set(world.changes.take().map(\.zoneName)) == ["Trips", home])
      // One that had everything, one that made everything and never imported, and one that is new.
      let told = try await b.pull()
      #expect(
        told.told.sorted() == [
          "link P", "move D", "move P", "move R", "move T", "save D", "save P", "save R", "save T",
        ])
      let move = try #require(told.first { $0["changeType"]?.string == "move" })
      #expect(
        move["from"]?["zoneName"]?.string == home && move["to"]?["zoneName"]?.string == "Trips"
          && move["from"]?["ownerRecordName"]?.string == "_alice")
      // The move of an object comes right before what it is.
      for (index, change) in told.enumerated() where change["changeType"]?.string == "move" {
        #expect(
          told[index + 1]["changeType"]?.string == "save"
            && told[index + 1]["objectID"]?.string == change["objectID"]?.string)
        #expect(told[index + 1]["zoneID"]?["zoneName"]?.string == "Trips")
      }
      #expect(try await a.pull().told.filter { $0.hasPrefix("move") }.count == 4)
      let new = try await Device("N", world)
      #expect(try await new.pull().told.sorted() == ["link P", "save D", "save P", "save R", "save T", "save alone"])
      #expect(new.graph.objects["P"] == b.graph.objects["P"] && new.graph.links == b.graph.links)
      for device in [a, b, new] { #expect(try await device.pull().isEmpty) }
      // An edit where it is now is no move any more.
      try await world.save(
        "A", objectChange("update", "Photo", "P", "", #""displayName":"sand""#), query: ["wait": "export"])
      #expect(try await b.pull().told == ["save P"])
      try await world.verify()
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `T-P20 objects move from share to share and home again, and no link reaches across`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      let (a, b) = (try await Device("A", world), try await Device("B", world))
      try await world.saveGraph(by: "A")
      for zone in ["Trips", "Work"] { try await world.makeZone(zone) }
      for device in [a, b] { try await device.pull() }
      #expect(try await world.move("A", ["P"], to: "Trips").status == 200)
      #expect(try await world.move("A", ["T"], to: "Work").status == 200)
      #expect(try await world.zones() == ["Trips": [], "Work": movedGraph, home: ["alone"]])
      let crossing = try await world.save("A", objectChange("update", "Tag", "T", #""photos":{"add":["alone"]}"#))
      #expect(
        crossing.json["cocoaErrorCode"]?.int64 == 134060 && crossing.reason?.contains("'Work'") == true,
        "\(crossing.text)")
      // A store that heard of neither is told of one move, from where it has the objects.
      let told = try await b.pull()
      #expect(
        told.filter { $0["changeType"]?.string == "move" }.allSatisfy {
          $0["from"]?["zoneName"]?.string == home && $0["to"]?["zoneName"]?.string == "Work"
        })
      #expect(
        told.told.filter { $0.hasPrefix("move") }.count == 4
          && !told.told.contains { $0.hasPrefix("delete") || $0.hasPrefix("unlink") })
      // An object made there moves home, too.
      try await world.save("B", objectChange("insert", "Rating", "R2", #""photo":"P""#), query: ["wait": "export"])
      let back = try await world.move("B", ["R2"], to: nil)
      #expect(
        back.json["moved"]?.elements.count == 5 && back.json["zoneID"]?["zoneName"]?.string == home, "\(back.text)")
      #expect(try await world.zones() == ["Trips": [], "Work": [], home: (movedGraph + ["R2→P", "alone"]).sorted()])
      try await b.pull()
      // Out and home again before it looked: nothing has moved for it.
      #expect(
        try await a.pull().told.sorted() == ["link P", "move R2", "save D", "save P", "save R", "save R2", "save T"])
      #expect(a.graph.objects == b.graph.objects.filter { $0.key != "alone" } && a.graph.links == b.graph.links)
      #expect(try await world.move("A", ["P"], to: nil).json["moved"]?.elements.isEmpty == true)
      try await world.verify()
    }
  }

  @Test(arguments: StoreKind.allCases) func `T-P02 a page may end anywhere: what is told of an object is one move`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      let (a, b) = (try await Device("A", world), try await Device("B", world))
      try await world.saveGraph(by: "A")
      try await b.pull()
      try await world.makeZone("Trips")
      #expect(try await world.move("A", ["P"], to: "Trips").status == 200)
      try await a.pull()
      var told: [JSONValue] = []
      repeat {
        let page = try await b.page(limit: 1)
        told += page["changes"]?.elements ?? []
        // Edits go on meanwhile: the record moves to the end of the feed.
        if told.count == 4 {
          try await world.save(
            "A", objectChange("update", "Photo", "P", "", #""displayName":"sand""#), query: ["wait": "export"])
        }
        if page["moreComing"]?.bool != true { break }
      } while true
      #expect(!told.told.contains { $0.hasPrefix("delete") || $0.hasPrefix("unlink") }, "\(told.told)")
      #expect(Set(told.told.filter { $0.hasPrefix("move") }) == ["move D", "move P", "move R", "move T"])
      #expect(
        b.graph.objects["P"]?["displayName"] == #""sand""# && b.graph.objects.count == 5 && b.graph.links.count == 1)
    }
  }

  @Test(arguments: StoreKind.allCases) func `a move that is sent again is answered and done once`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      try await world.saveGraph(by: "A")
      try await world.makeZone("Trips")
      let first = try await world.move("A", ["P"], to: "Trips", request: "one")
      #expect(try await world.move("A", ["alone"], to: "Trips").status == 200)
      let again = try await world.move("A", ["P"], to: "Trips", request: "one")
      #expect(
        again.status == 200
          && Set(again.json["moved"]?.elements.compactMap(\.string) ?? [])
            == Set(first.json["moved"]?.elements.compactMap(\.string) ?? []),
        "\(again.text)")
      #expect(try await world.move("A", ["alone"], to: nil, request: "one").status == 400)
      #expect(try await world.zones() == ["Trips": (movedGraph + ["alone"]).sorted(), home: []])
    }
  }

  @Test(arguments: StoreKind.allCases) func `an object that may not move is refused, and nothing changes`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      try await world.setUp("B", user: "_bob")
      try await world.setUp("W", scope: .public)
      try await world.saveGraph(by: "A")
      try await world.makeZone("Trips")
      let before = try await world.zones()
      for (objects, zone, status, cocoa) in [
        (["P", "nobody"], "Trips", 400, 134060), (["P"], "Nowhere", 404, nil),
        (["P"], ReservedName.defaultZone, 404, nil), ([], "Trips", 400, nil),
        (["P"], "_bad", 404, nil),
      ] as [([String], String, Int, Int64?)] {
        let refused = try await world.move("A", objects, to: zone)
        #expect(
          refused.status == status && refused.json["cocoaErrorCode"]?.int64 == cocoa,
          "\(objects) to \(zone): \(refused.text)")
      }
      #expect(
        try await world.send(
          world.request("POST", "stores/A/move"),
          #"{"objectIDs":["P"],"to":{"zoneName":"Trips","ownerRecordName":"_bob"}}"#
        ).status == 404)
      #expect(
        try await world.send(
          world.request("POST", "stores/A/move", user: "_bob", owner: "_alice"),
          #"{"objectIDs":["P"],"to":{"zoneName":"Trips"}}"#
        ).status == 404)
      let open = try await world.send(
        world.request("POST", "stores/W/move", scope: .public), #"{"objectIDs":["P"],"to":null}"#)
      #expect(open.json["cocoaErrorCode"]?.int64 == 134060, "\(open.text)")
      // Another record of the same name, which some web application made.
      try await world.saveRecord("CD_Tag", "T", #""CD_entityName":{"value":"Tag"}"#, in: "Trips")
      #expect(try await world.move("A", ["P"], to: "Trips").reason?.contains("has another record 'T'") == true)
      #expect(try await world.zones() == before.merging(["Trips": ["T"]]) { $1 })
    }
  }

  @Test(arguments: StoreKind.allCases) func `a save that is not exported goes to its objects' zone by then`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      let (a, b) = (try await Device("A", world), try await Device("B", world))
      try await world.saveGraph(by: "A")
      try await b.pull()
      try await world.makeZone("Trips")
      func pending(_ change: HistoryChange, _ id: String) async throws {
        try await world.appendWithoutExport(
          [HistoryTransaction(transactionID: id, timestamp: 0, changes: [change])], to: "B")
      }
      try await pending(
        HistoryChange(
          changeType: .update, entity: "Photo", objectID: "P",
          attributes: [NamedValue(name: "views", value: .integer(9))]), "1")
      try await pending(
        HistoryChange(
          changeType: .insert, entity: "Rating", objectID: "R2",
          relationships: [NamedValue(name: "photo", value: .toOne("P"))]), "2")
      try await pending(
        HistoryChange(
          changeType: .insert, entity: "Tag", objectID: "T2",
          relationships: [NamedValue(name: "photos", value: .toMany(["P"]))]), "3")
      try await pending(
        HistoryChange(
          changeType: .insert, entity: "Tag", objectID: "T3",
          relationships: [NamedValue(name: "photos", value: .toMany(["alone"]))]), "4")
      try await pending(HistoryChange(changeType: .delete, entity: "Rating", objectID: "R"), "5")
      #expect(try await world.move("A", ["P"], to: "Trips").status == 200)
      try await b.pull()
      #expect(
        try await world.zones() == [
          "Trips": ["D→P", "P", "R2→P", "T", "T2", "link→P:T", "link→P:T2"], home: ["T3", "alone", "link→alone:T3"],
        ])
      #expect(try await world.get("B/objects/P").json["attributes"]?["views"]?.int64 == 9)
      #expect(try await world.get("B/status").json["quarantined"]?.int64 == 0)
      try await a.pull()
      #expect(a.graph.objects["R"] == nil && a.graph.objects["R2"] != nil)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `an object that moved and then went with its zone is gone for a store that knew it before`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      let (a, b) = (try await Device("A", world), try await Device("B", world))
      try await world.saveGraph(by: "A")
      try await b.pull()
      try await world.makeZone("Trips")
      #expect(try await world.move("A", ["P"], to: "Trips").status == 200)
      try await a.pull()
      #expect(
        try await world.send(world.request("POST", "stores/A/purge"), #"{"zoneID":{"zoneName":"Trips"}}"#).status == 200
      )
      #expect(
        try await b.pull().told.sorted() == ["delete D", "delete P", "delete R", "delete T", "unlink P", "zone "])
      #expect(b.graph.objects.keys.sorted() == ["alone"] && b.graph.links.isEmpty)
      // Unexported changes end with the zone and do not move home.
      try await world.save(
        "B", objectChange("update", "Photo", "P", "", #""displayName":"late""#), query: ["wait": "export"])
      #expect(try await world.zones() == [home: ["alone"]])
    }
  }

  @Test func `record clients see the record in its new zone, and a deletion in the old one`() async throws {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      try await world.setUp("A")
      try await world.saveGraph(by: "A")
      try await world.makeZone("Trips")
      func changes(_ zone: String, _ token: String? = nil) async throws -> JSONValue {
        let after = token.map { #","syncToken":"\#($0)""# } ?? ""
        let answer = try await world.callRecords(
          "changes/zone", #"{"zones":[{"zoneID":{"zoneName":"\#(zone)"}\#(after)}]}"#)
        return try #require(answer["zones"]?.elements.first)
      }
      let token = try #require(try await changes(home)["syncToken"]?.string)
      #expect(try await world.move("A", ["P"], to: "Trips").status == 200)
      let left = try await changes(home, token)["records"]?.elements ?? []
      #expect(left.count == 5 && left.allSatisfy { $0["deleted"]?.bool == true && $0["fields"] == nil })
      let come = try await changes("Trips")["records"]?.elements ?? []
      let photo = try #require(come.first { $0["recordName"]?.string == "P" })
      #expect(
        photo["fields"]?["CD_moveReceipt"]?["type"]?.string == "BYTES" && photo["created"]?["deviceID"]?.string == "A")
      #expect(come.first { $0["recordType"]?.string == "CDMR" }?["fields"]?["CD_moveReceipt"] == nil)
    }
  }

  @Test func `a commit that fails leaves everything where it was, and a retry completes the move`() async throws {
    let failing = FailureSwitch()
    try await ObjectPlaneWorld.with(.memory, commitFailure: { _ in failing.failure }) { world in
      let (_, b) = (try await Device("A", world), try await Device("B", world))
      try await world.saveGraph(by: "A")
      try await b.pull()
      try await world.makeZone("Trips")
      let before = try await world.zones()
      for failure in [StoreError.full("disk"), .io("broken"), .fenced(shard: 0, epoch: 1)] {
        failing.set(failure)
        #expect(try await world.move("A", ["P"], to: "Trips", request: "one").status >= 500)
        failing.set(nil)
        #expect(try await world.zones() == before)
        #expect(try await b.pull().isEmpty)
      }
      #expect(try await world.move("A", ["P"], to: "Trips", request: "one").status == 200)
      #expect(try await world.zones() == ["Trips": movedGraph, home: ["alone"]])
    }
  }
}
