// Conflicts between a deletion and an edit, in both orders, with both policies.

import History
import Mirroring
import MirroringWorld
import Records
import Testing

struct DeletionConflictTests {
  private static func world(_ entity: String) throws -> (ConflictWorld, Int) {
    let world = ConflictWorld()
    try world.save(
      "A", at: 1, insert("Box", "P"), insert(entity, "C", ["title": .string("start")], ["box": .toOne("P")]))
    return (world, world.zone.sequence)
  }

  @Test
  func `T-C05 an edit of what was deleted meanwhile is written down with the whole object, and does not bring it back`()
    throws
  {
    let (world, base) = try Self.world("Card")
    try world.save("A", at: 10, delete("Card", "C"))
    let plan = try world.save(
      "B", at: 11, base: base, update("Card", "C", ["body": .string("B's")]),
      update("Card", "C", ["title": .string("and more")]))
    #expect(world.zone["C"] == nil && plan.writes.isEmpty)
    #expect(plan.leftOut.allSatisfy { $0.problem.cause == .deleted })
    let loss = try #require(plan.losses.first)
    #expect(plan.losses.count == 1 && loss.kind == .lostObject && loss.isOfEdit(by: "B"))
    #expect(
      loss.lost == [insert("Card", "C", ["body": .string("B's"), "title": .string("and more")], ["box": .toOne("P")])])
    // Applying the journal's changes brings the object back under its name.
    try world.save("B", at: 20, loss.lost[0])
    #expect(world.zone["C"]?.fields.string("CD_title") == "and more" && world.zone["C"]?.fields.string("CD_box") == "P")
  }

  @Test func `an object that its device makes again, or deletes, too, loses nothing`() throws {
    for last in [insert("Card", "C", ["title": .string("anew")]), delete("Card", "C")] {
      let (world, base) = try Self.world("Card")
      try world.save("A", at: 10, delete("Card", "C"))
      #expect(
        try world.save("B", at: 11, base: base, update("Card", "C", ["body": .string("B's")]), last).losses.isEmpty)
    }
  }

  @Test func `an edit that a deletion beat stays written down if its device then sends the object again`() throws {
    let (world, base) = try Self.world("Card")
    try world.save("A", at: 10, delete("Card", "C"))
    var edit = transaction([update("Card", "C", ["body": .string("B's")])])
    edit.edit = HistoryTransaction.Edit(base: Int64(base), time: 11)
    var again = transaction([insert("Card", "C", ["body": .string("B's"), "title": .string("start")])])
    again.author = ReservedName.reuploadAuthor
    again.edit = HistoryTransaction.Edit(base: Int64(base), time: 0)
    let plan = try world.zone.export([edit, again], from: "B")
    #expect(world.zone["C"] == nil && plan.losses.map(\.kind) == [.lostObject])
    #expect(plan.losses.first?.isOfEdit(by: "B") == true)
  }

  @Test func `a deletion of what another device edited since takes it, and what was said is written down`() throws {
    let (world, base) = try Self.world("Card")
    try world.save("A", at: 10, base: base, update("Card", "C", ["title": .string("A's")]))
    let plan = try world.save("B", at: 11, base: base, delete("Card", "C"))
    #expect(world.zone["C"] == nil)
    #expect(plan.losses.map(\.lost) == [[insert("Card", "C", ["title": .string("A's")], ["box": .toOne("P")])]])
    #expect(plan.losses.first?.edit.deviceID == "A")
  }

  @Test func `T-C06 where edits win, an edit brings back what was deleted meanwhile, once`() throws {
    let (world, base) = try Self.world("Pin")
    try world.save("A", at: 10, delete("Pin", "C"))
    let plan = try world.save("B", at: 11, base: base, update("Pin", "C", ["title": .string("B's")]))
    #expect(world.zone["C"]?.fields.string("CD_title") == "B's" && world.zone["C"]?.fields.string("CD_box") == "P")
    #expect(
      plan.losses.isEmpty && plan.leftOut.isEmpty && plan.writes.map(\.isServersOwn) == [true],
      "the deleter is told, too")
    #expect(
      try world.save("B", at: 12, base: base, update("Pin", "C", ["title": .string("B's second")])).writes.count == 1)
    // A device that has seen the object come back deletes it for good.
    try world.save("A", at: 13, delete("Pin", "C"))
    #expect(world.zone["C"] == nil)
  }

  @Test
  func
    `T-C06 where edits win, a deletion of what another device edited since does nothing, and its device has it again`()
    throws
  {
    let (world, _) = try Self.world("Pin")
    try world.save("A", at: 2, insert("Mark", "M"), update("Pin", "C", [:], ["marks": .toMany(["M"])]))
    let base = world.zone.sequence
    try world.save("A", at: 10, base: base, update("Pin", "C", ["title": .string("A's")]))
    let plan = try world.save("B", at: 11, base: base, delete("Pin", "C"))
    #expect(world.zone["C"]?.fields.string("CD_title") == "A's" && world.zone.live("CDMR").count == 1)
    #expect(
      plan.losses.isEmpty && plan.writes.count == 2 && plan.writes.allSatisfy(\.isServersOwn),
      "with its link, which B let go of, too")
    // No later edit exists, so the deletion is final.
    try world.save("B", at: 12, delete("Pin", "C"))
    #expect(world.zone["C"] == nil)
  }
}
