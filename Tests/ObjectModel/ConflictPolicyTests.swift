import ObjectModel
import Testing

struct ConflictPolicyTests {
  private static func attribute(_ name: String, _ type: AttributeType, _ policy: String? = nil) -> Attribute {
    Attribute(name: name, type: type, userInfo: policy.map { ["AquiferConflictPolicy": $0] } ?? [:])
  }

  private static let model = ModelIndex(
    ManagedObjectModel(entities: [
      Entity(
        name: "Note",
        attributes: [
          attribute("title", .string), attribute("likes", .integer32, "counter"), attribute("seen", .date, "max"),
        ],
        userInfo: ["AquiferConflictPolicy": "hlc", "AquiferDeletePolicy": "editWins"]),
      Entity(
        name: "Memo", parentName: "Note",
        attributes: [attribute("text", .string), attribute("plain", .string, "arrival")]),
      Entity(
        name: "Draft", parentName: "Note", attributes: [attribute("size", .integer16), attribute("text", .string)],
        userInfo: ["AquiferConflictPolicy": "min", "AquiferDeletePolicy": "deleteWins"]),
      Entity(name: "Tag", attributes: [attribute("name", .string)]),
    ]))

  @Test func `an attribute's own policy counts, then the nearest entity's that has one`() {
    let rules = ConflictRules(Self.model)
    #expect(rules.policies(of: "Note") == ["title": .hlc, "likes": .counter, "seen": .max])
    #expect(rules.policies(of: "Memo") == ["title": .hlc, "likes": .counter, "seen": .max, "text": .hlc])
    #expect(
      rules.policies(of: "Draft") == ["likes": .counter, "seen": .max, "size": .min],
      "the nearest entity's fits no text")
    #expect(rules.policies(of: "Tag") == nil && rules.policies(of: "Unknown") == nil)
    #expect(
      ["Note", "Memo", "Draft", "Tag"].map { rules.deletePolicy(of: $0) } == [
        .editWins, .editWins, .deleteWins, .deleteWins,
      ])
    #expect(ConflictRules().policies(of: "Note") == nil)
  }

  @Test func `policies are no part of a model's hash`() {
    var plain = Self.model.model
    for index in plain.entities.indices {
      plain.entities[index].userInfo = [:]
      for attribute in plain.entities[index].attributes.indices {
        plain.entities[index].attributes[attribute].userInfo = [:]
      }
    }
    #expect(ModelIndex(plain).modelHash == Self.model.modelHash)
  }
}
