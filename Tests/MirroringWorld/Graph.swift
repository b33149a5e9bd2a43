// A deliberately naive graph of managed objects: the state of a client, and the oracle for every client.

package import History
package import Mirroring
package import ObjectModel
import Records

/// Objects, pointers and links. Inverses are found by searching everything.
package struct Graph: Equatable {
  package struct Object: Equatable {
    package var entity: String
    package var attributes: [String: AttributeValue] = [:]
  }

  /// The relationship `relationship` of an object points to one object.
  package struct Pointer: Hashable {
    package let owner: String
    package let relationship: String

    package init(owner: String, relationship: String) {
      self.owner = owner
      self.relationship = relationship
    }
  }

  /// A pair of a many-to-many relationship, in one canonical form.
  package struct Link: Hashable {
    package let relationship: String
    package let first: String
    package let second: String
  }

  package private(set) var objects: [String: Object] = [:]
  /// Includes pointers to objects that have not arrived.
  package private(set) var pointers: [Pointer: String] = [:]
  package private(set) var links: Set<Link> = []
  private var everSeen: Set<String> = []

  package init() {}

  /// The visible state: no pending pointers and links, no nulls.
  package struct Picture: Equatable {
    package var objects: [String: Object]
    package var pointers: [Pointer: String]
    package var links: Set<Link>

    /// One line for each difference.
    package func differences(from other: Picture) -> [String] {
      let ids = Set(objects.keys).union(other.objects.keys).filter { objects[$0] != other.objects[$0] }
      let owners = Set(pointers.keys).union(other.pointers.keys).filter { pointers[$0] != other.pointers[$0] }
      return ids.map { "object \($0)" }.sorted() + owners.map { "\($0.owner).\($0.relationship)" }.sorted()
        + links.symmetricDifference(other.links).map { "link \($0)" }.sorted()
    }
  }

  package var picture: Picture {
    Picture(
      objects: objects.mapValues { Object(entity: $0.entity, attributes: $0.attributes.filter { $0.value != .null }) },
      pointers: pointers.filter { objects[$0.value] != nil && objects[$0.key.owner] != nil },
      links: links.filter { objects[$0.first] != nil && objects[$0.second] != nil })
  }

  // MARK: The model, looked up the slow way

  package static func relationships(of entity: String) -> [Relationship] {
    guard let found = Sample.model.entity(named: entity) else { return [] }
    return found.relationships + (found.parentName.map(relationships) ?? [])
  }

  package static func root(of entity: String) -> String {
    Sample.model.entity(named: entity)?.parentName.map(root) ?? entity
  }

  package static func inverse(of relationship: Relationship) -> Relationship {
    relationships(of: relationship.destinationName).first { $0.name == relationship.inverseName }!
  }

  package static func link(_ relationship: Relationship, _ owner: String, _ target: String) -> Link {
    if relationship.name == relationship.inverseName {
      return Link(relationship: relationship.name, first: min(owner, target), second: max(owner, target))
    }
    let inverse = relationship.inverseName ?? ""
    return relationship.name < inverse
      ? Link(relationship: relationship.name + "/" + inverse, first: owner, second: target)
      : Link(relationship: inverse + "/" + relationship.name, first: target, second: owner)
  }

  // MARK: Edits of a client and of the oracle

  package mutating func apply(_ transaction: HistoryTransaction) {
    var last: [String: Int] = [:]
    var refused: Set<Int> = []
    for (index, change) in transaction.changes.enumerated() {
      switch change.changeType {
      case .insert:
        // The sample model's only default. Core Data sets it when an object is made.
        var object =
          objects[change.objectID]
          ?? Object(entity: change.entity, attributes: change.entity == "Post" ? ["score": .integer(7)] : [:])
        for attribute in change.attributes { object.attributes[attribute.name] = attribute.value }
        objects[change.objectID] = object
        everSeen.insert(change.objectID)
      case .update:
        guard objects[change.objectID] != nil else {
          refused.insert(index)
          continue
        }
        for attribute in change.attributes { objects[change.objectID]?.attributes[attribute.name] = attribute.value }
      case .delete:
        delete(change.objectID)
        last[change.objectID] = index
      }
    }
    for (index, change) in transaction.changes.enumerated()
    where change.changeType != .delete && !refused.contains(index) && index > last[change.objectID] ?? -1 {
      for relationship in change.relationships { set(relationship.name, of: change.objectID, to: relationship.value) }
    }
  }

  package mutating func delete(_ id: String) {
    objects[id] = nil
    pointers = pointers.filter { $0.key.owner != id && $0.value != id }
    links = links.filter { $0.first != id && $0.second != id }
  }

  private func isGone(_ id: String) -> Bool { objects[id] == nil && everSeen.contains(id) }

  private mutating func set(_ name: String, of owner: String, to value: RelationshipValue) {
    guard let entity = objects[owner]?.entity,
      let relationship = Self.relationships(of: entity).first(where: { $0.name == name })
    else { return }
    let inverse = Self.inverse(of: relationship)
    switch value {
    case .toOne(let target):
      let target = target.flatMap { isGone($0) ? nil : $0 }
      pointers[Pointer(owner: owner, relationship: name)] = target
      guard !inverse.isToMany else { return }
      release(inverse, pointingTo: owner, but: target)
      guard let target else { return }
      release(relationship, pointingTo: target, but: owner)
      if objects[target] != nil { pointers[Pointer(owner: target, relationship: inverse.name)] = owner }
    case .toMany(let targets):
      let present = members(relationship, inverse, of: owner)
      for target in present.subtracting(targets) { remove(relationship, inverse, owner, target) }
      for target in targets { add(relationship, inverse, owner, target) }
    case .toManyDelta(let added, let removed):
      for target in removed { remove(relationship, inverse, owner, target) }
      for target in added { add(relationship, inverse, owner, target) }
    }
  }

  /// Clears every pointer of one relationship to `target`.
  private mutating func release(_ relationship: Relationship, pointingTo target: String, but kept: String?) {
    for (pointer, aim) in pointers
    where aim == target && pointer.relationship == relationship.name && pointer.owner != kept {
      // The destination distinguishes it from other entities' relationships of the same name.
      guard let entity = objects[pointer.owner]?.entity, Self.relationships(of: entity).contains(relationship) else {
        continue
      }
      pointers[pointer] = nil
    }
  }

  package func members(_ relationship: Relationship, _ inverse: Relationship, of owner: String) -> Set<String> {
    if inverse.isToMany {
      return Set(objects.keys.filter { links.contains(Self.link(relationship, owner, $0)) })
    }
    return Set(
      pointers.filter { $0.value == owner && $0.key.relationship == inverse.name }.map(\.key.owner).filter {
        objects[$0].map { Self.relationships(of: $0.entity).contains(inverse) } ?? false
      })
  }

  private mutating func add(_ relationship: Relationship, _ inverse: Relationship, _ owner: String, _ target: String) {
    if isGone(target) { return }
    if inverse.isToMany {
      links.insert(Self.link(relationship, owner, target))
    } else if objects[target] != nil {
      pointers[Pointer(owner: target, relationship: inverse.name)] = owner
    }
  }

  private mutating func remove(_ relationship: Relationship, _ inverse: Relationship, _ owner: String, _ target: String)
  {
    if inverse.isToMany {
      links.remove(Self.link(relationship, owner, target))
    } else if pointers[Pointer(owner: target, relationship: inverse.name)] == owner {
      pointers[Pointer(owner: target, relationship: inverse.name)] = nil
    }
  }

  /// Pointers and links that have arrived and lack an end.
  package var pending: (pointers: [Pointer: String], links: Set<Link>) {
    (
      pointers.filter { objects[$0.value] == nil },
      links.filter { objects[$0.first] == nil || objects[$0.second] == nil }
    )
  }

  /// Drops pending pointers and links of relationships that a model does not have.
  package mutating func forgetPending(unknownTo model: ManagedObjectModel) {
    let known = Set(model.entities.flatMap { $0.relationships.map(\.name) })
    let pending = pending
    for (pointer, _) in pending.pointers where !known.contains(pointer.relationship) { pointers[pointer] = nil }
    for link in pending.links where !link.relationship.split(separator: "/").allSatisfy({ known.contains(String($0)) })
    { links.remove(link) }
  }

  // MARK: Import

  package mutating func apply(_ change: ImportChange) {
    switch change {
    case .save(let values, let record):
      let id = record.recordName
      everSeen.insert(id)
      objects[id] = Object(
        entity: values.entity,
        attributes: Dictionary(uniqueKeysWithValues: values.attributes.map { ($0.name, $0.value) }))
      for relationship in values.relationships {
        pointers[Pointer(owner: id, relationship: relationship.name)] = relationship.value
      }
    case .delete(_, let id): delete(id)
    case .link(let link): links.insert(Self.link(link.relationship.relationship, link.objectID, link.targetID))
    case .unlink(let link): links.remove(Self.link(link.relationship.relationship, link.objectID, link.targetID))
    }
  }
}
