// A model prepared for lookups: every save and import uses it, so names are resolved once.

import Records

/// A model with inheritance, inverses and field names resolved.
///
/// Every model has an index: dangling names and cycles stay unresolved here, and `ModelValidator` reports them.
public final class ModelIndex: Sendable {
  public let model: ManagedObjectModel
  /// Ascending by name; where several entities have one name, only the first of them.
  public let entities: [EntityDescription]
  /// True if any entity has an encrypted attribute (R7).
  public let hasEncryptedAttributes: Bool
  /// True if earlier models have other names for some properties.
  public let hasFormerNames: Bool
  private let entitiesByName: [String: EntityDescription]
  private let rootsByRecordType: [String: EntityDescription]

  /// - Parameter others: the models that other stores of the same records may have, or had.
  public convenience init(_ model: ManagedObjectModel, beside others: [ManagedObjectModel] = []) {
    self.init(model, FormerNames(others))
  }

  /// - Parameter formerNames: those of an environment, which all its models share.
  public init(_ model: ManagedObjectModel, _ formerNames: FormerNames) {
    self.model = model
    let resolver = Resolver(model, formerNames)
    entities = resolver.entities.enumerated().map { resolver.description(of: $1, ordinal: $0) }
    hasEncryptedAttributes = entities.contains { $0.attributes.contains(where: \.isEncrypted) }
    hasFormerNames = entities.contains(where: \.hasFormerNames)
    entitiesByName = Dictionary(uniqueKeysWithValues: entities.map { ($0.name, $0) })
    rootsByRecordType = Dictionary(
      uniqueKeysWithValues: entities.filter { $0.name == $0.rootName }.map { ($0.recordType, $0) })
  }

  public func entity(named name: String) -> EntityDescription? { entitiesByName[name] }

  /// The entity at the top of an entity's inheritance chain.
  public func rootEntity(of name: String) -> EntityDescription? {
    entitiesByName[name].flatMap { entitiesByName[$0.rootName] }
  }

  /// The root entity whose hierarchy is mirrored as records of that type; nil if there is none.
  public func rootEntity(forRecordType recordType: String) -> EntityDescription? { rootsByRecordType[recordType] }

  /// The entity a record is an object of (R2); nil when the model doesn't know it.
  /// - Parameter entityName: the record's `CD_entityName`, if it has one.
  public func entity(recordType: String, entityName: String?) -> EntityDescription? {
    if let entityName { return entitiesByName[entityName] }
    guard recordType.hasPrefix(ReservedName.recordTypePrefix) else { return nil }
    return entitiesByName[String(recordType.dropFirst(ReservedName.recordTypePrefix.count))]
  }

  /// The direct and indirect subentities of an entity, without itself, ascending by name.
  public func subentities(of name: String) -> [EntityDescription] {
    guard let kinds = entitiesByName[name]?.kindNames else { return [] }
    return kinds.compactMap { $0 == name ? nil : entitiesByName[$0] }
  }

  /// The entities of a configuration, ascending by name; nil when the model has no such configuration.
  /// - Parameter name: nil selects the default configuration, which has all entities.
  public func entities(inConfiguration name: String?) -> [EntityDescription]? {
    guard let name else { return entities }
    guard let members = model.configurations[name] else { return nil }
    return Set(members).sorted().compactMap { entitiesByName[$0] }
  }
}

/// Resolves parents and inverses while an index is built.
private struct Resolver {
  /// Without entities whose name an earlier entity has.
  let entities: [Entity]
  private let byName: [String: Entity]
  /// Superentities, nearest first; a chain ends where a parent is missing or the chain meets itself.
  private let chains: [String: [Entity]]
  private let kinds: [String: [String]]
  private let formerNames: FormerNames

  init(_ model: ManagedObjectModel, _ formerNames: FormerNames) {
    self.formerNames = formerNames
    var byName: [String: Entity] = [:]
    var entities: [Entity] = []
    for entity in model.entities where byName.updateValue(byName[entity.name] ?? entity, forKey: entity.name) == nil {
      entities.append(entity)
    }
    var chains: [String: [Entity]] = [:]
    var kinds: [String: [String]] = [:]
    for entity in entities {
      var chain: [Entity] = []
      var seen: Set<String> = [entity.name]
      var next = entity.parentName
      while let name = next, let parent = byName[name], seen.insert(name).inserted {
        chain.append(parent)
        next = parent.parentName
      }
      chains[entity.name] = chain
      kinds[entity.name, default: []].append(entity.name)
      for parent in chain { kinds[parent.name, default: []].append(entity.name) }
    }
    self.entities = entities
    self.byName = byName
    self.chains = chains
    self.kinds = kinds.mapValues { $0.sorted() }
  }

  func description(of entity: Entity, ordinal: Int) -> EntityDescription {
    let chain = chains[entity.name] ?? []
    var attributes: [String: AttributeDescription] = [:]
    var relationships: [String: RelationshipDescription] = [:]
    // A record has the fields of one entity, so names of subentities are not taken.
    let taken = Set((chain + [entity]).flatMap { $0.attributes.map(\.name) + $0.relationships.map(\.name) })
    // From the root down, so that an entity's own declaration wins (the validator refuses a model that has both).
    for declaring in chain.reversed() + [entity] {
      for attribute in declaring.attributes {
        attributes[attribute.name] = AttributeDescription(
          attribute, declaredBy: declaring.name,
          formerNames: formerNames.names(of: attribute, in: declaring.name, taken: taken))
      }
      for relationship in declaring.relationships {
        relationships[relationship.name] = describe(relationship, declaredBy: declaring.name, taken)
      }
    }
    return EntityDescription(
      entity: entity, ordinal: ordinal, rootName: chain.last?.name ?? entity.name, superentityNames: chain.map(\.name),
      kindNames: kinds[entity.name] ?? [entity.name], attributes: attributes.values.sorted { $0.name < $1.name },
      relationships: relationships.values.sorted { $0.name < $1.name },
      declaredUserInfo: [entity.userInfo] + chain.map(\.userInfo))
  }

  private func describe(_ relationship: Relationship, declaredBy entityName: String, _ taken: Set<String>)
    -> RelationshipDescription
  {
    let inverse = inverse(of: relationship)
    return RelationshipDescription(
      relationship: relationship, declaringEntityName: entityName, inverse: inverse,
      storage: storage(of: relationship, declaredBy: entityName, inverse: inverse),
      formerNames: formerNames.names(of: relationship, in: entityName, taken: taken))
  }

  private func inverse(of relationship: Relationship) -> RelationshipDescription.Inverse? {
    guard let name = relationship.inverseName, let destination = byName[relationship.destinationName] else {
      return nil
    }
    for candidate in [destination] + (chains[destination.name] ?? []) {
      if let found = candidate.relationships.first(where: { $0.name == name }) {
        return RelationshipDescription.Inverse(relationship: found, declaringEntityName: candidate.name)
      }
    }
    return nil
  }

  private func storage(
    of relationship: Relationship, declaredBy entityName: String, inverse: RelationshipDescription.Inverse?
  ) -> RelationshipDescription.Storage {
    guard !relationship.isTransient, !relationship.userInfo.isSet(ReservedName.ignoredPropertyKey), let inverse else {
      return .none
    }
    if !relationship.isToMany { return .field(name: ReservedName.fieldPrefix + relationship.name) }
    if !inverse.isToMany { return .inverseField(name: ReservedName.fieldPrefix + inverse.name) }
    return .link(link(relationship, declaredBy: entityName, inverse: inverse))
  }

  private func link(
    _ relationship: Relationship, declaredBy entityName: String, inverse: RelationshipDescription.Inverse
  ) -> LinkDescription {
    let source = LinkEnd(
      entityName: entityName, rootName: chains[entityName]?.last?.name ?? entityName,
      relationshipName: relationship.name)
    let target = LinkEnd(
      entityName: inverse.declaringEntityName,
      rootName: chains[inverse.declaringEntityName]?.last?.name ?? inverse.declaringEntityName,
      relationshipName: inverse.name)
    let sourceFirst = !LinkEnd.precedes(target, source, by: \.entityName)
    let sourceFirstInKey = !LinkEnd.precedes(target, source, by: \.rootName)
    let (first, second) = sourceFirst ? (source, target) : (target, source)
    let keyEnd = sourceFirstInKey ? source : target
    let separator = String(ReservedName.linkSeparator)
    return LinkDescription(
      entityNames: first.entityName + separator + second.entityName,
      relationshipNames: first.relationshipName + separator + second.relationshipName,
      isSourceFirst: sourceFirst,
      isSymmetric: source.entityName == target.entityName && source.relationshipName == target.relationshipName,
      keyPrefix: "\(ReservedName.legacyLinkPrefix)\(keyEnd.rootName)_\(keyEnd.relationshipName)",
      isSourceFirstInKey: sourceFirstInKey)
  }
}

/// One side of a many-to-many relationship, for its canonical order.
private struct LinkEnd {
  let entityName: String
  let rootName: String
  let relationshipName: String

  /// Orders by entity name, then by relationship name, ignoring case; names that differ only in case fall back to their
  /// exact order.
  static func precedes(_ a: LinkEnd, _ b: LinkEnd, by name: KeyPath<LinkEnd, String>) -> Bool {
    let keysA = [a[keyPath: name].lowercased(), a.relationshipName.lowercased(), a[keyPath: name], a.relationshipName]
    let keysB = [b[keyPath: name].lowercased(), b.relationshipName.lowercased(), b[keyPath: name], b.relationshipName]
    return keysA.lexicographicallyPrecedes(keysB)
  }
}
