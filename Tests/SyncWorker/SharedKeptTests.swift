// A guest's lost changes, undone or unreachable, are in the journal of the participant's home: all of them, once.

import FixedClocks
import JSON
import RecordStore
import Records
import Sharing
import Synchronization
import Testing

@Suite struct `Guests of shared stores give up changes` {
  private func ratings(_ count: Int) -> String {
    (0..<count).map { SharedChange.rating("R\($0)", of: "P") }.joined(separator: ",")
  }

  private func tell(_ conflicts: [JSONValue]) -> [String] {
    conflicts.map { "\($0["kind"]?.string ?? "") \($0["objectID"]?.string ?? "")" }
  }

  /// A world in which alice has no room for what bob inserts.
  private func withFullOwner(holding count: Int, _ body: (SharedWorld, Phone) async throws -> Void) async throws {
    try await SharedWorld.withTrip { world in
      var phone = Phone(world)
      try await phone.pull()
      world.schemas.userQuotas.withLock { $0 = ["_alice": 10] }
      #expect(try await world.save(ratings(count)).status == 200)
      #expect(try await world.records("Trip", of: "_alice") == ["P": "of Trip"])
      try await body(world, phone)
    }
  }

  @Test(arguments: [nil, SharePermission.readOnly])
  func `T-P15 a change that is held back when access ends or is lowered is in the journal, though nobody was there`(
    permission: SharePermission?
  ) async throws {
    try await withFullOwner(holding: 2) { world, phone in
      var phone = phone
      try await world.share("Trip", of: "_alice", permission)
      world.schemas.userQuotas.withLock { $0 = [:] }
      world.clock.advance(by: 400_000)
      try await world.drainGuest(of: "_alice")
      #expect(try await world.records("Trip", of: "_alice") == ["P": "of Trip"])
      // The first page finds what the guest held back, the second tells it, the third has nothing more of the owner's.
      for _ in 0..<3 { try await phone.pull() }
      let kind = permission == nil ? "unexported" : "reverted"
      #expect(Set(tell(try await world.conflicts())) == ["\(kind) R0", "\(kind) R1"])
      #expect(try await world.send("GET", "status").json["quarantined"]?.int64 == 0)
      #expect(try await world.mirrorCount(of: "_alice") == (permission == nil ? 0 : 1))
    }
  }

  @Test func `T-P05 more edits than an event lists are all in the journal when they are rolled back`() async throws {
    try await SharedWorld.withTrip { world in
      var phone = Phone(world)
      try await phone.pull()
      world.owners.fail("forward", .before, count: 1)
      #expect(try await world.save(ratings(1100), waits: false).status == 200)
      try await world.share("Trip", of: "_alice", .readOnly)
      _ = try await world.send("GET", "changes", ["after": phone.token ?? ""])
      world.clock.advance(by: 400_000)
      try await phone.pull()
      let conflicts = try await world.allConflicts()
      #expect(conflicts.count == 1100 && Set(tell(conflicts)).count == 1100)
      #expect(
        conflicts.allSatisfy {
          $0["kind"]?.string == "reverted" && $0["zoneID"]?["ownerRecordName"]?.string == "_alice"
        })
      #expect(try await world.records("Trip", of: "_alice") == ["P": "of Trip"])
    }
  }

  @Test func `T-P15 however many objects wait when a zone is not shared any more, all are in the journal once`()
    async throws
  {
    try await withFullOwner(holding: 1100) { world, phone in
      var phone = phone
      try await world.share("Trip", of: "_alice", nil)
      try await phone.pull()
      // The guest's removal is not heard of the first time.
      world.owners.fail("", .before, count: 1)
      for _ in 0..<3 { try await phone.pull() }
      #expect(try await world.mirrorCount(of: "_alice") == 0)
      let conflicts = try await world.allConflicts()
      #expect(conflicts.count == 1100 && Set(tell(conflicts)).count == 1100)
    }
  }

  @Test(arguments: ["held", "held/acknowledge"], [SharedWorld.Link.Fault.before, .after])
  func `a change that is given up is in the journal once, whatever gets lost on the way`(
    path: String, fault: SharedWorld.Link.Fault
  ) async throws {
    try await SharedWorld.withTrip { world in
      var phone = Phone(world)
      try await phone.pull()
      world.owners.fail("forward", .before, count: 1)
      #expect(
        try await world.save([SharedChange.rename("P", "Mine"), ratings(2)].joined(separator: ","), waits: false).status
          == 200)
      _ = try await world.send("GET", "changes", ["after": phone.token ?? ""])
      try await world.share("Trip", of: "_alice", .readOnly)
      world.owners.fail(path, fault, count: 1)
      for _ in 0..<3 { try await phone.pull() }
      #expect(Set(tell(try await world.conflicts())) == ["reverted P", "reverted R0", "reverted R1"])
      #expect(try await world.conflicts().count == 3)
      #expect(try await world.send("GET", "status").json["quarantined"]?.int64 == 0)
    }
  }

  @Test func `an undone change stays undone when its user may write again`() async throws {
    try await SharedWorld.withTrip { world in
      var phone = Phone(world)
      try await phone.pull()
      world.owners.fail("forward", .before, count: 1)
      #expect(try await world.save(SharedChange.rename("P", "Mine"), waits: false).status == 200)
      _ = try await world.send("GET", "changes", ["after": phone.token ?? ""])
      try await world.share("Trip", of: "_alice", .readOnly)
      world.owners.fail("held", .before, count: 2)
      _ = try await world.send("GET", "changes", ["after": phone.token ?? ""])
      try await world.share("Trip", of: "_alice", .readWrite)
      #expect(try await world.send("POST", "quarantine/retry").status == 200)
      #expect(try await world.save(SharedChange.rating("R", of: "P")).status == 200)
      try await world.drainGuest(of: "_alice")
      #expect(try await world.records("Trip", of: "_alice") == ["P": "of Trip", "R": "P"])
      for _ in 0..<2 { try await phone.pull() }
      #expect(tell(try await world.conflicts()) == ["reverted P"])
    }
  }

  @Test func `T-C05 a participant who edits an object that its owner deleted has the edit in their journal`()
    async throws
  {
    try await SharedWorld.withTrip { world in
      var phone = Phone(world)
      try await phone.pull()
      world.owners.fail("forward", .before, count: 1)
      #expect(try await world.save(SharedChange.rename("P", "Mine"), waits: false).status == 200)
      try await world.bury("P", in: "Trip", of: "_alice")
      _ = try await world.send("GET", "changes", ["after": phone.token ?? ""])
      world.clock.advance(by: 400_000)
      try await phone.pull()
      #expect(phone.graph.objects["P"] == nil)
      let conflict = try #require(try await world.conflicts().first)
      #expect(tell([conflict]) == ["lostObject P"] && conflict["zoneID"]?["ownerRecordName"]?.string == "_alice")
    }
  }
}
