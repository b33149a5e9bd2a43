// Decides which connections are pinged for a change. A pure value, so that table tests cover every rule.

import Records
import ServiceBus

/// The connected listeners, indexed by user and by container.
struct PingBoard: Sendable {
  /// A container's environment.
  struct Scope: Hashable, Sendable {
    let container: ContainerID
    let environment: Environment
  }

  struct Listener: Hashable, Sendable {
    /// An event stream is told of every zone, a courier of its user's subscriptions.
    enum Kind: Hashable, Sendable {
      case stream, courier
    }

    let kind: Kind
    /// One at first; a courier may be registered for others.
    fileprivate(set) var scopes: [Scope]
    let userRecordName: String
    /// Identifiers of the listener itself, whose own changes it is not told of: identifiers of stores, or clients of a
    /// courier.
    fileprivate(set) var devices: [String]

    /// Bounds each of a listener's lists, because clients choose names and containers.
    static let listLimit = 32

    /// - Parameter devices: different ones, at most `listLimit`.
    init(_ kind: Kind = .stream, scope: Scope, userRecordName: String, devices: [String]) {
      self.kind = kind
      scopes = [scope]
      self.userRecordName = userRecordName
      self.devices = devices
    }
  }

  /// Rises from connection to connection and is never reused.
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
  // Ascending lists, because identifiers only rise.
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

  /// Registers a listener for another scope and for another device of its own. Lists at `Listener.listLimit` stay as
  /// they are.
  mutating func extend(_ id: ListenerID, with scope: Scope, device: String) {
    guard var listener = listeners[id] else { return }
    if !listener.devices.contains(device), listener.devices.count < Listener.listLimit {
      listener.devices.append(device)
    }
    if !listener.scopes.contains(scope), listener.scopes.count < Listener.listLimit {
      listener.scopes.append(scope)
      Self.insert(id, User(scope: scope, userRecordName: listener.userRecordName), &byUser)
      Self.insert(id, scope, &byScope)
    }
    listeners[id] = listener
  }

  /// Unregisters a listener from a scope.
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

  /// Does nothing for a listener that is gone already.
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

  /// The index of an identifier in an ascending list, or the index at which to insert it.
  private static func position(of id: ListenerID, in list: [ListenerID]) -> Int {
    var (low, high) = (0, list.count)
    while low < high {
      let middle = (low + high) / 2
      if list[middle] < id { low = middle + 1 } else { high = middle }
    }
    return low
  }

  /// The recipients of a change, with the scope that they know the database by: the owner's devices as private, other
  /// participants' as shared, and everybody in the container and environment as public. The device that made the change
  /// is left out. Couriers are left out when subscriptions tell them (`listeners(to:)`).
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
        than: change.origin, byUser[User(scope: scope, userRecordName: user)] ?? [],
        withoutCouriers: isOwner ? isSubscribed : change.tellsHomes ?? false)
      if isOwner { owners = found } else if !found.isEmpty { participants.append(found) }
    }
    let shared = participants.count == 1 ? participants[0] : participants.flatMap(\.self).sorted()
    return Self.delivery(.private, owners) + Self.delivery(.shared, shared)
  }

  private static func delivery(_ scope: DatabaseScope, _ listeners: [ListenerID]) -> [Delivery] {
    listeners.isEmpty ? [] : [Delivery(databaseScope: scope, listeners: listeners)]
  }

  /// The recipients of a subscription's notification: the user's devices except the one that made the change.
  func listeners(to notification: SubscriptionNotification) -> [ListenerID] {
    let scope = Scope(container: notification.container, environment: notification.environment)
    let told = others(
      than: notification.originDevice.map { ($0, nil) },
      byUser[User(scope: scope, userRecordName: notification.userRecordName)] ?? [], withoutCouriers: false)
    return notification.isForCouriersOnly == true ? told.filter { listeners[$0]?.kind == .courier } : told
  }

  /// The listeners' number, and the devices behind the first of them.
  func recipients(_ lists: [[ListenerID]]) -> Recipients {
    var recipients = Recipients()
    for list in lists {
      recipients.count += list.count
      for id in list where recipients.devices.count < Recipients.deviceLimit {
        recipients.devices += listeners[id]?.devices.prefix(Recipients.deviceLimit - recipients.devices.count) ?? []
      }
    }
    return recipients
  }

  /// - Parameter origin: a device and its user; nil as its user: the device of that name of any user.
  private func others(than origin: (device: String, user: String?)?, _ ids: [ListenerID], withoutCouriers: Bool)
    -> [ListenerID]
  {
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
