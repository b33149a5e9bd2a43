// Which entity and property of a model is which of an earlier version.

/// Inferred from names and renaming identifiers, as lightweight migration does. Each entity and property of the earlier
/// version goes on in one of the later at most. Pure.
struct ModelMapping {
  private let entities: Matches
  /// By the later entity.
  private var properties: [String: Matches] = [:]
  /// What can't be inferred.
  private(set) var problems: [String] = []
  let isIdentity: Bool

  init(from earlier: ManagedObjectModel, to later: ManagedObjectModel) {
    let entities = Matches(
      from: earlier.entities.map { Named($0.name, $0.renamingIdentifier) },
      to: later.entities.map { Named($0.name, $0.renamingIdentifier) })
    problems += entities.problems
    var isIdentity = earlier.entities.allSatisfy { entities.later[$0.name] == $0.name }
    for entity in later.entities {
      guard let old = entities.earlier[entity.name] else { continue }
      let former = Self.properties(old, earlier)
      let matches = Matches(from: former, to: Self.properties(entity.name, later))
      properties[entity.name] = matches
      problems += matches.problems.map { "\(entity.name).\($0)" }
      isIdentity = isIdentity && former.allSatisfy { matches.later[$0.name] == $0.name }
    }
    self.entities = entities
    self.isIdentity = isIdentity
  }

  /// The earlier name of an entity; nil: it is new.
  func earlierEntity(_ name: String) -> String? { entities.earlier[name] }

  /// The later name of an entity; nil: it is gone.
  func laterEntity(_ name: String) -> String? { entities.later[name] }

  /// The earlier name of a property of a later entity; nil: it is new.
  func earlierProperty(_ name: String, of entity: String) -> String? { properties[entity]?.earlier[name] }

  /// The later name of a property of an earlier entity; nil: it is gone.
  func laterProperty(_ name: String, of entity: String) -> String? {
    laterEntity(entity).flatMap { properties[$0]?.later[name] }
  }

  /// Own and inherited properties, those of superentities first.
  private static func properties(_ name: String, _ model: ManagedObjectModel) -> [Named] {
    var named: [Named] = []
    var next: String? = name
    while let entity = model.entities.first(where: { $0.name == next }), named.count < 10_000 {
      let own =
        entity.attributes.map { Named($0.name, $0.renamingIdentifier) }
        + entity.relationships.map { Named($0.name, $0.renamingIdentifier, isRelationship: true) }
      named = own + named
      next = entity.parentName
    }
    return named
  }
}

/// A name of one version.
private struct Named {
  let name: String
  let renamingIdentifier: String?
  let isRelationship: Bool

  init(_ name: String, _ renamingIdentifier: String?, isRelationship: Bool = false) {
    (self.name, self.renamingIdentifier, self.isRelationship) = (name, renamingIdentifier, isRelationship)
  }
}

/// The pairs of two versions' names.
private struct Matches {
  /// Earlier names by later ones, and the other way round.
  private(set) var earlier: [String: String] = [:]
  private(set) var later: [String: String] = [:]
  private(set) var problems: [String] = []

  /// An identifier stays in the model once it has done its work, so one that both versions have says more than a name
  /// that is equal to it.
  private static let rules: [@Sendable (Named, Named) -> Bool] = [
    { $0.renamingIdentifier != nil && $0.renamingIdentifier == $1.renamingIdentifier && $0.name == $1.name },
    { $0.renamingIdentifier != nil && $0.renamingIdentifier == $1.renamingIdentifier },
    { $0.renamingIdentifier == $1.name },
    { $0.name == $1.name },
  ]

  init(from candidates: [Named], to names: [Named]) {
    for rule in Self.rules {
      for own in names where earlier[own.name] == nil {
        // The values of an attribute are none of a relationship.
        let found = candidates.first { candidate in
          later[candidate.name] == nil && rule(own, candidate) && (candidate.isRelationship || !own.isRelationship)
        }
        if let found { (earlier[own.name], later[found.name]) = (found.name, own.name) }
      }
    }
    for own in names where earlier[own.name] == nil {
      guard let identifier = own.renamingIdentifier,
        let rival = names.first(where: { $0.renamingIdentifier == identifier && earlier[$0.name] != nil })
      else { continue }
      problems.append("\(own.name): \(rival.name) has the same renaming identifier")
    }
  }
}
