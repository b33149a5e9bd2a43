// Changes that name a duplicate mean the object that stands for it, whenever they come (D5).

import History
import ObjectModel

extension Exporter {
  /// Replaces the names of duplicates in a transaction; its changes and their values keep their places.
  ///
  /// A store that changed a duplicate has not changed the survivor, so it imports everything that was replaced. Objects
  /// that the transaction itself inserts keep their names.
  /// - Parameter places: the indexes of the changes that matter; nil means all.
  mutating func redirected(_ transaction: HistoryTransaction, only places: Set<Int>? = nil) throws -> HistoryTransaction
  {
    guard overlay.hasRedirects else { return transaction }
    var transaction = transaction
    let inserted = Set(transaction.changes.filter { $0.changeType == .insert }.map(\.objectID))
    for (index, change) in transaction.changes.enumerated()
    where change.changeType != .delete && places?.contains(index) ?? true {
      transaction.changes[index] = try redirected(change, keeping: inserted)
    }
    return transaction
  }

  private mutating func redirected(_ change: HistoryChange, keeping inserted: Set<String>) throws -> HistoryChange {
    let owner = try survivor(of: change.objectID, keeping: inserted)
    var isReplaced = owner != nil
    var relationships = change.relationships
    for (index, relationship) in change.relationships.enumerated() {
      let value = try relationship.value.mapped { name in try survivor(of: name, keeping: inserted) ?? name }
      if value != relationship.value {
        isReplaced = true
        relationships[index] = NamedValue(name: relationship.name, value: value)
      }
      // The children whose field holds the relationship, and the other end of a one-to-one.
      if owner != nil { toldAgain += value.added }
    }
    if !isReplaced { return change }
    toldAgain += [change.objectID, owner ?? change.objectID]
    return HistoryChange(
      changeType: change.changeType, entity: change.entity, objectID: owner ?? change.objectID,
      attributes: change.attributes, relationships: relationships,
      tombstone: change.tombstone)
  }

  private mutating func survivor(of name: String, keeping inserted: Set<String>) throws -> String? {
    guard !inserted.contains(name), let redirect = try redirect(of: name) else { return nil }
    standIns.insert(redirect.survivor)
    toldAgain.append(redirect.survivor)
    return redirect.survivor
  }

  /// The redirect of a name; nil for a duplicate that was deleted and made again since.
  mutating func redirect(of name: String) throws -> RecordRedirect? {
    guard overlay.hasRedirects, let redirect = try overlay.redirect(of: name) else { return nil }
    if redirect.isPending { return redirect }
    do {
      return try overlay.entry(name).isGone ? redirect : nil
    } catch  where isolatesErrors {
      // Dropped because the change that reads the record fails too, and is left out there.
      return nil
    }
  }

  /// Has the store import the replaced objects; called after a transaction, or a slice of one, was applied.
  mutating func tellOfStandIns() throws {
    for name in toldAgain {
      do {
        try tellAgain(name)
      } catch  where isolatesErrors {
        // Dropped because a record that cannot be read cannot be sent.
        continue
      }
    }
    toldAgain = []
  }
}

extension RelationshipValue {
  fileprivate func mapped(_ name: (String) throws -> String) rethrows -> RelationshipValue {
    switch self {
    case .toOne(let target): .toOne(try target.map(name))
    case .toMany(let targets): .toMany(try targets.map(name))
    case .toManyDelta(let added, let removed): .toManyDelta(add: try added.map(name), remove: try removed.map(name))
    }
  }
}
