// Sharing of graphs through a store: zone, share and records are one commit, and a refusal changes nothing.

import JSON
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Testing

private let home = ReservedName.privateMirrorZone

extension ObjectPlaneWorld {
  fileprivate func share(
    _ store: String, _ objectIDs: [String], to zone: String? = nil, more: String = "", request id: String? = nil
  ) async throws -> PlaneReply {
    var call = request("POST", "stores/\(store)/shares")
    if let id {
      call = DatabaseRequest(
        call.route, query: call.query, database: call.database, scope: call.scope, caller: call.caller, requestID: id,
        baseURL: call.baseURL)
    }
    let names = objectIDs.map { #""\#($0)""# }.joined(separator: ",")
    return try await send(
      call, #"{"objectIDs":[\#(names)],"to":\#(zone.map { #"{"zoneName":"\#($0)"}"# } ?? "null")\#(more)}"#)
  }
}

@Suite struct `Shares of graphs` {
  @Test(arguments: StoreKind.allCases)
  func `T-P01 a graph is shared in a zone of its own, under the same names, with a share that has its title`(
    _ kind: StoreKind
  )
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      let (_, b) = (try await Device("A", world), try await Device("B", world))
      try await world.saveGraph(by: "A")
      try await b.pull()
      let shared = try await world.share(
        "A", ["R"],
        more: #","title":"Trip","participants":[{"userIdentity":{"userRecordName":"_bob"},"permission":"READ_WRITE"}]"#,
        request: "one")
      #expect(shared.status == 200, "\(shared.text)")
      let zone = try #require(shared.json["zoneID"]?["zoneName"]?.string)
      #expect(
        zone.hasPrefix(ReservedName.shareZonePrefix)
          && Set(shared.json["moved"]?.elements.compactMap(\.string) ?? []) == ["P", "D", "R", "T"])
      let share = try #require(shared.json["share"])
      #expect(
        share["recordName"]?.string == ReservedName.zoneShareRecordName
          && share["fields"]?["cloudkit.title"]?["value"]?.string == "Trip")
      #expect(
        share["participants"]?.elements.map { $0["acceptanceStatus"]?.string } == ["ACCEPTED", "INVITED"]
          && share["shortGUID"]?.string != nil, "\(shared.text)")
      #expect(
        try await world.zones() == [zone: (movedGraph + [ReservedName.zoneShareRecordName]).sorted(), home: ["alone"]])
      // Other devices hear of moves, and that there is a share.
      let told = try await b.pull()
      #expect(told.filter { $0["changeType"]?.string == "share" }.map { $0["zoneID"]?["zoneName"]?.string } == [zone])
      #expect(
        told.told.filter { $0.hasPrefix("move") }.count == 4
          && !told.told.contains { $0.hasPrefix("delete") || $0.hasPrefix("unlink") })
      // Sent again it is the same share.
      let again = try await world.share(
        "A", ["R"],
        more: #","title":"Trip","participants":[{"userIdentity":{"userRecordName":"_bob"},"permission":"READ_WRITE"}]"#,
        request: "one")
      #expect(
        again.json["zoneID"]?["zoneName"]?.string == zone
          && again.json["share"]?["recordChangeTag"]?.string == share["recordChangeTag"]?.string, "\(again.text)")
      #expect(again.json["moved"]?.elements.count == 4)
      let listed = try await world.get("A/shares").json["shares"]?.elements ?? []
      #expect(listed.count == 1 && listed.first?["shortGUID"]?.string == share["shortGUID"]?.string)
      #expect(try await world.get("A/shares", ["objectID": "T"]).json["shares"]?.elements.count == 1)
      #expect(try await world.get("A/shares", ["objectID": "alone"]).json["shares"]?.elements.isEmpty == true)
      #expect(try await world.get("A/shares", ["objectID": "nobody"]).status == 404)
      try await world.verify()
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `T-P01 objects are added to a share, and what they are connected with is shared with it`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      let a = try await Device("A", world)
      try await world.saveGraph(by: "A")
      let zone = try #require(
        try await world.share("A", ["P"], more: #","title":"Trip""#).json["zoneID"]?["zoneName"]?.string)
      let added = try await world.share("A", ["alone"], to: zone)
      #expect(added.status == 200 && added.json["moved"]?.elements.compactMap(\.string) == ["alone"], "\(added.text)")
      #expect(added.json["share"]?["fields"]?["cloudkit.title"]?["value"]?.string == "Trip")
      try await a.pull()
      // A new object goes to the share of what it is connected with; naming what is shared names its share.
      try await world.save("A", objectChange("insert", "Rating", "R2", #""photo":"P""#), query: ["wait": "export"])
      let same = try await world.share("A", ["P"], more: #","title":"Journey""#)
      #expect(
        same.json["zoneID"]?["zoneName"]?.string == zone && same.json["moved"]?.elements.isEmpty == true
          && same.json["share"]?["fields"]?["cloudkit.title"]?["value"]?.string == "Journey", "\(same.text)")
      #expect(
        try await world.zones() == [
          zone: (movedGraph + ["R2→P", "alone", ReservedName.zoneShareRecordName]).sorted(), home: [],
        ])
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `T-P03 an object that is shared already, or not the store's, is refused and nothing changes`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      try await world.setUp("W", scope: .public)
      try await world.saveGraph(by: "A")
      try await world.save("A", objectChange("insert", "Tag", "other"), query: ["wait": "export"])
      let first = try #require(try await world.share("A", ["P"]).json["zoneID"]?["zoneName"]?.string)
      let second = try #require(try await world.share("A", ["alone"]).json["zoneID"]?["zoneName"]?.string)
      let before = try await world.zones()
      let taken = try await world.share("A", ["P"], to: second)
      #expect(
        taken.json["cocoaErrorCode"]?.int64 == 134060
          && taken.reason?.contains("is already assigned to the zone '\(first)' and cannot be moved") == true,
        "\(taken.text)"
      )
      for (objects, zone, status) in [
        (["P", "alone"], nil, 400), (["other", "nobody"], nil, 400), (["other"], home, 400),
        (["other"], "Nowhere", 404), ([], nil, 400),
      ]
        as [([String], String?, Int)]
      {
        let refused = try await world.share("A", objects, to: zone)
        #expect(refused.status == status, "\(objects): \(refused.text)")
      }
      let open = try await world.send(
        world.request("POST", "stores/W/shares", scope: .public), #"{"objectIDs":["other"]}"#)
      #expect(open.json["cocoaErrorCode"]?.int64 == 134060, "\(open.text)")
      #expect(try await world.share("A", ["other"], more: #","publicPermission":"EVERYTHING""#).status == 400)
      #expect(try await world.zones() == before)
    }
  }

  @Test func `a share that fails to commit has not begun, and a retry completes it`() async throws {
    let failing = FailureSwitch()
    try await ObjectPlaneWorld.with(.memory, commitFailure: { _ in failing.failure }) { world in
      try await world.setUp("A")
      try await world.saveGraph(by: "A")
      let before = try await world.zones()
      for failure in [StoreError.full("disk"), .io("broken")] {
        failing.set(failure)
        #expect(try await world.share("A", ["P"], request: "one").status >= 500)
        failing.set(nil)
        #expect(try await world.zones() == before)
        #expect(try await world.get("A/shares").json["shares"]?.elements.isEmpty == true)
      }
      #expect(try await world.share("A", ["P"], request: "one").json["moved"]?.elements.count == 4)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `T-P11 a purge takes a shared zone away, and leaves the copy that was asked for`(_ kind: StoreKind) async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      let (a, b) = (try await Device("A", world), try await Device("B", world))
      try await world.saveGraph(by: "A")
      let zone = try #require(try await world.share("A", ["P"]).json["zoneID"]?["zoneName"]?.string)
      for device in [a, b] { try await device.pull() }
      let purged = try await world.send(
        world.request("POST", "stores/A/purge"), #"{"zoneID":{"zoneName":"\#(zone)"},"keepCopy":true}"#)
      let copies = Dictionary(
        uniqueKeysWithValues: (purged.json["copies"]?.elements ?? []).compactMap { copy in
          copy["objectID"]?.string.flatMap { id in copy["copyID"]?.string.map { (id, $0) } }
        })
      #expect(
        purged.status == 200 && Set(copies.keys) == ["P", "D", "R", "T"]
          && Set(copies.values).isDisjoint(with: copies.keys), "\(purged.text)")
      try await b.pull()
      let (photo, data, rating, tag) = (
        try #require(copies["P"]), try #require(copies["D"]), try #require(copies["R"]), try #require(copies["T"])
      )
      #expect(
        b.graph.objects[photo]?["displayName"] == #""dunes""# && b.graph.objects[rating]?["photo"] == "\"\(photo)\"")
      #expect(
        b.graph.objects[photo]?["photoData"] == "\"\(data)\"" && b.graph.links.contains("Photo.tags \(photo)→\(tag)"))
      let zones = try await world.zones()
      #expect(zones.keys.sorted() == [home] && zones[home]?.count == 6, "\(zones)")
      let refused = try await world.send(
        world.request("POST", "stores/A/purge"), #"{"zoneID":{"zoneName":"\#(home)"},"keepCopy":true}"#)
      #expect(refused.status == 400)
      #expect(try await world.get("A/shares").json["shares"]?.elements.isEmpty == true)
      try await world.verify()
    }
  }
}
