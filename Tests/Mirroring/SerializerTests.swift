// Attributes into fields and back: T-M01…T-M12, T-M22, T-M25.

import History
import Mirroring
import MirroringWorld
import ObjectModel
import Records
import Testing

/// A record of an entity with the given attributes.
private func written(
  _ entity: String, _ values: KeyValuePairs<String, AttributeValue>, over record: Record? = nil,
  assets: TestAssets = TestAssets(), threshold: Int? = nil
) throws -> Record {
  let description = Sample.entity(entity)
  var record = record ?? emptyRecord(description)
  let serializer = Serializer(contents: assets, assetThresholdByteCount: threshold)
  try serializer.write(values.map { NamedValue(name: $0.key, value: $0.value) }, of: description, into: &record)
  return record
}

private func emptyRecord(_ entity: EntityDescription) -> Record {
  record(entity.recordType, "R", [ReservedName.entityName: .string(entity.name)])
}

private func read(_ record: Record) throws -> [String: AttributeValue] {
  let deserializer = Deserializer(Sample.index)
  let object = try deserializer.object(try #require(deserializer.entity(of: record)), from: record)
  return Dictionary(uniqueKeysWithValues: object.attributes.map { ($0.name, $0.value) })
}

private func text(_ byteCount: Int, _ letter: String = "x") -> AttributeValue {
  .string(String(repeating: letter, count: byteCount))
}

/// A value of every type, and its field by the table of docs/protocol/mirroring.md#attribute-types.
private let golden: [(attribute: String, value: AttributeValue, field: FieldValue)] = [
  ("integer16", .integer(-32768), .int64(-32768)), ("integer32", .integer(2_147_483_647), .int64(2_147_483_647)),
  ("integer64", .integer(.min), .int64(.min)), ("decimal", .decimal("12.5"), .double(12.5)),
  ("double", .double(-0.1), .double(-0.1)),
  ("float", .double(1.5), .double(1.5)), ("string", .string("Dünen"), .string("Dünen")),
  ("boolean", .boolean(true), .int64(1)),
  ("date", .date(782_983_984_642), .timestamp(782_983_984_642)), ("binary", .binary([0, 255]), .bytes([0, 255])),
  ("uuid", .uuid("0B1C2D3E-4F50-4678-9ABC-DEF012345678"), .string("0B1C2D3E-4F50-4678-9ABC-DEF012345678")),
  ("uri", .uri("https://example.org/a?b=c"), .string("https://example.org/a?b=c")),
  ("transformable", .binary([1, 2, 3]), .bytes([1, 2, 3])),
]

@Test(arguments: golden) func `T-M04 an attribute of every type becomes its field and comes back equal`(
  _ attribute: String, _ value: AttributeValue, _ field: FieldValue
) throws {
  let record = try written("Everything", [attribute: value])
  #expect(record.fields["CD_" + attribute] == Field(field))
  #expect(record.fields.count == 2, "the field and CD_entityName")
  #expect(try read(record)[attribute] == value)
}

@Test func `T-M04 a composite comes back equal, nil elements included`() throws {
  let elements: [AttributeValue.CompositeElement] = [
    .init(name: "area", value: .double(81.5)), .init(name: "city", value: .string("Ulm")),
    .init(name: "id", value: .uuid("0B1C2D3E-4F50-4678-9ABC-DEF012345678")),
    .init(name: "isHome", value: .boolean(false)), .init(name: "key", value: .binary([9, 8])),
    .init(name: "number", value: .integer(-3)),
    .init(name: "price", value: .decimal("3.25")), .init(name: "since", value: .date(-1)),
  ]
  let record = try written("Everything", ["composite": .composite(elements)])
  guard case .bytes? = record.fields["CD_composite"]?.value else { return #expect(Bool(false), "a composite is BYTES") }
  #expect(try read(record)["composite"] == .composite(elements))
  let sparse: [AttributeValue.CompositeElement] = [
    .init(name: "city", value: .null), .init(name: "number", value: .integer(4)),
  ]
  #expect(try read(try written("Everything", ["composite": .composite(sparse)]))["composite"] == .composite(sparse))
}

@Test func `T-M04 T-M05 nil of every type is an absent field and comes back null`() throws {
  let values = golden.map { NamedValue(name: $0.attribute, value: $0.value) }
  let empty = Sample.entity("Everything").mirroredAttributes.map {
    NamedValue(name: $0.name, value: AttributeValue.null)
  }
  let serializer = Serializer(contents: TestAssets())
  var record = emptyRecord(Sample.entity("Everything"))
  try serializer.write(values, of: Sample.entity("Everything"), into: &record)
  try serializer.write(empty, of: Sample.entity("Everything"), into: &record)
  #expect(record.fields.map(\.name) == ["CD_entityName"])
  #expect(try read(record).values.allSatisfy { $0 == .null })
}

@Test(arguments: [
  (0.1, "0.1"), (3, "3"), (-2.5, "-2.5"), (1e20, "100000000000000000000"), (1.25e-7, "0.000000125"), (0, "0"),
  (123456.789, "123456.789"), (1e16, "10000000000000000"),
]) func `a decimal is plain digits that read back as the same double`(_ value: Double, _ text: String) {
  #expect(DecimalText.text(value) == text)
  #expect(DecimalText.double(text) == value)
}

@Test(arguments: ["", ".", "1.", ".5", "abc", "0x10", "1e", "1e999", "nan", "inf", "1,5", " 1", "--1"])
func `text that is no decimal number is refused`(_ text: String) {
  #expect(DecimalText.double(text) == nil)
}

@Test(arguments: [(699_999, true), (700_000, true), (700_001, false)])
func `T-M06 a string over the budget becomes an asset`(_ byteCount: Int, _ isInline: Bool) throws {
  let assets = TestAssets()
  let record = try written("Post", ["title": text(byteCount)], assets: assets)
  if isInline {
    #expect(record.fields.string("CD_title")?.utf8.count == byteCount)
    #expect(record.fields["CD_title_ckAsset"] == nil)
  } else {
    #expect(record.fields["CD_title"] == nil)
    guard case .asset(let asset)? = record.fields["CD_title_ckAsset"]?.value else {
      return #expect(Bool(false), "no asset")
    }
    #expect(asset.byteCount == Int64(byteCount))
    #expect(try assets.content(of: asset).count == byteCount)
  }
}

@Test func `T-M06 the budget counts bytes of UTF-8, not characters`() throws {
  let record = try written("Post", ["title": text(350_001, "ü")])
  #expect(record.fields["CD_title"] == nil)
  #expect(record.fields["CD_title_ckAsset"] != nil)
}

@Test func `T-M07 of two strings the smaller is inline, the larger an asset`() throws {
  for (small, large) in [("title", "content"), ("content", "title")] {
    let record = try written("Post", [small: text(350_000), large: text(400_000)])
    #expect(record.fields.map(\.name).sorted() == ["CD_\(small)", "CD_\(large)_ckAsset", "CD_entityName"].sorted())
  }
}

@Test func `values that were inline before an edit count against the budget`() throws {
  let before = try written("Post", ["title": text(400_000)])
  let after = try written("Post", ["content": text(350_000)], over: before)
  #expect(after.fields.string("CD_title")?.utf8.count == 400_000, "what was not edited stays where it is")
  #expect(after.fields["CD_content_ckAsset"] != nil)
}

@Test func `T-M08 from the threshold on a value is an asset`() throws {
  #expect(try written("Post", ["title": text(99)], threshold: 100).fields["CD_title"] != nil)
  #expect(try written("Post", ["title": text(100)], threshold: 100).fields["CD_title_ckAsset"] != nil)
}

@Test
func `T-M09 an edit that moves a value from its asset into the record clears the companion, and the other way round`()
  throws
{
  let assets = TestAssets()
  let large = try written("Post", ["title": text(700_001)], assets: assets)
  let small = try written("Post", ["title": .string("short")], over: large, assets: assets)
  #expect(small.fields.map(\.name) == ["CD_entityName", "CD_title"])
  #expect(try read(small)["title"] == .string("short"))
  let again = try written("Post", ["title": text(700_001)], over: small, assets: assets)
  #expect(again.fields.map(\.name) == ["CD_entityName", "CD_title_ckAsset"])
}

@Test func `T-M10 a value that is only in its companion is the asset's content as UTF-8`() throws {
  let assets = TestAssets()
  let record = try written("Post", ["title": text(700_001, "a")], assets: assets)
  guard case .asset(let asset)? = try read(record)["title"] else {
    return #expect(Bool(false), "the value is an asset")
  }
  let deserializer = Deserializer(Sample.index)
  let value = try deserializer.value(
    of: "title", entity: Sample.entity("Post"), fromAssetContent: assets.content(of: asset), recordName: "R")
  #expect(value == text(700_001, "a"))
  #expect(throws: MirroringProblem.self) {
    try deserializer.value(of: "title", entity: Sample.entity("Post"), fromAssetContent: [0xff, 0xfe], recordName: "R")
  }
}

@Test func `T-M11 where field and companion are missing the default is set`() throws {
  #expect(try read(emptyRecord(Sample.entity("Post")))["score"] == .integer(7))
  #expect(try read(emptyRecord(Sample.entity("Post")))["title"] == .null)
}

@Test(arguments: [
  (AttributeType.integer64, "-5", AttributeValue.integer(-5)), (.double, "0.5", .double(0.5)),
  (.float, "2", .double(2)), (.decimal, "1.50", .decimal("1.5")),
  (.boolean, "YES", .boolean(true)), (.boolean, "NO", .boolean(false)), (.date, "0", .date(978_307_200_000)),
  (.string, "x", .string("x")),
  (.uri, "a:b", .uri("a:b")), (.uuid, "0b1c2d3e-4f50-4678-9abc-def012345678", golden[10].value),
  (.integer16, "many", .null), (.integer16, "32768", .null), (.boolean, "maybe", .null), (.uuid, "none", .null),
  (.double, "1e999", .null), (.decimal, "nan", .null), (.date, "soon", .null), (.date, "1e300", .null),
  (.date, "-inf", .null),
]) func `T-M11 a default of every type is read as the model file spells it`(
  _ type: AttributeType, _ text: String, _ value: AttributeValue
) throws {
  let model = ModelIndex(
    ManagedObjectModel(entities: [Entity(name: "E", attributes: [Attribute(name: "a", type: type, defaultValue: text)])]
    ))
  let entity = try #require(model.entity(named: "E"))
  let object = try Deserializer(model).object(entity, from: record("CD_E", "R", [:]))
  #expect(object.attributes.map(\.value) == [value])
}

@Test func `T-M12 derived, transient and ignored attributes are neither written nor read`() throws {
  let record = try written(
    "Post", ["draft": .string("d"), "scratch": .string("s"), "wordCount": .integer(3), "title": .string("t")])
  #expect(record.fields.map(\.name) == ["CD_entityName", "CD_title"])
  var foreign = record
  for name in ["CD_draft", "CD_scratch", "CD_wordCount"] { foreign.fields[name] = Field(.string("x")) }
  #expect(try read(foreign) == read(record))
}

@Test func `T-M22 an encrypted attribute is in the encrypted bag, its companion is not`() throws {
  let secret = Entity(name: "Secret", attributes: [Attribute(name: "pin", type: .string, allowsCloudEncryption: true)])
  let model = ModelIndex(ManagedObjectModel(entities: [secret]))
  let entity = try #require(model.entity(named: "Secret"))
  var small = record("CD_Secret", "R", [:])
  let serializer = Serializer(contents: TestAssets())
  try serializer.write([NamedValue(name: "pin", value: .string("1234"))], of: entity, into: &small)
  #expect(small.fields["CD_pin"] == Field(.string("1234"), isEncrypted: true))
  var large = small
  try serializer.write([NamedValue(name: "pin", value: text(700_001))], of: entity, into: &large)
  #expect(large.fields["CD_pin"] == nil)
  #expect(large.fields["CD_pin_ckAsset"]?.isEncrypted == false)
}

@Test func `T-M25 a date keeps its milliseconds over any number of round trips`() throws {
  var value = AttributeValue.date(782_983_984_642)
  let first = try written("Everything", ["date": value])
  value = try #require(try read(first)["date"])
  #expect(try written("Everything", ["date": value]) == first)
}

@Test(arguments: [
  ("integer16", FieldValue.string("1")), ("integer16", .int64(32768)), ("integer32", .int64(2_147_483_648)),
  ("double", .int64(1)), ("string", .bytes([1])),
  ("date", .int64(0)), ("uuid", .string("not a uuid")), ("boolean", .double(1)), ("binary", .string("AA==")),
  ("composite", .bytes([0xc1])),
  ("decimal", .double(.infinity)),
]) func `R10 a field that does not fit its attribute is a problem of that record, and names the attribute`(
  _ attribute: String, _ field: FieldValue
) throws {
  var record = emptyRecord(Sample.entity("Everything"))
  record.fields["CD_" + attribute] = Field(field)
  let problem = #expect(throws: MirroringProblem.self) { try read(record) }
  #expect(problem?.reason.hasPrefix("Everything.\(attribute) ") == true)
}

@Test func `a value of another type than the attribute's is a problem`() throws {
  #expect(throws: MirroringProblem.self) { try written("Post", ["score": .string("7")]) }
  #expect(throws: MirroringProblem.self) { try written("Post", ["title": .integer(7)]) }
  #expect(throws: MirroringProblem.self) { try written("Post", ["score": .asset(Asset(hash: [], byteCount: 1))]) }
}
