// A deliberately naive replica: a dictionary of objects with pointers and links. Inverses are found by searching
// everything.

import ObjectModel

/// A change of one object, as clients save it.
struct Change: Sendable {
  enum Kind: String, Sendable { case insert, update, delete }

  enum Relation: Sendable {
    case toOne(String?)
    case toMany([String])
    case delta(add: [String], remove: [String])
  }

  let kind: Kind
  let entity: String
  let objectID: String
  /// Values as JSON.
  var attributes: [String: String] = [:]
  var relationships: [String: Relation] = [:]
}

/// A pair of a many-to-many relationship, the same from both sides.
struct Link: Hashable, Comparable, Sendable {
  let relationship: String
  let first: String
  let second: String

  static func < (left: Link, right: Link) -> Bool {
    (left.relationship, left.first, left.second) < (right.relationship, right.first, right.second)
  }
}

struct Replica: Sendable {
  struct Object: Hashable, Sendable {
    var entity: String
    var zone: String
    /// JSON values; a null is left out.
    var attributes: [String: String] = [:]
    /// Includes pointers to objects that are not here.
    var pointers: [String: String] = [:]
  }

  let shape: ModelShape
  private(set) var objects: [String: Object] = [:]
  private(set) var links: Set<Link> = []
  private var everSeen: Set<String> = []

  init(_ shape: ModelShape) { self.shape = shape }

  /// The visible state: pointers and links whose ends exist.
  struct Picture: Sendable {
    var objects: [String: Object]
    var links: Set<Link>
  }

  var picture: Picture {
    Picture(
      objects: objects.mapValues { object in
        var object = object
        object.pointers = object.pointers.filter { objects[$0.value] != nil }
        return object
      }, links: links.filter { objects[$0.first] != nil && objects[$0.second] != nil })
  }

  // MARK: Pages

  mutating func put(_ id: String, _ object: Object) {
    everSeen.insert(id)
    objects[id] = object
  }

  mutating func move(_ id: String, to zone: String) { objects[id]?.zone = zone }
  mutating func insert(_ link: Link) { links.insert(link) }
  mutating func remove(_ link: Link) { links.remove(link) }

  mutating func removeZone(_ zone: String) {
    for id in objects.filter({ $0.value.zone == zone }).keys { delete(id) }
  }

  mutating func delete(_ id: String) {
    objects[id] = nil
    for (owner, object) in objects where object.pointers.values.contains(id) {
      objects[owner]?.pointers = object.pointers.filter { $0.value != id }
    }
    links = links.filter { $0.first != id && $0.second != id }
  }

  func link(_ relationship: Relationship, _ owner: String, _ target: String) -> Link {
    let inverse = relationship.inverseName ?? ""
    if relationship.name == inverse {
      return Link(relationship: inverse, first: min(owner, target), second: max(owner, target))
    }
    return relationship.name < inverse
      ? Link(relationship: relationship.name + "/" + inverse, first: owner, second: target)
      : Link(relationship: inverse + "/" + relationship.name, first: target, second: owner)
  }

  // MARK: The device's own edits

  /// Edits of missing objects have no effect. Relationships count only between objects that the transaction leaves
  /// alive.
  /// - Parameter isAhead: true: pages may still bring objects, so links of missing objects count, too.
  mutating func apply(_ changes: [Change], zone: String = "", isAhead: Bool = false) {
    var deletedAt: [String: Int] = [:]
    var refused: Set<Int> = []
    for (index, change) in changes.enumerated() {
      switch change.kind {
      case .insert:
        var object = objects[change.objectID] ?? Object(entity: change.entity, zone: zone)
        for (name, value) in change.attributes { object.attributes[name] = value == "null" ? nil : value }
        put(change.objectID, object)
      case .update:
        guard objects[change.objectID] != nil else {
          if !isAhead || isGone(change.objectID) { refused.insert(index) }
          continue
        }
        for (name, value) in change.attributes {
          objects[change.objectID]?.attributes[name] = value == "null" ? nil : value
        }
      case .delete:
        delete(change.objectID)
        deletedAt[change.objectID] = index
      }
    }
    for (index, change) in changes.enumerated()
    where change.kind != .delete && !refused.contains(index) && index > deletedAt[change.objectID] ?? -1 {
      for (name, value) in change.relationships.sorted(by: { $0.key < $1.key }) {
        set(name, of: change.objectID, change.entity, to: value)
      }
    }
  }

  private func isGone(_ id: String) -> Bool { objects[id] == nil && everSeen.contains(id) }

  private mutating func set(_ name: String, of owner: String, _ entity: String, to value: Change.Relation) {
    guard let relationship = shape.relationship(name, of: entity), let inverse = shape.inverse(of: relationship) else {
      return
    }
    switch value {
    case .toOne(let target):
      let target = target.flatMap { isGone($0) ? nil : $0 }
      objects[owner]?.pointers[name] = target
      guard !inverse.isToMany else { return }
      release(inverse, pointingTo: owner, but: target)
      guard let target else { return }
      release(relationship, pointingTo: target, but: owner)
      objects[target]?.pointers[inverse.name] = owner
    case .toMany(let targets):
      for target in members(relationship, inverse, of: owner).subtracting(targets) {
        remove(relationship, inverse, owner, target)
      }
      for target in targets { add(relationship, inverse, owner, target) }
    case .delta(let added, let removed):
      for target in removed { remove(relationship, inverse, owner, target) }
      for target in added { add(relationship, inverse, owner, target) }
    }
  }

  /// Clears every pointer of one relationship to `target`.
  private mutating func release(_ relationship: Relationship, pointingTo target: String, but kept: String?) {
    for (id, object) in objects where id != kept && object.pointers[relationship.name] == target {
      guard shape.relationships(of: object.entity).contains(relationship) else { continue }
      objects[id]?.pointers[relationship.name] = nil
    }
  }

  func members(_ relationship: Relationship, _ inverse: Relationship, of owner: String) -> Set<String> {
    if inverse.isToMany {
      // The ends may be objects that are not here.
      return Set(links.flatMap { [$0.first, $0.second] }.filter { links.contains(link(relationship, owner, $0)) })
    }
    return Set(
      objects.filter {
        $0.value.pointers[inverse.name] == owner && shape.relationships(of: $0.value.entity).contains(inverse)
      }.keys)
  }

  private mutating func add(_ relationship: Relationship, _ inverse: Relationship, _ owner: String, _ target: String) {
    if isGone(target) { return }
    if inverse.isToMany {
      links.insert(link(relationship, owner, target))
    } else {
      objects[target]?.pointers[inverse.name] = owner
    }
  }

  private mutating func remove(_ relationship: Relationship, _ inverse: Relationship, _ owner: String, _ target: String)
  {
    if inverse.isToMany {
      links.remove(link(relationship, owner, target))
    } else if objects[target]?.pointers[inverse.name] == owner {
      objects[target]?.pointers[inverse.name] = nil
    }
  }
}

extension Replica.Picture {
  /// Leaves out relationships of `names` to objects that are in another zone in `other`.
  func without(relationshipsOf names: Set<String>, acrossZonesOf other: Replica.Picture) -> Replica.Picture {
    if names.isEmpty { return self }
    func isLeftOut(_ first: String, _ second: String) -> Bool {
      (names.contains(first) || names.contains(second)) && other.objects[first]?.zone != other.objects[second]?.zone
    }
    var picture = self
    picture.links = links.filter { !isLeftOut($0.first, $0.second) }
    for (id, object) in objects { picture.objects[id]?.pointers = object.pointers.filter { !isLeftOut(id, $0.value) } }
    return picture
  }

  /// One line for each difference.
  func differences(from other: Replica.Picture, comparesZones: Bool = true) -> [String] {
    var lines: [String] = []
    for id in Set(objects.keys).union(other.objects.keys).sorted() {
      switch (objects[id], other.objects[id]) {
      case (let here?, let there?):
        if here.entity != there.entity { lines.append("\(id) is a \(here.entity) here, a \(there.entity) there") }
        if comparesZones, here.zone != there.zone {
          lines.append("\(id) is in zone \(here.zone) here, \(there.zone) there")
        }
        for name in Set(here.attributes.keys).union(there.attributes.keys).sorted()
        where here.attributes[name] != there.attributes[name] {
          lines.append(
            """
            \(here.entity) \(id).\(name) is \(here.attributes[name] ?? "null") here, \
            \(there.attributes[name] ?? "null") there
            """
          )
        }
        for name in Set(here.pointers.keys).union(there.pointers.keys).sorted()
        where here.pointers[name] != there.pointers[name] {
          lines.append(
            """
            \(here.entity) \(id).\(name) points to \(here.pointers[name] ?? "nil") here, \
            \(there.pointers[name] ?? "nil") there
            """
          )
        }
      case (let here?, nil): lines.append("\(here.entity) \(id) is only here")
      case (nil, let there?): lines.append("\(there.entity) \(id) is only there")
      case (nil, nil): break
      }
    }
    for link in links.symmetricDifference(other.links).sorted() {
      lines.append(
        "link \(link.relationship) \(link.first)–\(link.second) is only \(links.contains(link) ? "here" : "there")")
    }
    return lines
  }
}
