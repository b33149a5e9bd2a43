// Finds the store that a save belongs to: that of the objects which it names.

import ReplicaStore

/// Follows one run of a save. Objects of a store bind the save to it; objects that the save makes go along.
final class StoreRouter {
  private let own: Snapshot
  private let others: [StoreSnapshot]
  /// The save stays in its store: the caller named it, or the save named an object of it.
  private var isBound: Bool
  private var inserted: Set<String> = []
  /// The store where the save begins again.
  private(set) var other: OtherStore?

  init(own: Snapshot, others: [StoreSnapshot], isBound: Bool) {
    (self.own, self.others, self.isBound) = (own, others, isBound)
  }

  /// Notes a new object, which is nowhere yet.
  /// - Throws: `OtherStore` or `otherStore` if another store has the entity and this one has not.
  func insert(_ id: AnyObjectID) throws {
    if let other { throw other }
    if !own.hasEntity(id.entityName), let found = others.first(where: { $0.snapshot.hasEntity(id.entityName) }) {
      try lead(to: found, id)
    }
    inserted.insert(id.recordName)
  }

  /// Looks where an object is that the save edits or relates to. One that no store has leads nowhere.
  /// - Throws: `OtherStore`: the save begins again there. `otherStore`: it can't, for an object of this store.
  func follow(_ recordName: String) throws {
    if let other { throw other }
    if inserted.contains(recordName) { return }
    if try own.presentObject(named: recordName) != nil {
      isBound = true
      return
    }
    for store in others {
      if let id = try store.snapshot.presentObject(named: recordName) { return try lead(to: store, id) }
    }
  }

  /// Follows the targets of to-one relationships.
  func follow(_ values: [Literal]) throws {
    for case .object(let name) in values { try follow(name) }
  }

  private func lead(to found: StoreSnapshot, _ id: AnyObjectID) throws {
    guard !isBound, let store = found.store else { throw StoreError.otherStore(id) }
    let other = OtherStore(store: store, object: id)
    self.other = other
    throw other
  }
}

/// Thrown to begin a save again in the store where its objects are.
struct OtherStore: Error {
  let store: OpenStore
  /// The object that led there.
  let object: AnyObjectID
}
