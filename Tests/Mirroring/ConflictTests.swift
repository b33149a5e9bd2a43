// The winner of a conflict for each policy, and the journal's entry about the loser.

import History
import Mirroring
import MirroringWorld
import ObjectModel
import Records
import Testing

/// A zone and devices that edit one card in it.
struct ConflictWorld {
  let zone = TestZone(ConflictModel.index, rules: ConflictModel.rules)

  /// - Parameter base: the sequence that the device had imported; nil: the latest.
  @discardableResult
  func save(_ device: String, at time: Int64, base: Int? = nil, _ changes: HistoryChange...) throws -> ExportPlan {
    var saved = transaction(changes)
    saved.edit = HistoryTransaction.Edit(base: Int64(base ?? zone.sequence), time: time)
    return try zone.export([saved], from: device)
  }

  func value(_ name: String, of objectID: String = "C") throws -> AttributeValue? {
    guard let record = zone[objectID] else { return nil }
    let deserializer = Deserializer(ConflictModel.index)
    let entity = try #require(deserializer.entity(of: record))
    return try deserializer.object(entity, from: record).attributes.first { $0.name == name }?.value
  }

  /// One card that all devices have imported.
  static func withCard(_ attributes: KeyValuePairs<String, AttributeValue> = [:]) throws -> (
    world: ConflictWorld, base: Int
  ) {
    let world = ConflictWorld()
    try world.save("A", at: 1, insert("Card", "C", attributes))
    return (world, world.zone.sequence)
  }
}

struct ConflictTests {
  @Test func `T-C02 A's value gives way to B's, which arrives later, and is written down with what both began with`()
    throws
  {
    let (world, base) = try ConflictWorld.withCard(["title": .string("start")])
    try world.save("A", at: 10, base: base, update("Card", "C", ["title": .string("A's")]))
    let plan = try world.save("B", at: 5, base: base, update("Card", "C", ["title": .string("B's")]))
    #expect(try world.value("title") == .string("B's"))
    let loss = try #require(plan.losses.first)
    #expect(plan.losses.count == 1 && loss.kind == .lostValue && loss.edit.deviceID == "A")
    #expect(loss.lost == [update("Card", "C", ["title": .string("A's")])])
    #expect(
      loss.kept == update("Card", "C", ["title": .string("B's")])
        && loss.ancestor == update("Card", "C", ["title": .string("start")]))
    // Read back from its stored content.
    let again = ConflictLoss(
      kind: .lostValue, objectID: "C", entity: "Card", content: loss.content, user: "_user", device: "A")
    #expect(again.lost == loss.lost && again.kept == loss.kept && again.ancestor == loss.ancestor)
  }

  @Test
  func `an edit that knew what it overwrites costs nobody anything, nor does one of another property, nor an own one`()
    throws
  {
    let (world, base) = try ConflictWorld.withCard(["title": .string("start")])
    try world.save("A", at: 10, base: base, update("Card", "C", ["title": .string("A's")]))
    #expect(try world.save("B", at: 11, update("Card", "C", ["title": .string("B's")])).losses.isEmpty)
    let second = world.zone.sequence
    #expect(try world.save("A", at: 12, base: second, update("Card", "C", ["likes": .integer(1)])).losses.isEmpty)
    #expect(
      try world.save("B", at: 13, base: second, update("Card", "C", ["title": .string("B's again")])).losses.isEmpty)
    #expect(
      try world.save("B", at: 14, base: second, update("Card", "C", ["title": .string("and again")])).losses.isEmpty)
    // Both devices set the same value.
    try world.save("A", at: 15, base: second, update("Card", "C", ["title": .string("both")]))
    #expect(try world.value("title") == .string("both"))
    let third = world.zone.sequence
    try world.save("A", at: 16, base: third, update("Card", "C", ["title": .string("same")]))
    #expect(try world.save("B", at: 17, base: third, update("Card", "C", ["title": .string("same")])).losses.isEmpty)
  }

  @Test func `T-C04 a to-one that B sets without knowing of A's wins, and A's is written down`() throws {
    let (world, _) = try ConflictWorld.withCard()
    try world.save(
      "A", at: 2, insert("Box", "P"), insert("Box", "Q"), insert("Box", "R"),
      update("Card", "C", [:], ["box": .toOne("R")]))
    let base = world.zone.sequence
    try world.save("A", at: 10, base: base, update("Card", "C", [:], ["box": .toOne("P")]))
    let plan = try world.save("B", at: 11, base: base, update("Card", "C", [:], ["box": .toOne("Q")]))
    #expect(world.zone["C"]?.fields.string("CD_box") == "Q")
    #expect(plan.losses.map(\.lost) == [[update("Card", "C", [:], ["box": .toOne("P")])]])
    #expect(plan.losses.first?.ancestor == update("Card", "C", [:], ["box": .toOne("R")]))
  }

  @Test func `the edit that was made last wins, whichever arrives first, and the other device is told`() throws {
    for aComesFirst in [true, false] {
      let (world, base) = try ConflictWorld.withCard(["body": .string("start")])
      func a() throws -> ExportPlan {
        try world.save("A", at: 20, base: base, update("Card", "C", ["body": .string("A's")]))
      }
      func b() throws -> ExportPlan {
        try world.save("B", at: 10, base: base, update("Card", "C", ["body": .string("B's")]))
      }
      let plan = aComesFirst ? try (a(), b()).1 : try (b(), a()).1
      #expect(try world.value("body") == .string("A's"))
      #expect(plan.losses.map(\.lost) == [[update("Card", "C", ["body": .string("B's")])]])
      #expect(plan.losses.first?.edit.deviceID == "B")
      // B has its own value and imported A's record before it saved, so B gets A's record again.
      #expect(plan.writes.map(\.isServersOwn) == [aComesFirst])
    }
  }

  @Test func `T-C09 of two edits at the same time the same one wins everywhere`() throws {
    for devices in [["A", "B"], ["B", "A"]] {
      let (world, base) = try ConflictWorld.withCard(["body": .string("start")])
      for device in devices {
        try world.save(device, at: 10, base: base, update("Card", "C", ["body": .string(device)]))
      }
      #expect(try world.value("body") == .string("B"))
    }
  }

  @Test
  func
    `T-C10 a clock that is hours ahead wins for a minute and no longer, and its edit holds nobody back`()
    throws
  {
    let ahead = EditTime.edit(7_200_000, savedAt: 1000, base: 1)
    #expect(ahead == HistoryTransaction.Edit(base: 1, time: 61_000))
    #expect(EditTime.edit(900, savedAt: 1000, base: 1).time == 900)
    let (world, base) = try ConflictWorld.withCard(["body": .string("start"), "title": .string("start")])
    try world.save(
      "A", at: ahead.time, base: base, update("Card", "C", ["body": .string("ahead"), "title": .string("ahead")]))
    let seen = world.zone.sequence
    try world.save(
      "B", at: 2000, base: base, update("Card", "C", ["body": .string("in time"), "title": .string("in time")]))
    #expect(
      try world.value("body") == .string("ahead") && world.value("title") == .string("in time"), "arrival asks no clock"
    )
    try world.save("C", at: 3000, base: seen, update("Card", "C", ["body": .string("knowing")]))
    #expect(try world.value("body") == .string("knowing"))
    try world.save("B", at: 62_000, base: base, update("Card", "C", ["body": .string("a minute later")]))
    #expect(try world.value("body") == .string("a minute later"))
  }

  @Test func `T-C13 a counter adds up what devices add`() throws {
    let (world, base) = try ConflictWorld.withCard(["likes": .integer(5)])
    try world.save("A", at: 10, base: base, update("Card", "C", ["likes": .integer(6)]))
    let plan = try world.save("B", at: 11, base: base, update("Card", "C", ["likes": .integer(6)]))
    #expect(try world.value("likes") == .integer(7))
    #expect(plan.losses.isEmpty && plan.writes.map(\.isServersOwn) == [true], "B is told")
    // B counts on from its own six, because it has not imported yet.
    try world.save("B", at: 12, base: base, update("Card", "C", ["likes": .integer(7)]))
    #expect(try world.value("likes") == .integer(8))
    try world.save("A", at: 13, base: base, update("Card", "C", ["likes": .integer(3)]))
    #expect(try world.value("likes") == .integer(5))
    try world.save("B", at: 14, update("Card", "C", ["likes": .integer(0)]))
    #expect(try world.value("likes") == .integer(0), "who knows all sets what he says")
    let end = world.zone.sequence
    try world.save("A", at: 15, base: end, update("Card", "C", ["likes": .integer(32_000)]))
    try world.save("B", at: 16, base: end, update("Card", "C", ["likes": .integer(32_000)]))
    #expect(try world.value("likes") == .integer(32_767), "a counter that is full stays full")
  }

  @Test func `the larger and the smaller value stay, whoever brings them`() throws {
    let (world, base) = try ConflictWorld.withCard(["highest": .integer(5), "earliest": .date(500)])
    try world.save("A", at: 10, base: base, update("Card", "C", ["highest": .integer(9), "earliest": .date(900)]))
    #expect(try world.value("highest") == .integer(9) && world.value("earliest") == .date(500))
    let plan = try world.save(
      "B", at: 11, base: base, update("Card", "C", ["highest": .integer(7), "earliest": .date(100)]))
    #expect(try world.value("highest") == .integer(9) && world.value("earliest") == .date(100))
    #expect(plan.losses.isEmpty && plan.writes.map(\.isServersOwn) == [true])
    try world.save("B", at: 12, update("Card", "C", ["highest": .null, "earliest": .date(-5)]))
    #expect(try world.value("highest") == .integer(9) && world.value("earliest") == .date(-5))
  }

  @Test func `a set has what one of two adds and has not what one of them removes`() throws {
    let (world, base) = try ConflictWorld.withCard(["tags": .string(#"["b", "a"]"#)])
    #expect(try world.value("tags") == .string(#"["a","b"]"#), "in one spelling")
    try world.save("A", at: 10, base: base, update("Card", "C", ["tags": .string(#"["a","b","c"]"#)]))
    try world.save("B", at: 11, base: base, update("Card", "C", ["tags": .string(#"["b",7]"#)]))
    #expect(try world.value("tags") == .string(#"["b","c",7]"#))
    // B goes on from its own list.
    try world.save("B", at: 12, base: base, update("Card", "C", ["tags": .string(#"["b","d",7]"#)]))
    #expect(try world.value("tags") == .string(#"["b","c","d",7]"#))
    // A removes an element that B kept: the later edit wins.
    try world.save("A", at: 9, base: base, update("Card", "C", ["tags": .string(#"["a","c"]"#)]))
    #expect(try world.value("tags") == .string(#"["c","d",7]"#))
    try world.save("A", at: 30, update("Card", "C", ["tags": .null]))
    #expect(try world.value("tags") == .null)
    let end = world.zone.sequence
    try world.save("A", at: 31, base: end, update("Card", "C", ["tags": .string("no set")]))
    let plan = try world.save("B", at: 32, base: end, update("Card", "C", ["tags": .string(#"["x"]"#)]))
    #expect(
      try world.value("tags") == .string(#"["x"]"#) && plan.losses.count == 1,
      "what is no set is no policy's, and the last arrival wins")
  }

  @Test func `where somebody has to decide the server's value stays, and all three are written down`() throws {
    let (world, base) = try ConflictWorld.withCard(["choice": .string("start"), "title": .string("start")])
    try world.save("A", at: 10, base: base, update("Card", "C", ["choice": .string("A's")]))
    let plan = try world.save(
      "B", at: 11, base: base, update("Card", "C", ["choice": .string("B's"), "title": .string("B's")]))
    #expect(try world.value("choice") == .string("A's") && world.value("title") == .string("B's"))
    let loss = try #require(plan.losses.first)
    #expect(plan.losses.count == 1 && loss.kind == .undecided && loss.state == .open)
    #expect(loss.lost == [update("Card", "C", ["choice": .string("B's")])])
    #expect(
      loss.kept == update("Card", "C", ["choice": .string("A's")])
        && loss.ancestor == update("Card", "C", ["choice": .string("start")]))
    #expect(plan.writes.map(\.isServersOwn) == [true])
    // A device that has seen the server's value decides by setting it.
    #expect(try world.save("B", at: 12, update("Card", "C", ["choice": .string("decided")])).losses.isEmpty)
    #expect(try world.value("choice") == .string("decided"))
  }

  @Test func `an insert over what another device inserted under the same name is judged like an edit`() throws {
    let world = ConflictWorld()
    try world.save(
      "A", at: 20, base: 0,
      insert("Card", "C", ["body": .string("A's"), "title": .string("A's"), "likes": .integer(2)]))
    let plan = try world.save(
      "B", at: 10, base: 0,
      insert("Card", "C", ["body": .string("B's"), "title": .string("B's"), "likes": .integer(3)]))
    #expect(
      try world.value("body") == .string("A's") && world.value("title") == .string("B's")
        && world.value("likes") == .integer(5))
    #expect(
      Set(plan.losses.flatMap(\.lost)) == [
        update("Card", "C", ["body": .string("B's")]), update("Card", "C", ["title": .string("A's")]),
      ])
  }
}
