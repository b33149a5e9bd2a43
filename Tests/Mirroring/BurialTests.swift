// Deletions of objects that the zone never had, because it ended and other devices have not sent them again.

import History
import Mirroring
import MirroringWorld
import Records
import Testing

struct BurialTests {
  private static func names(_ plan: ExportPlan) -> [String] {
    plan.writes.map { write in
      switch write.item {
      case .save(let record, _): "save \(record.recordName)"
      case .delete(let record): "delete \(record.recordType) \(record.recordName)"
      }
    }
  }

  private static let again = ReservedName.reuploadAuthor

  @Test func `the deletion leaves one tombstone, which counts against devices that send the object again`() throws {
    let zone = TestZone()
    #expect(Self.names(try zone.save(delete("Post", "p"), delete("Post", "p"))) == ["delete CD_Post p"])
    #expect(try zone.save(delete("Post", "p"), from: "B") == ExportPlan(writes: []))
    let plan = try zone.save(insert("Post", "p", ["title": .string("x")]), from: "B", author: Self.again)
    #expect(plan.writes.isEmpty && plan.withdrawn.map(\.recordName) == ["p"] && zone["p"] == nil)
    try zone.save(insert("Post", "p", ["title": .string("new")]), from: "B")
    #expect(zone["p"]?.fields.string("CD_title") == "new", "a new object may have the name")
  }

  @Test func `what already points to the object, and what a later save would relate to it, lets go of it`() throws {
    let zone = TestZone()
    try zone.save(
      insert("Post", "p", [:], ["author": .toOne("a"), "tags": .toMany(["t"])]), from: "B", author: Self.again)
    #expect(zone["p"]?.fields.string("CD_author") == "a" && zone.live("CDMR").count == 1)
    try zone.save(delete("Person", "a"), delete("Tag", "t"))
    #expect(zone["p"]?.fields["CD_author"] == nil && zone.live("CDMR").isEmpty)
    try zone.save(insert("Post", "q", [:], ["author": .toOne("a"), "tags": .toMany(["t"])]), from: "B")
    #expect(zone["q"]?.fields["CD_author"] == nil && zone.live("CDMR").isEmpty)
  }

  @Test func `an object that the same run made leaves nothing, whether it could be written or not`() throws {
    let zone = TestZone()
    let plan = try zone.save(
      insert("Post", "p"), delete("Post", "p"), insert("Unknown", "u"), delete("Unknown", "u"),
      insert("Post", "q"), delete("Post", "q"), insert("Post", "q"))
    #expect(Self.names(plan) == ["save q"] && plan.leftOut.map(\.change.objectID) == ["u", "u"])
  }

  @Test func `the same holds in slices`() throws {
    let zone = TestZone()
    let made = transaction([insert("Post", "p"), delete("Post", "p"), delete("Post", "r")])
    let steps = ExportSteps(made).steps
    for slice in [steps[..<2], steps[2...]] { try zone.export(slice, of: made) }
    #expect(zone.record(named: "p") == nil && zone.record(named: "r")?.isDeleted == true)
  }

  @Test func `a deletion that an import made leaves nothing`() throws {
    let zone = TestZone()
    try zone.save(delete("Post", "p"), author: ReservedName.mirroringAuthorPrefix + "import")
    #expect(zone.record(named: "p") == nil)
  }
}
