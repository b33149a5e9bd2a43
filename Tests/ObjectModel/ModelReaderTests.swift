import ObjectModel
import Testing
import XCDataModel

@Suite struct ModelReaderTests {
  @Test func `every kind of attribute is read with what the file says of it`() throws {
    let person = try #require(try read(everythingXML).entity(named: "Person"))
    func attribute(_ name: String) throws -> Attribute { try #require(person.attributes.first { $0.name == name }) }
    let types = Dictionary(uniqueKeysWithValues: person.attributes.map { ($0.name, $0.type) })
    #expect(
      types == [
        "active": .boolean, "address": .composite, "balance": .decimal, "big": .integer64, "ckRecordID": .string,
        "height": .float, "homepage": .uri,
        "keeperCount": .integer64, "local": .string, "mood": .transformable, "photo": .binary, "rank": .integer32,
        "scratch": .string,
        "secret": .string, "weight": .double,
      ])
    #expect(try attribute("active").isOptional == false)
    #expect(try attribute("active").defaultValue == "YES")
    #expect(try attribute("keeperCount").isDerived)
    #expect(try attribute("scratch").isTransient)
    #expect(try attribute("secret").allowsCloudEncryption)
    #expect(try attribute("photo").allowsExternalBinaryDataStorage)
    #expect(try attribute("mood").valueTransformerName == "NSSecureUnarchiveFromData")
    #expect(try attribute("local").userInfo == ["NSCloudKitMirroringDelegateIgnoredPropertyKey": "YES"])
    #expect(try attribute("address").elements.map(\.name) == ["city", "number"])
    #expect(try attribute("address").elements.map(\.type) == [.string, .integer16])
    #expect(person.userInfo == ["team": "core & cloud"])
  }

  @Test func `entities, indexes and configurations are read`() throws {
    let model = try read(everythingXML)
    #expect(model.entities.map(\.name) == ["Animal", "Dog", "Person", "Puppy"])
    let animal = try #require(model.entity(named: "Animal"))
    #expect(animal.isAbstract)
    #expect(animal.fetchIndexes == ["byName"])
    #expect(animal.attributes.first { $0.name == "born" }?.defaultValue == "-978307200")
    let dog = try #require(model.entity(named: "Dog"))
    #expect(dog.parentName == "Animal")
    #expect(dog.attributes.first?.preservesValueOnDeletion == true)
    #expect(model.configurations == ["Cloud": ["Animal", "Dog", "Person", "Puppy"]])
  }

  @Test func `relationships are read with cardinality, rule and inverse`() throws {
    let relationships = try #require(try read(everythingXML).entity(named: "Person")).relationships
    func relationship(_ name: String) throws -> Relationship { try #require(relationships.first { $0.name == name }) }
    #expect(try relationship("spouse").isToMany == false)
    #expect(try relationship("spouse").maxCount == 1)
    #expect(try relationship("spouse").deleteRule == .noAction)
    #expect(try relationship("animals").isToMany)
    #expect(try relationship("animals").maxCount == 0)
    #expect(try relationship("parents").maxCount == 2)
    #expect(try relationship("parents").inverseName == "children")
    #expect(try relationship("parents").inverseEntityName == "Person")
    #expect(try relationship("parents").destinationName == "Person")
  }

  @Test func `a model that the validator refuses is still read`() throws {
    let entity = try #require(
      try read(
        modelXML(
          """
          <entity name="Task"><attribute name="code" attributeType="String"/><attribute name="vague"/>
          <relationship name="steps" ordered="YES" toMany="YES" minCount="1" deletionRule="Deny"/>
          <uniquenessConstraints><uniquenessConstraint><constraint value="code"/><constraint \
          value="vague"/></uniquenessConstraint></uniquenessConstraints>
          </entity>
          """)
      ).entities.first)
    #expect(entity.uniquenessConstraints == [["code", "vague"]])
    #expect(entity.attributes.map(\.type) == [.string, .undefined])
    let steps = try #require(entity.relationships.first)
    #expect(steps.isOrdered && !steps.isOptional && steps.deleteRule == .deny && steps.minCount == 1)
    #expect(steps.destinationName == "" && steps.inverseName == nil)
  }

  struct BadFile: Sendable, CustomTestStringConvertible {
    let name: String
    let text: String
    let reason: String
    var line: Int?
    var testDescription: String { name }
  }

  static let badFiles = [
    BadFile(name: "empty", text: "", reason: "empty"),
    BadFile(name: "not XML", text: "{}", reason: "not well-formed", line: 1),
    BadFile(name: "cut short", text: "<model>\n<entity name=\"A\">", reason: "ends too early", line: 2),
    BadFile(
      name: "wrong end tag", text: "<model>\n<entity name=\"A\">\n</attribute></model>",
      reason: "not closed by its own end", line: 3),
    BadFile(
      name: "attribute twice", text: "<model>\n\n<entity name=\"A\" name=\"B\"/></model>", reason: "given twice",
      line: 3),
    BadFile(name: "another kind of file", text: "<plist><dict/></plist>", reason: "root element is 'plist'", line: 1),
    BadFile(
      name: "entity without name", text: "<model>\n<entity/></model>",
      reason: """
        'entity' does not have 'name'
        """, line: 2),
    BadFile(
      name: "empty attribute name", text: modelXML("<entity name='A'><attribute name=''/></entity>"),
      reason: "'attribute' does not have 'name'", line: 1),
    BadFile(
      name: "unknown type",
      text: modelXML("\n<entity name='A'>\n<attribute name='b' attributeType='Vector'/></entity>"),
      reason: "A.b has the unknown attribute type 'Vector'", line: 3),
    BadFile(
      name: "unknown delete rule",
      text: modelXML("<entity name='A'><relationship name='b' deletionRule='Explode'/></entity>"),
      reason: "A.b has the unknown delete rule 'Explode'", line: 1),
    BadFile(
      name: "bad count", text: modelXML("<entity name='A'><relationship name='b' maxCount='many'/></entity>"),
      reason: "A.b has 'maxCount' = 'many'",
      line: 1),
    BadFile(
      name: "unknown composite",
      text: modelXML("<entity name='A'><attribute name='b' attributeType='Composite' compositeName='C'/></entity>"),
      reason: "A.b is a composite 'C' that is not defined", line: 1),
    BadFile(
      name: "composite within itself",
      text: modelXML(
        "<composite name='C'><attribute name='c' attributeType='Composite' compositeName='C'/></composite>"
          + "<entity name='A'><attribute name='b' attributeType='Composite' compositeName='C'/></entity>"),
      reason: "nests composites", line: 1),
    BadFile(
      name: "entity declarations",
      text: "<!DOCTYPE model [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]>\n<model><entity name=\"&b;\"/></model>",
      reason: "Entity declarations", line: 1),
    BadFile(
      name: "undeclared entity", text: "<model><entity name=\"&b;\"/></model>", reason: "not well-formed", line: 1),
    BadFile(
      name: "too deep", text: String(repeating: "<model>", count: 100), reason: "nested more than 64 deep", line: 1),
    BadFile(name: "two roots", text: "<model/>\n<model/>", reason: "follows its root", line: 2),
    BadFile(name: "text after the root", text: "<model/>\nmore", reason: "follows its root", line: 2),
    BadFile(name: "junk after the root", text: "<model/>\n</x", reason: "not well-formed", line: 2),
    BadFile(
      name: "another encoding", text: "<?xml version='1.0' encoding='UTF-7'?><model/>", reason: "another encoding",
      line: 1),
    BadFile(name: "NUL", text: "<model>\0</model>", reason: "not UTF-8"),
  ]

  @Test(arguments: badFiles) func `a bad file is refused with its line`(file: BadFile) throws {
    let error = try #require(throws: ModelReadingError.self) { try read(file.text) }
    #expect(error.reason.contains(file.reason), "\(error)")
    if let line = file.line { #expect(error.line == line, "\(error)") }
  }

  @Test func `an unknown attribute type names entity and attribute`() throws {
    let error = try #require(throws: ModelReadingError.self) {
      try read(modelXML("<entity name='A'><attribute name='b' attributeType='Vector'/></entity>"))
    }
    #expect(error.entity == "A" && error.property == "b")
  }

  @Test func `bytes that are not UTF-8 are refused`() {
    #expect(throws: ModelReadingError.self) { try ModelReader.read([0x3c, 0xff, 0x3e]) }
    // UTF-16 with a byte order mark.
    #expect(throws: ModelReadingError.self) {
      try ModelReader.read([0xff, 0xfe] + "<model/>".utf16.flatMap { [UInt8($0 & 0xff), UInt8($0 >> 8)] })
    }
  }

  @Test func `a file beyond the limit is refused`() {
    #expect(throws: ModelReadingError.self) {
      try ModelReader.read(Array(repeating: UInt8(ascii: " "), count: 9_000_000))
    }
  }

  @Test func `the current version comes from the property list`() throws {
    let plist = """
      <?xml version="1.0" encoding="UTF-8"?>
      <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
      <plist version="1.0"><dict><key>other</key><string>x</string><key>_XCCurrentVersionName</key><string>Photos \
      2.xcdatamodel</string></dict></plist>
      """
    #expect(try ModelReader.currentVersion(fromPlist: Array(plist.utf8)) == "Photos 2.xcdatamodel")
  }

  @Test(arguments: [
    "", "bplist00", "<plist/>", "<plist><dict/></plist>",
    "<plist><dict><key>_XCCurrentVersionName</key></dict></plist>",
    "<plist><dict><key>_XCCurrentVersionName</key><integer>1</integer></dict></plist>",
    "<plist><dict><key>_XCCurrentVersionName</key><string>../../etc</string></dict></plist>",
    "<plist><dict><key>_XCCurrentVersionName</key><string>..</string></dict></plist>",
  ]) func `a property list without a version is refused`(text: String) {
    #expect(throws: ModelReadingError.self) { try ModelReader.currentVersion(fromPlist: Array(text.utf8)) }
  }

  @Test func `mutated files are read or refused, and what is read can be validated`() {
    let alphabet = Array("<>/=\"'&;! -YESNO0129abcz\n".utf8)
    for seed in 0..<600 {
      var generator = SeededGenerator(seed: UInt64(seed))
      guard let model = try? ModelReader.read(generator.mutate(Array(everythingXML.utf8), with: alphabet)) else {
        continue
      }
      let index = ModelIndex(model)
      _ = ModelValidator.problems(of: index)
      _ = index.modelHash
      let text = SchemaPrinter.text(of: SchemaGenerator.schema(for: index))
      // The validator refuses names that don't fit a schema.
      if ModelValidator.problems(of: index).isEmpty { #expect(throws: Never.self) { try SchemaParser.parse(text) } }
    }
  }
}
