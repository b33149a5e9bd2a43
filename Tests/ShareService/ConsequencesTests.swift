import JSON
import ObjectModel
import Records
import ServiceBus
import Testing
import WebServices

@testable import ShareService

private let mirror = "/mirror/1/\(World.photos)"

/// The consequences of a schema change for records, told before the change.
@Suite(.eachEngine) struct ConsequencesTests {
  private static func counted(_ count: Int, uncounted: String = "") -> String {
    #"""
    {"fields":[{"recordType":"CD_Post","field":"CD_title","records":\#(count)},{"recordType":"CD_Post",\#
    "field":"CD_title","records":1}],"uncountedShards":[\#(uncounted)],"silent":[]}
    """#
  }

  @Test func `T-S08 a field that records have is retyped only when it is said, and how many they are is told`()
    async throws
  {
    let world = try await World.withContainer()
    try await world.ok("PUT", "\(mirror)/development/model", modelXML())
    world.reports.set("fields", Self.counted(11))
    _ = world.published.take()
    let retyped = modelXML(attributes: ["title": "Integer 64"])
    for query in [[:], ["dryRun": "true"]] {
      let error = try await world.refused("PUT", "\(mirror)/development/model", retyped, query: query, status: 400)
      #expect(error["reason"]?.string?.contains("CD_Post.CD_title: STRING → INT64, 12 records") == true)
      #expect(error["retyped"]?.elements.map { $0["records"]?.int64 } == [12])
    }
    #expect(try await world.schema().schema.recordType(named: "CD_Post")?.field(named: "CD_title")?.type == .string)
    #expect(try await world.schema().models.count == 1 && world.published.take().isEmpty)
    let question = try #require(world.reports.questions.last)
    #expect(question.query["fields"] == "CD_Post\tCD_title" && question.query["environment"] == "development")
    let answer = try await world.ok("PUT", "\(mirror)/development/model", retyped, query: ["changeTypes": "true"])
    #expect(answer["diff"]?.string?.contains("~ CD_Post.CD_title: STRING → INT64, 12 records") == true)
    #expect(try await world.schema().schema.recordType(named: "CD_Post")?.field(named: "CD_title")?.type == .int64)
  }

  @Test func `a missing count is not taken for zero, and a field without values may change`() async throws {
    let world = try await World.withContainer()
    try await world.ok("PUT", "\(mirror)/development/model", modelXML())
    let retyped = modelXML(attributes: ["title": "Integer 64"])
    for answer in [
      #"{"fields":[],"uncountedShards":[3],"silent":[]}"#, #"{"fields":[],"uncountedShards":[],"silent":["worker-1"]}"#,
      "{}",
    ] {
      world.reports.set("fields", answer)
      let error = try await world.refused("PUT", "\(mirror)/development/model", retyped, status: 400)
      #expect(error["reason"]?.string?.contains("STRING → INT64, an unknown number of records") == true)
    }
    world.reports.set("fields", Self.counted(11, uncounted: "3"))
    let error = try await world.refused("PUT", "\(mirror)/development/model", retyped, status: 400)
    #expect(error["reason"]?.string?.contains("at least 12 records") == true)
    world.reports.set(
      "fields",
      #"{"fields":[{"recordType":"CD_Post","field":"CD_title","records":0}],"uncountedShards":[],"silent":[]}"#)
    #expect(
      try await world.ok("PUT", "\(mirror)/development/model", retyped)["retyped"]?.elements.first?["records"]?.int64
        == 0)
  }

  @Test func `a field that comes to be encrypted is refused like one of another type`() async throws {
    let world = try await World.withContainer()
    try await world.ok("PUT", "\(mirror)/development/model", modelXML())
    world.reports.set("fields", Self.counted(0))
    let encrypted = modelXML().replacing("attributeType", with: "allowsCloudEncryption=\"YES\" attributeType")
    let error = try await world.refused("PUT", "\(mirror)/development/model", encrypted, status: 400)
    #expect(error["reason"]?.string?.contains("CD_Post.CD_title: in clear → ENCRYPTED, 1 record.") == true)
  }

  @Test func `a schema text says what it adds, removes and changes`() async throws {
    let world = try await World.withContainer()
    try await world.ok(
      "PUT", "\(mirror)/development/schema",
      "DEFINE SCHEMA RECORD TYPE T (a STRING, b STRING SORTABLE, c INT64); RECORD TYPE Old (x INT64);")
    let text = "DEFINE SCHEMA RECORD TYPE T (a STRING QUERYABLE, b STRING, c STRING, d DOUBLE);"
    let trial = try await world.ok(
      "PUT", "\(mirror)/development/schema", text, query: ["dryRun": "true", "changeTypes": "true"])
    #expect(trial["diff"]?.string == "+ T.d\n- Old\n- SORTABLE of T.b\n~ T.c: INT64 → STRING, 0 records\n* T.a\n")
    #expect(try await world.schema().schema.recordType(named: "Old") != nil)
    let answer = try await world.ok("PUT", "\(mirror)/development/schema", text, query: ["changeTypes": "true"])
    #expect(answer["diff"]?.string == trial["diff"]?.string)
    #expect(try await world.ok("PUT", "\(mirror)/development/schema", text)["diff"]?.string == "")
  }

  @Test func `a rename says what becomes of old values, with a renamingIdentifier and without`() async throws {
    let world = try await World.withContainer()
    try await world.ok("PUT", "\(mirror)/development/model", modelXML())
    world.reports.set("fields", Self.counted(4))
    let renamed = modelXML(attributes: ["headline": "String"])
    let guess = try await world.ok("PUT", "\(mirror)/development/model", renamed, query: ["dryRun": "true"])["notes"]?
      .elements.compactMap(\.string)
    #expect(
      guess?.count == 1
        && guess?.first?.contains(
          """
          The model no longer has CD_Post.CD_title, and CD_headline is new: the old values stay in CD_title (5 records)
          """
        ) == true,
      "\(guess ?? [])")
    let declared = renamed.replacing("name=\"headline\"", with: "name=\"headline\" elementID=\"title\"")
    let notes = try await world.ok("PUT", "\(mirror)/development/model", declared)["notes"]?.elements.compactMap(
      \.string)
    #expect(
      notes?.count == 1
        && notes?.first?.contains(
          "CD_Post.CD_title is now called CD_headline (renamingIdentifier). The old values stay in CD_title (5 ")
          == true
    )
    // A renamed attribute makes another model; a renamingIdentifier alone does not.
    #expect(try await world.schema().models.count == 2)
    try await world.ok("PUT", "\(mirror)/development/model", renamed)
    #expect(try await world.schema().models.count == 2)
    let gone = try await world.ok("PUT", "\(mirror)/development/model", modelXML("Other"))["notes"]?.elements
      .compactMap(\.string)
    #expect(gone?.contains { $0.contains("Records of CD_Post stay") } == true)
  }

  @Test func `a model that production gets alone says what promoting will refuse`() async throws {
    let world = try await World.withContainer()
    let trial = try await world.ok("PUT", "\(mirror)/production/model", modelXML(), query: ["dryRun": "true"])
    let notes = trial["notes"]?.elements.compactMap(\.string) ?? []
    #expect(notes.contains { $0.hasPrefix("`schema promote` will refuse: The record type 'CD_Post' can't be removed") })
    try await world.ok("PUT", "\(mirror)/development/model", modelXML())
    #expect(try await world.ok("PUT", "\(mirror)/production/model", modelXML())["notes"] == nil)
  }

  @Test func `a reset says what there was and what is left, without what an earlier one dropped`() async throws {
    let world = try await World.withContainer()
    world.reports.set(
      "usage",
      #"""
      {"usage":[{"container":"c","environment":"development","owner":"_a","bytes":10,"records":3,"zones":1},
      {"container":"c","environment":"development","owner":"__public","bytes":4,"records":2,"zones":1}],\#
      "uncountedShards":[],"silent":[]}
      """#.replacing("__public", with: DatabaseID.publicOwner), #"{"usage":[],"uncountedShards":[],"silent":[]}"#)
    let answer = try await world.ok("POST", "\(mirror)/development/schema/reset")
    let before = try #require(answer["before"])
    #expect(
      before["records"]?.int64 == 5 && before["databases"]?.int64 == 1 && before["publicRecords"]?.int64 == 2
        && before["bytes"]?.int64 == 14)
    #expect(answer["after"]?["records"]?.int64 == 0 && answer["after"]?["isPartial"] == nil)
    #expect(world.reports.questions.map { $0.query["generation"] } == ["0", "1"])
    let alice = try await world.user("alice")
    world.reports.set("usage", "{}")
    #expect(
      try await world.ok("GET", "/admin/1/usage", query: ["user": "alice", "container": World.photos])["isPartial"]?
        .bool == true)
    #expect(world.reports.questions.last?.query == ["owner": alice.recordName, "container": World.photos])
    try await world.refused("GET", "/admin/1/usage", query: ["owner": "alice"], status: 400)
  }
}
