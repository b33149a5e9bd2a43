// What workers tell notifiers of subscriptions that fired: hints like every ping. Losing every one of them loses no data.

public import Records

/// What a subscription tells its user's devices.
public struct SubscriptionNotification: Hashable, Sendable, Codable {
  public let container: ContainerID
  public let environment: Environment
  /// Whose devices are told.
  public let userRecordName: String
  public let subscriptionID: String
  /// As what the user addresses the database.
  public let scope: DatabaseScope
  /// The zone that changed, for those that merge: of several for one subscription and zone the latest is enough. nil: each counts.
  public let zone: Zone.ID?
  /// The sequence of the change.
  public let sequence: Int64
  /// The device that made the change, and so is not told; see `ZoneChange.originStore`.
  public let originDevice: String?
  /// A UUID; a repetition of a push is recognised by it.
  public let notificationID: String
  /// The notification as devices get it (docs/protocol/record-plane.md#web-courier), encoded once for all of them.
  public let json: [UInt8]
  /// It stands for a subscription that nobody made: event streams hear of the zone itself. nil: false.
  public var isForCouriersOnly: Bool?

  public init(
    container: ContainerID, environment: Environment, userRecordName: String, subscriptionID: String, scope: DatabaseScope, zone: Zone.ID?, sequence: Int64,
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

  /// What notifications merge by.
  public struct Key: Hashable, Sendable {
    let container: ContainerID
    let environment: Environment
    let userRecordName: String
    let subscriptionID: String
    let scope: DatabaseScope
    /// nil for one that stands for itself.
    let zone: Zone.ID?
    let notificationID: String?
  }

  public var key: Key {
    Key(
      container: container, environment: environment, userRecordName: userRecordName, subscriptionID: subscriptionID, scope: scope, zone: zone,
      notificationID: zone == nil ? notificationID : nil)
  }

  /// What a subscriber needs to know of `self` and, later, `next`, which has the same key.
  public func merged(with next: SubscriptionNotification) -> SubscriptionNotification {
    let latest = next.sequence >= sequence ? next : self
    var merged = SubscriptionNotification(
      container: container, environment: environment, userRecordName: userRecordName, subscriptionID: subscriptionID, scope: scope, zone: zone,
      sequence: latest.sequence, originDevice: originDevice == next.originDevice ? originDevice : nil, notificationID: latest.notificationID, json: latest.json)
    merged.isForCouriersOnly = latest.isForCouriersOnly
    return merged
  }
}

/// A batch of notifications, at most one under way per notifier. A repetition changes nothing.
public struct PushNotifications: Message {
  public static let name = "subscriptions.fired/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public let notifications: [SubscriptionNotification]

  public init(notifications: [SubscriptionNotification]) { self.notifications = notifications }
}
