// A model with slow, simple lookups, for the entities and attributes that a run edits and compares.

package import ObjectModel
import Records

package struct ModelShape: Sendable {
  package let model: ManagedObjectModel
  /// Names of entities that are not abstract, ascending.
  let entityNames: [String]

  package init(_ model: ManagedObjectModel) {
    self.model = model
    entityNames = model.entities.filter { !$0.isAbstract }.map(\.name)
  }

  private func lineage(_ entity: String) -> [Entity] {
    guard let found = model.entity(named: entity) else { return [] }
    return [found] + (found.parentName.map(lineage) ?? [])
  }

  func root(of entity: String) -> String { lineage(entity).last?.name ?? entity }

  /// The attributes that a run sets, by name.
  func attributes(of entity: String) -> [Attribute] {
    lineage(entity).flatMap(\.attributes).filter { attribute in
      guard !attribute.isTransient, !attribute.isDerived, attribute.userInfo[ReservedName.ignoredPropertyKey] == nil
      else { return false }
      switch attribute.type {
      case .string, .integer16, .integer32, .integer64, .boolean, .date, .double, .float, .uuid: return true
      default: return false
      }
    }.sorted { $0.name < $1.name }
  }

  func attribute(_ name: String, of entity: String) -> Attribute? { attributes(of: entity).first { $0.name == name } }

  func relationships(of entity: String) -> [Relationship] {
    lineage(entity).flatMap(\.relationships).filter { !$0.isTransient }.sorted { $0.name < $1.name }
  }

  func relationship(_ name: String, of entity: String) -> Relationship? {
    relationships(of: entity).first { $0.name == name }
  }

  func inverse(of relationship: Relationship) -> Relationship? {
    relationships(of: relationship.destinationName).first { $0.name == relationship.inverseName }
  }

  func isA(_ entity: String, _ ancestor: String) -> Bool { lineage(entity).contains { $0.name == ancestor } }

  func policy(of attribute: Attribute) -> ConflictPolicy {
    attribute.userInfo[ReservedName.conflictPolicyKey].flatMap(ConflictPolicy.init(rawValue:)) ?? .arrival
  }

  func deletePolicy(of entity: String) -> DeletePolicy {
    lineage(entity).compactMap { $0.userInfo[ReservedName.deletePolicyKey].flatMap(DeletePolicy.init(rawValue:)) }.first
      ?? .deleteWins
  }
}
