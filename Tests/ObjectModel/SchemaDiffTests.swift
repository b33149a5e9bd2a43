import ObjectModel
import Records
import Testing

@Suite struct SchemaDiffTests {
  private func schema(_ types: String) throws -> Schema { try SchemaParser.parse("DEFINE SCHEMA \(types)") }

  @Test func `equal schemas have no difference`() throws {
    let schema = SchemaGenerator.schema(for: ModelIndex(try read(everythingXML)))
    #expect(SchemaDiff(from: schema, to: schema).isEmpty)
  }

  @Test func `types, fields, indexes, grants and roles are added`() throws {
    let old = try schema("RECORD TYPE A (a STRING QUERYABLE, GRANT READ TO \"_world\");")
    let new = try schema(
      """
      CREATE ROLE editor; RECORD TYPE A ("___recordID" REFERENCE QUERYABLE, a STRING QUERYABLE SORTABLE, b INT64, \
      GRANT READ, WRITE TO "_world");
      RECORD TYPE B (y STRING, x ASSET); RECORD TYPE C ();
      """)
    let diff = SchemaDiff(from: old, to: new)
    #expect(diff.isAdditive)
    #expect(diff.addedTypes == ["B", "C"])
    #expect(
      diff.added == [
        SchemaFieldName(recordType: "A", field: "b"), SchemaFieldName(recordType: "B", field: "x"),
        SchemaFieldName(recordType: "B", field: "y"),
        SchemaFieldName(recordType: "C", field: nil),
      ])
    #expect(
      diff.extended == [
        SchemaFieldName(recordType: "A", field: nil), SchemaFieldName(recordType: "A", field: "___recordID"),
        SchemaFieldName(recordType: "A", field: "a"),
      ])
    #expect(diff.addedRoles == ["editor"])
    let merged = old.merging(new, replacesConflicts: false)
    #expect(SchemaDiff(from: merged, to: new).isEmpty)
    #expect(SchemaDiff(from: new, to: merged).isEmpty)
  }

  @Test(arguments: [
    ("RECORD TYPE A (a INT64, b STRING);", SchemaRefusal.Change.retyped(from: "STRING", to: "INT64"), "A", "a"),
    ("RECORD TYPE A (a LIST<STRING>, b STRING);", .retyped(from: "STRING", to: "LIST<STRING>"), "A", "a"),
    ("RECORD TYPE A (a ENCRYPTED STRING, b STRING);", .encryptionChanged(isEncrypted: true), "A", "a"),
    ("RECORD TYPE A (a STRING QUERYABLE);", .removed, "A", "b"),
    ("RECORD TYPE A (a STRING, b STRING);", .indexRemoved(["QUERYABLE"]), "A", "a"),
  ]) func `T-S08 an impossible change of a deployed field is refused by its name`(
    text: String, change: SchemaRefusal.Change, type: String, field: String
  ) throws {
    let deployed = try schema("RECORD TYPE A (a STRING QUERYABLE, b STRING);")
    let diff = SchemaDiff(from: deployed, to: try schema(text))
    #expect(diff.refusals.map(\.change) == [change])
    #expect(diff.refusals.map(\.recordType) == [type])
    #expect(diff.refusals.map(\.field) == [field])
    #expect(diff.refusals.first?.reason.contains("'\(field)'") == true)
    #expect(!diff.isAdditive)
  }

  @Test func `T-S08 a rename is a removal, and is refused as one`() throws {
    let diff = SchemaDiff(
      from: try schema("RECORD TYPE A (old STRING);"), to: try schema("RECORD TYPE A (new STRING);"))
    #expect(diff.added == [SchemaFieldName(recordType: "A", field: "new")])
    #expect(
      diff.refusals.map(\.reason) == ["The field 'old' of record type 'A' can't be removed from a deployed schema."])
  }

  @Test func `types, grants and roles that go away are refused`() throws {
    let deployed = try schema(
      "CREATE ROLE r; RECORD TYPE A (a STRING, GRANT READ, WRITE TO \"r\"); RECORD TYPE B (b STRING);")
    let diff = SchemaDiff(from: deployed, to: try schema("RECORD TYPE A (a STRING);"))
    #expect(
      diff.refusals.map(\.reason) == [
        "The record type 'A' can't lose its grants to 'r' in a deployed schema.",
        "The record type 'B' can't be removed from a deployed schema.",
        "The role 'r' can't be removed from a deployed schema.",
      ])
  }

  @Test func `T-S08 development takes the newer of two types, a deployed schema keeps its own`() throws {
    let (old, new) = (try schema("RECORD TYPE A (a STRING, kept STRING);"), try schema("RECORD TYPE A (a INT64);"))
    #expect(old.merging(new, replacesConflicts: true).recordType(named: "A")?.field(named: "a")?.type == .int64)
    #expect(old.merging(new, replacesConflicts: false).recordType(named: "A")?.field(named: "a")?.type == .string)
    #expect(old.merging(new, replacesConflicts: true).recordType(named: "A")?.field(named: "kept") != nil)
  }
}

@Suite struct SchemaGateTests {
  @Test func `T-S05, T-S06 production refuses in Apple's words`() {
    let field = SchemaGate.unknownField("CD_x", of: "CD_T")
    #expect(field.reason == "Cannot create or modify field 'CD_x' in record 'CD_T' in production schema")
    let type = SchemaGate.unknownType("CD_T")
    #expect(type.reason == "Cannot create new type CD_T in production schema")
    #expect(field.code.row.ckErrorCode == 12 && type.code.row.ckErrorCode == 12)
  }

  @Test func `T-S12 the gap lists what a model needs and a schema lacks or has otherwise`() throws {
    let model = ModelIndex(
      ManagedObjectModel(entities: [
        Entity(
          name: "Post",
          attributes: [Attribute(name: "title", type: .string), Attribute(name: "count", type: .integer16)])
      ]))
    #expect(SchemaGate.schemaGap(model, SchemaGenerator.schema(for: model)) == [])
    let deployed = try SchemaParser.parse(
      """
      DEFINE SCHEMA RECORD TYPE CD_Post (CD_count STRING, CD_entityName STRING, CD_moveReceipt BYTES, \
      CD_moveReceipt_ckAsset ASSET, CD_title STRING, CD_other INT64);
      RECORD TYPE Unrelated (a STRING);
      """
    ).withSystemTypes
    #expect(
      SchemaGate.schemaGap(model, deployed).map { "\($0.recordType).\($0.field ?? "")" } == [
        "CD_Post.CD_count", "CD_Post.CD_title_ckAsset",
      ])
    #expect(SchemaGate.schemaGap(model, Schema()).contains(SchemaFieldName(recordType: "CD_Post", field: "CD_title")))
  }
}
