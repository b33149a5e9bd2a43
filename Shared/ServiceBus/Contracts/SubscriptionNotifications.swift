// Notifications of fired subscriptions, from workers to notifiers: hints like every ping. Losing all of them loses no
// data.

public import Records

/// A notification of one subscription for its user's devices.
public struct SubscriptionNotification: Hashable, Sendable, Codable {
  public let container: ContainerID
  public let environment: Environment
  /// The user whose devices are notified.
  public let userRecordName: String
  public let subscriptionID: String
  /// The scope in which the user addresses the database.
  public let scope: DatabaseScope
  /// The zone that changed, for notifications that merge: of several for one subscription and zone only the latest
  /// matters. nil: each one counts.
  public let zone: Zone.ID?
  /// The change's sequence number.
  public let sequence: Int64
  /// The device that made the change and is not notified; see `ZoneChange.originStore`.
  public let originDevice: String?
  /// A UUID, by which notifiers recognise a repeated push.
  public let notificationID: String
  /// The notification as devices get it (docs/protocol/record-plane.md#web-courier), encoded once for all of them.
  public let json: [UInt8]
  /// True for a database without subscriptions: event streams report the zone itself instead. nil: false.
  public var isForCouriersOnly: Bool?

  public init(
    container: ContainerID, environment: Environment, userRecordName: String, subscriptionID: String,
    scope: DatabaseScope, zone: Zone.ID?, sequence: Int64,
    originDevice: String?, notificationID: String, json: [UInt8]
  ) {
    self.container = container
    self.environment = environment
    self.userRecordName = userRecordName
    self.subscriptionID = subscriptionID
    self.scope = scope
    self.zone = zone
    self.sequence = sequence
    self.originDevice = originDevice
    self.notificationID = notificationID
    self.json = json
  }

  /// The key by which notifications merge.
  public struct Key: Hashable, Sendable {
    let container: ContainerID
    let environment: Environment
    let userRecordName: String
    let subscriptionID: String
    let scope: DatabaseScope
    /// nil for a notification that does not merge.
    let zone: Zone.ID?
    let notificationID: String?
  }

  public var key: Key {
    Key(
      container: container, environment: environment, userRecordName: userRecordName, subscriptionID: subscriptionID,
      scope: scope, zone: zone,
      notificationID: zone == nil ? notificationID : nil)
  }

  /// One notification with the effect of `self` and the later `next` of the same key.
  public func merged(with next: SubscriptionNotification) -> SubscriptionNotification {
    let latest = next.sequence >= sequence ? next : self
    var merged = SubscriptionNotification(
      container: container, environment: environment, userRecordName: userRecordName, subscriptionID: subscriptionID,
      scope: scope, zone: zone,
      sequence: latest.sequence, originDevice: originDevice == next.originDevice ? originDevice : nil,
      notificationID: latest.notificationID, json: latest.json)
    merged.isForCouriersOnly = latest.isForCouriersOnly
    return merged
  }
}

/// A batch of notifications; at most one per notifier is under way. A repetition changes nothing.
public struct PushNotifications: Message {
  public static let name = "subscriptions.fired/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public let notifications: [SubscriptionNotification]

  public init(notifications: [SubscriptionNotification]) { self.notifications = notifications }
}
