// Record types, names, to-one fields and link records: T-M01…T-M03, T-M13…T-M21, T-M23, T-M24.

import History
import Mirroring
import MirroringWorld
import ObjectModel
import Records
import Testing

/// The three fields of a link record, as its golden text.
private func golden(_ record: Record) -> [String?] {
  [ReservedName.linkEntityNames, ReservedName.linkRelationships, ReservedName.linkRecordNames].map {
    record.fields.string($0)
  }
}

private func imported(_ record: Record, isDeleted: Bool = false, from zone: TestZone = TestZone()) throws
  -> ImportOutcome
{
  try Importer(model: Sample.index, links: Sample.links).outcome(
    of: SourceRecord(record: record, isDeleted: isDeleted), in: zone)
}

/// `link posts t→p` and the like; nil for an outcome that is no link.
private func linkText(_ outcome: ImportOutcome) -> String? {
  switch outcome {
  case .change(.link(let link)):
    "link \(link.entity.name).\(link.relationship.name) \(link.objectID)→\(link.targetEntity.name) \(link.targetID)"
  case .change(.unlink(let link)):
    "unlink \(link.entity.name).\(link.relationship.name) \(link.objectID)→\(link.targetEntity.name) \(link.targetID)"
  default: nil
  }
}

@Test func `T-M01 an object is a record of its root entity's type, with its entity's name in CD_entityName`() throws {
  let zone = TestZone()
  try zone.save(insert("Post", "0B1C2D3E-4F50-4678-9ABC-DEF012345678", ["title": .string("Dunes")]))
  let record = try #require(zone["0B1C2D3E-4F50-4678-9ABC-DEF012345678"])
  #expect(record.recordType == "CD_Post")
  #expect(record.fields == ["CD_entityName": .string("Post"), "CD_title": .string("Dunes")])
}

@Test func `T-M02 a subentity shares its root's record type and comes back as itself`() throws {
  let zone = TestZone()
  try zone.save(insert("Picture", "P", ["caption": .string("c"), "frame": .string("oak")]))
  let record = try #require(zone["P"])
  #expect(record.recordType == "CD_Photo")
  #expect(record.fields.string("CD_entityName") == "Picture")
  guard case .change(.save(let object, _)) = try imported(record) else { return #expect(Bool(false), "not a save") }
  #expect(object.entity == "Picture")
  #expect(object.attributes.map(\.name) == ["caption", "frame"])
}

@Test func `T-M03 a record without CD_entityName is of the entity its type names`() throws {
  guard case .change(.save(let object, _)) = try imported(record("CD_Tag", "T", ["CD_name": .string("desert")])) else {
    return #expect(Bool(false), "not a save")
  }
  #expect(object.entity == "Tag")
  #expect(object.attributes == [NamedValue(name: "name", value: .string("desert"))])
}

@Test func `T-M13 a to-one is its target's name, a to-many side has no field, and nil is an absent field`() throws {
  let zone = TestZone()
  try zone.save(
    insert("Post", "P"), insert("Attachment", "A", [:], ["post": .toOne("P")]),
    insert("Attachment", "B", [:], ["post": .toOne(nil)]))
  #expect(zone["A"]?.fields == ["CD_entityName": .string("Attachment"), "CD_post": .string("P")])
  #expect(zone["B"]?.fields == ["CD_entityName": .string("Attachment")])
  #expect(zone["P"]?.fields == ["CD_entityName": .string("Post")])
}

@Test func `T-M14 both records of a one-to-one carry the other's name, whichever side was given`() throws {
  let fromPost: [HistoryChange] = [insert("Post", "P", [:], ["cover": .toOne("C")]), insert("Cover", "C")]
  let fromCover: [HistoryChange] = [insert("Post", "P"), insert("Cover", "C", [:], ["post": .toOne("P")])]
  let fromBoth: [HistoryChange] = [
    insert("Post", "P", [:], ["cover": .toOne("C")]), insert("Cover", "C", [:], ["post": .toOne("P")]),
  ]
  for changes in [fromPost, fromCover, fromBoth] {
    let zone = TestZone()
    try zone.export([transaction(changes)])
    #expect(zone["P"]?.fields.string("CD_cover") == "C")
    #expect(zone["C"]?.fields.string("CD_post") == "P")
    #expect(zone.feed(after: 0, for: "A").isEmpty, "the inverse of the store's own edit is no news to it")
  }
}

@Test func `T-M15 a many-to-many link is one CDMR record`() throws {
  for changes in [
    [insert("Post", "p", [:], ["tags": .toMany(["t"])]), insert("Tag", "t")],
    [insert("Post", "p"), insert("Tag", "t", [:], ["posts": .toMany(["p"])])],
    [
      insert("Post", "p", [:], ["tags": .toMany(["t"])]),
      insert("Tag", "t", [:], ["posts": .toManyDelta(add: ["p"], remove: [])]),
    ],
  ] {
    let zone = TestZone()
    try zone.export([transaction(changes)])
    #expect(zone.live("CDMR").map(golden) == [["Post:Tag", "tags:posts", "p:t"]])
    #expect(zone.live("CDMR").map(\.recordName) == ["LINK-1"])
    #expect(linkText(try imported(zone.live("CDMR")[0])) == "link Post.tags p→Tag t")
  }
}

@Test func `T-M16 the ends of a self-relation are ordered by their relationships' names`() throws {
  let zone = TestZone()
  try zone.save(insert("Person", "kid", [:], ["parents": .toMany(["mum"])]), insert("Person", "mum"))
  #expect(zone.live("CDMR").map(golden) == [["Person:Person", "children:parents", "mum:kid"]])
  #expect(linkText(try imported(zone.live("CDMR")[0])) == "link Person.children mum→Person kid")
  try zone.save(update("Person", "mum", [:], ["children": .toMany(["kid"])]))
  #expect(zone.live("CDMR").count == 1, "the same pair from its other side")
}

@Test func `T-M17 a relation that is its own inverse has one record a pair, in one form, and is read in either`() throws
{
  let zone = TestZone()
  try zone.save(
    insert("Person", "b", [:], ["friends": .toMany(["a"])]), insert("Person", "a", [:], ["friends": .toMany(["b"])]))
  #expect(zone.live("CDMR").map(golden) == [["Person:Person", "friends:friends", "a:b"]])
  var reversed = zone.live("CDMR")[0]
  reversed.fields[ReservedName.linkRecordNames] = Field(.string("b:a"))
  #expect(linkText(try imported(reversed)) == linkText(try imported(zone.live("CDMR")[0])))
}

@Test func `T-M18 ends are ordered by their entities' names whatever their case`() throws {
  let zone = TestZone()
  try zone.save(insert("Banana", "b", [:], ["apples": .toMany(["a"])]), insert("apple", "a"))
  #expect(zone.live("CDMR").map(golden) == [["apple:Banana", "bananas:apples", "a:b"]])
}

@Test func `T-M19 an inherited relation is written with the entity that declares it, and read with either`() throws {
  let zone = TestZone()
  try zone.save(insert("Picture", "pic", [:], ["people": .toMany(["me"])]), insert("Person", "me"))
  #expect(zone.live("CDMR").map(golden) == [["Person:Photo", "pictures:people", "me:pic"]])
  var concrete = zone.live("CDMR")[0]
  concrete.fields[ReservedName.linkEntityNames] = Field(.string("Person:Picture"))
  #expect(linkText(try imported(concrete)) == "link Person.pictures me→Picture pic")
  let parts = try #require(LinkRecord(concrete))
  let key = Sample.links.resolve(parts)?.key
  #expect(key == "CD_M2M_Person_pictures:me:pic", "the identity key has the root's name")
  #expect(try Sample.links.resolve(#require(LinkRecord(zone.live("CDMR")[0])))?.key == key)
}

@Test func `T-M20 a legacy link record makes a link, and removing the link deletes it`() throws {
  let zone = TestZone()
  try zone.save(insert("Post", "p"), insert("Tag", "t"))
  zone.put(record("CD_M2M_Post_tags", "p:t", [:]))
  #expect(linkText(try imported(try #require(zone["p:t"]))) == "link Post.tags p→Tag t")
  try zone.save(update("Tag", "t", [:], ["posts": .toMany(["p"])]))
  #expect(zone.live("CDMR").isEmpty, "the pair is linked already")
  let plan = try zone.save(update("Post", "p", [:], ["tags": .toMany([])]))
  #expect(plan.deletedCount == 1)
  #expect(zone["p:t"] == nil)
  #expect(
    linkText(try imported(record("CD_M2M_Post_tags", "p:t", [:]), isDeleted: true, from: zone))
      == "unlink Post.tags p→Tag t")
}

@Test(arguments: [
  ("Post:Tag", "tags:posts", "p"), ("Post:Tag", "tags:posts", "p:t:u"), ("Post:Tag", "tags:posts", ":t"),
  ("Post:Tag", "tags:posts", "p:"), ("Post", "tags:posts", "p:t"),
  ("Post:Tag", "", "p:t"), ("Post:Tag", "tags;posts", "p:t"),
]) func `T-M21 a malformed link record is reported and makes nothing`(
  _ entities: String, _ relationships: String, _ names: String
) throws {
  let bad = record(
    "CDMR", "L",
    ["CD_entityNames": .string(entities), "CD_relationships": .string(relationships), "CD_recordNames": .string(names)])
  guard case .problem(let problem) = try imported(bad) else { return #expect(Bool(false), "not reported") }
  #expect(problem.recordName == "L")
  guard case .nothing = try imported(bad, isDeleted: true) else {
    return #expect(Bool(false), "its tombstone has nothing to undo")
  }
}

@Test(arguments: [
  ("Post:Tag", "tags:people"), ("Post:Nobody", "tags:posts"), ("Post:Attachment", "attachments:post"),
  ("Post:Tag", "cover:posts"),
])
func `a link of a relationship the model does not have is left alone`(_ entities: String, _ relationships: String)
  throws
{
  let foreign = record(
    "CDMR", "L",
    ["CD_entityNames": .string(entities), "CD_relationships": .string(relationships), "CD_recordNames": .string("a:b")])
  guard case .nothing = try imported(foreign) else { return #expect(Bool(false), "it was not left alone") }
}

@Test func `T-M23 fields the model does not know survive an edit`() throws {
  let zone = TestZone()
  zone.put(
    record(
      "CD_Post", "P",
      ["CD_entityName": .string("Post"), "CD_title": .string("old"), "CD_mood": .string("newer client's")]))
  try zone.save(update("Post", "P", ["title": .string("new")]))
  #expect(
    zone["P"]?.fields == [
      "CD_entityName": .string("Post"), "CD_title": .string("new"), "CD_mood": .string("newer client's"),
    ])
}

@Test func `T-M24 records of schema initialization and of unknown types are nothing to import`() throws {
  for foreign in [
    record("CD_Post", "CD_FAKE_Post_1", ["CD_entityName": .string("Post")]),
    record("Note", "N", ["title": .string("x")]),
    record("CD_Unknown", "U", ["CD_entityName": .string("Unknown")]),
    record("CD_Post", "V", ["CD_entityName": .string("Video")]),
    record("CD_Post", "W", ["CD_entityName": .string("Tag")]), record("cloudkit.share", "cloudkit.zoneshare", [:]),
  ] {
    guard case .nothing = try imported(foreign) else {
      return #expect(Bool(false), "\(foreign.recordType) \(foreign.recordName)")
    }
  }
}

@Test func `a tombstone names the concrete entity it kept, or else the root`() throws {
  for (fields, entity) in [
    (["CD_entityName": .string("Picture")] as Fields, "Picture"), ([:], "Photo"),
    (["CD_entityName": .string("Video")], "Photo"),
  ] {
    guard case .change(.delete(let name, "P")) = try imported(record("CD_Photo", "P", fields), isDeleted: true) else {
      return #expect(Bool(false), "no delete")
    }
    #expect(name == entity)
  }
}

@Test func `references are the to-one fields of every model version and both ends of links`() {
  let older = ModelIndex(
    ManagedObjectModel(entities: [
      Entity(name: "Cover", relationships: [Sample.toOne("book", "Book", "cover")]),
      Entity(name: "Book", relationships: [Sample.toOne("cover", "Cover", "book")]),
    ]))
  let fields = RelationshipFields(models: [Sample.index, older])
  #expect(fields.fieldNames(ofRecordType: "CD_Cover") == ["CD_book", "CD_post"])
  let cover = fields.references(
    of: record("CD_Cover", "C", ["CD_book": .string("b"), "CD_post": .string("p"), "CD_data": .bytes([])]))
  #expect(cover.map { "\($0.field) \($0.target)" } == ["CD_book b", "CD_post p"])
  let link = fields.references(
    of: record(
      "CDMR", "L",
      ["CD_entityNames": .string("A:B"), "CD_relationships": .string("b:a"), "CD_recordNames": .string("x:y")]))
  #expect(link.map { "\($0.field) \($0.target)" } == ["CD_recordNames x", "CD_recordNames y"])
  #expect(fields.references(of: record("CD_M2M_Post_tags", "p:t", [:])).map(\.target) == ["p", "t"])
  #expect(fields.references(of: record("Note", "N", ["CD_post": .string("p")])).isEmpty)
}
