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
    /// How it listens: an event stream is told of every zone, a courier of what its user subscribed to.
    enum Kind: Hashable, Sendable {
      case stream, courier
    }

    let kind: Kind
    /// One at first; a courier may be registered with others.
    fileprivate(set) var scopes: [Scope]
    let userRecordName: String
    /// The store identifier (or the clients of a courier) whose own changes it is not told of.
    fileprivate(set) var devices: [String]

    /// Of each of its lists; client names and containers are the clients' choice.
    static let listLimit = 32

    init(_ kind: Kind = .stream, scope: Scope, userRecordName: String, device: String?) {
      self.kind = kind
      scopes = [scope]
      self.userRecordName = userRecordName
      devices = device.map { [$0] } ?? []
    }
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
    for scope in listener.scopes {
      byUser[User(scope: scope, userRecordName: listener.userRecordName), default: []].append(nextID)
      byScope[scope, default: []].append(nextID)
    }
    return nextID
  }

  /// Lets a listener hear of another scope, too, and not of another device's changes. Beyond `Listener.listLimit` nothing is added.
  mutating func extend(_ id: ListenerID, with scope: Scope, device: String) {
    guard var listener = listeners[id] else { return }
    if !listener.devices.contains(device), listener.devices.count < Listener.listLimit { listener.devices.append(device) }
    if !listener.scopes.contains(scope), listener.scopes.count < Listener.listLimit {
      listener.scopes.append(scope)
      Self.insert(id, User(scope: scope, userRecordName: listener.userRecordName), &byUser)
      Self.insert(id, scope, &byScope)
    }
    listeners[id] = listener
  }

  /// Lets a listener hear of a scope no more.
  mutating func withdraw(_ scope: Scope, from id: ListenerID) {
    guard var listener = listeners[id], let position = listener.scopes.firstIndex(of: scope) else { return }
    listener.scopes.remove(at: position)
    listeners[id] = listener
    leave(scope, id, listener)
  }

  private mutating func leave(_ scope: Scope, _ id: ListenerID, _ listener: Listener) {
    Self.remove(id, User(scope: scope, userRecordName: listener.userRecordName), &byUser)
    Self.remove(id, scope, &byScope)
  }

  /// Does nothing for one who is gone already.
  mutating func disconnect(_ id: ListenerID) {
    guard let listener = listeners.removeValue(forKey: id) else { return }
    for scope in listener.scopes { leave(scope, id, listener) }
  }

  private static func remove<Key: Hashable>(_ id: ListenerID, _ key: Key, _ lists: inout [Key: [ListenerID]]) {
    guard var list = lists.removeValue(forKey: key) else { return }
    let position = position(of: id, in: list)
    if position < list.count, list[position] == id { list.remove(at: position) }
    if !list.isEmpty { lists[key] = list }
  }

  private static func insert<Key: Hashable>(_ id: ListenerID, _ key: Key, _ lists: inout [Key: [ListenerID]]) {
    var list = lists.removeValue(forKey: key) ?? []
    list.insert(id, at: position(of: id, in: list))
    lists[key] = list
  }

  /// Where it stands in an ascending list, or would.
  private static func position(of id: ListenerID, in list: [ListenerID]) -> Int {
    var (low, high) = (0, list.count)
    while low < high {
      let middle = (low + high) / 2
      if list[middle] < id { low = middle + 1 } else { high = middle }
    }
    return low
  }

  /// Whom to tell of a change, and as what of theirs: the owner's devices of their private database, other participants' of their shared
  /// one, everybody in the container and environment of the public one; never the device that made the change. Of a database that somebody
  /// has subscribed to, couriers are told by subscriptions only (`listeners(to:)`); of a shared one by who knows the participant's subscriptions.
  func deliveries(of change: ZoneChange) -> [Delivery] {
    let scope = Scope(container: change.database.container, environment: change.database.environment)
    let isSubscribed = change.hasSubscriptions ?? false
    if change.database.isPublic {
      return Self.delivery(.public, others(than: change.origin, byScope[scope] ?? [], withoutCouriers: isSubscribed))
    }
    var owners: [ListenerID] = []
    var participants: [[ListenerID]] = []
    for user in Set(change.audience) {
      let isOwner = user == change.database.owner
      let found = others(
        than: change.origin, byUser[User(scope: scope, userRecordName: user)] ?? [], withoutCouriers: isOwner ? isSubscribed : change.tellsHomes ?? false)
      if isOwner { owners = found } else if !found.isEmpty { participants.append(found) }
    }
    let shared = participants.count == 1 ? participants[0] : participants.flatMap(\.self).sorted()
    return Self.delivery(.private, owners) + Self.delivery(.shared, shared)
  }

  private static func delivery(_ scope: DatabaseScope, _ listeners: [ListenerID]) -> [Delivery] {
    listeners.isEmpty ? [] : [Delivery(databaseScope: scope, listeners: listeners)]
  }

  /// Whom to tell what a subscription says: its user's devices but the one that made the change.
  func listeners(to notification: SubscriptionNotification) -> [ListenerID] {
    let scope = Scope(container: notification.container, environment: notification.environment)
    let told = others(
      than: notification.originDevice.map { ($0, nil) }, byUser[User(scope: scope, userRecordName: notification.userRecordName)] ?? [], withoutCouriers: false)
    return notification.isForCouriersOnly == true ? told.filter { listeners[$0]?.kind == .courier } : told
  }

  /// - Parameter origin: a device, and whose it is; nil: anybody's of that name.
  private func others(than origin: (device: String, user: String?)?, _ ids: [ListenerID], withoutCouriers: Bool) -> [ListenerID] {
    if origin == nil, !withoutCouriers { return ids }
    return ids.filter { id in
      guard let listener = listeners[id] else { return false }
      if withoutCouriers, listener.kind == .courier { return false }
      guard let origin, origin.user ?? listener.userRecordName == listener.userRecordName else { return true }
      return !listener.devices.contains(origin.device)
    }
  }
}

extension ZoneChange {
  fileprivate var origin: (device: String, user: String?)? { originStore.map { ($0, originUser) } }
}
