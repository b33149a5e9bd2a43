// Decides who is pinged for a change: a pure value, so that every rule of audience and exclusion is a line in a table test.

import Records
import ServiceBus

/// Who is connected, found by user and by container without looking at anybody else.
struct PingBoard: Sendable {
  /// A container's environment.
  struct Scope: Hashable, Sendable {
    let container: ContainerID
    let environment: Environment
  }

  struct Listener: Hashable, Sendable {
    let scope: Scope
    let userRecordName: String
    /// The store identifier (or courier client) whose own changes it is not told of.
    let device: String?
  }

  /// Rises from connection to connection, never used twice.
  typealias ListenerID = Int

  /// Listeners who get the same ping, ascending.
  struct Delivery: Hashable, Sendable {
    let databaseScope: DatabaseScope
    let listeners: [ListenerID]
  }

  private struct User: Hashable {
    let scope: Scope
    let userRecordName: String
  }

  private var listeners: [ListenerID: Listener] = [:]
  // Ascending, because identifiers only rise.
  private var byUser: [User: [ListenerID]] = [:]
  private var byScope: [Scope: [ListenerID]] = [:]
  private var nextID = 0

  var count: Int { listeners.count }

  mutating func connect(_ listener: Listener) -> ListenerID {
    nextID += 1
    listeners[nextID] = listener
    byUser[User(scope: listener.scope, userRecordName: listener.userRecordName), default: []].append(nextID)
    byScope[listener.scope, default: []].append(nextID)
    return nextID
  }

  /// Does nothing for one who is gone already.
  mutating func disconnect(_ id: ListenerID) {
    guard let listener = listeners.removeValue(forKey: id) else { return }
    Self.remove(id, User(scope: listener.scope, userRecordName: listener.userRecordName), &byUser)
    Self.remove(id, listener.scope, &byScope)
  }

  private static func remove<Key: Hashable>(_ id: ListenerID, _ key: Key, _ lists: inout [Key: [ListenerID]]) {
    guard var list = lists.removeValue(forKey: key) else { return }
    var (low, high) = (0, list.count)
    while low < high {
      let middle = (low + high) / 2
      if list[middle] < id { low = middle + 1 } else { high = middle }
    }
    if low < list.count, list[low] == id { list.remove(at: low) }
    if !list.isEmpty { lists[key] = list }
  }

  /// Whom to tell of a change, and as what of theirs: the owner's devices of their private database, other participants' of their shared
  /// one, everybody in the container and environment of the public one; never the device that made the change.
  func deliveries(of change: ZoneChange) -> [Delivery] {
    let scope = Scope(container: change.database.container, environment: change.database.environment)
    if change.database.isPublic { return Self.delivery(.public, others(than: change.originStore, byScope[scope] ?? [])) }
    var owners: [ListenerID] = []
    var participants: [[ListenerID]] = []
    for user in Set(change.audience) {
      let found = others(than: change.originStore, byUser[User(scope: scope, userRecordName: user)] ?? [])
      if user == change.database.owner { owners = found } else if !found.isEmpty { participants.append(found) }
    }
    let shared = participants.count == 1 ? participants[0] : participants.flatMap(\.self).sorted()
    return Self.delivery(.private, owners) + Self.delivery(.shared, shared)
  }

  private static func delivery(_ scope: DatabaseScope, _ listeners: [ListenerID]) -> [Delivery] {
    listeners.isEmpty ? [] : [Delivery(databaseScope: scope, listeners: listeners)]
  }

  private func others(than origin: String?, _ ids: [ListenerID]) -> [ListenerID] {
    guard let origin else { return ids }
    return ids.filter { listeners[$0]?.device != origin }
  }
}
