// What a store believes of other objects because of an edit that is lost, and how it is set right.

import History
import ObjectModel

extension Exporter {
  /// An edit of an object that somebody else has deleted is not exported. Its store has set the inverses (I6) of the relationships all the
  /// same: a child that it moved to a deleted parent would stay without one there, and with its old one everywhere else. So the records
  /// of those objects are written again as they are, for the store to import.
  mutating func tellAgain(_ change: HistoryChange) throws {
    guard try overlay.entry(change.objectID).isGone, let entity = model.entity(named: change.entity) else { return }
    for named in change.relationships {
      guard let relationship = entity.relationship(named: named.name), let inverse = relationship.inverse, !inverse.isToMany else { continue }
      for target in named.value.added {
        try tellAgain(target)
        if relationship.isToMany { continue }
        // One-to-one: whoever has the target lost it there.
        for partner in try sources(named: relationship.name, declaredBy: relationship.declaringEntityName, to: target) { try tellAgain(partner) }
      }
    }
  }

  private mutating func tellAgain(_ objectID: String) throws {
    var entry = try overlay.entry(objectID)
    guard entry.record != nil else { return }
    entry.isToldAgain = true
    overlay.set(entry, named: objectID)
  }
}

extension RelationshipValue {
  /// The objects that it relates to.
  fileprivate var added: [String] {
    switch self {
    case .toOne(let target): target.map { [$0] } ?? []
    case .toMany(let targets): targets
    case .toManyDelta(let added, _): added
    }
  }
}
