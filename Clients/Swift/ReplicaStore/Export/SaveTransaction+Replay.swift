// Does again what a transaction says, to the objects as they are now.

import FoundationEssentials
import MirrorWire

extension SaveTransaction {
  /// Applies one object's change. An update or deletion of an object that is not here does nothing.
  func apply(_ change: ObjectChange) throws {
    let id = AnyObjectID(entityName: change.entity, recordName: change.objectID)
    let entity = try schema.entity(change.entity)
    let current = try snapshot.object(id) { row in
      entity.columns.indices.map { row.literal($0 + 1, isName: entity.columns[$0].toOne != nil) }
    }
    switch change.changeType {
    case .delete: if current != nil { try delete(id) }
    case .insert where current == nil:
      try insert(id, try overlay(change, entity, entity.columns.map { _ in .null }))
      try applyPairs(change, id)
    case .insert, .update:
      guard let current else { return }
      try update(id, from: current, to: try overlay(change, entity, current))
      try applyPairs(change, id)
    }
  }

  private func overlay(_ change: ObjectChange, _ entity: EntityPlan, _ values: [Literal]) throws -> [Literal] {
    var values = values
    for (place, column) in entity.columns.enumerated() {
      if let attribute = column.attribute, let value = change.attributes?[column.name] {
        let literal = try WireValue.literal(value, attribute) { _ in
          throw StoreError.damaged("a content in a transaction is no asset")
        }
        values[place] = literal ?? values[place]
      } else if column.toOne != nil, case .toOne(let target)? = change.relationships?[column.name] {
        values[place] = target.map { .object($0) } ?? .null
      }
    }
    return values
  }

  private func applyPairs(_ change: ObjectChange, _ id: AnyObjectID) throws {
    for (name, value) in (change.relationships ?? [:]).sorted(by: { $0.key < $1.key }) {
      guard case .toManyEdits(let add, let remove) = value else { continue }
      let destination = try schema.toMany(name, of: schema.entity(change.entity)).destination
      for (targets, isLinked) in [(add, true), (remove, false)] {
        for target in targets {
          try setPair(name, of: id, with: AnyObjectID(entityName: destination, recordName: target), isLinked: isLinked)
        }
      }
    }
  }
}
