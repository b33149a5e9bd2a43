// Objects that an edit brings back (T-C06), and links to objects that stay deleted: all devices converge.

import JSON
import ObjectModel
import Records
import Testing

extension ObjectPlaneWorld {
  /// Edits of an entity win over deletions.
  fileprivate static func with(
    _ kind: StoreKind, editsWinOf entity: String, _ body: (ObjectPlaneWorld) async throws -> Void
  ) async throws {
    var model = PhotoModel.model
    for index in model.entities.indices where model.entities[index].name == entity {
      model.entities[index].userInfo[ReservedName.deletePolicyKey] = "editWins"
    }
    try await with(kind, models: [.development: [model], .production: []], keepsPastStates: true) { world in
      try await world.setUp("mac")
      try await world.saveGraph(by: "mac")
      try await body(world)
    }
  }
}

@Suite struct `Objects that an edit brings back` {
  @Test(arguments: StoreKind.allCases)
  func `T-C06 the link that an edit adds to what it brings back is told to its device, which had deleted it`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind, editsWinOf: "Photo") { world in
      try await world.edit("mac", objectChange("update", "Photo", "P", #""tags":[]"#))
      let phone = try await Device("phone", world)
      try await phone.pull()
      let known = phone.token
      try await world.edit("mac", objectChange("delete", "Photo", "P"))
      try await phone.pull()
      #expect(phone.graph.objects["P"] == nil)
      try await world.edit(
        "phone", objectChange("update", "Photo", "P", #""tags":{"add":["T"],"remove":[]}"#, #""displayName":"back""#),
        token: known)
      try await phone.pull()
      #expect(phone.graph.objects["P"]?["displayName"] == #""back""#)
      #expect(phone.graph.links == ["Photo.tags P→T"])
      #expect(try await phone.pull().isEmpty)
    }
  }

  @Test(arguments: StoreKind.allCases) func `T-C06 so is one that a later edit adds, which knew of the deletion`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind, editsWinOf: "Photo") { world in
      try await world.edit("mac", objectChange("update", "Photo", "P", #""tags":[]"#))
      let phone = try await Device("phone", world)
      try await phone.pull()
      let known = try #require(phone.token)
      try await world.edit("mac", objectChange("delete", "Photo", "P"))
      try await phone.pull()
      let later = try #require(phone.token)
      let edits = [
        (known, objectChange("update", "Photo", "P", "", #""displayName":"back""#)),
        (later, objectChange("update", "Photo", "P", #""tags":{"add":["T"],"remove":[]}"#)),
      ]
      let transactions = edits.enumerated().map {
        #"{"transactionID":"late-\#($0)","importToken":"\#($1.0)","changes":[\#($1.1)]}"#
      }
      let saved = try await world.send(
        world.request("POST", "stores/phone/transactions", query: ["wait": "export"]),
        #"{"transactions":[\#(transactions.joined(separator: ","))]}"#)
      #expect(saved.status == 200, "\(saved.text)")
      try await phone.pull()
      #expect(phone.graph.links == ["Photo.tags P→T"])
      #expect(try await phone.pull().isEmpty)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `links that a record client's deletion left are told again with the object`(_ kind: StoreKind) async throws {
    try await ObjectPlaneWorld.with(kind, editsWinOf: "Photo") { world in
      let phone = try await Device("phone", world)
      try await phone.pull()
      let (known, links) = (phone.token, phone.graph.links)
      #expect(!links.isEmpty)
      _ = try await world.callRecords(
        "records/modify",
        #"""
        {"operations":[{"operationType":"forceDelete","record":{"recordName":"P"}}],\#
        "zoneID":{"zoneName":"com.apple.coredata.cloudkit.zone"}}
        """#
      )
      try await phone.pull()
      try await world.edit("mac", objectChange("update", "Photo", "P", "", #""displayName":"back""#), token: known)
      try await phone.pull()
      #expect(phone.graph.objects["P"]?["displayName"] == #""back""#)
      #expect(phone.graph.links == links)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `T-O05 a link to what somebody deleted is told as taken away to the device that made it`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind, editsWinOf: "Photo") { world in
      try await world.edit("mac", objectChange("update", "Photo", "P", #""tags":[]"#))
      let phone = try await Device("phone", world)
      try await phone.pull()
      try await world.edit("mac", objectChange("delete", "Tag", "T"))
      try await world.edit(
        "phone", objectChange("update", "Photo", "P", #""tags":{"add":["T"],"remove":[]}"#), token: phone.token)
      #expect(try await phone.pull().told.contains { $0.hasPrefix("unlink") })
      #expect(phone.graph.links.isEmpty)
      #expect(try await phone.pull().isEmpty)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `T-O05 a pointer to what somebody deleted is told as none to the device that set it, also where there was none`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind, editsWinOf: "Tag") { world in
      func point(_ target: String) -> String {
        #"{"changeType":"update","entity":"Rating","objectID":"R","relationships":{"photo":\#(target)}}"#
      }
      try await world.edit("mac", point("null"))
      let phone = try await Device("phone", world)
      try await phone.pull()
      let known = phone.token
      try await world.edit("mac", objectChange("delete", "Photo", "P"))
      try await world.edit("phone", point(#""P""#), token: known)
      #expect(try await phone.pull().told.contains("save R"))
      #expect(phone.graph.objects["R"]?["photo"] == "null")
      let new =
        #"""
        {"changeType":"insert","entity":"Rating","objectID":"R2","attributes":{"value":1},"relationships":{"photo":"P"}}
        """#
      try await world.edit("phone", new, token: known)
      #expect(try await phone.pull().told == ["save R2"])
      #expect(phone.graph.objects["R2"]?["photo"] == "null")
      #expect(try await phone.pull().isEmpty)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `T-C06 an object that comes back lets go of the objects that its device deletes next`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind, editsWinOf: "Rating") { world in
      let phone = try await Device("phone", world)
      try await phone.pull()
      let known = phone.token
      try await world.edit("mac", objectChange("delete", "Rating", "R"))
      try await world.edit(
        "phone", objectChange("update", "Rating", "R", "", #""value":5"#) + "," + objectChange("delete", "Photo", "P"),
        token: known)
      let records = try await world.liveRecords()
      #expect(records.contains { $0.recordName == "R" && $0.fields.string("CD_photo") == nil })
      #expect(!records.contains { $0.recordName == "P" })
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `T-C06 an object that comes back points to nothing that moved to another zone meanwhile`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind, editsWinOf: "Rating") { world in
      let phone = try await Device("phone", world)
      try await phone.pull()
      let known = phone.token
      try await world.edit("mac", objectChange("delete", "Rating", "R"))
      try await world.makeZone("Work")
      #expect(try await world.move("mac", ["P"], to: "Work").status == 200)
      try await world.edit("phone", objectChange("update", "Rating", "R", "", #""value":5"#), token: known)
      try await phone.pull()
      #expect(phone.graph.objects["R"]?["value"] == "5")
      #expect(phone.graph.objects["R"]?["photo"] == "null")
      let tablet = try await Device("tablet", world)
      try await tablet.pull()
      #expect(tablet.graph.objects["R"]?["photo"] == "null")
    }
  }
}

@Suite struct `Moves of what no device can read` {
  @Test(arguments: StoreKind.allCases)
  func `a move is told to those who had the object before, and it goes with its zone`(_ kind: StoreKind) async throws {
    try await ObjectPlaneWorld.with(kind, editsWinOf: "Rating") { world in
      try await world.makeZone("Work")
      let phone = try await Device("phone", world)
      try await phone.pull()
      let spoiled =
        #"""
        {"operationType":"forceUpdate","record":{"recordName":"alone","recordType":"CD_Photo",\#
        "fields":{"CD_entityName":{"value":"Nothing"}}}}
        """#
      _ = try await world.callRecords(
        "records/modify", #"{"operations":[\#(spoiled)],"zoneID":{"zoneName":"com.apple.coredata.cloudkit.zone"}}"#)
      #expect(try await world.move("mac", ["alone"], to: "Work").status == 200)
      let told = try await phone.pull()
      #expect(told.told == ["move alone"])
      #expect(told.first?["to"]?["zoneName"]?.string == "Work")
      #expect(try await phone.pull().isEmpty)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `it is told, too, to a client that lost the token of the page with the object`(_ kind: StoreKind) async throws {
    try await ObjectPlaneWorld.with(kind, editsWinOf: "Rating") { world in
      try await world.makeZone("Work")
      let phone = try await Device("phone", world)
      try await phone.pull()
      phone.token = nil
      let spoiled =
        #"""
        {"operationType":"forceUpdate","record":{"recordName":"alone","recordType":"CD_Photo",\#
        "fields":{"CD_entityName":{"value":"Nothing"}}}}
        """#
      _ = try await world.callRecords(
        "records/modify", #"{"operations":[\#(spoiled)],"zoneID":{"zoneName":"com.apple.coredata.cloudkit.zone"}}"#)
      #expect(try await world.move("mac", ["alone"], to: "Work").status == 200)
      #expect(try await phone.pull().told.contains("move alone"))
      #expect(try await phone.pull().isEmpty)
    }
  }
}
