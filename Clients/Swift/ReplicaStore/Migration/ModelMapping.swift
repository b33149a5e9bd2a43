// Which entity and property of a model is which of an earlier version.

/// Inferred from names and renaming identifiers, as lightweight migration does. Pure.
struct ModelMapping {
  private let earlier: ManagedObjectModel
  private let later: ManagedObjectModel

  init(from earlier: ManagedObjectModel, to later: ManagedObjectModel) {
    self.earlier = earlier
    self.later = later
  }

  /// The earlier name of an entity; nil: it is new.
  func earlierEntity(_ name: String) -> String? {
    guard let entity = later.entities.first(where: { $0.name == name }) else { return nil }
    let names = earlier.entities.map { Named($0.name, $0.renamingIdentifier) }
    return Self.match(Named(entity.name, entity.renamingIdentifier), names)
  }

  /// The later name of an entity; nil: it is gone.
  func laterEntity(_ name: String) -> String? { later.entities.first { earlierEntity($0.name) == name }?.name }

  /// The earlier name of a property of a later entity; nil: it is new.
  func earlierProperty(_ name: String, of entity: String) -> String? {
    guard let old = earlierEntity(entity) else { return nil }
    let candidates = Self.properties(old, earlier)
    let own = Self.properties(entity, later)
    guard let property = own.first(where: { $0.name == name }) else { return nil }
    return Self.match(property, candidates)
  }

  /// The later name of a property of an earlier entity; nil: it is gone.
  func laterProperty(_ name: String, of entity: String) -> String? {
    guard let new = laterEntity(entity) else { return nil }
    return Self.properties(new, later).first { earlierProperty($0.name, of: new) == name }?.name
  }

  var isIdentity: Bool {
    earlier.entities.allSatisfy { entity in
      laterEntity(entity.name) == entity.name
        && Self.properties(entity.name, earlier).allSatisfy { laterProperty($0.name, of: entity.name) == $0.name }
    }
  }

  private struct Named {
    let name: String
    let renamingIdentifier: String?

    init(_ name: String, _ renamingIdentifier: String?) {
      (self.name, self.renamingIdentifier) = (name, renamingIdentifier)
    }
  }

  private static func match(_ own: Named, _ candidates: [Named]) -> String? {
    if let identifier = own.renamingIdentifier {
      if let found = candidates.first(where: { $0.name == identifier || $0.renamingIdentifier == identifier }) {
        return found.name
      }
    }
    return candidates.first { $0.name == own.name }?.name
  }

  /// Own and inherited properties.
  private static func properties(_ name: String, _ model: ManagedObjectModel) -> [Named] {
    var named: [Named] = []
    var next: String? = name
    while let entity = model.entities.first(where: { $0.name == next }), named.count < 10_000 {
      named +=
        entity.attributes.map { Named($0.name, $0.renamingIdentifier) }
        + entity.relationships.map { Named($0.name, $0.renamingIdentifier) }
      next = entity.parentName
    }
    return named
  }
}
