// A model with an attribute of each policy, for the tests about conflicts.

package import ObjectModel
import Records

package enum ConflictModel {
  private static func attribute(_ name: String, _ type: AttributeType, _ policy: ConflictPolicy) -> Attribute {
    Attribute(name: name, type: type, userInfo: [ReservedName.conflictPolicyKey: policy.rawValue])
  }

  package static let attributes = [
    Attribute(name: "title", type: .string), attribute("body", .string, .hlc), attribute("highest", .integer64, .max),
    attribute("earliest", .date, .min),
    attribute("likes", .integer16, .counter), attribute("tags", .string, .setUnion),
    attribute("choice", .string, .manual),
  ]

  package static let model = ManagedObjectModel(entities: [
    Entity(
      name: "Card", attributes: attributes,
      relationships: [Sample.toOne("box", "Box", "cards"), Sample.toMany("marks", "Mark", "cards")]),
    Entity(
      name: "Pin", attributes: [Attribute(name: "title", type: .string)],
      relationships: [Sample.toOne("box", "Box", "pins"), Sample.toMany("marks", "Mark", "pins")],
      userInfo: [ReservedName.deletePolicyKey: DeletePolicy.editWins.rawValue]),
    Entity(
      name: "Box", attributes: [Attribute(name: "name", type: .string)],
      relationships: [Sample.toMany("cards", "Card", "box"), Sample.toMany("pins", "Pin", "box")]),
    Entity(
      name: "Mark", attributes: [Attribute(name: "name", type: .string)],
      relationships: [Sample.toMany("cards", "Card", "marks"), Sample.toMany("pins", "Pin", "marks")]),
  ])

  package static let index = ModelIndex(model)
  package static let rules = ConflictRules(index)
}
