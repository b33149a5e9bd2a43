// Names that would mean two properties in the records of one environment (R19).

import Records

/// A property whose name tells stores of different models different things.
public struct NameConflict: Hashable, Sendable {
  public let entity: String
  public let property: String
  /// The attribute's field; nil for a relationship.
  public let field: SchemaFieldName?
  /// What is wrong, in a sentence.
  public let message: String
  /// What helps, in a sentence.
  public let remedy: String
}

/// A property as renaming sees it.
struct NamedProperty {
  /// The entity that declares it.
  let entity: String
  let name: String
  let identifier: String?
  let isRelationship: Bool
  let field: SchemaFieldName?

  var path: String { "\(entity).\(name)" }
}

extension ModelIndex {
  /// What makes names ambiguous beside the other models of an environment; ascending.
  ///
  /// A model that is among the others has no conflicts, and a name that another one reuses already is none: a refusal
  /// of this model mends nothing.
  /// - Parameter latest: the model before this one; only it tells that a name is new.
  public func nameConflicts(beside others: [ManagedObjectModel], latest: ManagedObjectModel?) -> [NameConflict] {
    guard ([model] + others).contains(where: \.hasIdentifiers) else { return [] }
    let all = FormerNames(others + [model])
    let known = FormerNames(others)
    var found = reusedNames(all)
    if !found.isEmpty { for other in others { found.subtract(ModelIndex(other).reusedNames(known)) } }
    if let latest { found.formUnion(ambiguousNames(known, since: ModelIndex(latest))) }
    if found.isEmpty { return [] }
    let hash = modelHash
    let isKnown = others.contains { ModelIndex($0).modelHash == hash && changedIdentifiers(since: $0).isEmpty }
    if isKnown { return [] }
    return found.sorted { ($0.entity, $0.property, $0.message) < ($1.entity, $1.property, $1.message) }
  }

  /// Properties of an equal model that have another renaming identifier there, as paths; ascending. The hash does not
  /// tell them, so stores of the model are not sent again what they then read otherwise.
  public func changedIdentifiers(since other: ManagedObjectModel) -> [String] {
    func identifiers(_ index: ModelIndex) -> [String: String] {
      let properties = index.entities.flatMap(\.renameable)
      return Dictionary(
        properties.map { ($0.path, $0.identifier == $0.name ? "" : $0.identifier ?? "") },
        uniquingKeysWith: { first, _ in first })
    }
    let (before, now) = (identifiers(ModelIndex(other)), identifiers(self))
    return now.filter { before[$0.key] != $0.value }.keys.sorted()
  }

  /// Names that another property had.
  private func reusedNames(_ names: FormerNames) -> Set<NameConflict> {
    var found: Set<NameConflict> = []
    for entity in entities {
      let properties = entity.renameable
      let fields = Set(properties.filter { !$0.isRelationship }.map(\.name) + entity.mirroredToOnes.map(\.name))
      let pairs = Set(properties.filter(\.isRelationship).map(\.name))
      for property in properties {
        let taken = property.isRelationship ? pairs : fields
        for name in names.allNames(of: property) where name != property.name && taken.contains(name) {
          let owner = properties.first { $0.name == name && $0.isRelationship == property.isRelationship }
          found.insert(
            NameConflict(
              entity: owner?.entity ?? entity.name, property: name, field: owner?.field,
              message: "\(property.path) was called \(name), and \(name) is now another property.",
              remedy: "Give the other property a name that none has had: records keep values of "
                + "\(property.name) under \(name)."))
        }
      }
    }
    return found
  }

  /// Names that come back, and new names whose identifier says no order of the former ones.
  private func ambiguousNames(_ known: FormerNames, since latest: ModelIndex) -> Set<NameConflict> {
    var found: Set<NameConflict> = []
    for entity in entities {
      let before = latest.entity(named: entity.name)?.renameable ?? []
      for property in entity.renameable {
        guard let identifier = property.identifier,
          !before.contains(where: { $0.name == property.name && $0.isRelationship == property.isRelationship })
        else { continue }
        let siblings = known.siblings(of: property)
        if known.has(property) {
          let others = known.allNames(of: property).union(siblings).subtracting(known.ancestors(of: property))
          let later = others.sorted().first { name in
            known.has(
              NamedProperty(
                entity: property.entity, name: name, identifier: nil, isRelationship: property.isRelationship,
                field: nil))
          }
          guard let later else { continue }
          found.insert(
            NameConflict(
              entity: property.entity, property: property.name, field: property.field,
              message: "\(property.path) is called \(later) in the meantime, and gets an earlier name back.",
              remedy: "Keep \(later), or take a name that none has had: records keep earlier values under "
                + "\(property.name)."))
        } else if siblings.count > 1 {
          let last = siblings.first { name in before.contains { $0.name == name } } ?? "the latest of them"
          found.insert(
            NameConflict(
              entity: property.entity, property: property.name, field: property.field,
              message: "\(property.path) was called \(siblings.joined(separator: ", ")), and the renaming identifier "
                + "\(identifier) does not say which of them was the latest.",
              remedy: "Make \(last) the renaming identifier."))
        }
      }
    }
    return found
  }
}

extension ManagedObjectModel {
  /// True if some property has a renaming identifier.
  fileprivate var hasIdentifiers: Bool {
    entities.contains { entity in
      entity.attributes.contains { $0.renamingIdentifier != nil }
        || entity.relationships.contains { $0.renamingIdentifier != nil }
    }
  }
}

extension EntityDescription {
  /// The properties that records may have under former names.
  fileprivate var renameable: [NamedProperty] {
    let attributes = mirroredAttributes.map {
      NamedProperty(
        entity: $0.declaringEntityName, name: $0.name, identifier: $0.attribute.renamingIdentifier,
        isRelationship: false, field: SchemaFieldName(recordType: recordType, field: $0.fieldName))
    }
    let pairs = relationships.compactMap { relationship -> NamedProperty? in
      guard case .link = relationship.storage else { return nil }
      return NamedProperty(
        entity: relationship.declaringEntityName, name: relationship.name,
        identifier: relationship.relationship.renamingIdentifier, isRelationship: true, field: nil)
    }
    return attributes + pairs
  }
}
