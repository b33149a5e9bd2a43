// Properties that have other names in earlier models (R18): records keep values and pairs under those.

import History
import Mirroring
import MirroringWorld
import ObjectModel
import Records
import Testing

/// Versions of a model of notes.
private enum Versions {
  static let first = model([
    Attribute(name: "title", type: .string), Attribute(name: "count", type: .integer32),
    Attribute(name: "price", type: .decimal, userInfo: [ReservedName.exactDecimalKey: "YES"]),
  ])
  static let second = model(
    [
      renamed("headline", .string, "title"), renamed("number", .integer32, "count", .counter),
      renamed("cost", .decimal, "price"),
    ], tags: "labels", identifier: "tags")
  /// Keeps the renaming identifier of the second.
  static let third = model([renamed("caption", .string, "title"), renamed("countText", .string, "count")])

  static func model(_ attributes: [Attribute], tags: String = "tags", identifier: String? = nil) -> ManagedObjectModel {
    var link = Sample.toMany(tags, "Tag", "notes")
    link.renamingIdentifier = identifier
    return ManagedObjectModel(entities: [
      Entity(name: "Note", attributes: attributes, relationships: [link]),
      Entity(
        name: "Tag", attributes: [Attribute(name: "name", type: .string)],
        relationships: [Sample.toMany("notes", "Note", tags)]),
    ])
  }

  static func renamed(_ name: String, _ type: AttributeType, _ identifier: String, _ policy: ConflictPolicy? = nil)
    -> Attribute
  {
    var info = type == .decimal ? [ReservedName.exactDecimalKey: "YES"] : [:]
    if let policy { info[ReservedName.conflictPolicyKey] = policy.rawValue }
    var attribute = Attribute(name: name, type: type, userInfo: info)
    attribute.renamingIdentifier = identifier
    return attribute
  }

  static func index(_ model: ManagedObjectModel) -> ModelIndex { ModelIndex(model, beside: [first, second, third]) }
}

private func note(_ fields: Fields) -> Record {
  var record = record("CD_Note", "n", fields)
  record.fields[ReservedName.entityName] = Field(.string("Note"))
  return record
}

private func value(_ name: String, of record: Record?, _ model: ModelIndex) throws -> AttributeValue? {
  let (record, entity) = (try #require(record), try #require(model.entity(named: "Note")))
  return try Deserializer(model).object(entity, from: record).attributes.first { $0.name == name }?.value
}

struct RenamedPropertyTests {
  private let second = Versions.index(Versions.second)

  /// A zone of the second model with a record of the first.
  private func zone(_ fields: Fields, rules: ConflictRules? = nil) -> TestZone {
    let zone = TestZone(second, rules: rules)
    zone.put(note(fields), origin: "A")
    return zone
  }

  @Test func `a renamed attribute has the value under its former name until somebody sets it`() throws {
    let zone = zone(["CD_title": .string("Waves"), "CD_price": .double(0.1), "CD_price_exact": .string("0.10")])
    #expect(try value("headline", of: zone["n"], second) == .string("Waves"))
    #expect(try value("cost", of: zone["n"], second) == .decimal("0.10"))
    try zone.save(update("Note", "n", ["headline": .string("Storm")]), from: "B")
    #expect(try value("headline", of: zone["n"], second) == .string("Storm"))
    #expect(zone["n"]?.fields.string("CD_title") == "Waves", "devices with the earlier model still read it")
  }

  @Test func `a large value is read under the former name of its asset`() throws {
    let asset = TestAssets().asset(with: Array("Waves".utf8))
    let zone = zone(["CD_title_ckAsset": .asset(asset)])
    #expect(try value("headline", of: zone["n"], second) == .asset(asset))
  }

  @Test func `an attribute that somebody empties is empty under its former names, too`() throws {
    let asset = TestAssets().asset(with: [1])
    let zone = zone([
      "CD_title_ckAsset": .asset(asset), "CD_price": .double(1), "CD_price_exact": .string("1"), "CD_count": .int64(3),
    ])
    try zone.save(update("Note", "n", ["headline": .null, "cost": .null]), from: "B")
    #expect(zone["n"]?.fields == note(["CD_count": .int64(3)]).fields)
    #expect(try value("headline", of: zone["n"], second) == .null)
  }

  @Test func `the latest of several former names counts, although all share an identifier`() throws {
    let third = Versions.index(Versions.third)
    let record = note(["CD_title": .string("Waves"), "CD_headline": .string("Storm")])
    #expect(try value("caption", of: record, third) == .string("Storm"))
    #expect(try value("caption", of: note(["CD_title": .string("Waves")]), third) == .string("Waves"))
    // Each names the one before.
    let chained = ModelIndex(
      Versions.model([Versions.renamed("subject", .string, "headline")]), beside: [Versions.first, Versions.second])
    #expect(try value("subject", of: record, chained) == .string("Storm"))
    #expect(try value("subject", of: note(["CD_title": .string("Waves")]), chained) == .string("Waves"))
  }

  @Test func `a name that the model has for something else is no former name`() throws {
    let reused = Versions.index(
      Versions.model([Versions.renamed("headline", .string, "title"), Attribute(name: "title", type: .string)]))
    let record = note(["CD_title": .string("Waves")])
    #expect(try value("headline", of: record, reused) == .null)
    #expect(try value("title", of: record, reused) == .string("Waves"))
  }

  @Test func `a former value is converted as devices convert theirs, and one that does not fit is none`() throws {
    let third = Versions.index(Versions.third)
    #expect(try value("countText", of: note(["CD_count": .int64(3)]), third) == .string("3"))
    #expect(try value("headline", of: note(["CD_title": .bytes([1])]), second) == .null)
  }

  @Test func `a former number that is not finite is no text, for a reader and for a contest`() throws {
    let old = Versions.model([Attribute(name: "cost", type: .double)])
    let model = ModelIndex(Versions.model([Versions.renamed("costText", .string, "cost", .hlc)]), beside: [old])
    #expect(try value("costText", of: note(["CD_cost": .double(1.5)]), model) == .string("1.5"))
    for number in [Double.infinity, -.infinity, .nan] {
      #expect(try value("costText", of: note(["CD_cost": .double(number)]), model) == .null)
      let zone = TestZone(model, rules: ConflictRules(model))
      zone.put(note(["CD_cost": .double(number)]), origin: "A")
      var saved = transaction([update("Note", "n", ["costText": .string("2")])])
      saved.edit = HistoryTransaction.Edit(base: Int64(zone.sequence), time: 10)
      try zone.export([saved], from: "B")
      #expect(try value("costText", of: zone["n"], model) == .string("2"))
    }
  }

  @Test func `a save in the words of the earlier model is exported in those of the later one, also in slices`() throws {
    let zone = zone([:])
    try zone.save(update("Note", "n", ["title": .string("New")], ["tags": .toMany(["t"])]), insert("Tag", "t"))
    #expect(zone["n"]?.fields == note(["CD_headline": .string("New")]).fields)
    #expect(zone.live("CDMR").map { $0.fields.string("CD_relationships") } == ["labels:notes"])
    let saved = transaction([update("Note", "n", ["title": .string("Newer")], ["tags": .toMany([])])])
    try zone.export(ExportSteps(saved).steps[...], of: saved)
    #expect(zone["n"]?.fields == note(["CD_headline": .string("Newer")]).fields && zone.live("CDMR").isEmpty)
  }

  @Test func `what is sent again leaves a value under a former name alone, and its device is told that`() throws {
    let zone = zone(["CD_title": .string("Storm")])
    let sent = insert("Note", "n", ["headline": .string("Waves")])
    let plan = try zone.save(sent, from: "B", author: ReservedName.reuploadAuthor)
    #expect(zone["n"]?.fields == note(["CD_title": .string("Storm")]).fields)
    #expect(plan.writes.map(\.item.recordName) == ["n"] && plan.writes.allSatisfy(\.isServersOwn))
  }

  @Test func `a counter counts on from the value under its former name`() throws {
    let zone = zone(["CD_count": .int64(5)], rules: ConflictRules(second))
    let base = Int64(zone.sequence)
    zone.put(note(["CD_count": .int64(6)]), origin: "A")
    var saved = transaction([update("Note", "n", ["number": .integer(7)])])
    saved.edit = HistoryTransaction.Edit(base: base, time: 10)
    try zone.export([saved], from: "B")
    #expect(try value("number", of: zone["n"], second) == .integer(8))
  }

  @Test func `a counter counts no edit twice that its device sent under the former name`() throws {
    let zone = zone(["CD_count": .int64(5)], rules: ConflictRules(second))
    let base = Int64(zone.sequence)
    var counted = note(["CD_count": .int64(7)])
    let edits = [FieldVersion.Edit(device: "A", time: 2), .init(device: "B", time: 1, sent: .int64(6))]
    counted.set(FieldVersion(field: "CD_count", edits: edits))
    zone.put(counted, origin: "A")
    var saved = transaction([update("Note", "n", ["number": .integer(7)])])
    saved.edit = HistoryTransaction.Edit(base: base, time: 3)
    try zone.export([saved], from: "B")
    #expect(try value("number", of: zone["n"], second) == .integer(8))
  }

  @Test(arguments: [ConflictPolicy.max, .hlc, .setUnion])
  func `an emptying that a policy refuses or merges leaves the value under its former name`(_ policy: ConflictPolicy)
    throws
  {
    let isSet = policy == .setUnion
    let (former, text) = isSet ? ("CD_labels", #"["a"]"#) : ("CD_count", "5")
    let old = Versions.model([Attribute(name: isSet ? "labels" : "count", type: isSet ? .string : .integer32)])
    let model = ModelIndex(
      Versions.model([Versions.renamed("now", isSet ? .string : .integer32, isSet ? "labels" : "count", policy)]),
      beside: [old])
    let value: FieldValue = isSet ? .string(text) : .int64(5)
    let zone = TestZone(model, rules: ConflictRules(model))
    zone.put(note([former: isSet ? .string("[]") : .int64(1)]), origin: "A")
    let base = Int64(zone.sequence)
    var later = note([former: value])
    later.set(FieldVersion(field: former, edits: [.init(device: "A", time: 20)]))
    zone.put(later, origin: "A")
    var saved = transaction([update("Note", "n", ["now": .null])])
    saved.edit = HistoryTransaction.Edit(base: base, time: 10)
    try zone.export([saved], from: "B")
    #expect(zone["n"]?.fields[former]?.value == value)
  }

  @Test func `pairs under a former name are the relationship's, of either record form`() throws {
    let links = LinkResolver(second)
    let spelled: Fields = [
      ReservedName.linkEntityNames: .string("Note:Tag"), ReservedName.linkRelationships: .string("tags:notes"),
      ReservedName.linkRecordNames: .string("n:t"),
    ]
    for pair in [record("CDMR", "L", spelled), record("CD_M2M_Note_tags", "n:t", [:])] {
      let link = try #require(LinkRecord(pair).flatMap(links.resolve))
      #expect(link.relationship.name == "labels" && link.objectID == "n" && link.targetID == "t")
    }
    let zone = zone([:])
    zone.put(record("CDMR", "L", spelled), origin: "A")
    let linked = update("Note", "n", [:], ["labels": .toManyDelta(add: ["t"], remove: [])])
    try zone.save(insert("Tag", "t"), linked, from: "B")
    #expect(zone.live("CDMR").map(\.recordName) == ["L"], "one record is enough")
    try zone.save(update("Note", "n", [:], ["labels": .toManyDelta(add: [], remove: ["t"])]), from: "B")
    #expect(zone.live("CDMR").isEmpty)
  }
}
