// Changes without their references to some objects.

package import History

extension RelationshipValue {
  fileprivate var targets: [String] {
    switch self {
    case .toOne(let target): target.map { [$0] } ?? []
    case .toMany(let targets): targets
    case .toManyDelta(let added, let removed): added + removed
    }
  }
}

extension HistoryChange {
  /// The change without its references to some objects; its effect on its own object stays.
  package func without(_ isGone: (String) -> Bool) -> HistoryChange {
    if !relationships.contains(where: { $0.value.targets.contains(where: isGone) }) { return self }
    let rest = relationships.map { relationship -> NamedValue<RelationshipValue> in
      let value: RelationshipValue =
        switch relationship.value {
        case .toOne(let target): .toOne(target.flatMap { isGone($0) ? nil : $0 })
        case .toMany(let targets): .toMany(targets.filter { !isGone($0) })
        case .toManyDelta(let added, let removed):
          .toManyDelta(add: added.filter { !isGone($0) }, remove: removed.filter { !isGone($0) })
        }
      return NamedValue(name: relationship.name, value: value)
    }
    return HistoryChange(
      changeType: changeType, entity: entity, objectID: objectID, attributes: attributes, relationships: rest,
      tombstone: tombstone)
  }
}
