import ObjectModel
import Records
import Testing

/// In the style of a real app's export: aligned, quoted system fields, indexes on BYTES, a `Users` type.
private let exportedText = """
  DEFINE SCHEMA

      RECORD TYPE CD_Pizza (
          "___createTime" TIMESTAMP,
          "___createdBy"  REFERENCE,
          "___etag"       STRING,
          "___modTime"    TIMESTAMP QUERYABLE SORTABLE,
          "___modifiedBy" REFERENCE,
          "___recordID"   REFERENCE QUERYABLE,
          CD_baked        TIMESTAMP QUERYABLE SORTABLE,
          CD_entityName   STRING QUERYABLE SEARCHABLE SORTABLE,
          CD_note         ENCRYPTED STRING,
          CD_photo        BYTES,
          CD_photo_ckAsset ASSET,
          CD_size         INT64 QUERYABLE SORTABLE,
          CD_toppings     BYTES QUERYABLE SORTABLE,
          CD_toppings_ckAsset ASSET,
          CD_weight       DOUBLE QUERYABLE SORTABLE,
          GRANT WRITE TO "_creator",
          GRANT CREATE TO "_icloud",
          GRANT READ TO "_world"
      );

      RECORD TYPE Users (
          "___createTime" TIMESTAMP,
          "___createdBy"  REFERENCE,
          "___etag"       STRING,
          "___modTime"    TIMESTAMP,
          "___modifiedBy" REFERENCE,
          "___recordID"   REFERENCE,
          roles           LIST<INT64>,
          GRANT WRITE TO "_creator",
          GRANT READ TO "_world"
      );
  """

@Suite struct SchemaTextTests {
  @Test func `T-S02 exported texts are parsed, and print as what they mean`() throws {
    let schema = try SchemaParser.parse(exportedText)
    let pizza = try #require(schema.recordType(named: "CD_Pizza"))
    #expect(
      pizza.fields.map(\.name) == [
        "CD_baked", "CD_entityName", "CD_note", "CD_photo", "CD_photo_ckAsset", "CD_size", "CD_toppings",
        "CD_toppings_ckAsset", "CD_weight",
      ])
    #expect(pizza.field(named: "CD_note") == Schema.Field(name: "CD_note", type: .string, isEncrypted: true))
    #expect(pizza.field(named: "CD_toppings") == Schema.Field(name: "CD_toppings", type: .bytes))
    #expect(pizza.field(named: "CD_size")?.indexes == [.queryable, .sortable])
    #expect(pizza.systemIndexes == ["___modTime": [.queryable, .sortable], "___recordID": .queryable])
    #expect(pizza.grants == Schema.Grant.forMirroredTypes)
    #expect(schema.recordType(named: "Users")?.field(named: "roles")?.type == .int64List)
    let printed = SchemaPrinter.text(of: schema)
    #expect(try SchemaParser.parse(printed) == schema)
    #expect(SchemaPrinter.text(of: try SchemaParser.parse(printed)) == printed)
  }

  @Test func `comments, free layout, lower-case keywords and quoted names are read`() throws {
    let schema = try SchemaParser.parse(
      """
      // a line
      define schema -- another
      /* and a
         block */ create role editor;
      record type "grant" ( "queryable" string queryable, "a.b" List<Reference>, grant read, write to "editor" );
      RECORD TYPE Empty();
      """)
    #expect(schema.roles == ["editor"])
    let type = try #require(schema.recordType(named: "grant"))
    #expect(
      type.fields == [
        Schema.Field(name: "a.b", type: .referenceList),
        Schema.Field(name: "queryable", type: .string, indexes: .queryable),
      ])
    #expect(type.grants == [Schema.Grant(permissions: [.read, .write], role: "editor")])
    #expect(schema.recordType(named: "Empty")?.fields == [])
    #expect(try SchemaParser.parse(SchemaPrinter.text(of: schema)) == schema)
  }

  @Test func `the printed form is the one of exports`() {
    let schema = Schema(
      recordTypes: [
        Schema.RecordType(
          name: "b",
          fields: [Schema.Field(name: "grant", type: .string, isEncrypted: true), Schema.Field(standard: "a", .int64)],
          grants: [Schema.Grant(permissions: [.read, .write], role: "_world")],
          systemIndexes: ["___recordID": .queryable])
      ], roles: ["editor"])
    #expect(
      SchemaPrinter.text(of: schema) == """
        DEFINE SCHEMA

            CREATE ROLE editor;

            RECORD TYPE b (
                "___createTime" TIMESTAMP,
                "___createdBy"  REFERENCE,
                "___etag"       STRING,
                "___modTime"    TIMESTAMP,
                "___modifiedBy" REFERENCE,
                "___recordID"   REFERENCE QUERYABLE,
                a               INT64 QUERYABLE SORTABLE,
                "grant"         ENCRYPTED STRING,
                GRANT READ, WRITE TO "_world"
            );

        """)
  }

  struct BadText: Sendable, CustomTestStringConvertible {
    let text: String
    let line: Int
    let column: Int
    let reason: String
    init(_ text: String, _ line: Int, _ column: Int, _ reason: String) {
      (self.text, self.line, self.column, self.reason) = (text, line, column, reason)
    }
    var testDescription: String { text }
  }

  @Test(arguments: [
    BadText("", 1, 1, "The end of the text stands where DEFINE"),
    BadText("DEFINE", 1, 7, "SCHEMA"),
    BadText("DEFINE SCHEMA\nDROP x;", 2, 1, "'DROP' stands where RECORD or CREATE ROLE"),
    BadText("DEFINE SCHEMA RECORD TYPE (a STRING);", 1, 27, "name of a record type"),
    BadText("DEFINE SCHEMA RECORD TYPE A (a STRING)", 1, 39, "stands where ';'"),
    BadText("DEFINE SCHEMA RECORD TYPE A (a STRIN);", 1, 32, "'STRIN' is not a field type"),
    BadText("DEFINE SCHEMA RECORD TYPE A (a LIST<LIST<STRING>>);", 1, 37, "'LIST' is not a field type"),
    BadText("DEFINE SCHEMA RECORD TYPE A (a LIST<STRING);", 1, 43, "stands where '>'"),
    BadText("DEFINE SCHEMA RECORD TYPE A (a STRING,);", 1, 39, "expected after ','"),
    BadText("DEFINE SCHEMA RECORD TYPE A (a STRING b STRING);", 1, 39, "'b' stands where ',' or ')'"),
    BadText("DEFINE SCHEMA RECORD TYPE A (a STRING,\n  a INT64);", 2, 3, "'a' is defined twice"),
    BadText("DEFINE SCHEMA RECORD TYPE A (a STRING); RECORD TYPE A (b STRING);", 1, 53, "'A' is defined twice"),
    BadText("DEFINE SCHEMA RECORD TYPE A (a ENCRYPTED STRING QUERYABLE);", 1, 49, "encrypted field has no index"),
    BadText("DEFINE SCHEMA RECORD TYPE A (a ENCRYPTED ASSET);", 1, 42, "can't be ENCRYPTED ASSET"),
    BadText("DEFINE SCHEMA RECORD TYPE A (a ENCRYPTED REFERENCE);", 1, 42, "can't be ENCRYPTED REFERENCE"),
    BadText("DEFINE SCHEMA RECORD TYPE A (a ASSET QUERYABLE);", 1, 38, "ASSET field has no index"),
    BadText("DEFINE SCHEMA RECORD TYPE A (a STRING SORTABLE SORTABLE);", 1, 48, "SORTABLE is given twice"),
    BadText("DEFINE SCHEMA RECORD TYPE A (sortable STRING);", 1, 30, "must be quoted"),
    BadText("DEFINE SCHEMA RECORD TYPE A (___etag STRING);", 1, 30, "must be quoted"),
    BadText("DEFINE SCHEMA RECORD TYPE A (\"___size\" INT64);", 1, 30, "not a system field"),
    BadText("DEFINE SCHEMA RECORD TYPE A (\"___etag\" INT64);", 1, 30, "'___etag' is STRING"),
    BadText(
      "DEFINE SCHEMA RECORD TYPE A (\"___etag\" STRING, \"___etag\" STRING);", 1, 48, "'___etag' is defined twice"),
    BadText("DEFINE SCHEMA RECORD TYPE A (\"a STRING);\n", 1, 30, "not closed by a quotation mark"),
    BadText("DEFINE SCHEMA RECORD TYPE A (\"\" STRING);", 1, 30, "1 to 255 characters"),
    BadText("DEFINE SCHEMA RECORD TYPE A (GRANT EAT TO \"_world\");", 1, 36, "'EAT' is not a permission"),
    BadText("DEFINE SCHEMA RECORD TYPE A (GRANT READ, READ TO \"_world\");", 1, 42, "READ is given twice"),
    BadText("DEFINE SCHEMA RECORD TYPE A (GRANT READ TO \"nobody\");", 1, 44, "'nobody' is not defined"),
    BadText("DEFINE SCHEMA CREATE ROLE \"_world\";", 1, 27, "exists already"),
    BadText("DEFINE SCHEMA CREATE ROLE a; CREATE ROLE a;", 1, 42, "exists already"),
    BadText("DEFINE SCHEMA /* never\nclosed", 1, 15, "not closed by '*/'"),
    BadText("DEFINE SCHEMA\n\n   ?", 3, 4, "'?' does not belong here"),
    BadText("DEFINE SCHEMA é", 1, 15, "byte 0xc3"),
  ]) func `a bad text is refused with line and column`(bad: BadText) throws {
    let error = try #require(throws: SchemaSyntaxError.self) { try SchemaParser.parse(bad.text) }
    #expect(error.reason.contains(bad.reason), "\(error)")
    #expect((error.line, error.column) == (bad.line, bad.column), "\(error)")
  }

  @Test func `a record type has at most 256 fields`() throws {
    func text(_ count: Int) -> String {
      "DEFINE SCHEMA RECORD TYPE A (" + (0..<count).map { "f\($0) STRING" }.joined(separator: ", ") + ");"
    }
    #expect(try SchemaParser.parse(text(256)).recordTypes.first?.fields.count == 256)
    #expect(throws: SchemaSyntaxError.self) { try SchemaParser.parse(text(257)) }
  }

  @Test func `mutated texts are parsed or refused, and what is parsed prints and parses to itself`() throws {
    let alphabet = Array("(),;<>\"/*- _abTYPE\n".utf8)
    for seed in 0..<3_000 {
      var generator = SeededGenerator(seed: UInt64(seed))
      let text = String(decoding: generator.mutate(Array(exportedText.utf8), with: alphabet), as: UTF8.self)
      guard let schema = try? SchemaParser.parse(text) else { continue }
      let printed = SchemaPrinter.text(of: schema)
      #expect(try SchemaParser.parse(printed) == schema, "seed \(seed)")
    }
  }
}
