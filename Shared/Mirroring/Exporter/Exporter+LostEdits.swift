// Corrects what a store assumes about other objects because of an edit that is lost.

public import History
import ObjectModel
import Records

extension Exporter {
  /// An edit of an object that somebody else has deleted is not exported. Its store has set the inverses (I6) of the
  /// relationships all the same: a child that it moved to a deleted parent would stay without one there, and with its
  /// old one everywhere else. So the records of those objects are written again as they are, for the store to import,
  /// and links that it made are told as taken away (I11): the object may come back without them.
  mutating func tellAgain(_ change: HistoryChange) throws {
    if try overlay.entry(change.objectID).isGone { try tellInverses(of: change) }
  }

  /// Does the same for an object that was deleted in another zone before related objects moved here.
  mutating func tellAgainElsewhere(_ change: HistoryChange) throws {
    guard change.changeType == .update, try elsewhere?(change.objectID) == .tombstone else { return }
    try isolating(change) { exporter in try exporter.tellInverses(of: change) }
  }

  /// Does the same for an object that was deleted with its zone.
  public mutating func tellOfLost(_ change: HistoryChange) throws {
    let isTold = try isolating(change) { exporter in try exporter.tellInverses(of: change) }
    // The journal has the edit itself, so it is not held back.
    if !isTold { leftOut.removeLast() }
  }

  private mutating func tellInverses(of change: HistoryChange) throws {
    guard let entity = model.entity(named: change.entity) else { return }
    for named in change.relationships {
      guard let relationship = entity.relationship(named: named.name) else { continue }
      if case .link(let link) = relationship.storage {
        for target in named.value.added { withdraw(link, change.objectID, target) }
      } else {
        try tellInverses(of: relationship, named.value.added)
      }
    }
  }

  /// Has the store import the objects with to-one inverses that it set when it related an object to them.
  private mutating func tellInverses(of relationship: RelationshipDescription, _ targets: [String]) throws {
    guard let inverse = relationship.inverse, !inverse.isToMany else { return }
    for target in targets {
      try tellAgain(target)
      if relationship.isToMany { continue }
      // One-to-one: the object that has the target lost it in the store.
      for partner in try sources(named: relationship.name, declaredBy: relationship.declaringEntityName, to: target) {
        try tellAgain(partner)
      }
    }
  }

  /// Undoes in its store what a change did there, of an object that its user may not write (E5): the object is told as
  /// it is, or as one that is not there, and so is everything whose relationships to it changed with it.
  mutating func revert(_ change: HistoryChange) throws {
    guard let entity = model.entity(named: change.entity) else { return }
    if try overlay.entry(change.objectID).record == nil {
      guard change.changeType != .delete, !withdrawn.contains(where: { $0.recordName == change.objectID }) else {
        return
      }
      withdrawn.append(unmadeRecord(of: change, entity))
    } else {
      try tellAgain(change.objectID)
    }
    if change.changeType == .delete {
      for pointer in try overlay.pointers(to: change.objectID) where pointer.source != change.objectID {
        try tellAgain(pointer.source)
      }
    }
    for named in change.relationships {
      guard let relationship = entity.relationship(named: named.name) else { continue }
      if case .link(let link) = relationship.storage {
        try revertLinks(link, of: change.objectID, to: named.value)
      } else {
        let lost = named.value.removed + (try removals(of: change, named).removed)
        try tellInverses(of: relationship, named.value.added + lost)
      }
    }
  }

  /// Has the store import what its changes up to now, which come late, did to objects and links that others have
  /// written: it may show what others wrote meanwhile.
  public mutating func tellOfLateChanges() {
    guard let store = judge?.store else { return }
    overlay.forEach { entry in
      guard let base = entry.base, base.isNews(to: store, after: 0), entry.record != entry.baseRecord else { return }
      entry.isToldAgain = true
    }
  }

  mutating func tellAgain(_ objectID: String) throws {
    var entry = try overlay.entry(objectID)
    guard entry.record != nil else { return }
    entry.isToldAgain = true
    overlay.set(entry, named: objectID)
  }
}

extension RelationshipValue {
  /// The objects that a delta removes by name.
  var removed: [String] { if case .toManyDelta(_, let removed) = self { removed } else { [] } }
}
