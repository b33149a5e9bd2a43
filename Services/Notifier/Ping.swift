// What a device is told: that a zone changed, never what; or what a subscription of its user says.

import JSON
package import Records
package import ServiceBus

/// One notification, encoded once for everybody who gets it.
package struct Ping: Sendable {
  /// What pings merge by, the same at every notifier.
  let key: String
  let sequence: Int64
  /// Where the keys of those pings begin that a courier gets only while nobody has subscribed to the database; nil: it makes none of them needless.
  let superseding: String?
  /// It is one of them.
  let isSupersedable: Bool
  /// `{"aps":…,"ck":…}` (docs/protocol/mirror-api.md#pings, docs/protocol/record-plane.md#web-courier).
  package let json: [UInt8]

  /// A silent ping for a zone that changed.
  /// - Parameters:
  ///   - scope: as what its recipients address the database.
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
    // An addition to Apple's form: a device that has this token already need not ask.
    writer.member("tok", change.syncToken)
    writer.endObject()
    writer.endObject()
    writer.endObject()
    json = writer.bytes
  }

  /// What a subscription says. Those that tell of a zone merge by subscription and zone, the others stand for themselves.
  init(_ notification: SubscriptionNotification) {
    let parts =
      notification.zone.map { [notification.scope.rawValue, notification.subscriptionID, $0.ownerName, $0.zoneName] } ?? [notification.notificationID]
    key = Self.key(notification.zone == nil ? "record" : "subscription", notification.container, notification.environment, parts)
    sequence = notification.sequence
    isSupersedable = false
    // Of a shared database no other pings come here, and those of the private one are not its business.
    superseding =
      switch notification.scope {
      case .shared: nil
      case .private: Self.key("zone", notification.container, notification.environment, [notification.userRecordName, ""])
      case .public: Self.key("zone", notification.container, notification.environment, [DatabaseID.publicOwner, ""])
      }
    json = notification.json
  }

  /// Whether it tells of something in the container's environment.
  func isOf(_ container: ContainerID, _ environment: Environment) -> Bool {
    key.split(separator: Self.separator, maxSplits: 3).dropFirst().prefix(2).elementsEqual([container.rawValue[...], environment.rawValue[...]])
  }

  /// No part of a key has this character.
  private static let separator: Character = "\u{1f}"

  private static func key(_ kind: String, _ container: ContainerID, _ environment: Environment, _ parts: [String]) -> String {
    ([kind, container.rawValue, environment.rawValue] + parts).joined(separator: String(separator))
  }
}

/// What one device still has to be told: at most one ping a key, the latest; in the order in which the keys first came.
struct PendingPings: Sendable {
  /// What putting a ping did.
  enum Outcome: Hashable, Sendable {
    case added
    /// Merged with one of the same key, or known already.
    case coalesced
    /// Added, and the oldest forgotten: a hint less, which loses no data.
    case displaced
  }

  private var pings: [String: Ping] = [:]
  private var order: [String] = []
  /// Pings that a subscription's may supersede.
  private var supersedableCount = 0
  let limit: Int

  /// - Parameter limit: of keys; > 0.
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

  /// The oldest ones, at most `count`.
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

  /// Forgets the pings whose keys begin so.
  mutating func remove(keysFrom prefix: String) {
    if supersedableCount > 0 { remove { $0.key.hasPrefix(prefix) } }
  }

  mutating func remove(_ isOver: (Ping) -> Bool) {
    for key in order where pings[key].map(isOver) ?? true { _ = forget(key) }
    order.removeAll { pings[$0] == nil }
  }

  /// Forgets the ping of a key unless it is later than `sequence`.
  mutating func remove(_ key: String, through sequence: Int64) {
    guard let known = pings[key], known.sequence <= sequence else { return }
    _ = forget(key)
    order.removeAll { $0 == key }
  }
}

/// The last things that were said, so that none of them is said again: bounded, the oldest is forgotten.
struct RecentValues<Value: Sendable>: Sendable {
  private var values: [String: Value] = [:]
  private var ring: [String] = []
  private var next = 0
  private let limit: Int

  /// - Parameter limit: of keys; > 0.
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
