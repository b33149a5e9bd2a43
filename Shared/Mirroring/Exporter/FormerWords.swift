// Says saves in the words of a later model: their store may have been set up with it before they are exported (R18).

import History
import ObjectModel

extension HistoryTransaction {
  /// The transaction with the model's names for renamed properties. Places and order stay.
  /// - Parameter places: of the changes that are asked for; nil: all.
  func inWords(of model: ModelIndex, only places: Set<Int>? = nil) -> HistoryTransaction {
    guard model.hasFormerNames else { return self }
    var transaction = self
    for (index, change) in changes.enumerated() where places?.contains(index) ?? true {
      guard let entity = model.entity(named: change.entity), change.hasFormerNames(in: entity) else { continue }
      transaction.changes[index] = change.inWords(of: entity)
    }
    return transaction
  }
}

extension HistoryChange {
  fileprivate func hasFormerNames(in entity: EntityDescription) -> Bool {
    guard entity.hasFormerNames else { return false }
    return attributes.contains { entity.currentName(of: $0.name) != nil }
      || relationships.contains { entity.currentName(of: $0.name) != nil }
      || tombstone.contains { entity.currentName(of: $0.name) != nil }
  }

  fileprivate func inWords(of entity: EntityDescription) -> HistoryChange {
    HistoryChange(
      changeType: changeType, entity: self.entity, objectID: objectID,
      attributes: attributes.map { $0.inWords(of: entity) },
      relationships: relationships.map { $0.inWords(of: entity) }, tombstone: tombstone.map { $0.inWords(of: entity) })
  }
}

extension NamedValue {
  fileprivate func inWords(of entity: EntityDescription) -> NamedValue {
    entity.currentName(of: name).map { NamedValue(name: $0, value: value) } ?? self
  }
}
