// Hints from workers to notifiers and waiting gateways that something changed. Losing all of them loses no data.

public import Records

/// A zone changed. Changes of one zone merge while a push is under way, and the latest sequence number wins.
public struct ZoneChange: Hashable, Sendable, Codable {
  public let database: DatabaseID
  public let zoneName: String
  /// The zone's sequence number after the commit.
  public let sequence: Int64
  /// The zone's token after the commit: a device that has it already need not ask.
  public let syncToken: String
  /// The device that made the whole change and gets no ping: a store identifier, or the `clientId` of a record plane's
  /// request. nil if there were several devices or none.
  public let originStore: String?
  /// The user of `originStore`; nil if any user's device of that name counts.
  public let originUser: String?
  /// Users to ping: the owner and, in shared zones, the participants. Empty for the public database: everybody
  /// connected to the container.
  public let audience: [String]
  /// True once a user has ever subscribed to something in this database, private or public: couriers get notifications
  /// of subscriptions (`SubscriptionNotification`) then, instead of a ping for every change. Without any, each courier
  /// counts as subscribed to the whole database. nil: false.
  public let hasSubscriptions: Bool?
  /// Participants with subscriptions in this database as their shared one: they get those notifications, and no ping
  /// for every change. nil: none.
  public var subscribers: [String]?
  /// True if the workers that hold the participants' shards notify their couriers, because they know subscriptions to
  /// the whole shared database. nil: false.
  public var tellsHomes: Bool?
  /// The latest request behind the change (`RequestTrace`).
  public let traceID: String?

  public init(
    database: DatabaseID, zoneName: String, sequence: Int64, syncToken: String, originStore: String?,
    originUser: String? = nil, audience: [String],
    hasSubscriptions: Bool = false, traceID: String? = RequestTrace.id
  ) {
    self.database = database
    self.zoneName = zoneName
    self.sequence = sequence
    self.syncToken = syncToken
    self.originStore = originStore
    self.originUser = originUser
    self.audience = audience
    self.hasSubscriptions = hasSubscriptions ? true : nil
    self.traceID = traceID
  }

  /// The change with a trace ID, unless it has one already.
  public func traced(to traceID: String?) -> ZoneChange {
    guard self.traceID == nil, let traceID else { return self }
    var traced = ZoneChange(
      database: database, zoneName: zoneName, sequence: sequence, syncToken: syncToken, originStore: originStore,
      originUser: originUser, audience: audience,
      hasSubscriptions: hasSubscriptions ?? false, traceID: traceID)
    (traced.subscribers, traced.tellsHomes) = (subscribers, tellsHomes)
    return traced
  }

  /// The change with these participants added to its audience.
  /// - Parameters:
  ///   - subscribers: those of them with subscriptions in the owner's database.
  ///   - hasSubscriptions: see the property.
  public func heard(by users: [String], subscribers: [String], hasSubscriptions: Bool) -> ZoneChange {
    var heard = ZoneChange(
      database: database, zoneName: zoneName, sequence: sequence, syncToken: syncToken, originStore: originStore,
      originUser: originUser,
      audience: Array(Set(audience).union(users)).sorted(), hasSubscriptions: hasSubscriptions, traceID: traceID)
    if !users.isEmpty { heard.tellsHomes = true }
    if !subscribers.isEmpty { heard.subscribers = subscribers }
    return heard
  }

  /// One change with the effect of `self` and the later `next`.
  public func merged(with next: ZoneChange) -> ZoneChange {
    let latest = next.sequence >= sequence ? next : self
    var merged = ZoneChange(
      database: latest.database, zoneName: latest.zoneName, sequence: latest.sequence, syncToken: latest.syncToken,
      originStore: originStore == next.originStore && originUser == next.originUser ? originStore : nil,
      originUser: originUser == next.originUser ? originUser : nil,
      audience: audience == next.audience ? audience : Array(Set(audience).union(next.audience)).sorted(),
      hasSubscriptions: latest.hasSubscriptions ?? false, traceID: latest.traceID)
    (merged.subscribers, merged.tellsHomes) = (latest.subscribers, latest.tellsHomes ?? tellsHomes)
    return merged
  }
}

/// A mirrored store's events or state changed; sent only for stores that a gateway asks about.
public struct StoreChange: Hashable, Sendable, Codable {
  public let database: DatabaseID
  public let storeIdentifier: String

  public init(database: DatabaseID, storeIdentifier: String) {
    self.database = database
    self.storeIdentifier = storeIdentifier
  }
}

/// A conflated batch of store changes, for gateways.
public struct PushStoreChanges: Message {
  public static let name = "stores.changed/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public let changes: [StoreChange]

  public init(changes: [StoreChange]) { self.changes = changes }
}

/// A conflated batch of zone changes; at most one per subscriber is under way.
public struct PushZoneChanges: Message {
  public static let name = "zones.changed/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public let changes: [ZoneChange]

  public init(changes: [ZoneChange]) { self.changes = changes }
}
