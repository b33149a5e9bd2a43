// Makes random transactions on a device's view.

import MirroringWorld
import ObjectModel

struct Editor {
  let shape: ModelShape
  /// Makes names unique within a run.
  let prefix: String
  private var counter = 0

  init(_ shape: ModelShape, prefix: String) {
    self.shape = shape
    self.prefix = prefix
  }

  /// - Parameter needsPlace: true: new objects are connected to something, as a participant's must be.
  mutating func changes(on view: Replica, needsPlace: Bool = false, _ generator: inout SeededGenerator) -> [Change] {
    var draft = view
    var changes: [Change] = []
    for _ in 0..<Int.random(in: 1...4, using: &generator) {
      guard let change = change(on: draft, needsPlace: needsPlace, &generator) else { continue }
      changes.append(change)
      draft.apply([change])
    }
    // Now and then an object is inserted, connected and deleted in one transaction.
    if Int.random(in: 0..<8, using: &generator) == 0, let made = changes.first(where: { $0.kind == .insert }),
      draft.objects[made.objectID] != nil
    {
      changes.append(Change(kind: .delete, entity: made.entity, objectID: made.objectID))
    }
    return changes
  }

  private mutating func change(on view: Replica, needsPlace: Bool, _ generator: inout SeededGenerator) -> Change? {
    let roll = Int.random(in: 0..<10, using: &generator)
    if roll < 3 || view.objects.count < 3 {
      guard let entity = shape.entityNames.randomElement(using: &generator) else { return nil }
      counter += 1
      let zone = view.objects.values.map(\.zone).sorted().randomElement(using: &generator) ?? ""
      var change = Change(kind: .insert, entity: entity, objectID: "\(prefix)-\(entity)-\(counter)")
      for attribute in shape.attributes(of: entity) {
        if let value = attribute.defaultValue {
          change.attributes[attribute.name] = attribute.type == .string ? "\"\(value)\"" : value
        }
      }
      change.attributes.merge(attributes(entity, &generator)) { $1 }
      change.relationships = relationships(entity, zone: zone, on: view, chance: needsPlace ? 1 : 3, &generator)
      if needsPlace, !change.relationships.values.contains(where: \.namesSomebody) { return nil }
      return change
    }
    guard let id = view.objects.keys.sorted().randomElement(using: &generator), let object = view.objects[id] else {
      return nil
    }
    if roll < 5 { return Change(kind: .delete, entity: object.entity, objectID: id) }
    let change = Change(
      kind: .update, entity: object.entity, objectID: id, attributes: attributes(object.entity, &generator),
      relationships: relationships(object.entity, zone: object.zone, on: view, chance: 3, &generator))
    return change.attributes.isEmpty && change.relationships.isEmpty ? nil : change
  }

  func attributes(_ entity: String, _ generator: inout SeededGenerator) -> [String: String] {
    var values: [String: String] = [:]
    for attribute in shape.attributes(of: entity) where Int.random(in: 0..<3, using: &generator) == 0 {
      values[attribute.name] = value(of: attribute, &generator)
    }
    return values
  }

  /// A JSON value.
  private func value(of attribute: Attribute, _ generator: inout SeededGenerator) -> String {
    let number = Int.random(in: 0..<1000, using: &generator)
    let policy = shape.policy(of: attribute)
    // Of what has a default nil is not told apart from it (R9).
    if number < 60, policy == .arrival, attribute.defaultValue == nil { return "null" }
    switch attribute.type {
    case .string where policy == .setUnion:
      let elements = ["a", "b", "c", "d"].filter { _ in Bool.random(using: &generator) }.map { #"\"\#($0)\""# }
      return "\"[\(elements.joined(separator: ","))]\""
    case .string: return "\"t\(number)\""
    case .boolean: return number % 2 == 0 ? "true" : "false"
    case .double, .float: return "\(number).5"
    case .date: return "\"\(Dates.text(1_795_132_800_000 + Int64(number) * 1001))\""
    case .uuid: return "\"00000000-0000-4000-8000-00000000\(1000 + number)\""
    default: return "\(number)"
    }
  }

  private func relationships(
    _ entity: String, zone: String, on view: Replica, chance: Int, _ generator: inout SeededGenerator
  ) -> [String: Change.Relation] {
    var values: [String: Change.Relation] = [:]
    for relationship in shape.relationships(of: entity) where Int.random(in: 0..<chance, using: &generator) == 0 {
      let candidates = view.objects.filter {
        shape.isA($0.value.entity, relationship.destinationName) && ($0.value.zone == zone || $0.value.zone == "")
      }
      let chosen = Array(
        candidates.keys.sorted().shuffled(using: &generator).prefix(Int.random(in: 0...3, using: &generator)))
      if !relationship.isToMany {
        values[relationship.name] = .toOne(chosen.first)
      } else if Bool.random(using: &generator) {
        values[relationship.name] = .toMany(chosen)
      } else {
        values[relationship.name] = .delta(add: Array(chosen.prefix(1)), remove: Array(chosen.dropFirst()))
      }
    }
    return values
  }
}

extension Change.Relation {
  fileprivate var namesSomebody: Bool {
    switch self {
    case .toOne(let target): target != nil
    case .toMany(let targets): !targets.isEmpty
    case .delta(let added, _): !added.isEmpty
    }
  }
}
