import ObjectModel
import Records
import Testing

/// Rules checked against a model.
struct EnvironmentRulesTests {
  private static let model = ModelIndex(
    ManagedObjectModel(entities: [
      Entity(
        name: "Tag",
        attributes: [
          Attribute(name: "name", type: .string), Attribute(name: "year", type: .integer32),
          Attribute(name: "secret", type: .string, allowsCloudEncryption: true),
          Attribute(name: "image", type: .binary), Attribute(name: "size", type: .integer64, isDerived: true),
        ])
    ]))

  private static func rule(_ entity: String, _ attributes: String...) -> EnvironmentRules.Unique {
    EnvironmentRules.Unique(entity: entity, attributes: attributes, policy: .report)
  }

  @Test func `rules that can hold have no problems`() {
    #expect(
      EnvironmentRules(unique: [Self.rule("Tag", "name"), Self.rule("Tag", "name", "year")]).problems(in: [
        NamedModel(name: "model", index: Self.model)
      ]).isEmpty)
  }

  @Test(
    arguments: [
      (rule("Tug", "name"), "The model has no entity Tug."), (rule("Tag"), "Tag needs at least one unique attribute."),
      (rule("Tag", "nome"), "Tag.nome is not an attribute of the model."),
      (rule("Tag", "secret"), "Tag.secret is encrypted, and encrypted values are not compared."),
      (rule("Tag", "image"), "Tag.image is of type Binary, and values of that type are not compared."),
      (rule("Tag", "size"), "Tag.size is not mirrored."),
      (rule("Tag", "name", "name"), "Tag(name, name) names an attribute twice."),
    ])
  func `a rule that can't hold is named with its entity and attribute`(rule: EnvironmentRules.Unique, problem: String) {
    #expect(EnvironmentRules(unique: [rule]).problems(in: [NamedModel(name: "model", index: Self.model)]) == [problem])
  }

  @Test func `all problems are told at once, the same attributes twice among them`() {
    let rules = EnvironmentRules(unique: [
      Self.rule("Tag", "name", "year"), Self.rule("Tug", "x"), Self.rule("Tag", "year", "name"),
    ])
    #expect(
      rules.problems(in: [NamedModel(name: "model", index: Self.model)]) == [
        "The model has no entity Tug.", "Tag(year, name) is declared twice.",
      ])
  }

  @Test func `merged rules have the later policy of the same attributes, and all others`() {
    let old = EnvironmentRules(unique: [Self.rule("Tag", "name", "year"), Self.rule("Tag", "year")])
    let new = EnvironmentRules(unique: [
      EnvironmentRules.Unique(entity: "Tag", attributes: ["year", "name"], policy: .reject)
    ])
    #expect(old.merging(new).unique.map(\.policy) == [.report, .reject])
  }
}
