// The zones assigned to new objects, in single cases and against a naive search of the graph.

import History
import Mirroring
import MirroringWorld
import Records
import Testing

private let home = Zone.ID(zoneName: "home", ownerName: "_a")
private let z1 = Zone.ID(zoneName: "Z1", ownerName: "_a")
private let z2 = Zone.ID(zoneName: "Z2", ownerName: "_a")

/// The zones of a save's objects, where they differ from the default zone.
private func assigned(
  _ changes: HistoryChange..., stored: [String: ObjectHome] = [:], defaultZone: Zone.ID? = home, author: String? = nil
) throws -> [String: Zone.ID] {
  var assignment = ZoneAssignment(model: Sample.index, defaultZone: defaultZone) { stored[$0] ?? .nowhere }
  try assignment.add(transaction(changes, author: author), place: "transactions[0]")
  return Dictionary(uniqueKeysWithValues: try assignment.assignments().map { ($0.objectID, $0.zone) })
}

@Suite struct `Zones of new objects` {
  @Test func `T-E05 a new object goes where the objects are that it is connected with, over any number of new ones`()
    throws
  {
    let stored: [String: ObjectHome] = ["post": .zone(z1), "old": .zone(home)]
    let zones = try assigned(
      insert("Attachment", "a", [:], ["post": .toOne("post")]), insert("Tag", "t", [:], ["posts": .toMany(["new"])]),
      insert("Post", "new", [:], ["author": .toOne("person")]),
      insert("Person", "person", [:], ["posts": .toManyDelta(add: ["post"], remove: [])]),
      insert("Attachment", "b", [:], ["post": .toOne("old")]), insert("Tag", "alone"), stored: stored)
    #expect(zones == ["a": z1, "t": z1, "new": z1, "person": z1])
    #expect(
      try assigned(
        insert("Post", "p", [:], ["attachments": .toMany(["unknown"]), "author": .toOne("x")]), stored: ["x": .zone(z2)]
      ) == ["p": z2, "unknown": z2])
  }

  @Test func `T-E06 a save that connects two zones is refused, naming both objects and zones`() throws {
    let stored: [String: ObjectHome] = ["p1": .zone(z1), "p2": .zone(z2)]
    let refusal = #expect(throws: ZoneAssignment.Refusal.self) {
      try assigned(
        insert("Tag", "t", [:], ["posts": .toMany(["p1"])]),
        update("Tag", "t", [:], ["posts": .toManyDelta(add: ["p2"], remove: [])]), stored: stored)
    }
    #expect(
      refusal
        == .twoZones(
          place: "transactions[0]: changes[1]: Tag t", objectID: "p1", zone: z1, otherID: "p2", otherZone: z2))
    #expect(
      refusal?.recordError.cocoaErrorCode == .mirroring
        && refusal?.recordError.reason.contains("'p1' is in zone") == false)
    #expect(throws: ZoneAssignment.Refusal.self) {
      try assigned(update("Attachment", "a", [:], ["post": .toOne("p1")]), stored: ["a": .zone(home), "p1": .zone(z1)])
    }
  }

  @Test func `T-E07 without a default zone an unconnected object is refused with 2988, and connected ones are not`()
    throws
  {
    let refusal = #expect(throws: ZoneAssignment.Refusal.self) { try assigned(insert("Tag", "t"), defaultZone: nil) }
    #expect(
      refusal == .noZone(place: "transactions[0]: changes[0]: Tag t", objectID: "t")
        && refusal?.recordError.cocoaErrorCode == .noZoneAssigned)
    #expect(
      try assigned(insert("Tag", "t", [:], ["posts": .toMany(["p"])]), stored: ["p": .zone(z1)], defaultZone: nil) == [
        "t": z1
      ])
    #expect(
      try assigned(update("Post", "p", ["title": .string("x")]), stored: ["p": .zone(z1)], defaultZone: nil) == [:])
  }

  @Test
  func `an object that a save takes out of a relationship, does not mirror or did not make itself connects nothing`()
    throws
  {
    let stored: [String: ObjectHome] = ["p1": .zone(z1), "p2": .zone(z2), "t": .zone(z1)]
    #expect(
      try assigned(update("Tag", "t", [:], ["posts": .toManyDelta(add: ["p1"], remove: ["p2"])]), stored: stored) == [:]
    )
    #expect(try assigned(insert("Tag", "n", [:], ["nothing": .toMany(["p1", "p2"])]), stored: stored) == [:])
    #expect(try assigned(insert("Attachment", "a", [:], ["post": .toOne(nil)]), stored: stored) == [:])
    let imported = "NSCloudKitMirroringDelegate.import"
    #expect(
      try assigned(insert("Tag", "n", [:], ["posts": .toMany(["p1", "p2"])]), stored: stored, author: imported) == [:])
    #expect(try assigned(delete("Post", "p1"), insert("Tag", "n"), stored: stored) == [:])
  }

  @Test
  func `a tombstone connects nothing, and what is made again goes where it was, unless it is connected elsewhere`()
    throws
  {
    let stored: [String: ObjectHome] = ["gone": .tombstone(z1), "p2": .zone(z2)]
    #expect(try assigned(insert("Attachment", "a", [:], ["post": .toOne("gone")]), stored: stored) == [:])
    #expect(
      try assigned(
        insert("Post", "gone", [:], ["author": .toOne("h")]), stored: ["gone": .tombstone(z1), "h": .zone(home)]) == [
          "gone": home
        ])
    #expect(try assigned(insert("Post", "gone"), stored: ["gone": .tombstone(home)]) == [:])
    #expect(try assigned(update("Post", "gone", [:], ["tags": .toMany(["n"])]), stored: stored) == [:])
    #expect(
      try assigned(insert("Post", "gone", [:], ["tags": .toMany(["n"])]), insert("Tag", "n"), stored: stored) == [
        "gone": z1, "n": z1,
      ])
    #expect(
      try assigned(insert("Tag", "n", [:], ["posts": .toMany(["p2", "gone"])]), insert("Post", "gone"), stored: stored)
        == ["gone": z2, "n": z2])
    #expect(
      try assigned(
        insert("Post", "gone", [:], ["tags": .toMany(["n"])]), insert("Tag", "n", [:], ["posts": .toMany(["p2"])]),
        stored: stored) == ["gone": z2, "n": z2])
  }

  @Test(arguments: 0..<200) func `random saves agree with a search of the whole graph`(seed: Int) throws {
    var random = SeededGenerator(seed: seed)
    let all = [home, z1, z2]
    var stored: [String: ObjectHome] = [:]
    for index in 0..<6 { stored["s\(index)"] = .zone(all[Int.random(in: 0..<3, using: &random)]) }
    let names = stored.keys.sorted() + (0..<8).map { "n\($0)" }
    var changes: [HistoryChange] = []
    var edges: [(String, String)] = []
    for _ in 0..<Int.random(in: 1...7, using: &random) {
      let (from, to) = (names.randomElement(using: &random)!, names.randomElement(using: &random)!)
      edges.append((from, to))
      changes.append(
        Bool.random(using: &random)
          ? insert("Person", from, [:], ["spouse": .toOne(to)])
          : update("Person", from, [:], ["friends": .toManyDelta(add: [to], remove: names)]))
    }
    // Naively: all objects that are reachable in either direction.
    func reached(_ start: String) -> Set<String> {
      var found: Set<String> = [start]
      while case let more = edges.flatMap({ [$0.0, $0.1].contains(where: found.contains) ? [$0.0, $0.1] : [] }),
        !found.isSuperset(of: more)
      { found.formUnion(more) }
      return found
    }
    func zones(around start: String) -> Set<Zone.ID> {
      Set(reached(start).compactMap { if case .zone(let zone)? = stored[$0] { zone } else { nil } })
    }
    let named = Set(edges.flatMap { [$0.0, $0.1] })
    var assignment = ZoneAssignment(model: Sample.index, defaultZone: home) { stored[$0] ?? .nowhere }
    do {
      try assignment.add(transaction(changes), place: "t")
      let found = Dictionary(uniqueKeysWithValues: try assignment.assignments().map { ($0.objectID, $0.zone) })
      #expect(named.allSatisfy { zones(around: $0).count <= 1 }, "seed \(seed)")
      let expected = named.filter { stored[$0] == nil && zones(around: $0).subtracting([home]).count == 1 }
      #expect(Set(found.keys) == expected && found.allSatisfy { zones(around: $0.key) == [$0.value] }, "seed \(seed)")
    } catch is ZoneAssignment.Refusal {
      #expect(named.contains { zones(around: $0).count > 1 }, "seed \(seed)")
    }
  }

  @Test(arguments: 0..<300) func `a refused transaction leaves nothing behind for those after it`(seed: Int) throws {
    var random = SeededGenerator(seed: seed)
    let homes: [ObjectHome] = [.zone(home), .zone(z1), .zone(z2), .tombstone(z1), .nowhere]
    let stored = Dictionary(uniqueKeysWithValues: (0..<8).map { ("s\($0)", homes.randomElement(using: &random)!) })
    let names = stored.keys.sorted() + (0..<8).map { "n\($0)" }
    var assignment = ZoneAssignment(model: Sample.index, defaultZone: nil) { stored[$0] ?? .nowhere }
    // Naively: a copy for each transaction, asked for all objects each time.
    var (kept, assigned, settled) = (assignment, [String: Zone.ID](), [String: Zone.ID]())
    for number in 0..<8 {
      let changes = (0..<Int.random(in: 1...4, using: &random)).map { _ in
        let (from, to) = (names.randomElement(using: &random)!, names.randomElement(using: &random)!)
        return Bool.random(using: &random)
          ? insert("Person", from, [:], ["spouse": .toOne(to)])
          : update("Person", from, [:], ["friends": .toManyDelta(add: [to], remove: [])])
      }
      let (transaction, place) = (transaction(changes), "transactions[\(number)]")
      var copy = kept
      do {
        try copy.add(transaction, place: place)
        for (objectID, zone) in try copy.assignments() { assigned[objectID] = zone }
        kept = copy
        for (objectID, zone) in try assignment.settle(transaction, place: place) {
          #expect(settled.updateValue(zone, forKey: objectID) == nil, "seed \(seed)")
        }
      } catch let refusal as ZoneAssignment.Refusal {
        #expect(throws: refusal, "seed \(seed)") { try assignment.settle(transaction, place: place) }
      }
      #expect(settled == assigned, "seed \(seed), transaction \(number)")
    }
  }
}

@Suite struct `Exports of one of several zones` {
  private func exporter(_ zone: TestZone, _ others: [String: Exporter.OtherZone], reverting: Set<String> = [])
    -> Exporter
  {
    Exporter(
      model: Sample.index, links: Sample.links, source: zone, serializer: Serializer(contents: zone.assets),
      stamp: Stamp(timestamp: 1, userRecordName: "_u"),
      elsewhere: { others[$0] }, reverting: reverting, makeRecordName: { "LINK" })
  }

  @Test func `changes of other zones' objects are left alone, and nothing points to them`() throws {
    let zone = TestZone()
    var exporter = exporter(zone, ["other": .alive(zoneName: "Z"), "buried": .tombstone, "new": .unknown])
    try exporter.apply(
      transaction([
        insert("Post", "other"), insert("Tag", "new"), insert("Attachment", "a", [:], ["post": .toOne("other")]),
        insert("Attachment", "b", [:], ["post": .toOne("buried")]),
        insert("Tag", "t", [:], ["posts": .toMany(["other", "buried", "here"])]),
        insert("Post", "here", [:], ["attachments": .toMany(["other"]), "tags": .toMany(["new"])]),
      ]))
    let plan = exporter.plan()
    #expect(plan.writes.map(\.item.recordName).prefix(4) == ["a", "b", "t", "here"])
    #expect(
      plan.leftOut.map { "\($0.change.objectID) \($0.problem.cocoaErrorCode == .mirroring)" } == [
        "a true", "t true", "here true",
      ])
    #expect(
      plan.writes.allSatisfy {
        if case .save(let record, _) = $0.item {
          !record.fields.contains { $0.field == Field(.string("other")) }
        } else {
          false
        }
      })
  }

  @Test func `T-P05 changes that may not be made are undone with everything they did to others`() throws {
    let zone = TestZone()
    try zone.save(
      insert("Post", "p", ["title": .string("x")], ["attachments": .toMany(["a"]), "tags": .toMany(["t"])]),
      insert("Attachment", "a"), insert("Attachment", "b"),
      insert("Tag", "t"), insert("Tag", "u"))
    var exporter = exporter(zone, [:], reverting: ["p", "made"])
    try exporter.apply(
      transaction([
        update(
          "Post", "p", ["title": .string("y")],
          ["attachments": .toMany(["b"]), "tags": .toManyDelta(add: ["u"], remove: ["t"])]), insert("Tag", "made"),
        update("Tag", "u", ["name": .string("mine")]),
      ]))
    let plan = exporter.plan()
    func text(_ write: PlannedWrite) -> String {
      guard case .save(let record, let keys) = write.item else { return "delete \(write.item.recordName)" }
      return "\(record.recordName) \(keys) \(write.isServersOwn)"
    }
    #expect(
      Set(plan.writes.map(text)) == ["u [\"CD_name\"] false", "p [] true", "a [] true", "b [] true", "LINK-1 [] true"])
    #expect(
      plan.withdrawn.map { "\($0.recordName) \($0.recordType)" } == ["LINK CDMR", "made CD_Tag"]
        || plan.withdrawn.map(\.recordName) == ["made", "LINK"])
    // A deletion reverts the object, the references to it, and its links.
    var deletion = self.exporter(zone, [:], reverting: ["p"])
    try deletion.apply(transaction([delete("Post", "p")]))
    #expect(Set(deletion.plan().writes.map(text)) == ["p [] true", "a [] true", "LINK-1 [] true"])
  }
}
