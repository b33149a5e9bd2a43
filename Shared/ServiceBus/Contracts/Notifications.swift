// What workers tell notifiers and waiting gateways: hints that something changed. Losing every one of them loses no data.

public import Records

/// A zone changed. Merged while a push is under way: the latest sequence wins.
public struct ZoneChange: Hashable, Sendable, Codable {
  public let database: DatabaseID
  public let zoneName: String
  /// The zone's sequence after the commit.
  public let sequence: Int64
  /// The zone's token after the commit, so that a device that has it need not ask.
  public let syncToken: String
  /// The device that made all of it, and so is not pinged: a store identifier, or the `clientId` of a record plane's request; nil when
  /// there were several or none.
  public let originStore: String?
  /// Whose device `originStore` is; nil: anybody's of that name.
  public let originUser: String?
  /// Users to ping: the owner and, in shared zones, the participants. Empty for the public database: everybody connected to the container.
  public let audience: [String]
  /// Somebody has subscribed to something of this database as their private or the public one, now or once: couriers get what subscriptions cause
  /// (`SubscriptionNotification`) instead of a ping for every change. Where nobody has, each courier is taken to have subscribed to all of it. nil: false.
  public let hasSubscriptions: Bool?
  /// Participants who have subscribed to something of this database as their shared one: told by that, and not of every change. nil: none.
  public var subscribers: [String]?
  /// The workers that hold participants' shards tell their couriers: they know of subscriptions to the whole shared database. nil: false.
  public var tellsHomes: Bool?
  /// The latest request that it came from (`RequestTrace`).
  public let traceID: String?

  public init(
    database: DatabaseID, zoneName: String, sequence: Int64, syncToken: String, originStore: String?, originUser: String? = nil, audience: [String],
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

  /// The same, said to come from a request unless it says so itself.
  public func traced(to traceID: String?) -> ZoneChange {
    guard self.traceID == nil, let traceID else { return self }
    var traced = ZoneChange(
      database: database, zoneName: zoneName, sequence: sequence, syncToken: syncToken, originStore: originStore, originUser: originUser, audience: audience,
      hasSubscriptions: hasSubscriptions ?? false, traceID: traceID)
    (traced.subscribers, traced.tellsHomes) = (subscribers, tellsHomes)
    return traced
  }

  /// The same, told to these participants, too.
  /// - Parameters:
  ///   - subscribers: those of them who have subscriptions in the owner's database.
  ///   - hasSubscriptions: see the property.
  public func heard(by users: [String], subscribers: [String], hasSubscriptions: Bool) -> ZoneChange {
    var heard = ZoneChange(
      database: database, zoneName: zoneName, sequence: sequence, syncToken: syncToken, originStore: originStore, originUser: originUser,
      audience: Array(Set(audience).union(users)).sorted(), hasSubscriptions: hasSubscriptions, traceID: traceID)
    if !users.isEmpty { heard.tellsHomes = true }
    if !subscribers.isEmpty { heard.subscribers = subscribers }
    return heard
  }

  /// What a subscriber needs to know of `self` and, later, `next`.
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

/// A mirrored store did something that a watcher would see in its events or its state; told of stores that a gateway asks about only.
public struct StoreChange: Hashable, Sendable, Codable {
  public let database: DatabaseID
  public let storeIdentifier: String

  public init(database: DatabaseID, storeIdentifier: String) {
    self.database = database
    self.storeIdentifier = storeIdentifier
  }
}

/// A conflated batch of such changes, to gateways.
public struct PushStoreChanges: Message {
  public static let name = "stores.changed/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public let changes: [StoreChange]

  public init(changes: [StoreChange]) { self.changes = changes }
}

/// A conflated batch of changes, at most one under way per subscriber.
public struct PushZoneChanges: Message {
  public static let name = "zones.changed/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public let changes: [ZoneChange]

  public init(changes: [ZoneChange]) { self.changes = changes }
}
