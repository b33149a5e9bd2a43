import ObjectModel
import Records
import Testing

@Suite struct ModelIndexTests {
  let index: ModelIndex

  init() throws { index = ModelIndex(try read(everythingXML)) }

  @Test func `a hierarchy three deep has one root, one record type, and inherits everything`() throws {
    let puppy = try #require(index.entity(named: "Puppy"))
    #expect(puppy.rootName == "Animal")
    #expect(puppy.recordType == "CD_Animal")
    #expect(puppy.superentityNames == ["Dog", "Animal"])
    #expect(puppy.attributes.map(\.name) == ["born", "chip", "name", "weeks"])
    #expect(puppy.attributes.map(\.declaringEntityName) == ["Animal", "Dog", "Animal", "Puppy"])
    #expect(puppy.relationships.map(\.name) == ["keepers", "mother", "puppies"])
    #expect(index.rootEntity(of: "Puppy")?.name == "Animal")
    #expect(index.rootEntity(forRecordType: "CD_Animal")?.name == "Animal")
    #expect(index.rootEntity(forRecordType: "CD_Puppy") == nil)
    #expect(index.subentities(of: "Animal").map(\.name) == ["Dog", "Puppy"])
    #expect(index.entity(named: "Animal")?.kindNames == ["Animal", "Dog", "Puppy"])
  }

  @Test func `a subentity stands where its parent is the destination`() throws {
    let (animal, dog, person) = (
      try #require(index.entity(named: "Animal")), try #require(index.entity(named: "Dog")),
      try #require(index.entity(named: "Person"))
    )
    #expect(dog.isKind(of: animal) && dog.isKind(of: dog) && !animal.isKind(of: dog) && !person.isKind(of: animal))
  }

  @Test func `T-M03 a record without CD_entityName is of its type's entity`() {
    #expect(index.entity(recordType: "CD_Animal", entityName: nil)?.name == "Animal")
    #expect(index.entity(recordType: "CD_Animal", entityName: "Dog")?.name == "Dog")
    #expect(index.entity(recordType: "CD_Animal", entityName: "Cat") == nil)
    #expect(index.entity(recordType: "Animal", entityName: nil) == nil)
  }

  @Test func `T-M12 transient, derived, ignored and reserved attributes are not mirrored`() throws {
    let person = try #require(index.entity(named: "Person"))
    let unmirrored = person.attributes.filter { !$0.isMirrored }.map(\.name)
    #expect(unmirrored == ["ckRecordID", "keeperCount", "local", "scratch"])
    #expect(person.mirroredAttributes.count == person.attributes.count - 4)
  }

  @Test func `fields have the types of the mapping table, and companions only where the length varies`() throws {
    let person = try #require(index.entity(named: "Person"))
    let expected: [String: (FieldType, Bool)] = [
      "active": (.int64, false), "address": (.bytes, true), "balance": (.double, false), "big": (.int64, false),
      "height": (.double, false),
      "homepage": (.string, true), "mood": (.bytes, true), "photo": (.bytes, true), "rank": (.int64, false),
      "secret": (.string, true),
      "weight": (.double, false),
    ]
    #expect(person.mirroredAttributes.map(\.name) == expected.keys.sorted())
    for attribute in person.mirroredAttributes {
      #expect(attribute.fieldType == expected[attribute.name]?.0, "\(attribute.name)")
      #expect(attribute.fieldName == "CD_\(attribute.name)")
      #expect(attribute.assetFieldName == (expected[attribute.name]?.1 == true ? "CD_\(attribute.name)_ckAsset" : nil))
    }
    #expect(person.mirroredAttributes.filter(\.isEncrypted).map(\.name) == ["secret", "weight"])
    #expect(index.entity(named: "Dog")?.attribute(named: "chip")?.fieldType == .string)
    #expect(index.entity(named: "Dog")?.attribute(named: "chip")?.assetFieldName == nil)
    #expect(index.entity(named: "Animal")?.attribute(named: "born")?.fieldType == .timestamp)
  }

  @Test func `a relationship is a field, its inverse's field, or a link`() throws {
    let dog = try #require(index.entity(named: "Dog"))
    guard case .inverseField(let name)? = dog.relationship(named: "puppies")?.storage else {
      return #expect(Bool(false), "puppies")
    }
    #expect(name == "CD_mother")
    let puppy = try #require(index.entity(named: "Puppy"))
    #expect(puppy.mirroredToOnes.map(\.name) == ["mother"])
    #expect(puppy.mirroredLinks.map(\.name) == ["keepers"])
    #expect(puppy.relationship(named: "mother")?.inverse?.declaringEntityName == "Dog")
    #expect(try #require(index.entity(named: "Person")).mirroredToOnes.map(\.name) == ["spouse"])
  }

  @Test func `T-M19 a link of an inherited relationship names the declaring entity, its key the root`() throws {
    let link = try #require(index.entity(named: "Puppy")?.relationship(named: "keepers")?.link)
    #expect(link.entityNames == "Animal:Person")
    #expect(link.relationshipNames == "keepers:animals")
    #expect(link.recordNames(source: "P", target: "K") == "P:K")
    let back = try #require(index.entity(named: "Person")?.relationship(named: "animals")?.link)
    #expect(back.entityNames == link.entityNames && back.relationshipNames == link.relationshipNames)
    #expect(back.recordNames(source: "K", target: "P") == "P:K")
    #expect(link.key(source: "P", target: "K") == "CD_M2M_Animal_keepers:P:K")
    #expect(back.key(source: "K", target: "P") == "CD_M2M_Animal_keepers:P:K")
  }

  @Test func `T-M16 a self-referential link is ordered by relationship`() throws {
    let person = try #require(index.entity(named: "Person"))
    let parents = try #require(person.relationship(named: "parents")?.link)
    let children = try #require(person.relationship(named: "children")?.link)
    for link in [parents, children] {
      #expect(link.entityNames == "Person:Person")
      #expect(link.relationshipNames == "children:parents")
      #expect(!link.isSymmetric)
    }
    // The first name is the record to which `children` belongs: the parent.
    #expect(parents.recordNames(source: "child", target: "parent") == "parent:child")
    #expect(children.recordNames(source: "parent", target: "child") == "parent:child")
    #expect(parents.key(source: "child", target: "parent") == children.key(source: "parent", target: "child"))
  }

  @Test func `T-M17 a relationship that is its own inverse has one form for a pair`() throws {
    let friends = try #require(index.entity(named: "Person")?.relationship(named: "friends")?.link)
    #expect(friends.isSymmetric)
    #expect(friends.relationshipNames == "friends:friends")
    #expect(friends.recordNames(source: "B", target: "A") == "A:B")
    #expect(friends.recordNames(source: "A", target: "B") == "A:B")
    #expect(friends.key(source: "B", target: "A") == friends.key(source: "A", target: "B"))
  }

  @Test func `T-M15, T-M18 entities of a link are ordered without regard to case`() throws {
    func link(_ first: String, _ relationship: String, _ second: String, _ inverse: String) -> LinkDescription? {
      func entity(_ name: String, _ relationship: String, _ other: String, _ inverse: String) -> Entity {
        Entity(
          name: name,
          relationships: [
            Relationship(
              name: relationship, destinationName: other, inverseName: inverse, inverseEntityName: other, isToMany: true
            )
          ])
      }
      let model = ManagedObjectModel(entities: [
        entity(first, relationship, second, inverse), entity(second, inverse, first, relationship),
      ])
      return ModelIndex(model).entity(named: first)?.relationship(named: relationship)?.link
    }
    #expect(link("Post", "tags", "Tag", "posts")?.entityNames == "Post:Tag")
    #expect(link("Post", "tags", "Tag", "posts")?.relationshipNames == "tags:posts")
    #expect(link("Tag", "posts", "Post", "tags")?.relationshipNames == "tags:posts")
    #expect(link("Banana", "a", "apple", "b")?.entityNames == "apple:Banana")
    #expect(link("Banana", "a", "apple", "b")?.relationshipNames == "b:a")
    // Names that differ only in case have the same order from both sides.
    #expect(link("tag", "x", "Tag", "X")?.entityNames == link("Tag", "X", "tag", "x")?.entityNames)
  }

  @Test func `configurations select their entities`() throws {
    let model = ManagedObjectModel(
      entities: [Entity(name: "B"), Entity(name: "A"), Entity(name: "C")],
      configurations: ["Cloud": ["A", "Gone", "A"]])
    let index = ModelIndex(model)
    #expect(index.entities(inConfiguration: "Cloud")?.map(\.name) == ["A"])
    #expect(index.entities(inConfiguration: nil)?.map(\.name) == ["A", "B", "C"])
    #expect(index.entities(inConfiguration: "Local") == nil)
  }

  @Test func `parents in a circle, missing parents and double names leave an index that answers`() {
    let index = ModelIndex(
      ManagedObjectModel(entities: [
        Entity(name: "A", parentName: "B", attributes: [Attribute(name: "x", type: .string)]),
        Entity(name: "B", parentName: "A"),
        Entity(name: "C", parentName: "Missing"), Entity(name: "D", parentName: "D"),
        Entity(name: "C", attributes: [Attribute(name: "late", type: .string)]),
      ]))
    #expect(index.entities.map(\.name) == ["A", "B", "C", "D"])
    #expect(index.entity(named: "C")?.rootName == "C")
    #expect(index.entity(named: "C")?.attributes.isEmpty == true)
    #expect(index.entity(named: "B")?.attribute(named: "x") != nil)
    #expect(index.entity(named: "D")?.rootName == "D")
  }

  @Test(arguments: [
    ("YES", true), ("yes", true), ("true", true), ("1", true), (" +07", true), ("9", true), ("NO", false), ("0", false),
    ("", false), ("false", false), ("-0", false),
  ]) func `user info flags are read as Core Data reads them`(value: String, isSet: Bool) {
    let attribute = Attribute(
      name: "a", type: .string, userInfo: ["NSCloudKitMirroringDelegateIgnoredPropertyKey": value])
    let index = ModelIndex(ManagedObjectModel(entities: [Entity(name: "E", attributes: [attribute])]))
    #expect(index.entity(named: "E")?.attribute(named: "a")?.isMirrored == !isSet)
  }

  @Test(
    arguments: [
      (AttributeType.integer16, "32767", FieldValue.int64(32767)), (.integer16, "32768", nil),
      (.integer32, "-2147483648", .int64(-2_147_483_648)),
      (.integer64, "9223372036854775807", .int64(.max)), (.integer64, "1.5", nil), (.boolean, "YES", .int64(1)),
      (.boolean, "0", .int64(0)),
      (.boolean, "maybe", nil), (.double, "1e3", .double(1000)), (.float, "nan", nil),
      (.decimal, "0.25", .double(0.25)),
      (.date, "0", .timestamp(978_307_200_000)), (.date, "-978307200", .timestamp(0)),
      (.date, "0.0014", .timestamp(978_307_200_001)), (.date, "1e300", nil),
      (.string, "", .string("")), (.uri, "x:y", .string("x:y")),
      (.uuid, "6ba7b810-9dad-11d1-80b4-00c04fd430c8", .string("6BA7B810-9DAD-11D1-80B4-00C04FD430C8")),
      (.uuid, "6ba7b810", nil), (.binary, "x", nil),
    ] as [(AttributeType, String, FieldValue?)]) func `defaults become field values`(
      type: AttributeType, text: String, value: FieldValue?
    )
  {
    let attribute = Attribute(name: "a", type: type, defaultValue: text)
    #expect(attribute.defaultFieldValue == value)
    #expect(attribute.hasUnreadableDefault == (value == nil && type != .binary))
  }
}
