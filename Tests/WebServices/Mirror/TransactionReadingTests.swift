// Saves in JSON: accepted ones, and refusals that name entity and property.

import History
import JSON
import ObjectModel
import Records
import Testing
import WebServices

private let model = ModelIndex(
  ManagedObjectModel(entities: [
    Entity(
      name: "Photo",
      attributes: [
        Attribute(name: "small", type: .integer16), Attribute(name: "medium", type: .integer32),
        Attribute(name: "large", type: .integer64),
        Attribute(name: "ratio", type: .double), Attribute(name: "aspect", type: .float),
        Attribute(name: "price", type: .decimal),
        Attribute(name: "title", type: .string), Attribute(name: "isFavorite", type: .boolean),
        Attribute(name: "taken", type: .date),
        Attribute(name: "data", type: .binary), Attribute(name: "id", type: .uuid), Attribute(name: "link", type: .uri),
        Attribute(name: "color", type: .transformable), Attribute(name: "broken", type: .objectID),
        Attribute(
          name: "place", type: .composite,
          elements: [
            Attribute(name: "city", type: .string), Attribute(name: "number", type: .integer16),
            Attribute(name: "inner", type: .composite, elements: [Attribute(name: "at", type: .date)]),
          ]), Attribute(name: "kept", type: .string, preservesValueOnDeletion: true),
        Attribute(name: "file", type: .binary, allowsExternalBinaryDataStorage: true, preservesValueOnDeletion: true),
      ],
      relationships: [
        Relationship(
          name: "cover", destinationName: "Cover", inverseName: "photo", inverseEntityName: "Cover", isToMany: false),
        Relationship(
          name: "tags", destinationName: "Tag", inverseName: "photos", inverseEntityName: "Tag", isToMany: true),
        Relationship(
          name: "ratings", destinationName: "Rating", inverseName: "photo", inverseEntityName: "Rating",
          isToMany: true),
      ]),
    Entity(
      name: "Cover",
      relationships: [
        Relationship(
          name: "photo", destinationName: "Photo", inverseName: "cover", inverseEntityName: "Photo", isToMany: false)
      ]),
    Entity(
      name: "Rating",
      relationships: [
        Relationship(
          name: "photo", destinationName: "Photo", inverseName: "ratings", inverseEntityName: "Photo", isToMany: false)
      ]),
    Entity(
      name: "Tag",
      relationships: [
        Relationship(
          name: "photos", destinationName: "Photo", inverseName: "tags", inverseEntityName: "Photo", isToMany: true)
      ]),
    Entity(name: "Base", isAbstract: true),
  ]))

private func read(_ changes: String, entityNames: Set<String>? = nil) throws -> [HistoryTransaction] {
  try TransactionReader(model: model, entityNames: entityNames, now: 42).transactions(
    JSONValue.request(Array(#"{"transactions":[{"transactionID":"TX","changes":[\#(changes)]}]}"#.utf8)))
}

private func attribute(_ name: String, _ json: String) throws -> AttributeValue? {
  try read(#"{"changeType":"insert","entity":"Photo","objectID":"P","attributes":{"\#(name)":\#(json)}}"#)[0].changes[0]
    .attributes.first?.value
}

private func relationship(_ name: String, _ json: String, objectID: String = "P") throws -> RelationshipValue? {
  try read(
    #"{"changeType":"update","entity":"Photo","objectID":"\#(objectID)","relationships":{"\#(name)":\#(json)}}"#)[0]
    .changes[0].relationships.first?.value
}

@Test func `a transaction is read with everything it says`() throws {
  let body = #"""
    {"transactions":[{"transactionID":"TX","timestamp":"1970-01-01T00:00:01.500Z","author":"app","contextName":"c",\#
    "bundleID":"b","processID":"7","unknown":1,
      "changes":[{"changeType":"update","entity":"Photo","objectID":"P","attributes":{"title":"t","small":5},\#
    "relationships":{"cover":"C"}},
                 {"changeType":"delete","entity":"Photo","objectID":"Q","tombstone":{"file":"AAAA","kept":"k",\#
    "title":"t"}}]}]}
    """#
  let transactions = try TransactionReader(model: model, entityNames: nil, now: 42).transactions(
    JSONValue.request(Array(body.utf8)))
  #expect(
    transactions == [
      HistoryTransaction(
        transactionID: "TX", timestamp: 1500, author: "app", contextName: "c", bundleID: "b", processID: "7",
        changes: [
          HistoryChange(
            changeType: .update, entity: "Photo", objectID: "P",
            attributes: [
              NamedValue(name: "small", value: .integer(5)), NamedValue(name: "title", value: .string("t")),
            ],
            relationships: [NamedValue(name: "cover", value: .toOne("C"))]),
          HistoryChange(
            changeType: .delete, entity: "Photo", objectID: "Q",
            tombstone: [NamedValue(name: "kept", value: .string("k"))]),
        ])
    ])
  #expect(try read("")[0].timestamp == 42, "a transaction that does not say when was made now")
}

@Test(arguments: [
  ("small", "-32768", AttributeValue.integer(-32768)), ("medium", "2147483647", .integer(2_147_483_647)),
  ("large", "-9223372036854775808", .integer(.min)),
  ("ratio", "3", .double(3)), ("ratio", "-1.5e300", .double(-1.5e300)), ("aspect", "0.5", .double(0.5)),
  ("price", #""12.50""#, .decimal("12.50")),
  ("title", #""Dünen \n""#, .string("Dünen \n")), ("isFavorite", "false", .boolean(false)),
  ("taken", #""1970-01-01T00:00:00.001Z""#, .date(1)),
  ("data", #""AAEC""#, .binary([0, 1, 2])), ("data", #""""#, .binary([])),
  ("id", #""0b1c2d3e-4f50-4678-9abc-def012345678""#, .uuid("0B1C2D3E-4F50-4678-9ABC-DEF012345678")),
  ("link", #""https://example.org""#, .uri("https://example.org")), ("color", #""/w==""#, .binary([255])),
  ("title", "null", .null), ("broken", "null", .null),
  (
    "place", #"{"number":5,"city":null,"inner":{"at":"1970-01-01T00:00:00Z"}}"#,
    .composite([
      .init(name: "city", value: .null), .init(name: "inner", value: .composite([.init(name: "at", value: .date(0))])),
      .init(name: "number", value: .integer(5)),
    ])
  ),
]) func `a value of every type is read`(_ name: String, _ json: String, _ value: AttributeValue) throws {
  #expect(try attribute(name, json) == value)
}

@Test(arguments: [
  ("small", "32768"), ("small", "-32769"), ("medium", "2147483648"), ("small", "1.0"), ("small", #""1""#),
  ("small", "true"), ("ratio", #""1""#), ("ratio", "true"),
  ("aspect", "1e39"), ("price", "12.5"), ("price", #""twelve""#), ("price", #""1e999""#), ("title", "5"),
  ("title", "{}"), ("isFavorite", "1"),
  ("isFavorite", #""true""#),
  ("taken", "0"), ("taken", #""yesterday""#), ("data", #""not base64""#), ("data", "[0,1]"),
  ("data", #"{"asset":{"receipt":"forged"}}"#), ("data", "{}"),
  ("id", #""0B1C""#),
  ("link", "5"), ("color", #""AA""#), ("place", #""Ulm""#), ("place", #"{"street":"x"}"#),
  ("place", #"{"number":40000}"#), ("place", #"{"inner":{"at":5}}"#),
  ("broken", "5"),
  ("nothing", "5"),
]) func `a value of the wrong type or out of range is refused naming entity and attribute`(
  _ name: String, _ json: String
) throws {
  let error = #expect(throws: RecordError.self) { try attribute(name, json) }
  #expect(error?.code == .badRequest)
  #expect(error?.reason.hasPrefix("transactions[0]: changes[0]: Photo.\(name)") == true, "\(error?.reason ?? "")")
}

@Test(arguments: [
  ("cover", #""C""#, RelationshipValue.toOne("C")), ("cover", "null", .toOne(nil)),
  ("tags", #"["A","B"]"#, .toMany(["A", "B"])), ("tags", "[]", .toMany([])),
  ("tags", #"{"add":["A"]}"#, .toManyDelta(add: ["A"], remove: [])),
  ("ratings", #"{"add":[],"remove":["A"]}"#, .toManyDelta(add: [], remove: ["A"])),
  ("ratings", #"["with:colon"]"#, .toMany(["with:colon"])),
]) func `a relationship of every form is read`(_ name: String, _ json: String, _ value: RelationshipValue) throws {
  #expect(try relationship(name, json) == value)
}

@Test(arguments: [
  ("cover", "5"), ("cover", #"["C"]"#), ("cover", #""""#), ("cover", #""_reserved""#), ("tags", #""A""#),
  ("tags", "null"), ("tags", "{}"), ("tags", "[5]"),
  ("tags", #"{"add":"A"}"#), ("tags", #"["a:b"]"#), ("tags", #"["ü"]"#), ("colour", "null"),
  ("ratings", #"{"remove":[null]}"#),
]) func `a relationship that makes no sense is refused naming entity and relationship`(_ name: String, _ json: String)
  throws
{
  let error = #expect(throws: RecordError.self) { try relationship(name, json) }
  #expect(error?.reason.hasPrefix("transactions[0]: changes[0]: Photo.\(name)") == true, "\(error?.reason ?? "")")
}

@Test func `a name with a colon can't take part in a link, but in everything else`() throws {
  #expect(throws: RecordError.self) { try relationship("tags", #"["T"]"#, objectID: "a:b") }
  #expect(try relationship("ratings", #"["R"]"#, objectID: "a:b") == .toMany(["R"]))
}

@Test(arguments: [
  (#"{"entity":"Photo","objectID":"P"}"#, "changeType"),
  (#"{"changeType":"upsert","entity":"Photo","objectID":"P"}"#, "changeType"),
  (#"{"changeType":"insert","objectID":"P"}"#, "entity"),
  (#"{"changeType":"insert","entity":"Nobody","objectID":"P"}"#, "Nobody"),
  (#"{"changeType":"insert","entity":"Base","objectID":"P"}"#, "Base: the entity is abstract"),
  (#"{"changeType":"insert","entity":"Tag","objectID":"P"}"#, "configuration"),
  (#"{"changeType":"insert","entity":"Photo"}"#, "objectID"),
  (#"{"changeType":"insert","entity":"Photo","objectID":""}"#, "objectID"),
  (#"{"changeType":"insert","entity":"Photo","objectID":"_x"}"#, "objectID"),
  (#"{"changeType":"insert","entity":"Photo","objectID":"ü"}"#, "objectID"),
  (#"{"changeType":"insert","entity":"Photo","objectID":"CD_FAKE_1"}"#, "reserved"),
  (#"{"changeType":"insert","entity":"Photo","objectID":"cloudkit.zoneshare"}"#, "reserved"),
  (#"{"changeType":"insert","entity":"Photo","objectID":"\#(String(repeating: "x", count: 256))"}"#, "256"),
  (#"{"changeType":"insert","entity":"Photo","objectID":"P","attributes":[]}"#, "attributes"),
  (#"{"changeType":"insert","entity":"Photo","objectID":"P","relationships":5}"#, "relationships"),
  ("5", "object"),
]) func `a change that is not one is refused naming what is wrong`(_ json: String, _ word: String) throws {
  let error = #expect(throws: RecordError.self) { try read(json, entityNames: ["Photo"]) }
  #expect(error?.reason.contains(word) == true, "\(error?.reason ?? "")")
  #expect(error?.reason.hasPrefix("transactions[0]: changes[0]: ") == true)
}

@Test func `more transactions than the limit are refused`() {
  let transaction = #"{"transactionID":"TX","changes":[]}"#
  let body = #"{"transactions":[\#(Array(repeating: transaction, count: 1001).joined(separator: ","))]}"#
  #expect(throws: RecordError.self) {
    try TransactionReader(model: model, entityNames: nil, now: 0).transactions(JSONValue.request(Array(body.utf8)))
  }
}
