// Saves for an owner who stops sharing: the possible part succeeds, the rest is reported, journaled and restorable.

import FixedClocks
import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import Sharing
import Testing

@Suite struct `A participant's saves for a share that ends` {
  /// The ways in which Trip ends for bob, or changes, before the export of bob's saves.
  enum End: CaseIterable {
    case deleted, purged, removed, permissionLost, rootDeleted

    func happen(in world: SharedWorld) async throws {
      switch self {
      case .deleted: try await world.deleteZone("Trip", of: "_alice")
      case .purged: try await world.deleteZone("Trip", of: "_alice", as: .purged)
      case .removed: try await world.share("Trip", of: "_alice", nil)
      case .permissionLost: try await world.share("Trip", of: "_alice", .readOnly)
      case .rootDeleted: try await world.bury("P", in: "Trip", of: "_alice")
      }
    }
  }

  private func tell(_ conflicts: [JSONValue]) -> Set<String> {
    Set(conflicts.map { "\($0["kind"]?.string ?? "") \($0["objectID"]?.string ?? "")" })
  }

  /// Bob has saved X for alice's Trip and Y for another zone in one transaction, and Trip ends before anybody has them.
  /// - Parameter body: called when bob's phone has imported everything.
  private func withLoss(_ end: End, otherOwner: String, _ body: (SharedWorld, inout Phone) async throws -> Void)
    async throws
  {
    try await SharedWorld.withTrip { world in
      try await world.makeZone("Other", of: otherOwner, photo: "Q")
      try await world.share("Other", of: otherOwner, .readWrite)
      var phone = Phone(world)
      try await phone.pull()
      world.owners.setAway(["_alice", "_carol"])
      let edits = [SharedChange.rating("X", of: "P"), SharedChange.rating("Y", of: "Q")]
      #expect(
        try await world.save(edits.joined(separator: ","), id: "T", waits: false).status == 503,
        "nobody can say where they go")
      world.owners.setAway([])
      world.owners.fail("forward", .before, count: 2)
      #expect(try await world.save(edits.joined(separator: ","), id: "T", waits: false).status == 200)
      for edit in edits {
        phone.graph.apply(try JSONValue(parsing: Array(edit.replacing("insert", with: "save").utf8)))
      }
      try await end.happen(in: world)
      world.owners.fail("forward", .before, count: 0)
      world.clock.advance(by: 400_000)
      for _ in 0..<2 { try await phone.pull() }
      try await body(world, &phone)
    }
  }

  @Test(arguments: End.allCases, ["_alice", "_carol"])
  func `T-P15 the innocent part of a transaction goes through, and the device is told that the rest is gone`(
    end: End, otherOwner: String
  ) async throws {
    try await withLoss(end, otherOwner: otherOwner) { world, phone in
      #expect(try await world.records("Other", of: otherOwner) == ["Q": "of Other", "Y": "Q"])
      #expect(phone.graph.objects["Y"] != nil)
      #expect(phone.graph.objects["X"] == nil)
      #expect(tell(try await world.conflicts()) == [end == .permissionLost ? "reverted X" : "unexported X"])
      let status = try await world.send("GET", "status").json
      #expect(status["quarantined"]?.int64 == 0 && status["caughtUp"]?.bool == true, "\(status)")
      #expect(try await phone.pull().isEmpty, "told once")
    }
  }

  @Test(arguments: End.allCases) func `T-P15 a loss is restored where it may be, for every device`(end: End)
    async throws
  {
    try await withLoss(end, otherOwner: "_carol") { world, phone in
      let number = try #require(try await world.conflicts().first?["number"]?.int64)
      for _ in 0..<2 {
        let restored = try await world.send("POST", "conflicts/\(number)/restore")
        #expect(restored.status == 200 && restored.json["state"]?.string == "restored", "\(restored.text)")
      }
      // In bob's own database, because no zone that is shared with him has its related objects any more.
      #expect(Set(try await world.records(ReservedName.privateMirrorZone, of: "_bob").keys) == ["X"])
      #expect(try await phone.pull().isEmpty)
      #expect(try await world.send("POST", "conflicts/\(number)/resolve", [:], #"{"pick":"client"}"#).status == 400)
      #expect(try await world.send("POST", "conflicts/99/restore").status == 404)
    }
  }

  @Test func `T-P15 a loss goes back to its zone when that is shared again, and comes to the device that lost it`()
    async throws
  {
    try await withLoss(.permissionLost, otherOwner: "_carol") { world, phone in
      let number = try #require(try await world.conflicts().first?["number"]?.int64)
      try await world.share("Trip", of: "_alice", .readWrite)
      world.owners.fail("restore", .after, count: 1)
      #expect(try await world.send("POST", "conflicts/\(number)/restore").status == 503)
      #expect(try await world.send("POST", "conflicts/\(number)/restore").status == 200)
      #expect(try await world.records("Trip", of: "_alice") == ["P": "of Trip", "X": "P"])
      #expect(try await phone.pull().compactMap { $0["objectID"]?.string } == ["X"], "once")
      #expect(phone.graph.objects["X"] != nil)
      #expect(try await world.records(ReservedName.privateMirrorZone, of: "_bob").isEmpty)
    }
  }

  @Test func `an edit of an object that is gone is not restored as half an object`() async throws {
    try await SharedWorld.withTrip { world in
      var phone = Phone(world)
      try await phone.pull()
      try await world.share("Trip", of: "_alice", nil)
      #expect(try await world.save(SharedChange.rename("P", "Mine")).status == 200)
      try await phone.pull()
      let number = try #require(try await world.conflicts().first?["number"]?.int64)
      let refused = try await world.send("POST", "conflicts/\(number)/restore")
      #expect(refused.status == 404 && refused.reason?.contains("Photo P") == true, "\(refused.text)")
      #expect(try await world.conflicts().first?["state"]?.string == "lost")
      try await world.share("Trip", of: "_alice", .readWrite)
      #expect(try await world.send("POST", "conflicts/\(number)/restore").status == 200)
      #expect(try await world.records("Trip", of: "_alice") == ["P": "Mine"])
    }
  }
}
