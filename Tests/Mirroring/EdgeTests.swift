// Edge cases of the mapping: inheritance, exact numbers, Apple's composites.

import Crypto
import History
import Mirroring
import MirroringWorld
import ObjectModel
import Records
import Testing

/// Animals in three levels, with an owner of dogs and a friend of any animal. Each relationship has one target entity.
private let kennel = ModelIndex(
  ManagedObjectModel(entities: [
    Entity(
      name: "Animal", attributes: [Attribute(name: "name", type: .string)],
      relationships: [Sample.toOne("friend", "Animal", "friend")]),
    Entity(
      name: "Dog", parentName: "Animal", attributes: [Attribute(name: "breed", type: .string)],
      relationships: [Sample.toOne("owner", "Owner", "dog")]),
    Entity(name: "Puppy", parentName: "Dog", relationships: [Sample.toOne("toy", "Toy", "puppies")]),
    Entity(name: "Cat", parentName: "Animal", attributes: [Attribute(name: "color", type: .string)]),
    Entity(name: "Owner", relationships: [Sample.toOne("dog", "Dog", "owner")]),
    Entity(name: "Toy", relationships: [Sample.toMany("puppies", "Puppy", "toy")]),
  ]))

/// The records of an export over others, and its problems.
private func exported(_ changes: HistoryChange..., over records: [Record] = []) throws -> (
  records: [String: Record], problems: [MirroringProblem]
) {
  struct Zone: RecordSource {
    let records: [String: Record]
    func record(named name: String) -> SourceRecord? {
      records[name].map { SourceRecord(record: $0, isDeleted: false) }
    }
    func pointers(to target: String) -> [RecordPointer] { [] }
  }
  let source = Zone(records: Dictionary(uniqueKeysWithValues: records.map { ($0.recordName, $0) }))
  var exporter = Exporter(
    model: kennel, links: LinkResolver(kennel), source: source, serializer: Serializer(contents: TestAssets()),
    stamp: Stamp(timestamp: 1, userRecordName: "u"),
    makeRecordName: { "L" })
  try exporter.apply(HistoryTransaction(transactionID: "t", timestamp: 1, changes: changes))
  let plan = exporter.plan()
  var found = source.records
  for write in plan.writes {
    if case .save(let record, _) = write.item { found[record.recordName] = record }
    if case .delete(let record) = write.item { found[record.recordName] = nil }
  }
  return (found, plan.leftOut.map(\.problem))
}

private func animal(_ entity: String, _ name: String) -> Record {
  record("CD_Animal", name, ["CD_entityName": .string(entity)])
}

@Test(arguments: [("Dog", true), ("Puppy", true), ("Animal", false), ("Cat", false), ("Horse", true)])
func `a relationship takes objects of its destination and below, and of entities that only a newer model knows`(
  _ entity: String, _ fits: Bool
) throws {
  let owner = insert("Owner", "O", [:], ["dog": .toOne("A")])
  let (records, problems) = try exported(owner, over: [animal(entity, "A")])
  #expect(records["O"]?.fields.string("CD_dog") == (fits ? "A" : nil))
  #expect(records["A"]?.fields.string("CD_owner") == (fits ? "O" : nil))
  #expect(problems.map(\.reason) == (fits ? [] : ["Owner.dog points to an object that is not of entity Dog"]))
}

@Test func `a set takes objects of its destination alone, and the others are named`() throws {
  let (records, problems) = try exported(
    insert("Toy", "T", [:], ["puppies": .toMany(["P", "D"])]), over: [animal("Puppy", "P"), animal("Dog", "D")])
  #expect(records["P"]?.fields.string("CD_toy") == "T" && records["D"]?.fields.string("CD_toy") == nil)
  #expect(problems.map(\.reason) == ["Toy.puppies holds an object that is not of entity Puppy"])
}

@Test func `an object that a set waits for is missed by the set's name, at first and when it is tried again`() throws {
  let reason = "there is no such object for Toy.puppies"
  let toy = insert("Toy", "T", [:], ["puppies": .toMany(["P"])])
  #expect(try exported(toy, over: []).problems.map(\.reason) == [reason])
  // What is held back is the pointer of the absent object.
  let held = update("Puppy", "P", [:], ["toy": .toOne("T")])
  #expect(try exported(held, over: []).problems.map(\.reason) == [reason])
  let edit = update("Puppy", "P", ["name": .string("Rex")])
  #expect(try exported(edit, over: []).problems.map(\.reason) == ["there is no such object"])
}

@Test(arguments: [("Cat", false), ("Puppy", false), ("Dog", true), ("Animal", true)])
func `an edit and a deletion may name an object's entity or one above it, and change nothing of an object of another`(
  _ entity: String, _ fits: Bool
) throws {
  let (edited, problems) = try exported(update(entity, "A", ["name": .string("Rex")]), over: [animal("Dog", "A")])
  #expect(
    edited["A"]?.fields
      == (fits ? ["CD_entityName": .string("Dog"), "CD_name": .string("Rex")] : ["CD_entityName": .string("Dog")]))
  #expect(problems.map(\.reason) == (fits ? [] : ["the name belongs to an object of entity Dog"]))
  #expect(problems.allSatisfy { $0.code == .conflict })
  let (left, _) = try exported(
    HistoryChange(changeType: .delete, entity: entity, objectID: "A"), over: [animal("Dog", "A")])
  #expect((left["A"] == nil) == fits)
}

@Test
func
  `an insert over an object of another entity is refused, over one that only a newer model knows it keeps the entity`()
  throws
{
  for entity in ["Animal", "Puppy"] {
    let (records, problems) = try exported(insert("Dog", "A", ["breed": .string("pug")]), over: [animal(entity, "A")])
    #expect(records["A"] == animal(entity, "A") && problems.map(\.code) == [.conflict])
  }
  let (newer, none) = try exported(insert("Dog", "A", ["breed": .string("pug")]), over: [animal("Hound", "A")])
  #expect(newer["A"]?.fields == ["CD_breed": .string("pug"), "CD_entityName": .string("Hound")] && none.isEmpty)
}

// MARK: Exact decimals

@Test(arguments: [
  ("12345678901234567890123456789012345678", "12345678901234567890123456789012345678"), ("-0.10", "-0.1"),
  ("1e3", "1000"), ("+007.50E-2", "0.075"), ("0", "0"),
  ("-0.000", "0"),
  ("1e127", "1" + String(repeating: "0", count: 127)),
  ("99999999999999999999.999999999999999999", "99999999999999999999.999999999999999999"),
]) func `T-M04 an exact decimal has one spelling of all its digits`(_ text: String, _ canonical: String) {
  #expect(DecimalText.exact(text) == canonical)
  #expect(DecimalText.exact(canonical) == canonical && DecimalText.double(canonical) == DecimalText.double(text))
}

@Test(arguments: [
  "", "x", "1e", "1.", "123456789012345678901234567890123456789", "1e128", "1e-129", "1e99999999999999999999",
  "0.1e-9223372036854775808", "nan", "0x10",
])
func `a number that an NSDecimalNumber can't hold is not an exact decimal`(_ text: String) {
  #expect(DecimalText.exact(text) == nil)
}

private let money = ModelIndex(
  ManagedObjectModel(entities: [
    Entity(
      name: "Sum",
      attributes: [
        Attribute(name: "price", type: .decimal),
        Attribute(name: "total", type: .decimal, userInfo: [ReservedName.exactDecimalKey: "YES"]),
        Attribute(
          name: "secret", type: .decimal, allowsCloudEncryption: true, userInfo: [ReservedName.exactDecimalKey: "1"]),
      ])
  ]))

@Test
func `T-M04 a Decimal that is asked to be exact keeps 38 digits through its record, and a DOUBLE for everybody else`()
  throws
{
  let entity = try #require(money.entity(named: "Sum"))
  let digits = "1234567890123456789012345678901234.5678"
  var record = record("CD_Sum", "S", ["CD_entityName": .string("Sum")])
  let values = ["price", "secret", "total"].map { NamedValue(name: $0, value: AttributeValue.decimal(digits)) }
  try Serializer(contents: TestAssets()).write(values, of: entity, into: &record)
  #expect(
    record.fields.map(\.name) == [
      "CD_entityName", "CD_price", "CD_secret", "CD_secret_exact", "CD_total", "CD_total_exact",
    ])
  #expect(
    record.fields["CD_total"] == Field(.double(1.2345678901234568e33))
      && record.fields["CD_total_exact"] == Field(.string(digits)))
  #expect(record.fields["CD_secret_exact"] == Field(.string(digits), isEncrypted: true))
  let stored = try Record(decoding: record.encoded(), recordName: "S", recordType: "CD_Sum")
  func read(_ record: Record) throws -> [String] {
    try Deserializer(money).object(entity, from: record).attributes.map {
      if case .decimal(let text) = $0.value { text } else { "" }
    }
  }
  #expect(try read(stored) == ["1234567890123456800000000000000000", digits, digits])
  // A client that knows only the DOUBLE has written it since.
  record.fields["CD_total"] = Field(.double(2.5))
  #expect(try read(record)[2] == "2.5")
  try Serializer(contents: TestAssets()).write([NamedValue(name: "total", value: .null)], of: entity, into: &record)
  #expect(record.fields["CD_total"] == nil && record.fields["CD_total_exact"] == nil)
  let schema = try #require(SchemaGenerator.schema(for: money).recordTypes.first { $0.name == "CD_Sum" })
  #expect(
    schema.field(named: "CD_total_exact")?.type == .string
      && schema.field(named: "CD_secret_exact")?.isEncrypted == true)
  #expect(schema.field(named: "CD_price_exact") == nil)
}

// MARK: Apple's composites

@Test func `a composite that an Apple device archived is read as what it is`() throws {
  let archive = TestArchive(
    members: [
      ("city", .text("Ulm")), ("number", .number(7)), ("since", .date(0.5)),
      ("price", .decimal(mantissa: 325, exponent: -2, isNegative: true)), ("isHome", .flag(true)),
      ("id", .uuid(Array(0...15))), ("key", .data([9, 8])), ("unknown", .text("left alone")), ("area", .real(81.5)),
    ])
  let record = record(
    "CD_Everything", "E", ["CD_entityName": .string("Everything"), "CD_composite": .bytes(archive.bytes)])
  let entity = Sample.entity("Everything")
  let object = try Deserializer(Sample.index).object(entity, from: record)
  #expect(
    object.attributes.first { $0.name == "composite" }?.value
      == .composite([
        .init(name: "area", value: .double(81.5)), .init(name: "city", value: .string("Ulm")),
        .init(name: "id", value: .uuid("00010203-0405-0607-0809-0A0B0C0D0E0F")),
        .init(name: "isHome", value: .boolean(true)), .init(name: "key", value: .binary([9, 8])),
        .init(name: "number", value: .integer(7)),
        .init(name: "price", value: .decimal("-3.25")), .init(name: "since", value: .date(978_307_200_500)),
      ]))
}

@Test func `bytes that are cut or changed anywhere are read or reported, and never more`() throws {
  let bytes = TestArchive(members: [
    ("city", .text("Ulm")), ("number", .number(7)), ("price", .decimal(mantissa: 1, exponent: 0, isNegative: false)),
  ]).bytes
  var generator = SeededGenerator(seed: 7)
  for round in 0..<3000 {
    var broken = bytes
    if round < bytes.count {
      broken = Array(bytes.prefix(round))
    } else {
      for _ in 0...Int.random(in: 0...3, using: &generator) {
        broken[Int.random(in: 8..<bytes.count, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
      }
    }
    let record = record("CD_Everything", "E", ["CD_entityName": .string("Everything"), "CD_composite": .bytes(broken)])
    do throws(MirroringProblem) {
      _ = try Deserializer(Sample.index).object(Sample.entity("Everything"), from: record)
    } catch {
      #expect(error.recordName == "E" && error.reason.hasPrefix("Everything.composite is of type"))
    }
  }
}
