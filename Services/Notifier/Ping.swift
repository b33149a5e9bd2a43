// Notifications for devices: a silent ping that names a changed zone without its content, or a subscription's
// notification.

import Crypto
import JSON
package import Records
package import ServiceBus

/// One notification, encoded once for all its recipients.
package struct Ping: Sendable {
  /// Pings with the same key merge. A ping has the same key at every notifier.
  let key: String
  let sequence: Int64
  /// The common beginning of the keys of pings that this one replaces: those that a courier gets only while nobody has
  /// subscribed to the database. nil: it replaces none.
  let superseding: String?
  /// True for a ping that a subscription's notification may replace.
  let isSupersedable: Bool
  /// `{"aps":…,"ck":…}` (docs/protocol/mirror-api.md#pings, docs/protocol/record-plane.md#web-courier).
  package let json: [UInt8]

  /// A silent ping for a zone that changed.
  /// - Parameters:
  ///   - scope: the scope of the database as its recipients address it.
  ///   - notificationID: a fresh UUID.
  package init(_ change: ZoneChange, as scope: DatabaseScope, notificationID: String) {
    let database = change.database
    key = Self.key("zone", database.container, database.environment, [database.owner, change.zoneName])
    superseding = nil
    isSupersedable = true
    sequence = change.sequence
    var writer = JSONWriter(reservingByteCount: 512)
    writer.beginObject()
    writer.key("aps")
    writer.beginObject()
    writer.member("content-available", 1)
    writer.endObject()
    writer.key("ck")
    writer.beginObject()
    writer.member("ce", 2)
    writer.member("cid", database.container.rawValue)
    writer.member("nid", notificationID)
    writer.key("met")
    writer.beginObject()
    writer.member("dbs", scope.wireNumber)
    writer.member("zid", change.zoneName)
    writer.member("zoid", database.owner)
    writer.member("sid", ReservedName.mirrorSubscription(scope))
    // An addition to Apple's form: a device that has this token already need not fetch changes.
    writer.member("tok", change.syncToken)
    writer.endObject()
    writer.endObject()
    writer.endObject()
    json = writer.bytes
  }

  /// The notification of a subscription. Those about a zone merge by subscription and zone; the others never merge.
  init(_ notification: SubscriptionNotification) {
    let parts =
      notification.zone.map { [notification.scope.rawValue, notification.subscriptionID, $0.ownerName, $0.zoneName] }
      ?? [notification.notificationID]
    key = Self.key(
      notification.zone == nil ? "record" : "subscription", notification.container, notification.environment, parts)
    sequence = notification.sequence
    isSupersedable = false
    // A shared database has no other pings for couriers, and those of the private database stay.
    superseding =
      switch notification.scope {
      case .shared: nil
      case .private:
        Self.key("zone", notification.container, notification.environment, [notification.userRecordName, ""])
      case .public: Self.key("zone", notification.container, notification.environment, [DatabaseID.publicOwner, ""])
      }
    json = notification.json
  }

  /// The key's digest, 32 characters of base64url.
  var collapseID: String { Base64URL.encode(Array(SHA256.hash(key).prefix(24))) }

  /// True for a ping about the container's environment.
  func isOf(_ container: ContainerID, _ environment: Environment) -> Bool {
    key.split(separator: Self.separator, maxSplits: 3).dropFirst().prefix(2).elementsEqual([
      container.rawValue[...], environment.rawValue[...],
    ])
  }

  /// No part of a key contains this character.
  private static let separator: Character = "\u{1f}"

  private static func key(_ kind: String, _ container: ContainerID, _ environment: Environment, _ parts: [String])
    -> String
  {
    ([kind, container.rawValue, environment.rawValue] + parts).joined(separator: String(separator))
  }
}

/// The pings that wait for one device: the latest of each key, in the order in which the keys first came.
struct PendingPings: Sendable {
  /// The effect of adding a ping.
  enum Outcome: Hashable, Sendable {
    case added
    /// Merged with one of the same key, or already known.
    case coalesced
    /// Added, and the oldest ping dropped. Pings are hints, so no data are lost.
    case displaced
  }

  private var pings: [String: Ping] = [:]
  private var order: [String] = []
  /// Waiting pings that a subscription's notification may replace.
  private var supersedableCount = 0
  let limit: Int

  /// - Parameter limit: the most keys; > 0.
  init(limit: Int = 1000) {
    precondition(limit > 0, "a device can be told of at least one zone, not \(limit)")
    self.limit = limit
  }

  var isEmpty: Bool { order.isEmpty }
  var count: Int { order.count }

  mutating func put(_ ping: Ping) -> Outcome {
    if let known = pings[ping.key] {
      if known.sequence < ping.sequence { pings[ping.key] = ping }
      return .coalesced
    }
    var outcome = Outcome.added
    if order.count == limit {
      _ = forget(order.removeFirst())
      outcome = .displaced
    }
    pings[ping.key] = ping
    order.append(ping.key)
    if ping.isSupersedable { supersedableCount += 1 }
    return outcome
  }

  /// The oldest pings, at most `count`.
  mutating func take(_ count: Int) -> [Ping] {
    let keys = Array(order.prefix(count))
    order.removeFirst(keys.count)
    var taken: [Ping] = []
    taken.reserveCapacity(keys.count)
    for key in keys { if let ping = forget(key) { taken.append(ping) } }
    return taken
  }

  private mutating func forget(_ key: String) -> Ping? {
    guard let ping = pings.removeValue(forKey: key) else { return nil }
    if ping.isSupersedable { supersedableCount -= 1 }
    return ping
  }

  /// Drops the pings whose keys begin with `prefix`.
  mutating func remove(keysFrom prefix: String) {
    if supersedableCount > 0 { remove { $0.key.hasPrefix(prefix) } }
  }

  mutating func remove(_ isOver: (Ping) -> Bool) {
    for key in order where pings[key].map(isOver) ?? true { _ = forget(key) }
    order.removeAll { pings[$0] == nil }
  }

  /// Drops the ping of a key unless it is later than `sequence`.
  mutating func remove(_ key: String, through sequence: Int64) {
    guard let known = pings[key], known.sequence <= sequence else { return }
    _ = forget(key)
    order.removeAll { $0 == key }
  }
}

/// The latest values by key, in bounded memory: the oldest key is forgotten first.
struct RecentValues<Value: Sendable>: Sendable {
  private var values: [String: Value] = [:]
  private var ring: [String] = []
  private var next = 0
  private let limit: Int

  /// - Parameter limit: the most keys; > 0.
  init(limit: Int) {
    precondition(limit > 0, "at least one value can be remembered, not \(limit)")
    self.limit = limit
  }

  subscript(key: String) -> Value? { values[key] }

  mutating func set(_ value: Value, for key: String) {
    guard values.updateValue(value, forKey: key) == nil else { return }
    if ring.count < limit {
      ring.append(key)
    } else {
      values[ring[next]] = nil
      ring[next] = key
      next = (next + 1) % limit
    }
  }
}
