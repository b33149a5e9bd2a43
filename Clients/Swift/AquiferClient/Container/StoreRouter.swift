// Finds the store for a save whose caller named none.

import ReplicaStore
import Synchronization

/// Looks at the first entity or object that a save names.
final class StoreRouter: Sendable {
  private struct State {
    var isSettled = false
    var other: OtherStore?
  }

  private let own: OpenStore
  private let others: [OpenStore]
  private let state = Mutex(State())

  init(own: OpenStore, others: [OpenStore]) {
    self.own = own
    self.others = others.filter { $0.store != own.store }
  }

  var other: OtherStore? { state.withLock { $0.other } }

  /// - Throws: `OtherStore` if another store has the entity or object and this one has not.
  func check(_ entityName: String, _ id: AnyObjectID?, _ snapshot: Snapshot) throws {
    if let other { throw other }
    guard !state.withLock({ $0.isSettled }) else { return }
    if let found = try find(entityName, id, snapshot) {
      let other = OtherStore(store: found)
      state.withLock { $0.other = other }
      throw other
    }
    state.withLock { $0.isSettled = true }
  }

  private func find(_ entityName: String, _ id: AnyObjectID?, _ snapshot: Snapshot) throws -> OpenStore? {
    let isHere = try id.map { try snapshot.object($0) { _ in true } ?? false } ?? true
    if snapshot.hasEntity(entityName), isHere { return nil }
    return try others.first { store in
      try store.replica.readNow { snapshot in
        guard snapshot.hasEntity(entityName) else { return false }
        return try id.map { try snapshot.object($0) { _ in true } ?? false } ?? true
      }
    }
  }
}
