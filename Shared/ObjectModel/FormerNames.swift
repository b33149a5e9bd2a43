// The names under which other models of an environment have a renamed property: records keep its values there (R18).

/// Former names by renaming identifiers, over all models that stores of an environment may have.
///
/// It looks at each model once, so that many models share it.
public struct FormerNames: Sendable {
  /// Names with their identifiers, ascending, by entity.
  private let attributes: [String: [Named]]
  private let relationships: [String: [Named]]

  private struct Named: Hashable, Sendable {
    let name: String
    let identifier: String?
  }

  public init(_ models: [ManagedObjectModel]) {
    let entities = models.flatMap(\.entities)
    attributes = Self.byEntity(entities) {
      $0.attributes.map { Named(name: $0.name, identifier: $0.renamingIdentifier) }
    }
    relationships = Self.byEntity(entities) {
      $0.relationships.map { Named(name: $0.name, identifier: $0.renamingIdentifier) }
    }
  }

  private static func byEntity(_ entities: [Entity], _ named: (Entity) -> [Named]) -> [String: [Named]] {
    var found: [String: Set<Named>] = [:]
    for entity in entities { found[entity.name, default: []].formUnion(named(entity)) }
    return found.mapValues { $0.sorted { ($0.name, $0.identifier ?? "") < ($1.name, $1.identifier ?? "") } }
  }

  /// - Parameter taken: names that the attribute's own model has for something else.
  func names(of attribute: Attribute, in entity: String, taken: Set<String>) -> [String] {
    Self.names(attribute.name, attribute.renamingIdentifier, attributes[entity] ?? [], taken)
  }

  func names(of relationship: Relationship, in entity: String, taken: Set<String>) -> [String] {
    Self.names(relationship.name, relationship.renamingIdentifier, relationships[entity] ?? [], taken)
  }

  // MARK: Conflicts

  /// True if some model has a property of that name.
  func has(_ property: NamedProperty) -> Bool { known(property).contains { $0.name == property.name } }

  /// Former names of a property by each identifier that some model gives it, also those that are taken.
  func allNames(of property: NamedProperty) -> Set<String> {
    let known = known(property)
    let identifiers = known.filter { $0.name == property.name }.map(\.identifier) + [property.identifier]
    return Set(identifiers.flatMap { Self.names(property.name, $0, known, []) })
  }

  /// The other names of some model's properties with the identifier, without the identifier itself; ascending.
  func siblings(of property: NamedProperty) -> [String] {
    guard let identifier = property.identifier else { return [] }
    let found = known(property).filter {
      $0.identifier == identifier && $0.name != property.name && $0.name != identifier
    }
    return Set(found.map(\.name)).sorted()
  }

  /// The names that the models, and not the property's own identifier, say that came before its name.
  func ancestors(of property: NamedProperty) -> Set<String> {
    let known = known(property)
    var found: Set<String> = []
    var next = known.filter { $0.name == property.name }.compactMap(\.identifier)
    while let name = next.popLast() {
      guard name != property.name, found.insert(name).inserted else { continue }
      next += known.filter { $0.name == name }.compactMap(\.identifier)
    }
    return found
  }

  private func known(_ property: NamedProperty) -> [Named] {
    (property.isRelationship ? relationships : attributes)[property.entity] ?? []
  }

  /// The latest first, as far as identifiers tell: the name that several share as their identifier is the oldest.
  private static func names(_ name: String, _ identifier: String?, _ known: [Named], _ taken: Set<String>) -> [String] {
    var found: [String] = []
    var next = identifier
    while let identifier = next, identifier != name, !found.contains(identifier) {
      let siblings = known.filter { $0.identifier == identifier && $0.name != name && $0.name != identifier }
      for former in siblings.map(\.name) + [identifier] where !found.contains(former) { found.append(former) }
      next = known.first { $0.name == identifier && $0.identifier != nil }?.identifier
    }
    return found.filter { !taken.contains($0) }
  }
}
