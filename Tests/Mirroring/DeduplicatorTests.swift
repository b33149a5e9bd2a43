// Merges duplicates over a zone in memory.

import History
import Mirroring
import MirroringWorld
import ObjectModel
import Records
import Testing

private let dated = ManagedObjectModel(entities: [
  Entity(
    name: "Tag",
    attributes: [Attribute(name: "name", type: .string), Attribute(name: "deduplicatedDate", type: .date)],
    relationships: [Sample.toMany("posts", "Post", "tags")]),
  Entity(name: "Post", relationships: [Sample.toMany("tags", "Tag", "posts")]),
])

extension TestZone {
  /// Merges and writes the result.
  @discardableResult
  fileprivate func merge(
    _ losers: [String], into survivor: String, model: ModelIndex = Sample.index,
    _ more: (inout Deduplicator) throws -> Void = { _ in }
  ) throws -> [PlannedWrite] {
    var counter = 0
    var deduplicator = Deduplicator(
      model: model, links: LinkResolver(model), source: self, stamp: Stamp(timestamp: 777, userRecordName: "_server"),
      makeRecordName: {
        counter += 1
        return "NEW-\(self.sequence)-\(counter)"
      })
    for loser in losers { try deduplicator.merge(loser, into: survivor, of: Set(losers + [survivor])) }
    for loser in losers {
      for pointer in pointers(to: loser) { try deduplicator.move(pointer, from: loser, to: survivor) }
    }
    try more(&deduplicator)
    let writes = deduplicator.plan()
    for write in writes {
      switch write.item {
      case .save(let record, _): put(record)
      case .delete(let record): put(record, isDeleted: true)
      }
    }
    return writes
  }

  fileprivate var pairs: [String] { live("CDMR").compactMap { $0.fields.string("CD_recordNames") }.sorted() }
}

/// The pure part of merging.
struct DeduplicatorTests {
  @Test func `the lower name survives, whatever its case`() {
    let names = ["b0000000-0000-4000-8000-000000000000", "A0000000-0000-4000-8000-000000000000", "C", "a"]
    #expect(names.sorted(by: Deduplicator.survives) == ["a", names[1], names[0], "C"])
  }

  @Test func `links of a duplicate become the survivor's, in records of their own, and no pair is there twice`() throws
  {
    let zone = TestZone()
    try zone.save(
      insert("Tag", "A", ["name": .string("x")]), insert("Tag", "B", ["name": .string("x")]),
      insert("Post", "p", [:], ["tags": .toMany(["A", "B"])]), insert("Post", "q", [:], ["tags": .toMany(["B"])]))
    let old = Set(
      zone.live("CDMR").filter { $0.fields.string("CD_recordNames")?.contains("B") == true }.map(\.recordName))
    let writes = try zone.merge(["B"], into: "A")
    #expect(zone.pairs == ["p:A", "q:A"])
    #expect(zone.live("CDMR").allSatisfy { !old.contains($0.recordName) })
    #expect(writes.allSatisfy { $0.isServersOwn })
    #expect(zone["B"]?.fields.string("CD_name") == "x", "the duplicate stays, and is what it was")
    #expect(try zone.merge(["B"], into: "A").isEmpty, "again it changes nothing")
  }

  @Test func `a symmetric pair keeps its ascending order, and a pair of the two is dropped`() throws {
    let zone = TestZone()
    try zone.save(
      insert("Person", "A"), insert("Person", "C"), insert("Person", "B", [:], ["friends": .toMany(["A", "C"])]))
    try zone.merge(["B"], into: "A")
    #expect(zone.pairs == ["A:C"])
    let other = TestZone()
    try other.save(
      insert("Person", "A"), insert("Person", "0"), insert("Person", "B", [:], ["friends": .toMany(["0"])]))
    try other.merge(["B"], into: "A")
    #expect(other.pairs == ["0:A"])
  }

  @Test func `pointers to a duplicate point to the survivor, and those that would point to themselves nowhere`() throws
  {
    let zone = TestZone()
    try zone.save(
      insert("Person", "A"), insert("Person", "B"), insert("Post", "p", [:], ["author": .toOne("B")]),
      insert("Post", "q", [:], ["author": .toOne("A")]))
    try zone.merge(["B"], into: "A")
    #expect(zone["p"]?.fields.string("CD_author") == "A" && zone["q"]?.fields.string("CD_author") == "A")
    let married = TestZone()
    try married.save(insert("Person", "A"), insert("Person", "B", [:], ["spouse": .toOne("A")]))
    try married.merge(["B"], into: "A")
    #expect(married["A"]?.fields["CD_spouse"] == nil && married["B"]?.fields["CD_spouse"] == nil)
  }

  @Test func `the survivor takes the to-one relationships that it lacks, the lowest duplicate's first`() throws {
    let zone = TestZone()
    try zone.save(
      insert("Person", "u"), insert("Person", "v"), insert("Post", "A"),
      insert("Post", "B", [:], ["author": .toOne("u")]),
      insert("Post", "C", [:], ["author": .toOne("v")]))
    try zone.merge(["B", "C"], into: "A")
    #expect(zone["A"]?.fields.string("CD_author") == "u")
    #expect(zone["B"]?.fields["CD_author"] == nil && zone["C"]?.fields["CD_author"] == nil)
  }

  @Test func `of two one-to-one partners the survivor's stays and the other is let go`() throws {
    let zone = TestZone()
    try zone.save(
      insert("Post", "A", [:], ["cover": .toOne("c")]), insert("Cover", "c"),
      insert("Post", "B", [:], ["cover": .toOne("d")]), insert("Cover", "d"))
    try zone.merge(["B"], into: "A")
    #expect(zone["A"]?.fields.string("CD_cover") == "c" && zone["c"]?.fields.string("CD_post") == "A")
    #expect(zone["B"]?.fields["CD_cover"] == nil && zone["d"]?.fields["CD_post"] == nil)
    let free = TestZone()
    try free.save(insert("Post", "A"), insert("Post", "B", [:], ["cover": .toOne("d")]), insert("Cover", "d"))
    try free.merge(["B"], into: "A")
    #expect(
      free["A"]?.fields.string("CD_cover") == "d" && free["d"]?.fields.string("CD_post") == "A"
        && free["B"]?.fields["CD_cover"] == nil)
  }

  @Test func `a duplicate whose entity has the date of its merge is given it`() throws {
    let zone = TestZone()
    for name in ["A", "B"] {
      zone.put(record("CD_Tag", name, ["CD_entityName": .string("Tag"), "CD_name": .string("x")]))
    }
    try zone.merge(["B"], into: "A", model: ModelIndex(dated))
    #expect(zone["B"]?.fields["CD_deduplicatedDate"]?.value == .timestamp(777))
    #expect(zone["A"]?.fields["CD_deduplicatedDate"] == nil)
  }

  @Test func `references and links of models that nobody knows follow their words`() throws {
    let zone = TestZone()
    try zone.save(insert("Tag", "A"), insert("Tag", "B"))
    let link: Fields = [
      "CD_entityNames": .string("Robot:Tag"), "CD_relationships": .string("tags:robots"),
      "CD_recordNames": .string("r:B"),
    ]
    zone.put(record("CDMR", "l", link))
    zone.put(
      record(
        "Note", "n",
        [
          "tag": .reference(Reference(recordName: "B", action: .none)),
          "tags": .list(element: .reference, [.reference(Reference(recordName: "B", action: .none))]),
        ]))
    try zone.merge(["B"], into: "A") { deduplicator in
      for field in ["tag", "tags"] {
        try deduplicator.move(RecordPointer(field: field, source: "n"), from: "B", to: "A")
      }
    }
    #expect(zone.pairs == ["r:A"])
    #expect(zone["n"]?.fields["tag"]?.value == .reference(Reference(recordName: "A", action: .none)))
    #expect(
      zone["n"]?.fields["tags"]?.value
        == .list(element: .reference, [.reference(Reference(recordName: "A", action: .none))]))
  }

  @Test func `a pointer to a duplicate of an object that is gone points nowhere`() throws {
    let zone = TestZone()
    try zone.save(
      insert("Person", "A"), insert("Person", "B"),
      insert("Post", "p", [:], ["author": .toOne("B"), "tags": .toMany(["t"])]), insert("Tag", "t"),
      insert("Person", "C", [:], ["friends": .toMany(["B"])]))
    zone.delete("A")
    try zone.merge(["B"], into: "A")
    #expect(zone["p"]?.fields["CD_author"] == nil)
    #expect(zone.pairs == ["p:t"])
  }

  @Test func `an edit of a duplicate is carried to the survivor, its relationships moved`() throws {
    let zone = TestZone()
    try zone.save(
      insert("Person", "u"), insert("Post", "A", ["title": .string("x")]), insert("Post", "B", ["title": .string("x")]))
    let earlier = try #require(zone["B"])
    try zone.save(update("Post", "B", ["title": .string("y")], ["author": .toOne("u")]))
    let later = try #require(zone["B"])
    try zone.merge([], into: "A") { try $0.carry(from: earlier, to: later, into: "A") }
    #expect(zone["A"]?.fields.string("CD_title") == "y" && zone["A"]?.fields.string("CD_author") == "u")
    #expect(zone["B"]?.fields.string("CD_title") == "y" && zone["B"]?.fields["CD_author"] == nil)
  }

  @Test func `removing a duplicate removes its links and clears what points to it`() throws {
    let zone = TestZone()
    try zone.save(
      insert("Person", "B"), insert("Post", "p", [:], ["author": .toOne("B")]),
      insert("Person", "C", [:], ["friends": .toMany(["B"])]))
    try zone.merge([], into: "A") { try $0.remove("B") }
    #expect(zone["B"] == nil && zone["p"]?.fields["CD_author"] == nil && zone.pairs.isEmpty)
  }
}
