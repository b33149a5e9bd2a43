// Updates changes that are held back: later changes of others are newer and stay.

public import History
public import ObjectModel
import Records

/// Changes of one object that are held back together.
public enum HeldChanges {
  /// The same changes as at most two: overwritten parts are dropped, so that the object's size bounds their length.
  public static func compacted(_ changes: [HistoryChange]) -> [HistoryChange] {
    var result: [HistoryChange] = []
    for change in changes {
      if change.changeType == .delete {
        result = [change]
      } else if let last = result.last, let both = last.merged(with: change) {
        result[result.count - 1] = both
      } else {
        result.append(change)
      }
    }
    return result
  }

  /// The same changes, each with what its transaction knew: a part for each origin, without the values that later parts
  /// overwrite. So the object's properties and pairs bound their number. What was sent again overwrites no edit.
  /// - Parameter parts: of one object, in their order.
  public static func compacted(_ parts: [HistoryTransaction]) -> [HistoryTransaction] {
    var result: [HistoryTransaction] = []
    for part in parts where !part.changes.isEmpty {
      let changes = compacted(part.changes)
      let isDeletion = changes.contains { $0.changeType == .delete }
      result = result.compactMap { earlier in
        if isDeletion { return nil }
        if part.isSentAgain, !earlier.isSentAgain { return earlier }
        var rest = earlier
        rest.changes = changes.reduce(earlier.changes) { rest, newer in rest.compactMap { $0.superseded(by: newer) } }
        return rest.changes.isEmpty ? nil : rest
      }
      if let last = result.last, ChangeOrigin(last) == ChangeOrigin(part) {
        result[result.count - 1].changes = compacted(last.changes + changes)
        result[result.count - 1].timestamp = part.timestamp
      } else {
        result.append(part)
        result[result.count - 1].changes = changes
      }
    }
    return result
  }

  /// The parts of held changes that remain after later changes of other objects have set relationships between them.
  public static func overtaken(_ held: [HistoryChange], by later: [HistoryChange], _ model: ModelIndex)
    -> [HistoryChange]
  {
    var held = held
    for change in later where !held.isEmpty && !change.relationships.isEmpty {
      guard let entity = model.entity(named: change.entity) else { continue }
      for named in change.relationships {
        guard let inverse = entity.relationship(named: named.name)?.inverse else { continue }
        held = held.compactMap {
          $0.objectID == change.objectID ? $0 : $0.without(change.objectID, in: inverse.name, unless: named.value)
        }
      }
    }
    return held
  }

  /// The held changes without objects that set their side of a relationship since: their pointer is newer.
  /// - Parameters:
  ///   - members: the objects that point to an object by a field.
  ///   - isNewer: whether an object's field was set since the changes were held back.
  public static func yielding(
    _ held: [HistoryChange], _ model: ModelIndex, members: (String, _ field: String) throws -> [String],
    isNewer: (String, _ field: String) throws -> Bool
  ) rethrows -> [HistoryChange] {
    try held.map { change in
      guard change.changeType != .delete, let entity = model.entity(named: change.entity) else { return change }
      let relationships = try change.relationships.compactMap { named -> NamedValue<RelationshipValue>? in
        guard let relationship = entity.relationship(named: named.name), let inverse = relationship.inverse,
          !inverse.isToMany
        else { return named }
        let field = ReservedName.fieldPrefix + inverse.name
        switch named.value {
        case .toOne(let target): return try target.map { try isNewer($0, field) } == true ? nil : named
        case .toMany(let targets):
          let (kept, present) = (Set(targets), try members(change.objectID, field))
          let joined = try present.filter { try !kept.contains($0) && isNewer($0, field) }
          return NamedValue(
            name: named.name,
            value: .toMany(try targets.filter { try present.contains($0) || !isNewer($0, field) } + joined))
        case .toManyDelta(let added, let removed):
          return NamedValue(
            name: named.name,
            value: .toManyDelta(
              add: try added.filter { try !isNewer($0, field) }, remove: try removed.filter { try !isNewer($0, field) })
          )
        }
      }
      return HistoryChange(
        changeType: change.changeType, entity: change.entity, objectID: change.objectID, attributes: change.attributes,
        relationships: relationships,
        tombstone: change.tombstone)
    }
  }
}

extension HistoryChange {
  /// Merges this change with a later one of the same object; nil if the two must stay separate.
  fileprivate func merged(with newer: HistoryChange) -> HistoryChange? {
    guard changeType != .delete, objectID == newer.objectID, entity == newer.entity else { return nil }
    let earlier = Dictionary(relationships.map { ($0.name, $0.value) }, uniquingKeysWith: { _, last in last })
    let both = HistoryChange(
      changeType: changeType == .insert ? .insert : newer.changeType, entity: entity, objectID: objectID,
      attributes: newer.attributes,
      relationships: newer.relationships.map { NamedValue(name: $0.name, value: $0.value.after(earlier[$0.name])) },
      tombstone: tombstone)
    return both.adding(self)
  }

  /// Removes `other` from one of the relationships, unless `other`'s own value of the inverse relates the two.
  fileprivate func without(_ other: String, in name: String, unless value: RelationshipValue) -> HistoryChange? {
    guard let index = relationships.firstIndex(where: { $0.name == name }) else { return self }
    let (isNamed, isWhole): (Bool, Bool)
    switch value {
    case .toOne(let target): (isNamed, isWhole) = (target == objectID, true)
    case .toMany(let targets): (isNamed, isWhole) = (targets.contains(objectID), true)
    case .toManyDelta(let added, let removed):
      (isNamed, isWhole) = (added.contains(objectID), removed.contains(objectID))
    }
    if isNamed || !isWhole { return self }
    var rest = relationships
    switch rest[index].value {
    case .toOne(let target):
      if target != other { return self }
      rest.remove(at: index)
    case .toMany(let targets): rest[index] = NamedValue(name: name, value: .toMany(targets.filter { $0 != other }))
    case .toManyDelta(let added, let removed):
      let kept = added.filter { $0 != other }
      if kept.count == added.count { return self }
      if kept.isEmpty, removed.isEmpty {
        rest.remove(at: index)
      } else {
        rest[index] = NamedValue(name: name, value: .toManyDelta(add: kept, remove: removed))
      }
    }
    if changeType == .update, attributes.isEmpty, rest.isEmpty { return nil }
    return HistoryChange(
      changeType: changeType, entity: entity, objectID: objectID, attributes: attributes, relationships: rest,
      tombstone: tombstone)
  }
}

extension RelationshipValue {
  /// One value with the effect of `earlier` and then this one.
  func after(_ earlier: RelationshipValue?) -> RelationshipValue {
    guard case .toManyDelta(let added, let removed) = self else { return self }
    let (adds, removes) = (Set(added), Set(removed))
    switch earlier {
    case .toMany(let targets)?: return .toMany(targets.filter { !removes.contains($0) && !adds.contains($0) } + added)
    case .toManyDelta(let earlierAdded, let earlierRemoved)?:
      return .toManyDelta(
        add: earlierAdded.filter { !removes.contains($0) && !adds.contains($0) } + added,
        remove: earlierRemoved.filter { !adds.contains($0) && !removes.contains($0) } + removed)
    case .toOne?, nil: return self
    }
  }
}
