// Stores of the shared database: saves that go where their objects are, permissions, and imports from several owners.

import FixedClocks
import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
@testable import SharedStores
import Sharing
import Synchronization
import Testing

private func change(
  _ kind: String, _ entity: String, _ id: String, _ attributes: String = "", _ relationships: String = ""
) -> String {
  #"""
  {"changeType":"\#(kind)","entity":"\#(entity)","objectID":"\#(id)","attributes":{\#(attributes)},\#
  "relationships":{\#(relationships)}}
  """#
}

private func rating(_ id: String, of photo: String) -> String {
  change("insert", "Rating", id, #""value":5"#, #""photo":"\#(photo)""#)
}
private func rename(_ photo: String, _ name: String) -> String {
  change("update", "Photo", photo, #""displayName":"\#(name)""#)
}

private func kinds(_ changes: [JSONValue]) -> [String] {
  changes.map { change in
    let zone = change["zoneID"]?["zoneName"]?.string ?? ""
    return [change["changeType"]?.string ?? "", change["objectID"]?.string ?? zone, change["reason"]?.string ?? ""]
      .filter { !$0.isEmpty }.joined(separator: " ")
  }
}

@Suite struct `Stores of the shared database` {
  /// A world in which alice shares Trip, with photo P, with bob.
  private func with(_ permission: SharePermission = .readWrite, _ body: (SharedWorld) async throws -> Void) async throws
  {
    try await SharedWorld.with { world in
      try await world.makeZone("Trip", of: "_alice", photo: "P")
      try await world.share("Trip", of: "_alice", permission)
      try await world.setUp()
      try await body(world)
    }
  }

  @Test
  func `T-P13 an object that is connected with a shared object lands in its owner's zone, and nobody else has it`()
    async throws
  {
    try await with { world in
      var phone = Phone(world)
      try await phone.pull()
      #expect(phone.graph.objects["P"]?["displayName"] == #""of Trip""#)
      let saved = try await world.save(rating("R", of: "P"))
      #expect(saved.status == 200, "\(saved.text)")
      #expect(saved.json["event"]?["counts"]?["saved"]?.int64 == 1)
      #expect(try await world.records("Trip", of: "_alice") == ["P": "of Trip", "R": "P"])
      #expect(try await phone.pull().isEmpty, "no echo")
      // At home there is its history and nothing else.
      #expect(try await world.send("GET", "history").json["transactions"]?.count == 1)
      #expect(try await world.records(ReservedName.privateMirrorZone, of: "_bob").isEmpty)
      let status = try await world.send("GET", "status").json
      #expect(status["pendingUploads"]?.int64 == 0 && status["caughtUp"]?.bool == true, "\(status)")
      let permissions =
        try await world.send("POST", "permissions", [:], #"{"objectIDs":["P","R","new"]}"#).json["objects"]?.elements
        ?? []
      #expect(permissions.map { $0["canUpdate"]?.bool } == [true, true, true])
      #expect(try await world.send("GET", "objects/R").json["zoneID"]?["ownerRecordName"]?.string == "_alice")
      let records =
        try await world.send("POST", "records", [:], #"{"objectIDs":["R","none","P"]}"#).json["records"]?.elements ?? []
      #expect(
        records.map { $0["recordName"]?.string } == ["R", "none", "P"]
          && records[1]["serverErrorCode"]?.string == "NOT_FOUND")
    }
  }

  @Test func `T-P13 a participant's save is charged to the owner`() async throws {
    try await with { world in
      world.schemas.userQuotas.withLock { $0 = ["_alice": 10] }
      let saved = try await world.save(rating("R", of: "P"))
      #expect(
        saved.json["event"]?["error"]?["partialErrors"]?.elements.first?["ckErrorCode"]?.int64 == 25, "\(saved.text)")
      #expect(try await world.records("Trip", of: "_alice") == ["P": "of Trip"])
      #expect(try await world.send("GET", "quarantine").json["quarantined"]?.count == 1)
      world.schemas.userQuotas.withLock { $0 = ["_bob": 10] }
      #expect(try await world.send("POST", "quarantine/retry").json["retried"]?.int64 == 1)
      try await world.save(rename("P", "x"))
      var phone = Phone(world)
      try await phone.pull()
      #expect(phone.graph.objects["P"]?["displayName"] == #""x""#)
    }
  }

  @Test func `T-P04 a read-only participant is refused and nothing is stored, a writing one is not`() async throws {
    try await with(.readOnly) { world in
      for edit in [rename("P", "Mine"), rating("R", of: "P"), change("delete", "Photo", "P")] {
        let refused = try await world.save(edit)
        #expect(refused.status == 403 && refused.json["ckErrorCode"]?.int64 == 10, "\(refused.text)")
        #expect(refused.reason?.hasPrefix("transactions[0]: changes[0]: ") == true)
      }
      #expect(try await world.send("GET", "history").json["transactions"]?.count == 0)
      #expect(
        try await world.send("POST", "permissions", [:], #"{"objectIDs":["P"]}"#).json["objects"]?.elements.first?[
          "canUpdate"]?.bool == false)
      try await world.share("Trip", of: "_alice", .readWrite)
      #expect(try await world.save(rename("P", "Ours")).status == 200)
      #expect(try await world.records("Trip", of: "_alice") == ["P": "Ours"])
    }
  }

  @Test func `T-P05 edits whose permission went before they were exported are rolled back, and the journal has them`()
    async throws
  {
    try await with { world in
      var phone = Phone(world)
      try await phone.pull()
      world.owners.fail("forward", .before, count: 1)
      let saved = try await world.save(
        [rename("P", "Mine"), rating("R", of: "P")].joined(separator: ","), waits: false)
      #expect(saved.status == 200, "\(saved.text)")
      phone.graph.apply(try JSONValue(parsing: Array(rename("P", "Mine").replacing("update", with: "save").utf8)))
      phone.graph.apply(try JSONValue(parsing: Array(rating("R", of: "P").replacing("insert", with: "save").utf8)))
      try await world.share("Trip", of: "_alice", .readOnly)
      // The first import leaves out an owner who does not answer.
      #expect(try await world.send("GET", "changes").status == 503)
      #expect(Set(kinds(try await phone.pull())) == ["save P", "delete R"])
      #expect(phone.graph.objects["P"]?["displayName"] == #""of Trip""# && phone.graph.objects["R"] == nil)
      #expect(try await world.records("Trip", of: "_alice") == ["P": "of Trip"])
      let conflicts = try await world.conflicts()
      #expect(conflicts.map { $0["kind"]?.string } == ["reverted", "reverted"])
      #expect(Set(conflicts.map { $0["objectID"]?.string }) == ["P", "R"])
      #expect(conflicts.allSatisfy { $0["zoneID"]?["ownerRecordName"]?.string == "_alice" })
      let event = try #require(try await world.exportEvents().last)
      #expect(event["succeeded"]?.bool == false)
      #expect(event["error"]?["partialErrors"]?.elements.allSatisfy { $0["ckErrorCode"]?.int64 == 10 } == true)
    }
  }

  @Test func `T-P15 a removed participant's save is kept at home and goes nowhere`() async throws {
    try await with { world in
      var phone = Phone(world)
      try await phone.pull()
      try await world.share("Trip", of: "_alice", nil)
      let saved = try await world.save([rename("P", "Mine"), rating("R", of: "P")].joined(separator: ","))
      #expect(saved.status == 200, "\(saved.text)")
      #expect(try await world.records("Trip", of: "_alice") == ["P": "of Trip"])
      #expect(
        Set(try await world.conflicts().map { "\($0["kind"]?.string ?? "") \($0["objectID"]?.string ?? "")" }) == [
          "unexported P", "unexported R",
        ])
      #expect(try await world.exportEvents().count == 1)
      #expect(Set(kinds(try await phone.pull())) == ["zone Trip left", "delete P", "delete R"])
      // Told once; and with the end confirmed the owner's shard has forgotten the store.
      #expect(try await phone.pull().isEmpty)
      #expect(try await world.mirrorCount(of: "_alice") == 0)
      #expect(try await phone.pull().isEmpty)
    }
  }

  @Test func `T-R04 a shared zone that is deleted takes its rows along`() async throws {
    try await with { world in
      try await world.makeZone("Other", of: "_alice", photo: "Q")
      try await world.share("Other", of: "_alice", .readOnly)
      var phone = Phone(world)
      try await phone.pull()
      #expect(Set(phone.graph.objects.keys) == ["P", "Q"])
      try await world.deleteZone("Trip", of: "_alice", as: .purged)
      #expect(kinds(try await phone.pull()) == ["zone Trip purged"])
      #expect(try await phone.pull().isEmpty)
      // Changes of the other owner still arrive.
      try await world.put("Q", "Photo", ["displayName": "new"], in: "Other", of: "_alice")
      #expect(kinds(try await phone.pull()) == ["save Q"])
    }
  }

  @Test(arguments: [true, false]) func `T-P12 access before the records or the records before access end alike`(
    accessFirst: Bool
  ) async throws {
    try await SharedWorld.with { world in
      try await world.makeZone("Old", of: "_alice", photo: "O")
      try await world.share("Old", of: "_alice", .readWrite)
      try await world.setUp()
      var phone = Phone(world)
      try await phone.pull()
      if accessFirst {
        try await world.makeZone("Trip", of: "_alice", photo: "P")
        try await world.share("Trip", of: "_alice", .readWrite)
        try await phone.pull()
        try await world.put("Q", "Photo", ["displayName": "q"], in: "Trip", of: "_alice")
      } else {
        try await world.makeZone("Trip", of: "_alice", photo: "P")
        try await world.put("Q", "Photo", ["displayName": "q"], in: "Trip", of: "_alice")
        try await world.put("O", "Photo", ["displayName": "later"], in: "Old", of: "_alice")
        try await phone.pull()
        try await world.share("Trip", of: "_alice", .readWrite)
      }
      // With one record a page, a joined zone takes several pages.
      try await phone.pull(limit: 1)
      #expect(Set(phone.graph.objects.keys) == ["O", "P", "Q"])
      #expect(try await phone.pull().isEmpty)
      // A participant who leaves and returns gets everything again, with their own edits.
      try await world.save(rename("P", "mine"))
      try await phone.pull()
      try await world.share("Trip", of: "_alice", nil)
      #expect(kinds(try await phone.pull()) == ["zone Trip left"])
      try await world.share("Trip", of: "_alice", .readOnly)
      #expect(Set(kinds(try await phone.pull())) == ["save P", "save Q"])
    }
  }

  @Test
  func
    `T-D05 duplicates are merged by the server with what a participant may write, not with what they only read`()
    async throws
  {
    try await with { world in
      world.schemas.declare(EnvironmentRules.Unique(entity: "Tag", attributes: ["name"], policy: .mergeLowestUUID))
      let (low, high) = ("1A000000-0000-4000-8000-000000000001", "FB000000-0000-4000-8000-000000000002")
      func tag(_ id: String) -> String { change("insert", "Tag", id, #""name":"sand""#, #""photos":["P"]"#) }
      #expect(try await world.save(tag(high)).status == 200)
      #expect(try await world.save(tag(low)).status == 200)
      // In the owner's zone; it goes when the stores that have it know.
      let survivor = try await world.store(of: "_alice").read { snapshot -> String? in
        guard let row = try snapshot.database(SharedWorld.database("_alice")),
          let zone = try snapshot.zone(named: "Trip", in: row.key)
        else { return nil }
        return try snapshot.redirect(of: high, in: zone.key)?.survivor
      }
      #expect(survivor == low)
      try await world.share("Trip", of: "_alice", .readOnly)
      #expect(try await world.save(tag("2C000000-0000-4000-8000-000000000003")).status == 403)
    }
  }

  @Test func `objects connected with nothing shared, or with two owners', are refused and nothing is stored`()
    async throws
  {
    try await with { world in
      try await world.makeZone("Trip", of: "_carol", photo: "C")
      try await world.share("Trip", of: "_carol", .readWrite)
      let alone = try await world.save(change("insert", "Photo", "X", #""displayName":"x""#))
      #expect(alone.status == 400 && alone.json["cocoaErrorCode"]?.int64 == 2988, "\(alone.text)")
      let both = try await world.save([change("insert", "Tag", "T", "", #""photos":["P","C"]"#)].joined())
      #expect(both.status == 400 && both.json["cocoaErrorCode"]?.int64 == 134060, "\(both.text)")
      let unknown = try await world.save(rename("nobody", "x"))
      #expect(unknown.status == 404, "\(unknown.text)")
      #expect(try await world.send("GET", "history").json["transactions"]?.count == 0)
      #expect(try await world.send("POST", "shares", [:], "{}").json["cocoaErrorCode"]?.int64 == 134060)
    }
  }

  @Test func `zones of one name of two owners are two, and one owner who is away does not hold up the other`()
    async throws
  {
    try await with { world in
      try await world.makeZone("Trip", of: "_carol", photo: "C")
      try await world.share("Trip", of: "_carol", .readWrite)
      var phone = Phone(world)
      try await phone.pull(limit: 1)
      #expect(Set(phone.graph.objects.keys) == ["P", "C"])
      #expect(
        try await world.save([rating("RP", of: "P"), rating("RC", of: "C")].joined(separator: ",")).status == 200)
      #expect(try await world.records("Trip", of: "_alice").keys.sorted() == ["P", "RP"])
      #expect(try await world.records("Trip", of: "_carol").keys.sorted() == ["C", "RC"])
      world.owners.setAway(["_carol"])
      try await world.put("P", "Photo", ["displayName": "new"], in: "Trip", of: "_alice")
      #expect(kinds(try await phone.pull()) == ["save P"])
      let page = try await world.send("GET", "changes", ["after": phone.token ?? ""]).json
      #expect(page["caughtUp"]?.bool == false && page["moreComing"]?.bool == false)
      #expect(try await world.send("GET", "status").json["unreachedOwners"]?.elements.map(\.string) == ["_carol"])
      #expect(try await world.save(rename("C", "x")).status == 503, "nobody can tell where it is")
      #expect(try await world.save([rename("P", "x"), rating("R2", of: "P")].joined(separator: ",")).status == 200)
      #expect(try await world.records("Trip", of: "_alice").keys.sorted() == ["P", "R2", "RP"])
      world.owners.setAway([])
      // A save that waits for one owner does not delay the other, whose part happens once.
      world.owners.fail("forward", .before, count: 1)
      #expect(try await world.save(rename("C", "mine"), waits: false).status == 200)
      #expect(try await world.save(rating("R4", of: "P"), waits: false).status == 200)
      world.owners.setAway(["_carol"])
      #expect(try await world.send("GET", "changes", ["after": phone.token ?? ""]).status == 503)
      #expect(try await world.send("GET", "changes", ["after": phone.token ?? ""]).status == 200)
      #expect(try await world.records("Trip", of: "_alice").keys.sorted() == ["P", "R2", "R4", "RP"])
      world.owners.setAway([])
      try await phone.pull()
      #expect(try await world.records("Trip", of: "_alice").keys.sorted() == ["P", "R2", "R4", "RP"])
      #expect(try await world.records("Trip", of: "_carol")["C"] == "mine")
      try await world.put("C", "Photo", ["displayName": "later"], in: "Trip", of: "_carol")
      #expect(kinds(try await phone.pull()) == ["save C"])
      #expect(try await world.send("GET", "changes", ["after": "AAAA"]).status == 400)
    }
  }

  @Test func `a store that is removed takes its guests along, and one that is reset is sent everything again`()
    async throws
  {
    try await with { world in
      var phone = Phone(world)
      try await phone.pull()
      #expect(try await world.save(rename("P", "mine")).status == 200)
      #expect(try await world.send("POST", "reset", [:], #"{"reason":"user"}"#).status == 200)
      #expect(kinds(try await phone.pull()) == ["save P"])
      #expect(try await world.mirrorCount(of: "_alice") == 1)
      #expect(try await world.send("DELETE", "").status == 200)
      #expect(try await world.mirrorCount(of: "_alice") == 0)
      #expect(try await world.send("GET", "status").status == 404)
      #expect(try await world.records("Trip", of: "_alice") == ["P": "mine"])
    }
  }

  // MARK: Exactly once

  @Test(arguments: [SharedWorld.Link.Fault.before, .after])
  func `a request that an owner gets twice is done once`(fault: SharedWorld.Link.Fault) async throws {
    try await with { world in
      world.owners.fail("forward", fault, count: 3)
      #expect(try await world.save(rating("R", of: "P"), id: "T1", waits: false).status == 200)
      #expect(try await world.save(rating("R", of: "P"), id: "T1", waits: false).status == 200)
      for _ in 0..<3 { #expect(try await world.send("GET", "changes").status == 503) }
      var phone = Phone(world)
      try await phone.pull()
      #expect(try await world.records("Trip", of: "_alice") == ["P": "of Trip", "R": "P"])
      let events = try await world.exportEvents()
      #expect(events.count == 1 && events[0]["counts"]?["saved"]?.int64 == 1, "\(events)")
      #expect(try await world.send("GET", "history").json["transactions"]?.count == 1)
    }
  }

  @Test func `whichever commit fails, everything is there once in the end`() async throws {
    for failing in 1...12 {
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
        try await world.setUp()
        isArmed.withLock { $0 = true }
        var replies: [Int] = []
        for attempt in 0..<4 {
          replies.append(try await world.save(rating("R", of: "P"), id: "T1").status)
          world.clock.advance(by: 1000 << Int64(attempt))
        }
        isArmed.withLock { $0 = false }
        world.clock.advance(by: 400_000)
        #expect(replies.contains(200), "\(replies)")
        var phone = Phone(world)
        try await phone.pull()
        #expect(try await world.records("Trip", of: "_alice") == ["P": "of Trip", "R": "P"])
        #expect(try await world.send("GET", "history").json["transactions"]?.count == 1)
        #expect(
          try await world.exportEvents().filter { $0["succeeded"]?.bool == true }.compactMap {
            $0["counts"]?["saved"]?.int64
          }.reduce(0, +) == 1)
      }
    }
  }

  @Test
  func
    `T-P09 a participant who does not hear of their departure asks the owner again, and learns nothing else`()
    async throws
  {
    try await with { world in
      let left = Mutex<[String]>([])
      world.owners.answerRecords { request, body in
        let known = left.withLock { asked -> Bool in
          defer { asked.append("\(request.requestID) \(String(decoding: body, as: UTF8.self))") }
          return asked.isEmpty || asked.contains { $0.hasPrefix(request.requestID) }
        }
        guard known else { throw RecordError(.zoneNotFound, "Zone 'Trip' does not exist") }
        try await world.share("Trip", of: "_alice", nil)
        return #"{"records":[{"recordName":"cloudkit.zoneshare","deleted":true}]}"#
      }
      // The record plane has no path below a store.
      world.owners.fail("", .after)
      func leave(_ zone: String, _ requestID: String) async throws -> PlaneReply {
        try await world.send(
          "POST", "purge", [:], #"{"zoneID":{"zoneName":"\#(zone)","ownerRecordName":"_alice"}}"#, requestID: requestID)
      }
      #expect(try await leave("Trip", "first").status == 503)
      let again = try await leave("Trip", "first")
      #expect(again.status == 200 && again.json["purged"]?.int64 == 0, "\(again.text)")
      #expect(left.withLock { $0.count == 2 && $0[0] == $0[1] })
      let (other, missing) = (try await leave("Trip", "other"), try await leave("Trap", "other"))
      #expect(other.status == 404 && other.text == missing.text.replacing("Trap", with: "Trip"), "\(other.text)")
    }
  }
}
