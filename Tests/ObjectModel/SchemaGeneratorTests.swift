import ObjectModel
import Records
import Testing

@Suite struct SchemaGeneratorTests {
  @Test func `T-S01 a model generates the same sorted text twice, which parses to the schema`() throws {
    let (first, second) = (ModelIndex(try read(everythingXML)), ModelIndex(try read(everythingXML)))
    let text = SchemaPrinter.text(of: SchemaGenerator.schema(for: first))
    #expect(text == SchemaPrinter.text(of: SchemaGenerator.schema(for: second)))
    let schema = try SchemaParser.parse(text)
    #expect(schema == SchemaGenerator.schema(for: first))
    #expect(schema.recordTypes.map(\.name) == ["CDMR", "CD_Animal", "CD_Person", "Users", "cloudkit.share"])
    #expect(schema.recordTypes.allSatisfy { $0.fields.map(\.name) == $0.fields.map(\.name).sorted() })
  }

  @Test func `a hierarchy becomes one type with the union of its fields`() throws {
    let schema = SchemaGenerator.schema(for: ModelIndex(try read(everythingXML)))
    let animal = try #require(schema.recordType(named: "CD_Animal"))
    let strings: Schema.Indexes = [.queryable, .searchable, .sortable]
    #expect(
      animal.fields == [
        Schema.Field(name: "CD_born", type: .timestamp, indexes: [.queryable, .sortable]),
        Schema.Field(name: "CD_chip", type: .string, indexes: strings),
        Schema.Field(name: "CD_entityName", type: .string, indexes: strings),
        Schema.Field(name: "CD_mother", type: .string, indexes: strings),
        Schema.Field(name: "CD_moveReceipt", type: .bytes),
        Schema.Field(name: "CD_moveReceipt_ckAsset", type: .asset),
        Schema.Field(name: "CD_name", type: .string, indexes: strings),
        Schema.Field(name: "CD_name_ckAsset", type: .asset),
        Schema.Field(name: "CD_weeks", type: .int64, indexes: [.queryable, .sortable]),
      ])
  }

  @Test func `T-M22 an encrypted attribute has no index, and its companion is not encrypted`() throws {
    let person = try #require(
      SchemaGenerator.schema(for: ModelIndex(try read(everythingXML))).recordType(named: "CD_Person"))
    #expect(person.field(named: "CD_secret") == Schema.Field(name: "CD_secret", type: .string, isEncrypted: true))
    #expect(person.field(named: "CD_secret_ckAsset") == Schema.Field(name: "CD_secret_ckAsset", type: .asset))
    #expect(person.field(named: "CD_weight") == Schema.Field(name: "CD_weight", type: .double, isEncrypted: true))
    for name in ["CD_scratch", "CD_keeperCount", "CD_local", "CD_ckRecordID"] {
      #expect(person.field(named: name) == nil)
    }
  }

  @Test func `T-S03 CDMR is there with a many-to-many relationship, and only then`() throws {
    let schema = SchemaGenerator.schema(for: ModelIndex(try read(everythingXML)))
    #expect(
      schema.recordType(named: "CDMR")?.fields.map(\.name) == ["CD_entityNames", "CD_recordNames", "CD_relationships"])
    #expect(
      schema.recordType(named: "CDMR")?.fields.allSatisfy {
        $0.type == .string && $0.indexes == [.queryable, .searchable, .sortable]
      } == true)
    let plain = ModelIndex(
      ManagedObjectModel(entities: [Entity(name: "Post", attributes: [Attribute(name: "title", type: .string)])]))
    #expect(SchemaGenerator.schema(for: plain).recordType(named: "CDMR") == nil)
  }

  @Test func `T-S04 sharing works with every schema`() throws {
    let schema = SchemaGenerator.schema(for: ModelIndex(try read(everythingXML)))
    let share = try #require(schema.recordType(named: "cloudkit.share"))
    #expect(share.fields.map(\.name) == ["cloudkit.thumbnailImageData", "cloudkit.title", "cloudkit.type"])
    #expect(share.fields.map(\.type) == [.bytes, .string, .string])
    let text = SchemaPrinter.text(of: schema)
    #expect(text.contains("RECORD TYPE \"cloudkit.share\" ("))
    #expect(text.contains("\"cloudkit.title\""))
    for type in schema.recordTypes where type.name.hasPrefix("CD_") {
      #expect(type.field(named: "CD_moveReceipt")?.type == .bytes)
      #expect(type.field(named: "CD_moveReceipt_ckAsset")?.type == .asset)
    }
  }

  @Test func `only the configuration's entities are generated`() throws {
    let model = ManagedObjectModel(entities: [Entity(name: "A"), Entity(name: "B")], configurations: ["Cloud": ["B"]])
    let schema = SchemaGenerator.schema(for: ModelIndex(model), configuration: "Cloud")
    #expect(schema.recordTypes.map(\.name) == ["CD_B", "Users", "cloudkit.share"])
  }

  @Test(arguments: RealModel.allCases) func `a real model is mirrored without problems`(model: RealModel) throws {
    guard let index = try model.load() else { return }
    #expect(ModelValidator.problems(of: index) == [])
    let schema = SchemaGenerator.schema(for: index)
    #expect(try SchemaParser.parse(SchemaPrinter.text(of: schema)) == schema)
    #expect(SchemaGate.schemaGap(index, schema).isEmpty)
    #expect(schema.recordType(named: "CDMR") != nil)
  }

  @Test func `Apple's sharing sample has the fields that its real exports have`() throws {
    guard let index = try RealModel.share.load() else { return }
    let schema = SchemaGenerator.schema(for: index)
    func fields(_ type: String) -> [String] {
      (schema.recordType(named: type)?.fields ?? []).map(\.name).filter {
        $0 != "CD_entityName" && !$0.hasPrefix("CD_moveReceipt")
      }
    }
    #expect(
      schema.recordTypes.map(\.name) == [
        "CDMR", "CD_Photo", "CD_PhotoData", "CD_Rating", "CD_Tag", "CD_Thumbnail", "Users", "cloudkit.share",
      ])
    #expect(
      fields("CD_Photo") == [
        "CD_displayName", "CD_displayName_ckAsset", "CD_photoData", "CD_thumbnail", "CD_uniqueName",
        "CD_uniqueName_ckAsset",
      ])
    #expect(fields("CD_PhotoData") == ["CD_data", "CD_data_ckAsset", "CD_photo"])
    #expect(fields("CD_Rating") == ["CD_photo", "CD_value"])
    #expect(fields("CD_Tag") == ["CD_name", "CD_name_ckAsset", "CD_uuid"])
    #expect(fields("CD_Thumbnail") == ["CD_data", "CD_data_ckAsset", "CD_photo"])
  }
}
