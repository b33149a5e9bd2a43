// Moves in the view of participants of both zones, or of only one; and how participants come to zones and lose them.

import FixedClocks
import History
import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Sharing
import Synchronization
import Testing
import WebServices

@testable import WorkerHost
@testable import ZoneCommit

private let home = ReservedName.privateMirrorZone

private let graph = ["P", "R", "T"]

@Suite struct `Moves as participants see them` {
  @Test func `an object that moved on through a zone that a participant joined later is gone for them`() async throws {
    try await SharedWorld.with { world in
      let (first, second) = try await world.setUpTwoZones(["first"])
      var phone = Phone(world)
      try await phone.pull()
      #expect(phone.graph.objects["P"] != nil)
      try await world.ownMove("P", to: second)
      try await world.ownMove("P", to: nil)
      try await world.share(second, of: "_alice", .readWrite)
      let told = try await phone.pull()
      #expect(told.told.contains("delete P"), "of \(first)")
      #expect(phone.graph.objects.keys.sorted() == ["other"])
      #expect(try await phone.pull().isEmpty)
    }
  }

  private func rename(_ photo: String, _ name: String) -> String {
    objectChange("update", "Photo", photo, "", #""displayName":"\#(name)""#)
  }

  @Test(arguments: [nil, 1, 2])
  func `T-P02 a participant who sees both zones hears of a move, whatever page it comes with`(limit: Int?) async throws
  {
    try await SharedWorld.with { world in
      let (first, second) = try await world.setUpTwoZones(["first", "second"])
      var phone = Phone(world)
      try await phone.pull()
      #expect(Set(phone.graph.objects.keys) == Set(graph + ["other"]))
      try await world.ownMove("P", to: second)
      let told = try await phone.pull(limit: limit)
      #expect(!told.told.contains { $0.hasPrefix("delete") || $0.hasPrefix("unlink") }, "\(told.told)")
      let moves = told.filter { $0["changeType"]?.string == "move" }
      #expect(Set(moves.compactMap { $0["objectID"]?.string }) == Set(graph))
      #expect(
        moves.allSatisfy {
          $0["from"]?["zoneName"]?.string == first && $0["to"]?["zoneName"]?.string == second
            && $0["to"]?["ownerRecordName"]?.string == "_alice"
        })
      #expect(phone.graph.objects["P"]?["displayName"] == #""dunes""# && phone.graph.links == ["Photo.tags P→T"])
      #expect(try await phone.pull().isEmpty)
      #expect(try await world.save(rename("P", "mine")).status == 200)
      #expect(try await world.records(second, of: "_alice")["P"] == "mine")
    }
  }

  @Test func `T-P02 a participant of only the old zone hears of deletions, one of only the new zone of objects`()
    async throws
  {
    for seen in ["first", "second"] {
      try await SharedWorld.with { world in
        let (_, second) = try await world.setUpTwoZones([seen])
        var phone = Phone(world)
        try await phone.pull()
        #expect(Set(phone.graph.objects.keys) == Set(seen == "first" ? graph : ["other"]))
        try await world.ownMove("P", to: second)
        let told = try await phone.pull().told.sorted()
        #expect(
          told
            == (seen == "first"
              ? ["delete P", "delete R", "delete T", "unlink P"] : ["link P", "save P", "save R", "save T"]),
          "\(seen)")
        #expect(phone.graph.links.count == (seen == "first" ? 0 : 1))
        // And back.
        try await world.ownMove("P", to: nil)
        let back = try await phone.pull()
        #expect(Set(phone.graph.objects.keys) == Set(seen == "first" ? [] : ["other"]), "\(back.told)")
        #expect(try await phone.pull().isEmpty)
      }
    }
  }

  @Test(arguments: [nil, 1]) func `T-P02 a move among the pages that follow an invitation is a move`(limit: Int?)
    async throws
  {
    try await SharedWorld.with { world in
      let (_, second) = try await world.setUpTwoZones(["first", "second"])
      var phone = Phone(world)
      try await phone.pull()
      try await world.ownMove("P", to: second)
      try await world.ownShare("alone")
      let told = try await phone.pull(limit: limit)
      #expect(Set(told.told.filter { $0.hasPrefix("move") }) == Set(graph.map { "move \($0)" }), "\(told.told)")
      #expect(Set(phone.graph.objects.keys) == Set(graph + ["other", "alone"]))
    }
  }

  @Test func `T-P02 an object that moved between two pages to a zone that is lost before the second one is gone`()
    async throws
  {
    for isOwners in [false, true] {
      try await SharedWorld.with { world in
        let (_, second) = try await world.setUpTwoZones(["first", "second"])
        var (phone, copy) = (Phone(world), ZonedCopy())
        copy.apply(try await phone.pull())
        try await world.ownMove("P", to: second)
        for name in ["P", "R", "T"] {
          let entity = ["P": "Photo", "R": "Rating", "T": "Tag"][name] ?? ""
          let value = ["P": #""displayName":"sand""#, "R": #""value":1"#, "T": #""name":"sand""#][name] ?? ""
          try await world.ownSave(objectChange("update", entity, name, "", value))
        }
        // A page that ends behind the tombstones and before the rows.
        let page = try await world.send("GET", "changes", ["after": phone.token ?? "", "limit": "1"]).json
        #expect(page["moreComing"]?.bool == true, "\(page)")
        copy.apply(page["changes"]?.elements ?? [])
        phone.token = page["importToken"]?.string
        if isOwners {
          #expect(try await world.own("POST", "purge", #"{"zoneID":{"zoneName":"\#(second)"}}"#).status == 200)
        } else {
          try await world.share(second, of: "_alice", nil)
        }
        copy.apply(try await phone.pull())
        #expect(copy.zones == [:], "\(isOwners)")
        #expect(try await phone.pull().isEmpty)
      }
    }
  }

  @Test func `T-P20 between two shares everything goes along, for its participants too, and nothing reaches across`()
    async throws
  {
    try await SharedWorld.with { world in
      let (first, second) = try await world.setUpTwoZones(["first", "second"])
      var phone = Phone(world)
      try await phone.pull()
      try await world.ownMove("T", to: second)
      #expect(Set(try await phone.pull().told.filter { $0.hasPrefix("move") }) == Set(graph.map { "move \($0)" }))
      #expect(phone.graph.links == ["Photo.tags P→T"])
      #expect(try await world.save(objectChange("insert", "Photo", "N", #""tags":["T"]"#)).status == 200)
      #expect(try await world.zones(with: "N") == [second])
      try await world.ownSave(
        objectChange("insert", "Tag", "U") + "," + objectChange("update", "Photo", "alone", #""tags":{"add":["U"]}"#))
      try await world.ownMove("U", to: first)
      try await phone.pull()
      let crossing = try await world.save(objectChange("update", "Tag", "U", #""photos":{"add":["P"]}"#))
      #expect(
        crossing.json["cocoaErrorCode"]?.int64 == 134060 && crossing.reason?.contains("'\(second)'") == true,
        "\(crossing.text)")
      try await world.ownMove("P", to: nil)
      #expect(Set(phone.graph.objects.keys).isSuperset(of: graph))
      try await phone.pull()
      #expect(Set(phone.graph.objects.keys) == ["other", "alone", "U"] && phone.graph.links == ["Photo.tags alone→U"])
    }
  }

  // MARK: Waiting changes

  @Test func `T-P20 a participant's held-back changes follow the graph to another of their zones`() async throws {
    try await SharedWorld.with { world in
      let (_, second) = try await world.setUpTwoZones(["first", "second"])
      var phone = Phone(world)
      try await phone.pull()
      try await world.hold(objectChange("insert", "Rating", "R2", #""photo":"P""#, #""value":5"#))
      #expect(try await world.zones(with: "R2") == [])
      try await world.ownMove("P", to: second)
      try await world.endHold()
      try await phone.pull()
      #expect(try await world.zones(with: "R2") == [second])
      #expect(try await world.records(second, of: "_alice")["R2"] == "P")
      #expect(try await world.send("GET", "quarantine").json["quarantined"]?.count == 0)
    }
  }

  @Test
  func
    `R4 an object that left a participant's sight is gone for them: late edits and inserts make no second one`()
    async throws
  {
    for change in [rename("P", "late"), objectChange("insert", "Photo", "P", "", #""displayName":"late""#)] {
      for isForwardedLate in [false, true] {
        try await SharedWorld.with(keepsPastStates: true) { world in
          world.schemas.letEditsWin(of: "Photo")
          let (first, _) = try await world.setUpTwoZones(["first"])
          var phone = Phone(world)
          try await phone.pull()
          if isForwardedLate {
            world.owners.fail("forward", .before, count: 1)
            #expect(try await world.save(change, waits: false).status == 200)
          }
          try await world.ownMove("P", to: nil)
          if isForwardedLate {
            world.clock.advance(by: 60_000)
          } else {
            let saved = try await world.save(change)
            #expect(saved.status == 200, "\(saved.text)")
          }
          for _ in 0..<3 where try await world.send("GET", "changes", ["after": phone.token ?? ""]).status != 200 {
            world.clock.advance(by: 60_000)
          }
          try await phone.pull()
          #expect(try await world.zones(with: "P") == [home], "\(change)")
          #expect(try await world.records(home, of: "_alice")["P"] == "dunes")
          #expect(try await world.records(first, of: "_alice")["P"] == nil)
          #expect(
            try await world.conflicts().map { "\($0["kind"]?.string ?? "") \($0["objectID"]?.string ?? "")" } == [
              "unexported P"
            ])
          #expect(
            try await world.send("POST", "permissions", [:], #"{"objectIDs":["P"]}"#).json["objects"]?.elements.first?[
              "canUpdate"]?.bool == false)
        }
      }
    }
  }

  // MARK: Joining and leaving

  @Test(arguments: [true, false])
  func `T-P12 an invitation that is accepted before the records and one after them end alike`(acceptsFirst: Bool)
    async throws
  {
    try await SharedWorld.with { world in
      try await world.setUpOwner()
      try await world.setUp()
      var phone = Phone(world)
      try await phone.pull()
      let (zone, guid) = try await world.ownShare("alone", accepts: false)
      #expect(try await phone.pull().isEmpty, "nobody has accepted")
      if acceptsFirst {
        try await world.accept(guid)
        try await phone.pull()
      }
      try await world.ownMove("P", to: zone)
      if !acceptsFirst { try await world.accept(guid) }
      let told = try await phone.pull(limit: 1)
      #expect(!told.told.contains { $0.hasPrefix("delete") || $0.hasPrefix("move") }, "\(told.told)")
      #expect(Set(phone.graph.objects.keys) == Set(graph + ["alone"]) && phone.graph.links == ["Photo.tags P→T"])
      #expect(try await phone.pull().isEmpty)
      let shares = try await world.send("GET", "shares").json["shares"]?.elements ?? []
      #expect(shares.count == 1 && shares.first?["shortGUID"]?.string == guid)
      // Accepted once more nothing is told again.
      try await world.accept(guid)
      #expect(try await phone.pull().isEmpty)
    }
  }

  @Test func `T-P11 the owner's purge takes the records from all, and the copy he kept is his alone`() async throws {
    try await SharedWorld.with { world in
      try await world.setUpOwner()
      try await world.setUp()
      let zone = try await world.ownShare("P").zone
      var phone = Phone(world)
      try await phone.pull()
      #expect(
        try await world.save(objectChange("insert", "Rating", "R2", #""photo":"P""#, #""value":5"#)).status == 200)
      let body = #"{"zoneID":{"zoneName":"\#(zone)"},"keepCopy":true}"#
      let purged = try await world.own("POST", "purge", body, id: "one")
      #expect(purged.status == 200 && Set(purged.json.copies.keys) == Set(graph + ["R2"]), "\(purged.text)")
      let told = try await phone.pull()
      #expect(
        told.count == 1 && told.first?["zoneID"]?["zoneName"]?.string == zone
          && told.first?["reason"]?.string == "purged", "\(told)")
      let copies = try await world.records(home, of: "_alice")
      let (photo, rating) = (try #require(purged.json.copies["P"]), try #require(purged.json.copies["R2"]))
      #expect(copies[photo] == "dunes" && copies[rating] == photo)
      // The answer was lost.
      #expect(try await world.own("POST", "purge", body, id: "one").json.copies == purged.json.copies)
      #expect(try await world.records(home, of: "_alice") == copies)
      #expect(try await phone.pull().isEmpty)
      // A save of it goes to bob's own journal.
      #expect(try await world.save(rename("P", "late")).status == 200)
      #expect(try await world.zones(with: "P") == [])
    }
  }
}
