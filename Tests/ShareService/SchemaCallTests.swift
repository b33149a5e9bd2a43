import Foundation
import JSON
import ObjectModel
import Records
import SQLite
import ServiceBus
import Testing

@testable import ShareService

private let mirror = "/mirror/1/\(World.photos)"

@Suite(.eachEngine) struct SchemaCallTests {
  private func names(_ answer: JSONValue) -> [String] {
    (answer["added"]?.elements ?? []).map { "\($0["recordType"]?.string ?? "").\($0["field"]?.string ?? "")" }
  }

  @Test func `a pushed model becomes development's schema, and is known by its hash`() async throws {
    let world = try await World.withContainer()
    let answer = try await world.ok("PUT", "\(mirror)/development/model", modelXML(), query: ["printSchema": "true"])
    let hash = ModelIndex(
      ManagedObjectModel(entities: [Entity(name: "Post", attributes: [Attribute(name: "title", type: .string)])])
    ).modelHash
    #expect(answer["modelHash"]?.string == hash)
    #expect(answer["entities"]?.elements.map { $0["recordType"]?.string } == ["CD_Post"])
    #expect(
      names(answer) == [
        "CD_Post.CD_entityName", "CD_Post.CD_moveReceipt", "CD_Post.CD_moveReceipt_ckAsset", "CD_Post.CD_title",
        "CD_Post.CD_title_ckAsset",
      ])
    #expect(answer["schema"]?.string == (await world.text("\(mirror)/development/schema")))
    #expect(world.published.take().map(\.schemas) == [["\(World.photos)/development"]])
    let reply = try await world.schema()
    #expect(reply.latestModelHash == hash && Set(reply.models.keys) == [hash] && reply.version > 0)
    #expect(reply.schema.recordType(named: "CD_Post")?.field(named: "CD_title") != nil)
    #expect(try await world.schema(.production).models.isEmpty)
  }

  @Test func `the same model again adds nothing, a larger one only the rest`() async throws {
    let world = try await World.withContainer()
    try await world.ok("PUT", "\(mirror)/development/model", modelXML())
    #expect(names(try await world.ok("PUT", "\(mirror)/development/model", modelXML())) == [])
    let larger = try await world.ok(
      "PUT", "\(mirror)/development/model", modelXML(attributes: ["title": "String", "likes": "Integer 64"]))
    #expect(names(larger) == ["CD_Post.CD_likes"])
    let reply = try await world.schema()
    #expect(reply.models.count == 2 && reply.latestModelHash == larger["modelHash"]?.string)
  }

  @Test(.tags(.sqliteFile)) func `production forgets no model that devices may use, and says when it can take no more`()
    async throws
  {
    let world = try await World.withContainer()
    for number in 0...Directory.modelLimit {
      try await world.ok("PUT", "\(mirror)/production/model", modelXML("E\(number)", attributes: ["a": "Date"]))
    }
    #expect(try await world.schema(.production).models.count == Directory.modelLimit + 1)
    try await world.service.directory.fillModels(of: .production)
    let error = try await world.refused(
      "PUT", "\(mirror)/production/model", modelXML("Further", attributes: ["a": "Date"]), status: 400)
    #expect(error["reason"]?.string?.contains("500 models") == true)
    #expect(try await world.schema(.production).schema.recordType(named: "CD_Further") == nil)
    // A model that production already has needs no room.
    try await world.ok("PUT", "\(mirror)/production/model", modelXML("E0", attributes: ["a": "Date"]))
  }

  @Test func `development keeps its latest models`() async throws {
    let world = try await World.withContainer()
    var hashes: [String] = []
    for number in 0...Directory.modelLimit {
      let answer = try await world.ok(
        "PUT", "\(mirror)/development/model", modelXML("E\(number)", attributes: ["a": "Date"]))
      hashes.append(try #require(answer["modelHash"]?.string))
    }
    let reply = try await world.schema()
    #expect(Set(reply.models.keys) == Set(hashes.dropFirst()) && reply.latestModelHash == hashes.last)
  }

  @Test func `a dry run answers the same and changes nothing`() async throws {
    let world = try await World.withContainer()
    let before = try await world.schema()
    let trial = try await world.ok(
      "PUT", "\(mirror)/development/model", modelXML(), query: ["dryRun": "true", "printSchema": "true"])
    let after = try await world.schema()
    #expect(after.version == before.version && after.schema == before.schema && after.models.isEmpty)
    #expect(world.published.take().isEmpty)
    let real = await world.call("PUT", "\(mirror)/development/model", modelXML(), query: ["printSchema": "true"])
    #expect(trial["schema"]?.string == (try JSONValue(parsing: real.body))["schema"]?.string)
  }

  @Test func `T-S11 an invalid model is answered with 422 and every problem`() async throws {
    let world = try await World.withContainer()
    let xml = """
      <model><entity name="A"><attribute name="b" attributeType="String"/><relationship name="c" toMany="YES" \
      ordered="YES" destinationEntity="A"/></entity></model>
      """
    let answer = try await world.refused("PUT", "\(mirror)/development/model", xml, status: 422)
    #expect(answer["cocoaErrorCode"]?.int64 == 134060)
    #expect(answer["serverErrorCode"]?.string == "BAD_REQUEST")
    let rules = (answer["problems"]?.elements ?? []).compactMap { $0["rule"]?.string }
    #expect(rules == ["requiredAttribute", "orderedRelationship", "requiredRelationship", "missingInverse"])
    #expect(try await world.schema().models.isEmpty)
  }

  @Test func `a text that is not a model is refused with the line`() async throws {
    let world = try await World.withContainer()
    let error = try await world.refused("PUT", "\(mirror)/development/model", "<model>\n<entity>", status: 400)
    #expect(error["reason"]?.string?.contains("ine 2") == true)
    let unknown = try await world.refused(
      "PUT", "\(mirror)/development/model", modelXML(attributes: ["x": "Vector"]), status: 422)
    let problem = try #require(unknown["problems"]?.elements.first)
    #expect(
      problem["entity"]?.string == "Post" && problem["property"]?.string == "x"
        && unknown["cocoaErrorCode"]?.int64 == 134060)
    try await world.refused("PUT", "\(mirror)/development/model", "", status: 400)
    try await world.refused("PUT", "/mirror/1/iCloud.none/development/model", modelXML(), status: 404)
    let invalid = "<model><entity name=\"A\"><attribute name=\"b\"/></entity></model>"
    try await world.refused("PUT", "/mirror/1/iCloud.none/development/model", invalid, status: 404)
  }

  @Test func `only the configuration's entities are pushed`() async throws {
    let world = try await World.withContainer()
    let xml = """
      <model><entity name="A"/><entity name="B"/><configuration name="Cloud"><memberEntity \
      name="B"/></configuration></model>
      """
    let answer = try await world.ok("PUT", "\(mirror)/development/model", xml, query: ["configuration": "Cloud"])
    #expect(answer["entities"]?.elements.map { $0["name"]?.string } == ["B"])
    #expect(try await world.schema().schema.recordType(named: "CD_A") == nil)
    let error = try await world.refused(
      "PUT", "\(mirror)/development/model", xml, query: ["configuration": "Nowhere"], status: 422)
    #expect(error["problems"]?.elements.first?["rule"]?.string == "unknownConfiguration")
  }

  @Test func `T-S08 development takes a retype, production refuses it by the field's name`() async throws {
    let world = try await World.withContainer()
    for environment in ["development", "production"] {
      try await world.ok("PUT", "\(mirror)/\(environment)/model", modelXML())
    }
    let retyped = modelXML(attributes: ["title": "Integer 64"])
    let error = try await world.refused("PUT", "\(mirror)/production/model", retyped, status: 400)
    #expect(
      error["reason"]?.string?.contains("'CD_title' of record type 'CD_Post' can't change from STRING to INT64") == true
    )
    #expect(error["refused"]?.elements.map { $0["field"]?.string } == ["CD_title"])
    #expect(
      try await world.schema(.production).schema.recordType(named: "CD_Post")?.field(named: "CD_title")?.type == .string
    )
    #expect(try await world.schema(.production).models.count == 1)
    try await world.ok("PUT", "\(mirror)/development/model", retyped)
    #expect(try await world.schema().schema.recordType(named: "CD_Post")?.field(named: "CD_title")?.type == .int64)
  }

  @Test func `T-S08 production refuses to toggle encryption`() async throws {
    let world = try await World.withContainer()
    try await world.ok("PUT", "\(mirror)/production/model", modelXML())
    let encrypted = modelXML().replacingOccurrences(
      of: "attributeType", with: "allowsCloudEncryption=\"YES\" attributeType")
    let error = try await world.refused("PUT", "\(mirror)/production/model", encrypted, status: 400)
    #expect(error["reason"]?.string?.contains("'CD_title' of record type 'CD_Post' can't become encrypted") == true)
  }

  @Test func `production takes additions, and a model that lost a field keeps it in the schema`() async throws {
    let world = try await World.withContainer()
    try await world.ok("PUT", "\(mirror)/production/model", modelXML())
    #expect(
      names(try await world.ok("PUT", "\(mirror)/production/model", modelXML(attributes: ["likes": "Integer 64"]))) == [
        "CD_Post.CD_likes"
      ])
    #expect(try await world.schema(.production).schema.recordType(named: "CD_Post")?.field(named: "CD_title") != nil)
  }

  @Test func `the schema text is byte-identical for equal schemas`() async throws {
    let world = try await World.withContainer()
    try await world.ok("PUT", "\(mirror)/development/model", modelXML())
    let text = await world.text("\(mirror)/development/schema")
    #expect(text == (await world.text("/admin/1/schema/\(World.photos)/development")))
    try await world.ok("PUT", "\(mirror)/production/schema", text)
    #expect(text == (await world.text("\(mirror)/production/schema")))
    #expect(text.hasPrefix("DEFINE SCHEMA\n"))
  }

  @Test func `a schema text replaces development, but never the system types`() async throws {
    let world = try await World.withContainer()
    try await world.ok("PUT", "\(mirror)/development/model", modelXML())
    let text = "DEFINE SCHEMA RECORD TYPE Note (title STRING);"
    let trial = try await world.ok(
      "PUT", "\(mirror)/development/schema", text, query: ["dryRun": "true", "printSchema": "true"])
    #expect(trial["schema"]?.string?.contains("RECORD TYPE Note") == true)
    #expect(try await world.schema().schema.recordType(named: "Note") == nil)
    let answer = try await world.ok("PUT", "\(mirror)/development/schema", text)
    #expect(names(answer) == ["Note.title"] && names(trial) == ["Note.title"])
    // The same keys as in the answer to a model: those of the latest model, which is still stored.
    #expect(answer["modelHash"]?.string == (try await world.schema().latestModelHash))
    #expect(answer["entities"]?.elements.map { $0["name"]?.string } == ["Post"] && answer["schema"] == nil)
    let other = try await world.ok("PUT", "\(mirror)/production/schema", text)
    #expect(other["modelHash"]?.isNull == true && other["entities"]?.count == 0)
    let schema = try await world.schema().schema
    #expect(schema.recordTypes.map(\.name) == ["CDMR", "Note", "Users", "cloudkit.share"])
    #expect(world.published.take().count == 3)
  }

  @Test(.tags(.sqliteFile))
  func `every environment takes link records, and types of objects have what mirroring writes, whoever declared them`()
    async throws
  {
    let world = try await World.withContainer()
    for environment in Records.Environment.allCases {
      #expect(try await world.schema(environment).schema.recordType(named: "CDMR")?.fields.count == 3)
    }
    let own = ["CD_entityName", "CD_moveReceipt", "CD_moveReceipt_ckAsset"]
    #expect(try await extend(world, "CD_Song", "CD_title", .string))
    #expect(try await world.schema().schema.recordType(named: "CD_Song")?.fields.map(\.name) == own + ["CD_title"])
    let answer = try await world.ok(
      "PUT", "\(mirror)/development/schema",
      "DEFINE SCHEMA RECORD TYPE CD_Song (CD_title STRING); RECORD TYPE CD_M2M_a (x STRING);")
    #expect(names(answer) == ["CD_M2M_a.x"])
    #expect(try await world.schema().schema.recordType(named: "CD_Song")?.fields.map(\.name) == own + ["CD_title"])
    #expect(try await world.schema().schema.recordType(named: "CD_M2M_a")?.fields.map(\.name) == ["x"])
    // A text stored by an earlier release contains none of these.
    try await world.service.directory.storeSchema(
      "DEFINE SCHEMA RECORD TYPE CD_Old (CD_title STRING);", of: .production)
    let old = try await world.schema(.production).schema
    #expect(
      old.recordTypes.map(\.name) == ["CDMR", "CD_Old", "Users", "cloudkit.share"]
        && old.recordType(named: "CD_Old")?.fields.count == 4)
    // A type without room for them stays as it is.
    let fields = (0..<255).map { "f\($0) INT64" }.joined(separator: ", ")
    try await world.ok("PUT", "\(mirror)/development/schema", "DEFINE SCHEMA RECORD TYPE CD_Full (\(fields));")
    #expect(try await world.schema().schema.recordType(named: "CD_Full")?.fields.count == 255)
  }

  @Test func `a bad schema text is refused with line and column`() async throws {
    let world = try await World.withContainer()
    let error = try await world.refused(
      "PUT", "\(mirror)/development/schema", "DEFINE SCHEMA\nRECORD TYPE A (a STRIN);", status: 400)
    #expect(error["reason"]?.string?.contains("Line 2, column 18: 'STRIN' is not a field type") == true)
    let request = OperatorRequest(
      method: "PUT", path: ["mirror", "1", World.photos, "development", "schema"], query: [:])
    #expect(await world.operators.answer(request, body: [0xff]).status == 400)
  }

  @Test func `promotion adds development's types, fields and models to production`() async throws {
    let world = try await World.withContainer()
    let hash = try await world.ok("PUT", "\(mirror)/development/model", modelXML())["modelHash"]?.string
    #expect(await world.text("/admin/1/schema/\(World.photos)/development/diff").contains("+ CD_Post.CD_title\n"))
    _ = world.published.take()
    let trial = try await world.ok(
      "POST", "\(mirror)/development/schema/promote", query: ["dryRun": "true", "printSchema": "true"])
    #expect(names(trial).contains("CD_Post.CD_title") && trial["schema"]?.string?.contains("CD_title") == true)
    #expect(try await world.schema(.production).models.isEmpty)
    #expect(world.published.take().isEmpty)
    let answer = try await world.ok("POST", "\(mirror)/development/schema/promote")
    #expect(names(answer).contains("CD_Post.CD_title"))
    #expect(world.published.take().map(\.schemas) == [["\(World.photos)/production"]])
    let production = try await world.schema(.production)
    #expect(production.schema == (try await world.schema()).schema)
    #expect(production.latestModelHash == hash && production.models.count == 1)
    #expect(await world.text("/admin/1/schema/\(World.photos)/development/diff") == "")
    #expect(names(try await world.ok("POST", "\(mirror)/development/schema/promote")) == [])
  }

  @Test func `promotion that would remove or retype is refused by name and changes nothing`() async throws {
    let world = try await World.withContainer()
    try await world.ok("PUT", "\(mirror)/production/schema", "DEFINE SCHEMA RECORD TYPE T (a STRING, b STRING);")
    try await world.ok("PUT", "\(mirror)/development/schema", "DEFINE SCHEMA RECORD TYPE T (a INT64, c STRING);")
    let error = try await world.refused("POST", "/admin/1/schema/\(World.photos)/development/promote", status: 400)
    #expect(error["refused"]?.elements.map { $0["field"]?.string } == ["a", "b"])
    #expect(try await world.schema(.production).schema.recordType(named: "T")?.field(named: "c") == nil)
    let diff = await world.text("/admin/1/schema/\(World.photos)/development/diff")
    #expect(diff.contains("+ T.c\n") && diff.contains("! The field 'b' of record type 'T' can't be removed"))
  }

  @Test func `a reset drops development's schema and models, and production has none`() async throws {
    let world = try await World.withContainer()
    for environment in ["development", "production"] {
      try await world.ok("PUT", "\(mirror)/\(environment)/model", modelXML())
    }
    let before = try await world.schema().version
    try await world.ok("POST", "\(mirror)/development/schema/reset")
    let after = try await world.schema()
    #expect(
      after.schema == Schema.initial && after.models.isEmpty && after.latestModelHash == nil && after.version > before)
    // Workers drop the records saved before.
    #expect(after.generation == 1)
    #expect(try await world.schema(.production).generation == nil)
    try await world.ok("PUT", "\(mirror)/development/model", modelXML())
    #expect(try await world.schema().generation == 1)
    try await world.ok("POST", "\(mirror)/development/schema/reset")
    try await world.refused("POST", "\(mirror)/production/schema/reset", status: 400)
    #expect(try await world.schema(.production).models.count == 1)
    let again = try await world.restarted()
    #expect(try await again.schema().generation == 2)
  }

  private func extend(_ world: World, _ type: String, _ field: String, _ fieldType: FieldType, encrypted: Bool = false)
    async throws -> Bool
  {
    try await world.service.directory.extendDevelopment(
      World.container,
      with: [ExtendSchema.SchemaField(recordType: type, field: field, type: fieldType, isEncrypted: encrypted)])
  }

  @Test func `T-S07 new types and fields of saves are added to development, once, and show in the export`() async throws
  {
    let world = try await World.withContainer()
    #expect(try await extend(world, "Note", "title", .string))
    #expect(try await extend(world, "Note", "title", .string) == false)
    #expect(try await extend(world, "Note", "secret", .string, encrypted: true))
    #expect(try await extend(world, "Note", "tags", .stringList))
    let text = await world.text("\(mirror)/development/schema")
    #expect(text.contains("title           STRING QUERYABLE SEARCHABLE SORTABLE,"))
    #expect(text.contains("secret          ENCRYPTED STRING,"))
    #expect(text.contains("tags            LIST<STRING> QUERYABLE SEARCHABLE,"))
    #expect(text.contains("GRANT CREATE TO \"_icloud\""))
    #expect(try await world.schema(.production).schema == Schema.initial)
  }

  @Test func `a save can't retype a field, add unspellable names, or add without end`() async throws {
    let world = try await World.withContainer()
    _ = try await extend(world, "Note", "title", .string)
    await #expect(
      throws: RecordError(
        .badRequest, "The field 'title' of record type 'Note' can't change from STRING to INT64 in a deployed schema.")
    ) {
      _ = try await extend(world, "Note", "title", .int64)
    }
    for name in ["", "a b", "a\"b", "é", "___etag", String(repeating: "x", count: 256)] {
      await #expect(throws: RecordError.self) { _ = try await extend(world, "Note", name, .string) }
      await #expect(throws: RecordError.self) { _ = try await extend(world, name, "title", .string) }
    }
    let many = (0..<300).map {
      ExtendSchema.SchemaField(recordType: "Many", field: "f\($0)", type: .int64, isEncrypted: false)
    }
    await #expect(throws: RecordError.self) {
      _ = try await world.service.directory.extendDevelopment(World.container, with: many)
    }
    #expect(try await world.schema().schema.recordType(named: "Many") == nil)
  }

  @Test func `T-S12 the gap of a model that was never pushed can be told`() async throws {
    let world = try await World.withContainer()
    try await world.ok("PUT", "\(mirror)/production/model", modelXML())
    let newer = ModelIndex(
      ManagedObjectModel(entities: [
        Entity(
          name: "Post",
          attributes: [Attribute(name: "title", type: .string), Attribute(name: "likes", type: .integer64)])
      ]))
    let reply = try await world.schema(.production)
    #expect(reply.models[newer.modelHash] == nil)
    #expect(SchemaGate.schemaGap(newer, reply.schema) == [SchemaFieldName(recordType: "CD_Post", field: "CD_likes")])
  }
}

extension Directory {
  fileprivate func storeSchema(_ text: String, of environment: Records.Environment) throws {
    try change {
      try connection.statement(
        SQL(
          "test.schema",
          "INSERT OR REPLACE INTO environment (container, name, version, schema) SELECT id, ?1, 1, ?2 FROM container")
      ).binding(environment.rawValue, text).run()
    }
    environments.removeAll()
  }

  /// As after many years of releases.
  fileprivate func fillModels(of environment: Records.Environment) throws {
    try change {
      try connection.execute(
        """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(Self.productionModelLimit))
        INSERT OR IGNORE INTO model SELECT container, environment, 'copy' || n.i, contents, pushed FROM n,
          (SELECT * FROM model WHERE environment = '\(environment.rawValue)' LIMIT 1)
          LIMIT \(Self.productionModelLimit) - (SELECT count(*) FROM model WHERE environment = \
        '\(environment.rawValue)')
        """)
    }
    environments.removeAll()
  }
}
