// Transactions into record changes: T-E…, T-H02…T-H04, T-C11, T-C12, T-O05.

import History
import Mirroring
import MirroringWorld
import ObjectModel
import Records
import Testing

/// `save Post P [CD_title]` and the like, in order.
private func texts(_ plan: ExportPlan) -> [String] {
  plan.writes.map { write in
    switch write.item {
    case .save(let record, let keys):
      """
      save \(record.recordType) \(record.recordName) \
      \(keys.joined(separator: " "))\(write.isServersOwn ? " (server)" : "")
      """
    case .delete(let record): "delete \(record.recordType) \(record.recordName)\(write.isServersOwn ? " (server)" : "")"
    }
  }
}

private func problems(_ plan: ExportPlan) -> [String] {
  plan.problems.map { "\($0.code.row.ckErrorCode) \($0.recordName)" }
}

@Test func `T-H02 an object that was inserted and deleted before the export leaves no trace, nor do its links`() throws
{
  let zone = TestZone()
  try zone.save(insert("Tag", "t"))
  let plan = try zone.export([
    transaction([insert("Post", "p", ["title": .string("x")], ["tags": .toMany(["t"])])]),
    transaction([update("Post", "p", ["title": .string("y")])]),
    transaction([delete("Post", "p")]),
  ])
  #expect(plan == ExportPlan(writes: []))
  #expect(zone.record(named: "p") == nil)
}

@Test func `T-H03 edits of ignored properties write nothing`() throws {
  let zone = TestZone()
  try zone.save(insert("Post", "p", ["title": .string("x")]))
  #expect(
    try zone.save(update("Post", "p", ["scratch": .string("s"), "draft": .string("d"), "wordCount": .integer(5)]))
      .writes.isEmpty)
}

@Test func `T-H04 imports are never exported, 100 cycles stay silent`() throws {
  let zone = TestZone()
  try zone.save(insert("Post", "p", ["title": .string("x")], ["tags": .toMany(["t"])]), insert("Tag", "t"))
  for author in ["import", "reset", "export", "setup", "migration", "event", "schemaGenerator"] {
    for cycle in 0..<100 {
      let plan = try zone.save(
        insert("Post", "q\(cycle)"), update("Post", "p", ["title": .string("\(cycle)")], ["tags": .toMany([])]),
        from: "B",
        author: ReservedName.mirroringAuthorPrefix + author)
      #expect(plan.writes.isEmpty && plan.problems.isEmpty, "\(author)")
    }
  }
}

@Test func `H9 an object that an import deleted is not exported, although it was edited before`() throws {
  let zone = TestZone()
  try zone.save(insert("Post", "p"), insert("Tag", "t"))
  zone.put(try #require(zone["p"]), isDeleted: true, origin: "B")
  let imported = transaction(
    [delete("Post", "p"), insert("Post", "other")], author: "NSCloudKitMirroringDelegate.import")
  let plan = try zone.export([
    transaction([insert("Post", "q", [:], ["tags": .toMany(["t"])])]), imported,
    transaction([update("Tag", "t", ["name": .string("n")])]),
  ])
  #expect(
    texts(plan) == [
      "save CD_Post q CD_entityName", "save CD_Tag t CD_name",
      "save CDMR LINK-1 CD_entityNames CD_recordNames CD_relationships",
    ])
  let dropped = try zone.export([
    transaction([insert("Post", "r", [:], ["tags": .toMany(["t"])])]),
    transaction([delete("Post", "r")], author: "NSCloudKitMirroringDelegate.import"),
  ])
  #expect(dropped.writes.isEmpty)
}

@Test func `T-E01 a thousand objects are written objects first and links behind them, always the same`() throws {
  func plan() throws -> ExportPlan {
    let zone = TestZone()
    let changes = (0..<1000).map {
      insert("Post", "p\($0)", ["title": .string("title \($0)")], ["tags": .toMany(["t"])])
    }
    return try zone.export([transaction([insert("Tag", "t")] + changes)])
  }
  let writes = try plan().writes
  #expect(writes == (try plan()).writes)
  let types = writes.map { write in if case .save(let record, _) = write.item { record.recordType } else { "" } }
  #expect(types == ["CD_Tag"] + Array(repeating: "CD_Post", count: 1000) + Array(repeating: "CDMR", count: 1000))
}

@Test func `T-E02 only the fields that really changed are written`() throws {
  let zone = TestZone()
  try zone.save(
    insert(
      "Everything", "e",
      [
        "string": .string("a"), "double": .double(1), "date": .date(5), "integer64": .integer(3),
        "boolean": .boolean(true),
      ]))
  let plan = try zone.save(
    update("Everything", "e", ["string": .string("b"), "double": .double(1), "date": .null, "integer64": .integer(3)]))
  #expect(texts(plan) == ["save CD_Everything e CD_date CD_string"])
  #expect(
    try zone.save(update("Everything", "e", ["string": .string("b"), "date": .null])).writes.isEmpty,
    "the same values again")
}

@Test func `repeated edits collapse into their last state`() throws {
  let zone = TestZone()
  try zone.save(insert("Post", "p", ["title": .string("0"), "content": .string("c")]))
  let plan = try zone.export([
    transaction([update("Post", "p", ["title": .string("1")])]),
    transaction([update("Post", "p", ["content": .string("d")])]),
    transaction([update("Post", "p", ["title": .string("0")])]),
  ])
  #expect(texts(plan) == ["save CD_Post p CD_content"])
}

@Test func `T-E04 delete and insert of the same identity end as a save, alive and with the new values only`() throws {
  let zone = TestZone()
  try zone.save(insert("Post", "p", ["title": .string("old"), "content": .string("old")]))
  let plan = try zone.export([
    transaction([delete("Post", "p")]), transaction([insert("Post", "p", ["title": .string("new")])]),
  ])
  #expect(texts(plan) == ["save CD_Post p CD_content CD_title"])
  #expect(zone["p"]?.fields == ["CD_entityName": .string("Post"), "CD_title": .string("new")])
  try zone.save(delete("Post", "p"))
  #expect(
    texts(try zone.save(insert("Post", "p", ["title": .string("third")]))) == ["save CD_Post p CD_entityName CD_title"],
    "over a tombstone")
  let inOne = try zone.save(delete("Post", "p"), insert("Post", "p", ["content": .string("fourth")]))
  #expect(texts(inOne) == ["save CD_Post p CD_content CD_title"])
}

@Test func `an insert over a living object writes what it brings and keeps the rest`() throws {
  let zone = TestZone()
  try zone.save(insert("Post", "p", ["title": .string("a"), "content": .string("c")]))
  #expect(texts(try zone.save(insert("Post", "p", ["title": .string("b")]), from: "B")) == ["save CD_Post p CD_title"])
  #expect(problems(try zone.save(insert("Tag", "p"), from: "B")) == ["14 p"], "but not over one of another entity")
}

@Test func `S4 an edit of what is gone or never was is a problem of its own, the others are exported`() throws {
  let zone = TestZone()
  try zone.save(insert("Post", "p"), insert("Post", "q"))
  try zone.save(delete("Post", "p"), from: "B")
  let plan = try zone.save(
    update("Post", "p", ["title": .string("x")], ["author": .toOne("nobody")]),
    update("Post", "never", ["title": .string("x")]),
    update("Post", "q", ["title": .string("x")]), update("Tag", "q", ["name": .string("x")]))
  #expect(problems(plan) == ["11 p", "11 never", "14 q"])
  #expect(texts(plan) == ["save CD_Post q CD_title"])
  #expect(zone["p"] == nil, "an edit does not bring an object back")
}

@Test func `deleting what is gone already is no error and writes nothing`() throws {
  let zone = TestZone()
  try zone.save(insert("Post", "p"))
  try zone.save(delete("Post", "p"), from: "B")
  #expect(try zone.save(delete("Post", "p")) == ExportPlan(writes: []))
}

@Test func `T-E14 a link made and unmade before the export is no traffic, and an existing one is not made twice`()
  throws
{
  let zone = TestZone()
  try zone.save(insert("Post", "p"), insert("Tag", "t"), insert("Tag", "u", [:], ["posts": .toMany(["p"])]))
  let link = try #require(zone.live("CDMR").first)
  let add = update("Post", "p", [:], ["tags": .toManyDelta(add: ["t"], remove: [])])
  let remove = update("Post", "p", [:], ["tags": .toManyDelta(add: [], remove: ["t"])])
  #expect(try zone.export([transaction([add]), transaction([remove])]).writes.isEmpty)
  #expect(
    try zone.save(update("Post", "p", [:], ["tags": .toManyDelta(add: ["u"], remove: [])]), from: "B").writes.isEmpty)
  #expect(try zone.save(update("Tag", "u", [:], ["posts": .toMany(["p"])]), from: "B").writes.isEmpty)
  let again = try zone.export([
    transaction([update("Post", "p", [:], ["tags": .toMany([])])]),
    transaction([update("Tag", "u", [:], ["posts": .toMany(["p"])])]),
  ])
  #expect(again.writes.isEmpty, "removed and made again")
  #expect(zone.live("CDMR") == [link])
}

@Test func `T-E15 deleting an object with three links deletes its record and three link records`() throws {
  let zone = TestZone()
  try zone.save(
    insert("Post", "p", [:], ["tags": .toMany(["t1", "t2", "t3"])]), insert("Tag", "t1"), insert("Tag", "t2"),
    insert("Tag", "t3"))
  #expect(
    texts(try zone.save(delete("Post", "p"))) == [
      "delete CD_Post p", "delete CDMR LINK-1", "delete CDMR LINK-2", "delete CDMR LINK-3",
    ])
  #expect(zone.live.map(\.recordName) == ["t1", "t2", "t3"])
  #expect(zone.feed(after: 0, for: "A").isEmpty)
}

@Test func `a deleted object's record clears what pointed to it, and everybody learns of what the client did not name`()
  throws
{
  let zone = TestZone()
  try zone.save(
    insert("Post", "p"), insert("Attachment", "a", [:], ["post": .toOne("p")]),
    insert("Attachment", "b", [:], ["post": .toOne("p")]))
  let token = zone.sequence
  let plan = try zone.save(update("Attachment", "a", [:], ["post": .toOne(nil)]), delete("Post", "p"))
  #expect(texts(plan) == ["save CD_Attachment a CD_post", "delete CD_Post p", "save CD_Attachment b CD_post (server)"])
  #expect(zone.feed(after: token, for: "A").map(\.record.recordName) == ["b"])
  #expect(zone["b"]?.fields["CD_post"] == nil)
}

@Test func `T-O05 pointing to what somebody else deleted points nowhere`() throws {
  let zone = TestZone()
  try zone.save(
    insert("Post", "p"), insert("Post", "q"), insert("Attachment", "a", [:], ["post": .toOne("q")]), insert("Tag", "t"))
  try zone.save(delete("Post", "p"), from: "B")
  let plan = try zone.save(
    update("Attachment", "a", ["name": .string("n")], ["post": .toOne("p")]),
    insert("Attachment", "c", [:], ["post": .toOne("p")]),
    update("Tag", "t", [:], ["posts": .toMany(["p"])]))
  #expect(
    texts(plan) == ["save CD_Attachment a CD_name CD_post (server)", "save CD_Attachment c CD_entityName (server)"])
  #expect(plan.problems.isEmpty)
  // The store has the pointer, although the record never had it: another object may get the name.
  let again = try zone.save(update("Attachment", "c", [:], ["post": .toOne("p")]))
  #expect(texts(again) == ["save CD_Attachment c  (server)"])
  // A store that deletes the target itself knows that nothing leads to it.
  let own = try zone.save(insert("Attachment", "d", [:], ["post": .toOne("q")]), delete("Post", "q"))
  #expect(texts(own) == ["save CD_Attachment d CD_entityName", "delete CD_Post q"])
}

@Test func `T-O05 links of an object that somebody else deleted are told as taken away, whichever end they name`()
  throws
{
  let zone = TestZone()
  try zone.save(insert("Post", "p"), insert("Tag", "t"), insert("Tag", "u"))
  try zone.save(delete("Post", "p"), from: "B")
  let plan = try zone.save(
    update("Post", "p", [:], ["tags": .toManyDelta(add: ["t"], remove: ["u"])]),
    update("Tag", "u", [:], ["posts": .toManyDelta(add: ["p"], remove: [])]))
  #expect(plan.writes.isEmpty)
  let links = plan.withdrawn.compactMap { LinkRecord($0) }.map { Set([$0.ends.first, $0.ends.second]) }
  #expect(links == [["p", "t"], ["p", "u"]])
}

@Test func `a to-one or a link may point to an object that has not arrived yet`() throws {
  let zone = TestZone()
  let plan = try zone.save(
    insert("Attachment", "a", [:], ["post": .toOne("later")]), insert("Tag", "t", [:], ["posts": .toMany(["later"])]))
  #expect(plan.problems.isEmpty)
  #expect(zone["a"]?.fields.string("CD_post") == "later")
  #expect(zone.live("CDMR").first?.fields.string("CD_recordNames") == "later:t")
}

@Test func `one-to-one takes the partner from whoever had it, on both sides`() throws {
  let zone = TestZone()
  for name in ["1", "2"] {
    try zone.save(insert("Post", "p" + name, [:], ["cover": .toOne("c" + name)]), insert("Cover", "c" + name))
  }
  let token = zone.sequence
  let plan = try zone.save(update("Post", "p1", [:], ["cover": .toOne("c2")]))
  #expect(
    Set(texts(plan)) == [
      "save CD_Post p1 CD_cover", "save CD_Cover c2 CD_post", "save CD_Cover c1 CD_post (server)",
      "save CD_Post p2 CD_cover (server)",
    ])
  #expect(zone["p1"]?.fields.string("CD_cover") == "c2")
  #expect(zone["c2"]?.fields.string("CD_post") == "p1")
  #expect(zone["p2"]?.fields["CD_cover"] == nil && zone["c1"]?.fields["CD_post"] == nil)
  #expect(zone.feed(after: token, for: "A").map(\.record.recordName).sorted() == ["c1", "p2"], "what it did not name")
  try zone.save(update("Cover", "c2", [:], ["post": .toOne(nil)]))
  #expect(zone["p1"]?.fields["CD_cover"] == nil)
}

@Test func `partners can be exchanged in one transaction`() throws {
  let zone = TestZone()
  for name in ["1", "2"] {
    try zone.save(insert("Post", "p" + name, [:], ["cover": .toOne("c" + name)]), insert("Cover", "c" + name))
  }
  let plan = try zone.save(
    update("Post", "p1", [:], ["cover": .toOne("c2")]), update("Post", "p2", [:], ["cover": .toOne("c1")]))
  #expect(plan.writes.count == 4 && plan.writes.allSatisfy { !$0.isServersOwn })
  #expect(zone["c1"]?.fields.string("CD_post") == "p2" && zone["c2"]?.fields.string("CD_post") == "p1")
}

@Test func `a one-to-one with oneself as inverse stays symmetric`() throws {
  let zone = TestZone()
  try zone.save(insert("Person", "a", [:], ["spouse": .toOne("b")]), insert("Person", "b"), insert("Person", "c"))
  try zone.save(update("Person", "c", [:], ["spouse": .toOne("a")]))
  #expect(["a", "b", "c"].map { zone[$0]?.fields.string("CD_spouse") } == ["c", nil, "a"])
}

@Test func `fields of the same name of other entities are left alone`() throws {
  let zone = TestZone()
  try zone.save(
    insert("Post", "p"), insert("Attachment", "a", [:], ["post": .toOne("p")]),
    insert("Cover", "c", [:], ["post": .toOne("p")]), insert("Cover", "d"))
  try zone.save(update("Post", "p", [:], ["cover": .toOne("d")]))
  #expect(zone["a"]?.fields.string("CD_post") == "p", "an attachment's post is another relationship than a cover's")
  try zone.save(update("Post", "p", [:], ["attachments": .toMany([])]))
  #expect(zone["a"]?.fields["CD_post"] == nil)
  #expect(zone["d"]?.fields.string("CD_post") == "p")
}

@Test func `one-to-many given from the parent's side is the children's field`() throws {
  let zone = TestZone()
  try zone.save(
    insert("Post", "p", [:], ["attachments": .toMany(["a", "b"])]), insert("Post", "q"), insert("Attachment", "a"),
    insert("Attachment", "b"),
    insert("Attachment", "c"))
  func parents() -> [String?] { ["a", "b", "c"].map { zone[$0]?.fields.string("CD_post") } }
  #expect(parents() == ["p", "p", nil])
  let whole = try zone.save(update("Post", "p", [:], ["attachments": .toMany(["b", "c"])]))
  #expect(parents() == [nil, "p", "p"])
  #expect(whole.writes.allSatisfy { !$0.isServersOwn })
  try zone.save(update("Post", "q", [:], ["attachments": .toManyDelta(add: ["b"], remove: ["c"])]))
  #expect(parents() == [nil, "q", "p"], "c is not q's to remove")
  let bad = try zone.save(
    update("Post", "q", [:], ["attachments": .toManyDelta(add: ["never", "p"], remove: ["gone"])]))
  #expect(problems(bad) == ["11 never", "12 q"])
  #expect(bad.writes.isEmpty)
}

@Test func `a target of another entity is a problem and changes nothing`() throws {
  let zone = TestZone()
  try zone.save(insert("Post", "p"), insert("Tag", "t"), insert("Attachment", "a"))
  let plan = try zone.save(
    update("Attachment", "a", [:], ["post": .toOne("t")]), update("Post", "p", [:], ["tags": .toMany(["a"])]))
  #expect(problems(plan) == ["12 a", "12 p"])
  #expect(plan.writes.isEmpty)
}

@Test func `T-C11 of two records of one pair one goes when the pair is touched, and both when it is removed`() throws {
  let zone = TestZone()
  try zone.save(insert("Post", "p", [:], ["tags": .toMany(["t"])]), insert("Tag", "t"))
  var twin = try #require(zone.live("CDMR").first)
  twin.recordName = "ZWIN"
  zone.put(twin)
  let importer = Importer(model: Sample.index, links: Sample.links)
  #expect(
    texts(try zone.save(update("Post", "p", [:], ["tags": .toMany(["t"])]), from: "B")) == ["delete CDMR ZWIN (server)"]
  )
  guard case .nothing = try importer.outcome(of: try #require(zone.record(named: "ZWIN")), in: zone) else {
    return #expect(Bool(false), "the pair is still linked")
  }
  zone.put(twin)
  #expect(
    texts(try zone.save(update("Tag", "t", [:], ["posts": .toMany([])]), from: "B")) == [
      "delete CDMR LINK-1", "delete CDMR ZWIN",
    ])
  guard case .change(.unlink) = try importer.outcome(of: try #require(zone.record(named: "ZWIN")), in: zone) else {
    return #expect(Bool(false), "no unlink")
  }
}

@Test func `T-C12 an add that arrives after another device's removal makes a new record, and the pair is linked`()
  throws
{
  let zone = TestZone()
  try zone.save(insert("Post", "p", [:], ["tags": .toMany(["t"])]), insert("Tag", "t"))
  try zone.save(update("Post", "p", [:], ["tags": .toManyDelta(add: [], remove: ["t"])]), from: "B")
  try zone.save(update("Post", "p", [:], ["tags": .toManyDelta(add: ["t"], remove: [])]), from: "A")
  #expect(zone.live("CDMR").map(\.recordName) == ["LINK-2"])
}

@Test func `entities outside the store's configuration are not exported`() throws {
  let zone = TestZone()
  var exporter = zone.exporter(of: "A", entityNames: ["Post"])
  try exporter.apply(
    transaction([insert("Post", "p"), insert("Tag", "t", [:], ["posts": .toMany(["p"])]), delete("Tag", "u")]))
  #expect(texts(exporter.plan()) == ["save CD_Post p CD_entityName"])
}

@Test func `an entity the model does not have, and a value that does not fit, are problems of their objects`() throws {
  let zone = TestZone()
  let plan = try zone.save(
    insert("Nobody", "n"), insert("Post", "p", ["score": .string("x")], ["tags": .toMany(["t"])]),
    insert("Tag", "t", ["name": .string("n")]))
  #expect(problems(plan) == ["12 n", "12 p"])
  #expect(texts(plan) == ["save CD_Tag t CD_entityName CD_name"])
}

@Test func `a record's stamps say who made it and who changed it`() throws {
  let zone = TestZone()
  zone.put(record("CD_Post", "p", ["CD_entityName": .string("Post")]))
  try zone.save(update("Post", "p", ["title": .string("x")]), insert("Post", "q"))
  #expect(
    zone["p"]?.created.userRecordName == "_other"
      && zone["p"]?.modified == Stamp(timestamp: 1000, userRecordName: "_user", deviceID: "A"))
  #expect(zone["q"]?.created == zone["q"]?.modified)
}
