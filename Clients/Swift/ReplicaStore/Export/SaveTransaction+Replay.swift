// Does again what a transaction says, to the objects as they are now.

import FoundationEssentials
import MirrorWire

extension SaveTransaction {
  /// Applies one object's change. An update of an object that is not here does nothing, nor does a deletion of one,
  /// unless the server is to be told it again.
  /// - Parameter isRefused: the tables may still have what the server refused. It is told the change as it was.
  func apply(_ change: ObjectChange, isRefused: Bool) throws {
    let id = AnyObjectID(entityName: change.entity, recordName: change.objectID)
    let entity = try schema.entity(change.entity)
    let current = try snapshot.object(id) { row in
      entity.columns.indices.map { row.literal($0 + 1, isName: entity.columns[$0].toOne != nil) }
    }
    switch change.changeType {
    case .delete:
      if current != nil { try delete(id) } else if isRefused { try deleteAgain(id, change, entity) }
    case .insert where current == nil:
      try insert(id, try overlay(change, entity, entity.columns.map { _ in .null }))
      try applyPairs(change, id, isRefused: isRefused)
    case .insert, .update:
      guard let current else { return }
      let values = try overlay(change, entity, current)
      try update(id, from: current, to: values)
      if isRefused, let found = try snapshot.find(id.recordName) {
        try edit(found.key).noteRefused(change.changeType == .insert ? .insert : .update, told(change, entity, values))
      }
      try applyPairs(change, id, isRefused: isRefused)
    }
  }

  private func deleteAgain(_ id: AnyObjectID, _ change: ObjectChange, _ entity: EntityPlan) throws {
    guard let found = try snapshot.find(id.recordName), found.state == Tables.State.deleted else { return }
    let edit = try edit(found.key)
    edit.noteRefused(.delete, [:])
    for (name, value) in change.tombstone ?? [:] {
      guard let attribute = entity.column(name)?.attribute else { continue }
      edit.tombstone[name] = try literal(value, attribute)
    }
  }

  /// The values of the columns that a change tells, by their places.
  private func told(_ change: ObjectChange, _ entity: EntityPlan, _ values: [Literal]) -> [Int: Literal] {
    let places = entity.columns.indices.filter { place in
      let name = entity.columns[place].name
      return change.attributes?[name] != nil || change.relationships?[name] != nil
    }
    return Dictionary(uniqueKeysWithValues: places.map { ($0, values[$0]) })
  }

  private func literal(_ value: AttributeValue, _ attribute: AttributeDescription) throws -> Literal? {
    try WireValue.literal(value, attribute) { _ in
      throw StoreError.damaged("a content in a transaction is no asset")
    }
  }

  private func overlay(_ change: ObjectChange, _ entity: EntityPlan, _ values: [Literal]) throws -> [Literal] {
    var values = values
    for (place, column) in entity.columns.enumerated() {
      if let attribute = column.attribute, let value = change.attributes?[column.name] {
        values[place] = try literal(value, attribute) ?? values[place]
      } else if column.toOne != nil, case .toOne(let target)? = change.relationships?[column.name] {
        values[place] = target.map { .object($0) } ?? .null
      }
    }
    return values
  }

  private func applyPairs(_ change: ObjectChange, _ id: AnyObjectID, isRefused: Bool) throws {
    for (name, value) in (change.relationships ?? [:]).sorted(by: { $0.key < $1.key }) {
      guard case .toManyEdits(let add, let remove) = value else { continue }
      let destination = try schema.toMany(name, of: schema.entity(change.entity)).destination
      for (targets, isLinked) in [(add, true), (remove, false)] {
        for target in targets {
          try setPair(
            name, of: id, with: AnyObjectID(entityName: destination, recordName: target), isLinked: isLinked,
            isRefused: isRefused)
        }
      }
    }
  }
}
