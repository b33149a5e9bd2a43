// What a device is told: that a zone changed, never what.

import JSON
import Records
import ServiceBus

/// One silent ping, encoded once for everybody who gets it.
struct Ping: Sendable {
  /// What pings merge by.
  struct Key: Hashable, Sendable {
    let owner: String
    let zoneName: String
  }

  let key: Key
  let sequence: Int64
  /// `{"aps":…,"ck":…}` (mirror-api.md "Pings", wire-protocol section 9.3).
  let json: [UInt8]

  /// - Parameters:
  ///   - scope: as what its recipients address the database.
  ///   - notificationID: a fresh UUID.
  init(_ change: ZoneChange, as scope: DatabaseScope, notificationID: String) {
    key = Key(owner: change.database.owner, zoneName: change.zoneName)
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
    writer.member("cid", change.database.container.rawValue)
    writer.member("nid", notificationID)
    writer.key("met")
    writer.beginObject()
    writer.member("dbs", scope.wireNumber)
    writer.member("zid", change.zoneName)
    writer.member("zoid", change.database.owner)
    writer.member("sid", ReservedName.mirrorSubscription(scope))
    // An addition to Apple's form: a device that has this token already need not ask.
    writer.member("tok", change.syncToken)
    writer.endObject()
    writer.endObject()
    writer.endObject()
    json = writer.bytes
  }
}

/// What one device still has to be told: at most one ping a zone, the latest; in the order in which the zones first changed.
struct PendingPings: Sendable {
  /// What putting a ping did.
  enum Outcome: Hashable, Sendable {
    case added
    /// Merged with one for the same zone.
    case coalesced
    /// Added, and the oldest forgotten: a hint less, which loses no data.
    case displaced
  }

  private var pings: [Ping.Key: Ping] = [:]
  private var order: [Ping.Key] = []
  let limit: Int

  /// - Parameter limit: of zones; > 0.
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
      pings[order.removeFirst()] = nil
      outcome = .displaced
    }
    pings[ping.key] = ping
    order.append(ping.key)
    return outcome
  }

  /// The oldest ones, at most `count`.
  mutating func take(_ count: Int) -> [Ping] {
    let keys = order.prefix(count)
    defer { order.removeFirst(keys.count) }
    return keys.compactMap { pings.removeValue(forKey: $0) }
  }
}
