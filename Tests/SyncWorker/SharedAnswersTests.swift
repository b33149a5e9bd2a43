// Answers of shared stores with many owners, unknown owners, and owners that disagree.

import FixedClocks
import JSON
import RecordStore
import Records
import ServiceBus
import Sharing
import Testing
import WebServices

@Suite struct `Answers of shared stores` {
  @Test func `an object of a name that two owners have is nobody's to edit, until one of them has it`() async throws {
    try await SharedWorld.withTrip { world in
      var phone = Phone(world)
      try await phone.pull()
      world.owners.fail("forward", .before, count: 1)
      #expect(try await world.save(SharedChange.rename("P", "Mine"), waits: false).status == 200)
      _ = try await world.send("GET", "changes", ["after": phone.token ?? ""])
      // Somebody who knows the name makes a record of it, and shares it.
      try await world.makeZone("Trap", of: "_carol", photo: "P")
      try await world.share("Trap", of: "_carol", .readWrite)
      let refused = try await world.save(SharedChange.rename("P", "Again"))
      #expect(refused.status == 409, "\(refused.text)")
      _ = try await world.send("GET", "changes", ["after": phone.token ?? ""])
      #expect(try await world.records("Trap", of: "_carol") == ["P": "of Trap"])
      #expect(try await world.records("Trip", of: "_alice") == ["P": "of Trip"])
      #expect(try await world.conflicts().map { $0["kind"]?.string } == ["unexported"])
      try await world.bury("P", in: "Trap", of: "_carol")
      #expect(try await world.save(SharedChange.rename("P", "Again")).status == 200)
      #expect(try await world.records("Trip", of: "_alice") == ["P": "Again"])
    }
  }

  @Test func `a list of owners that may be old proves nothing: what is found nowhere waits`() async throws {
    try await SharedWorld.withTrip { world in
      var phone = Phone(world)
      try await phone.pull()
      let changes = [SharedChange.rename("P", "Mine"), SharedChange.change("delete", "Rating", "gone")]
      #expect(try await world.save(SharedChange.rating("gone", of: "P")).status == 200)
      #expect(try await world.save(changes.joined(separator: ","), waits: false).status == 200)
      world.owners.setHidden(["_alice"])
      world.owners.setListOld(true)
      _ = try await world.send("GET", "changes", ["after": phone.token ?? ""])
      #expect(try await world.conflicts().isEmpty)
      #expect(
        try await world.save(SharedChange.rename("P", "Other"), waits: false).status == 200, "it waits with what waits")
      world.owners.setHidden([])
      world.owners.setListOld(false)
      world.clock.advance(by: 400_000)
      try await phone.pull()
      #expect(try await world.records("Trip", of: "_alice") == ["P": "Other"])
      #expect(try await world.conflicts().isEmpty)
    }
  }

  @Test func `an object of the hundred and first waiting save may be edited, connected and deleted`() async throws {
    try await SharedWorld.withTrip { world in
      world.owners.fail("forward", .before, count: 1000)
      for number in 0..<130 {
        #expect(try await world.save(SharedChange.rating("R\(number)", of: "P"), waits: false).status == 200)
      }
      for name in ["R0", "R129"] {
        #expect(
          try await world.save(SharedChange.change("update", "Rating", name, #""value":2"#), waits: false).status == 200
        )
      }
      let unknown = try await world.save(SharedChange.change("update", "Rating", "R130", #""value":2"#), waits: false)
      #expect(unknown.status == 404, "\(unknown.text)")
      world.owners.fail("forward", .before, count: 0)
      world.clock.advance(by: 400_000)
      _ = try await world.send("GET", "changes")
      #expect(try await world.records("Trip", of: "_alice").count == 131)
      #expect(try await world.send("GET", "objects/R129").json["attributes"]?["value"]?.int64 == 2)
    }
  }

  @Test func `T-V02 a waiter for a complete shared store is let go when its client has stored everything`() async throws
  {
    try await SharedWorld.withTrip { world in
      let page = try await world.send("GET", "changes").json
      let token = try #require(page["importToken"]?.string)
      let waiting = try await world.send("GET", "status", ["caughtUp": token, "wait": "30"])
      #expect(waiting.json["caughtUp"]?.bool == false, "it was sent, and nobody knows whether it arrived")
      _ = world.changes.takeStores()
      // A store's own changes wake no waiting request, because nothing is new for it.
      for _ in 0..<2 { _ = try await world.send("GET", "changes", ["after": token]) }
      #expect(world.changes.takeStores().map(\.storeIdentifier) == ["S"])
      #expect(try await world.send("GET", "status", ["caughtUp": token, "wait": "30"]).json["caughtUp"]?.bool == true)
    }
  }

  @Test func `T-X02 the audit of a shared object is its owner's, for whoever sees the object`() async throws {
    try await SharedWorld.withTrip { world in
      #expect(try await world.save(SharedChange.rename("P", "Mine")).status == 200)
      let audit = try await world.send("GET", "audit", ["objectID": "P", "property": "displayName"])
      #expect(audit.status == 200, "\(audit.text)")
      #expect(audit.text.contains("Mine") && audit.text.contains("_bob"))
      #expect(try await world.send("GET", "audit", ["objectID": "nobody"]).status == 404)
      try await world.share("Trip", of: "_alice", nil)
      #expect(try await world.send("GET", "audit", ["objectID": "P"]).status == 404)
    }
  }

  @Test
  func `history of a shared store is purged by force when it is forwarded, and a reset does not spin over what is not`()
    async throws
  {
    try await SharedWorld.withTrip { world in
      world.owners.fail("forward", .before, count: 1)
      #expect(try await world.save(SharedChange.rename("P", "Mine"), waits: false).status == 200)
      let purged = try await world.send("DELETE", "history", ["beforeTransaction": "2", "force": "true"])
      #expect(purged.status == 200, "\(purged.text)")
      #expect(try await world.send("POST", "reset", [:], #"{"reason":"user"}"#).status == 200)
      #expect(
        try await world.records("Trip", of: "_alice") == ["P": "Mine"],
        "what waits for an owner does not need the history")
      world.owners.setAway(["_alice"])
      #expect(try await world.send("POST", "reset", [:], #"{"reason":"user"}"#).status == 503)
    }
  }

  @Test func `T-P06 a removed participant can't find out about later objects`() async throws {
    try await SharedWorld.withTrip { world in
      var phone = Phone(world)
      try await phone.pull()
      try await world.share("Trip", of: "_alice", nil)
      try await world.put("Q", "Photo", ["displayName": "secret"], in: "Trip", of: "_alice")
      #expect(try await world.save(SharedChange.rename("Q", "x"), waits: false).status == 404)
      let permissions =
        try await world.send("POST", "permissions", [:], #"{"objectIDs":["Q","none"]}"#).json["objects"]?.elements ?? []
      #expect(permissions.map { $0["canUpdate"]?.bool } == [true, true])
      try await world.put("P", "Photo", ["displayName": "later"], in: "Trip", of: "_alice")
      let own = try await world.save(SharedChange.rename("P", "x"), waits: false)
      #expect(own.status == 200, "what he had he may have edited: \(own.text)")
    }
  }

  @Test func `one transaction that the owner refuses for its places takes no other with it`() async throws {
    try await SharedWorld.withTrip { world in
      try await world.makeZone("Other", of: "_alice", photo: "O")
      try await world.share("Other", of: "_alice", .readWrite)
      var phone = Phone(world)
      try await phone.pull()
      world.owners.fail("forward", .before, count: 1)
      #expect(try await world.save(SharedChange.rating("RP", of: "P"), waits: false).status == 200)
      #expect(try await world.save(SharedChange.rating("RO", of: "O"), waits: false).status == 200)
      _ = try await world.send("GET", "changes", ["after": phone.token ?? ""])
      // Bob loses the zone between the question for its place and the forwarded call.
      world.owners.before("forward") { try? await world.share("Other", of: "_alice", nil) }
      for _ in 0..<2 { try await phone.pull() }
      #expect(try await world.records("Trip", of: "_alice") == ["P": "of Trip", "RP": "P"])
      #expect(try await world.records("Other", of: "_alice") == ["O": "of Other"])
      #expect(
        try await world.conflicts().map { "\($0["kind"]?.string ?? "") \($0["objectID"]?.string ?? "")" } == [
          "unexported RO"
        ])
    }
  }
}
