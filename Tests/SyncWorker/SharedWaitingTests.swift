// Saves for several owners, one of whom is away: the others' parts go on, and every change arrives once.

import FixedClocks
import JSON
import RecordStore
import Records
import Sharing
import Synchronization
import Testing

@Suite struct `Shared stores with an owner who is away` {
  /// A world in which carol shares Tour, with photo C, too.
  private func with(_ body: (SharedWorld) async throws -> Void) async throws {
    try await SharedWorld.withTrip { world in
      try await world.makeZone("Tour", of: "_carol", photo: "C")
      try await world.share("Tour", of: "_carol", .readWrite)
      try await body(world)
    }
  }

  private func both(_ name: String) -> String {
    [SharedChange.rename("P", name), SharedChange.rename("C", name)].joined(separator: ",")
  }

  /// Saves a transaction that carol does not get: she is away from then on.
  private func saveWithoutCarol(_ world: SharedWorld, _ changes: String, id: String = "T") async throws {
    #expect(try await world.save(changes, id: id, waits: false).status == 200)
    world.owners.setAway(["_carol"])
  }

  @Test func `T-C03 changes that wait for an owner hold up no other's, however many they are`() async throws {
    try await with { world in
      var phone = Phone(world)
      try await phone.pull()
      for number in 0..<120 { try await world.save(SharedChange.rename("C", "mine \(number)"), waits: false) }
      world.owners.setAway(["_carol"])
      #expect(try await world.save(SharedChange.rename("P", "ours")).status == 200)
      #expect(try await world.save(SharedChange.rating("R", of: "P")).status == 200)
      #expect(try await world.records("Trip", of: "_alice") == ["P": "ours", "R": "P"])
      try await world.put("Q", "Photo", ["displayName": "q"], in: "Trip", of: "_alice")
      #expect(try await phone.pull().compactMap { $0["objectID"]?.string } == ["Q"])
      let status = try await world.send("GET", "status").json
      #expect(status["caughtUp"]?.bool == false && status["quarantined"]?.int64 == 120, "\(status)")
      #expect(
        try await world.send("GET", "quarantine").json["quarantined"]?.elements.map { $0["objectID"]?.string } == ["C"])
      // Changes may build on a save that has not arrived yet.
      #expect(try await world.save(SharedChange.rename("C", "last"), waits: false).status == 200)
      #expect(
        try await world.save(SharedChange.rename("unheard", "x"), waits: false).status == 503,
        "nobody can tell where it is")
      world.owners.setAway([])
      world.clock.advance(by: 400_000)
      try await phone.pull()
      let toured = try await world.records("Tour", of: "_carol")
      #expect(toured == ["C": "last"], "\(toured)")
      #expect(try await world.conflicts().isEmpty)
      #expect(try await world.send("GET", "status").json["quarantined"]?.int64 == 0)
      #expect(try await world.exportEvents().compactMap { $0["counts"]?["saved"]?.int64 }.reduce(0, +) >= 3)
    }
  }

  @Test func `changes after those that wait for an owner wait behind them, and come in their order`() async throws {
    try await with { world in
      try await saveWithoutCarol(world, SharedChange.rating("RC", of: "C"), id: "T1")
      let edit = SharedChange.change("update", "Rating", "RC", #""value":3"#)
      #expect(
        try await world.save([edit, SharedChange.rename("P", "ours")].joined(separator: ","), id: "T2", waits: false)
          .status == 200)
      #expect(try await world.save(SharedChange.change("delete", "Rating", "RC"), id: "T3", waits: false).status == 200)
      #expect(try await world.send("GET", "changes").status == 200)
      #expect(try await world.records("Trip", of: "_alice") == ["P": "ours"])
      world.owners.setAway([])
      var phone = Phone(world)
      try await phone.pull()
      #expect(try await world.records("Tour", of: "_carol") == ["C": "of Tour"])
      #expect(try await world.conflicts().isEmpty)
      #expect(Set(phone.graph.objects.keys) == ["P", "C"])
    }
  }

  @Test
  func `an import never takes back what the store itself saved, while another owner of the same transaction is away`()
    async throws
  {
    try await with { world in
      var phone = Phone(world)
      try await phone.pull()
      try await saveWithoutCarol(world, both("Mine"))
      phone.graph.apply(
        try JSONValue(parsing: Array(SharedChange.rename("P", "Mine").replacing("update", with: "save").utf8)))
      try await world.put("P", "Photo", ["displayName": "of Trip", "price": "3"], in: "Trip", of: "_alice")
      try await phone.pull()
      #expect(phone.graph.objects["P"]?["displayName"] == #""Mine""#)
      world.owners.setAway([])
      world.clock.advance(by: 400_000)
      try await phone.pull()
      #expect(phone.graph.objects["P"]?["displayName"] == #""Mine""#)
      #expect(try await world.records("Trip", of: "_alice") == ["P": "Mine"])
      #expect(try await world.records("Tour", of: "_carol") == ["C": "Mine"])
    }
  }

  @Test func `a part that an owner has taken is not done twice where he forgot the store meanwhile`() async throws {
    try await with { world in
      var phone = Phone(world)
      try await phone.pull()
      try await saveWithoutCarol(world, both("Mine"))
      try await phone.pull()
      #expect(try await world.records("Trip", of: "_alice") == ["P": "Mine"])
      try await world.share("Trip", of: "_alice", nil)
      for _ in 0..<3 { try await phone.pull() }
      try await world.put("P", "Photo", ["displayName": "alice's"], in: "Trip", of: "_alice")
      try await world.share("Trip", of: "_alice", .readWrite)
      world.owners.setAway([])
      world.clock.advance(by: 400_000)
      try await phone.pull()
      #expect(try await world.records("Trip", of: "_alice") == ["P": "alice's"])
      #expect(try await world.records("Tour", of: "_carol") == ["C": "Mine"])
      #expect(phone.graph.objects["P"]?["displayName"] == #""alice's""#)
    }
  }

  @Test func `a change whose zone was lost when the rest was taken is in the journal, though its user is let in again`()
    async throws
  {
    try await with { world in
      try await world.makeZone("Other", of: "_alice", photo: "O")
      try await world.share("Other", of: "_alice", .readWrite)
      var phone = Phone(world)
      try await phone.pull()
      let changes = [
        SharedChange.rename("P", "Mine"), SharedChange.rename("O", "Mine"), SharedChange.rename("C", "Mine"),
      ]
      try await saveWithoutCarol(world, changes.joined(separator: ","))
      try await world.share("Other", of: "_alice", nil)
      try await phone.pull()
      #expect(try await world.records("Trip", of: "_alice") == ["P": "Mine"])
      try await world.share("Other", of: "_alice", .readWrite)
      world.owners.setAway([])
      world.clock.advance(by: 400_000)
      try await phone.pull()
      #expect(try await world.records("Tour", of: "_carol") == ["C": "Mine"])
      #expect(try await world.records("Other", of: "_alice") == ["O": "of Other"])
      #expect(
        try await world.conflicts().map { "\($0["kind"]?.string ?? "") \($0["objectID"]?.string ?? "")" } == [
          "unexported O"
        ])
    }
  }

  @Test(arguments: [SharedWorld.Link.Fault.before, .after]) func `a request that each owner gets twice is done once`(
    fault: SharedWorld.Link.Fault
  ) async throws {
    try await with { world in
      var phone = Phone(world)
      try await phone.pull()
      let changes = [SharedChange.rating("RP", of: "P"), SharedChange.rating("RC", of: "C")]
      #expect(try await world.save(changes.joined(separator: ","), id: "T1", waits: false).status == 200)
      world.owners.fail("forward", of: "_carol", fault, count: 3)
      for _ in 0..<3 { _ = try await world.send("GET", "changes", ["after": phone.token ?? ""]) }
      #expect(try await world.records("Trip", of: "_alice") == ["P": "of Trip", "RP": "P"])
      world.clock.advance(by: 400_000)
      try await phone.pull()
      #expect(try await world.records("Tour", of: "_carol") == ["C": "of Tour", "RC": "C"])
      #expect(try await world.exportEvents().compactMap { $0["counts"]?["saved"]?.int64 }.reduce(0, +) == 2)
      #expect(try await world.conflicts().isEmpty)
    }
  }

  @Test func `whichever commit of two owners' transaction fails, everything is there once in the end`() async throws {
    for failing in 1...16 {
      let count = Mutex(0)
      let isArmed = Mutex(false)
      try await SharedWorld.with(commitFailure: { _ in
        guard isArmed.withLock({ $0 }) else { return nil }
        return count.withLock { count in
          count += 1
          return count == failing ? StoreError.io("the disk failed") : nil
        }
      }) { world in
        try await world.makeZone("Trip", of: "_alice", photo: "P")
        try await world.share("Trip", of: "_alice", .readWrite)
        try await world.makeZone("Tour", of: "_carol", photo: "C")
        try await world.share("Tour", of: "_carol", .readWrite)
        try await world.setUp()
        isArmed.withLock { $0 = true }
        let changes = [SharedChange.rating("RP", of: "P"), SharedChange.rating("RC", of: "C")].joined(separator: ",")
        var isSaved = false
        for attempt in 0..<3 where !isSaved {
          isSaved = try await world.save(changes, id: "T1", waits: false).status == 200
          world.clock.advance(by: 1000 << Int64(attempt))
        }
        #expect(isSaved)
        world.owners.setAway(["_carol"])
        for _ in 0..<2 { _ = try await world.send("GET", "changes") }
        world.owners.setAway([])
        for _ in 0..<2 { _ = try await world.send("GET", "changes") }
        isArmed.withLock { $0 = false }
        world.clock.advance(by: 400_000)
        var phone = Phone(world)
        try await phone.pull()
        #expect(try await world.records("Trip", of: "_alice") == ["P": "of Trip", "RP": "P"], "commit \(failing)")
        #expect(try await world.records("Tour", of: "_carol") == ["C": "of Tour", "RC": "C"], "commit \(failing)")
        #expect(try await world.send("GET", "history").json["transactions"]?.count == 1)
        #expect(try await world.send("GET", "status").json["quarantined"]?.int64 == 0)
        #expect(try await world.conflicts().isEmpty)
        let events = try await world.exportEvents().filter { $0["succeeded"]?.bool == true }
        #expect(events.compactMap { $0["counts"]?["saved"]?.int64 }.reduce(0, +) == 2, "commit \(failing)")
      }
    }
  }
}
