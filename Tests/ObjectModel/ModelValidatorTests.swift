import ObjectModel
import Testing

@Suite struct ModelValidatorTests {
  private func problems(
    _ entities: [Entity], _ configurations: [String: [String]] = [:], in configuration: String? = nil
  ) -> [ModelProblem] {
    ModelValidator.problems(
      of: ModelIndex(ManagedObjectModel(entities: entities, configurations: configurations)),
      configuration: configuration)
  }

  private func toOne(_ name: String, _ destination: String, _ inverse: String?) -> Relationship {
    Relationship(
      name: name, destinationName: destination, inverseName: inverse,
      inverseEntityName: inverse.map { _ in destination }, isToMany: false)
  }

  @Test func `a model with everything that mirroring accepts has no problems`() throws {
    #expect(ModelValidator.problems(of: ModelIndex(try read(everythingXML))) == [])
    #expect(ModelValidator.problems(of: ModelIndex(try read(everythingXML)), configuration: "Cloud") == [])
  }

  @Test func `T-S11 five limitations are reported at once`() throws {
    let index = ModelIndex(
      try read(
        modelXML(
          """
          <entity name="List"><attribute name="code" attributeType="String"/>
          <relationship name="items" optional="YES" toMany="YES" ordered="YES" deletionRule="Deny" \
          destinationEntity="Item" inverseName="list" inverseEntity="Item"/>
          <uniquenessConstraints><uniquenessConstraint><constraint \
          value="code"/></uniquenessConstraint></uniquenessConstraints></entity>
          <entity name="Item"><relationship name="list" optional="YES" maxCount="1" deletionRule="Nullify" \
          destinationEntity="List" inverseName="items" inverseEntity="List"/>
          <relationship name="owner" optional="YES" maxCount="1" deletionRule="Nullify" \
          destinationEntity="List"/></entity>
          """)))
    let problems = ModelValidator.problems(of: index)
    #expect(
      problems.map { "\($0.entity ?? "").\($0.property ?? "") \($0.rule)" } == [
        "Item.owner missingInverse", "List. uniquenessConstraint", "List.code requiredAttribute",
        "List.items orderedRelationship", "List.items denyDeleteRule",
      ])
    #expect(problems.allSatisfy { !$0.suggestion.isEmpty && $0.message.contains($0.entity ?? "?") })
  }

  @Test func `T-S10 siblings with one name and two types are named both`() {
    let found = problems([
      Entity(name: "Animal"),
      Entity(name: "Cat", parentName: "Animal", attributes: [Attribute(name: "age", type: .integer16)]),
      Entity(name: "Dog", parentName: "Animal", attributes: [Attribute(name: "age", type: .string)]),
      Entity(name: "Eel", parentName: "Animal", attributes: [Attribute(name: "age", type: .integer64)]),
    ])
    #expect(found.map(\.rule) == [.fieldTypeClash])
    #expect(
      found.first?.message
        == "Cat.age and Dog.age are both the field CD_age of CD_Animal, but one is INT64 and the other STRING.")
  }

  struct Case: Sendable, CustomTestStringConvertible {
    let rule: ModelProblem.Rule
    let entities: [Entity]
    var property: String? = "p"
    var testDescription: String { rule.rawValue }
  }

  private static func attribute(_ attribute: Attribute) -> [Entity] { [Entity(name: "E", attributes: [attribute])] }

  private static func relationship(
    optional: Bool = true, ordered: Bool = false, rule: DeleteRule = .nullify, userInfo: [String: String] = [:]
  ) -> [Entity] {
    [
      Entity(
        name: "E",
        relationships: [
          Relationship(
            name: "p", destinationName: "E", inverseName: "p", inverseEntityName: "E", isToMany: true,
            isOrdered: ordered, isOptional: optional,
            deleteRule: rule, userInfo: userInfo)
        ])
    ]
  }

  private static let ignored = ["NSCloudKitMirroringDelegateIgnoredPropertyKey": "YES"]
  private static let encrypted = ["NSPersistentCloudKitContainerEncryptedAttributeKey": "YES"]

  static let cases = [
    Case(rule: .emptyModel, entities: [], property: nil),
    Case(rule: .duplicateEntity, entities: [Entity(name: "E"), Entity(name: "E")], property: nil),
    Case(rule: .unknownParent, entities: [Entity(name: "E", parentName: "P")], property: nil),
    Case(rule: .entityName, entities: [Entity(name: "Größe")], property: nil),
    Case(rule: .entityName, entities: [Entity(name: String(repeating: "e", count: 253))], property: nil),
    Case(rule: .propertyName, entities: attribute(Attribute(name: "p:q", type: .string)), property: "p:q"),
    Case(rule: .propertyName, entities: attribute(Attribute(name: "_p", type: .string)), property: "_p"),
    Case(
      rule: .duplicateProperty,
      entities: [
        Entity(name: "E", attributes: [Attribute(name: "p", type: .date), Attribute(name: "p", type: .date)])
      ]),
    Case(
      rule: .duplicateProperty,
      entities: [
        Entity(name: "E", parentName: "A", attributes: [Attribute(name: "p", type: .date)]),
        Entity(name: "A", attributes: [Attribute(name: "p", type: .date)]),
      ]),
    Case(
      rule: .reservedName, entities: attribute(Attribute(name: "entityName", type: .string)), property: "entityName"),
    Case(
      rule: .fieldTypeClash,
      entities: [
        Entity(name: "A", attributes: [Attribute(name: "p", type: .string)]),
        Entity(name: "E", parentName: "A", attributes: [Attribute(name: "p_ckAsset", type: .string)]),
      ], property: "p_ckAsset"),
    Case(
      rule: .fieldEncryptionClash,
      entities: [
        Entity(name: "A"),
        Entity(
          name: "B", parentName: "A", attributes: [Attribute(name: "p", type: .date, allowsCloudEncryption: true)]),
        Entity(name: "E", parentName: "A", attributes: [Attribute(name: "p", type: .date)]),
      ]),
    Case(rule: .undefinedAttribute, entities: attribute(Attribute(name: "p", type: .undefined))),
    Case(rule: .objectIDAttribute, entities: attribute(Attribute(name: "p", type: .objectID))),
    Case(rule: .requiredAttribute, entities: attribute(Attribute(name: "p", type: .string, isOptional: false))),
    Case(rule: .unreadableDefault, entities: attribute(Attribute(name: "p", type: .integer16, defaultValue: "70000"))),
    Case(
      rule: .undefinedAttribute,
      entities: attribute(Attribute(name: "p", type: .composite, elements: [Attribute(name: "x", type: .undefined)]))),
    Case(
      rule: .mergeableStorage,
      entities: attribute(Attribute(name: "p", type: .transformable, usesMergeableStorage: true))),
    Case(
      rule: .ignoredAttribute,
      entities: attribute(
        Attribute(name: "p", type: .string, isOptional: false, defaultValue: "x", userInfo: ignored))),
    Case(rule: .orderedRelationship, entities: relationship(ordered: true)),
    Case(rule: .requiredRelationship, entities: relationship(optional: false)),
    Case(rule: .denyDeleteRule, entities: relationship(rule: .deny)),
    Case(rule: .ignoredRelationship, entities: relationship(userInfo: ignored)),
    Case(rule: .encryptedRelationship, entities: relationship(userInfo: encrypted)),
    Case(rule: .ignoredEntity, entities: [Entity(name: "E", userInfo: ignored)], property: nil),
    Case(rule: .encryptedEntity, entities: [Entity(name: "E", userInfo: encrypted)], property: nil),
    Case(
      rule: .conflictPolicy,
      entities: attribute(Attribute(name: "p", type: .string, userInfo: ["AquiferConflictPolicy": "newest"]))),
    Case(
      rule: .conflictPolicy,
      entities: attribute(Attribute(name: "p", type: .string, userInfo: ["AquiferConflictPolicy": "max"]))),
    Case(
      rule: .conflictPolicy,
      entities: attribute(Attribute(name: "p", type: .double, userInfo: ["AquiferConflictPolicy": "counter"]))),
    Case(
      rule: .conflictPolicy,
      entities: attribute(Attribute(name: "p", type: .composite, userInfo: ["AquiferConflictPolicy": "set-union"]))),
    Case(
      rule: .conflictPolicy, entities: [Entity(name: "E", userInfo: ["AquiferConflictPolicy": "HLC"])], property: nil),
    Case(
      rule: .conflictPolicy,
      entities: [
        Entity(
          name: "E", attributes: [Attribute(name: "p", type: .string)], userInfo: ["AquiferConflictPolicy": "counter"])
      ], property: nil),
    Case(rule: .conflictPolicy, entities: relationship(userInfo: ["AquiferConflictPolicy": "manual"])),
    Case(
      rule: .deletePolicy, entities: [Entity(name: "E", userInfo: ["AquiferDeletePolicy": "editsWin"])], property: nil),
    Case(
      rule: .exactDecimal,
      entities: attribute(Attribute(name: "p", type: .double, userInfo: ["AquiferExactDecimal": "YES"]))),
    Case(
      rule: .deletePolicy,
      entities: attribute(Attribute(name: "p", type: .string, userInfo: ["AquiferDeletePolicy": "editWins"]))),
    Case(rule: .shareBoundary, entities: [Entity(name: "E", userInfo: ["AquiferShareBoundary": "YES"])], property: nil),
    Case(
      rule: .shareBoundary,
      entities: attribute(Attribute(name: "p", type: .string, userInfo: ["AquiferShareBoundary": "YES"]))),
    Case(
      rule: .uniquenessConstraint, entities: [Entity(name: "E", uniquenessConstraints: [["a", "b"]])], property: nil),
    Case(
      rule: .missingDestination,
      entities: [
        Entity(
          name: "E",
          relationships: [
            Relationship(
              name: "p", destinationName: "Gone", inverseName: "q", inverseEntityName: "Gone", isToMany: false)
          ])
      ]),
    Case(
      rule: .missingInverse,
      entities: [
        Entity(
          name: "E",
          relationships: [
            Relationship(name: "p", destinationName: "E", inverseName: "q", inverseEntityName: "E", isToMany: false)
          ])
      ]),
    Case(
      rule: .fieldCount,
      entities: [Entity(name: "E", attributes: (0..<127).map { Attribute(name: "a\($0)", type: .string) })],
      property: nil),
  ]

  @Test(arguments: cases) func `each limitation is reported by its rule, entity and property`(example: Case) throws {
    let found = problems(example.entities)
    #expect(found.map(\.rule) == [example.rule], "\(found)")
    #expect(found.first?.property == example.property)
  }

  /// Rules that need more than one small model; they have tests of their own below.
  private static let told: Set<ModelProblem.Rule> = [
    .unknownConfiguration, .unknownMember, .parentCycle, .inverseMismatch, .configurationCrossing, .recordByteCount,
  ]

  @Test func `every rule is broken by a model here`() {
    #expect(Set(Self.cases.map(\.rule)).union(Self.told) == Set(ModelProblem.Rule.allCases))
    #expect(Set(Self.cases.map(\.rule)).isDisjoint(with: Self.told))
  }

  @Test func `a record that is full before its first text is reported, beside its fields' number`() {
    // Names of 250 bytes and 8 bytes of value: other types have too many fields before they reach this limit.
    let attributes = (0..<3000).map { number -> Attribute in
      let digits = String(number)
      return Attribute(name: "a" + String(repeating: "x", count: 240 - digits.count) + digits, type: .integer64)
    }
    #expect(problems([Entity(name: "E", attributes: attributes)]).map(\.rule) == [.fieldCount, .recordByteCount])
    #expect(problems([Entity(name: "E", attributes: Array(attributes.prefix(2000)))]).map(\.rule) == [.fieldCount])
  }

  @Test func `a record type of exactly 256 fields passes`() {
    // Two fields for each string, and three of the mirroring.
    let strings = (0..<126).map { Attribute(name: "a\($0)", type: .string) }
    #expect(problems([Entity(name: "E", attributes: strings + [Attribute(name: "n", type: .date)])]) == [])
    #expect(
      problems([
        Entity(name: "E", attributes: strings + [Attribute(name: "n", type: .date), Attribute(name: "o", type: .date)])
      ]).map(\.rule) == [.fieldCount])
  }

  @Test func `entities that are each other's parents are reported both`() {
    let found = problems([
      Entity(name: "A", parentName: "B"), Entity(name: "B", parentName: "A"), Entity(name: "C", parentName: "A"),
    ])
    #expect(found.map { "\($0.entity ?? "") \($0.rule)" } == ["A parentCycle", "B parentCycle"])
  }

  @Test func `inverses that do not lead back are reported`() {
    let found = problems([
      Entity(name: "A", relationships: [toOne("b", "B", "a")]),
      Entity(name: "B", relationships: [toOne("a", "A", "other"), toOne("c", "A", "other")]),
      Entity(name: "D", parentName: "A"),
    ])
    #expect(
      found.map { "\($0.entity ?? "").\($0.property ?? "") \($0.rule)" } == [
        "A.b inverseMismatch", "B.a missingInverse", "B.c missingInverse",
      ])
  }

  @Test func `an inverse that the destination inherits is found`() {
    let found = problems([
      Entity(name: "Base", relationships: [toOne("owner", "Owner", "thing")]),
      Entity(name: "Thing", parentName: "Base"),
      Entity(name: "Owner", relationships: [toOne("thing", "Thing", "owner")]),
    ])
    #expect(found == [])
  }

  @Test func `a relationship out of the configuration is reported`() {
    let entities = [
      Entity(name: "A", relationships: [toOne("b", "B", "a")]),
      Entity(name: "B", relationships: [toOne("a", "A", "b")]),
    ]
    #expect(problems(entities, ["Cloud": ["A"]], in: "Cloud").map(\.rule) == [.configurationCrossing])
    #expect(problems(entities, ["Cloud": ["A"]]) == [])
    #expect(problems(entities, ["Cloud": ["A", "B", "C"]], in: "Cloud").map(\.rule) == [.unknownMember])
    #expect(problems(entities, in: "Nowhere").map(\.rule) == [.unknownConfiguration])
  }

  @Test func `a property that never reaches a record is not checked`() {
    let attributes = [
      Attribute(name: "t", type: .undefined, isOptional: false, isTransient: true),
      Attribute(name: "d", type: .integer64, isOptional: false, isDerived: true),
      Attribute(name: "i", type: .objectID, userInfo: Self.ignored),
    ]
    #expect(problems([Entity(name: "E", attributes: attributes)]) == [])
  }
}
