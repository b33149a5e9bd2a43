// Pushes zone changes to notifiers and gateways, and notifications of subscriptions to notifiers. Changes merge
// while a push is under way, so that a slow receiver delays nobody.

import Records
import ServiceBus
import Synchronization
import ZoneCommit

/// Pushes every zone change to all connected notifiers and gateways, and every notification to all notifiers.
/// Changes of shared zones also go to the other workers (`SharedDatabaseFiring`).
final class ConflatedChangePublisher: ChangePublisher {
  private struct ZoneKey: Hashable {
    let database: DatabaseID
    let zoneName: String
  }

  private let bus: any Bus
  private let pushes: ConflatedPush<ZoneKey, ZoneChange>
  private let sharedPushes: ConflatedPush<ZoneKey, ZoneChange>
  private let notifications: ConflatedPush<SubscriptionNotification.Key, SubscriptionNotification>
  private let stores: ConflatedPush<StoreChange, StoreChange>
  private let fired = Atomic<Int>(0)

  private static let deadline = Duration.seconds(2)
  /// A push costs its receivers as much as a save costs the worker. Under load, one push for several saves is enough.
  private static let spacing = Duration.milliseconds(10)
  /// How long the changes for a lost notifier or gateway are kept. One that returns within this time misses nothing.
  private static let absence = Duration.seconds(60)
  /// Short, because a receiver that hangs must not take the time that the requests under way have.
  private static let drainLimit = Duration.milliseconds(500)
  /// The most notifications that wait for one notifier. Beyond that the oldest is dropped.
  static let notificationLimit = 50_000
  /// Keeps a batch far below the bus's message limit, however much the notifications carry.
  static let notificationBatchCount = 100

  init(bus: any Bus) {
    self.bus = bus
    @Sendable func pushZones() -> ConflatedPush<ZoneKey, ZoneChange> {
      ConflatedPush(
        spacing: Self.spacing, absence: Self.absence,
        send: { [weak bus] peer, changes in
          _ = try await bus?.call(PushZoneChanges(changes: changes), to: .peer(peer.name), within: Self.deadline)
        }, key: { ZoneKey(database: $0.database, zoneName: $0.zoneName) }, merge: { $0.merged(with: $1) })
    }
    pushes = pushZones()
    sharedPushes = pushZones()
    notifications = ConflatedPush(
      limit: Self.notificationLimit, batchCount: Self.notificationBatchCount, spacing: Self.spacing,
      absence: Self.absence,
      send: { [weak bus] peer, notifications in
        _ = try await bus?.call(
          PushNotifications(notifications: notifications), to: .peer(peer.name), within: Self.deadline)
      }, key: { $0.key }, merge: { $0.merged(with: $1) })
    stores = ConflatedPush(
      limit: Self.notificationLimit, spacing: Self.spacing, absence: Self.absence,
      send: { [weak bus] peer, changes in
        _ = try await bus?.call(PushStoreChanges(changes: changes), to: .peer(peer.name), within: Self.deadline)
      }, key: { $0 }, merge: { _, later in later })
  }

  func publish(_ change: ZoneChange) {
    let change = change.traced(to: RequestTrace.id)
    pushes.push(change)
    if change.isShared { sharedPushes.push(change) }
  }

  func publish(_ change: StoreChange) { stores.push(change) }

  func publish(_ notification: SubscriptionNotification) {
    fired.add(1, ordering: .relaxed)
    notifications.push(notification)
  }

  /// Follows the connected peers until the bus closes or the task is cancelled.
  func run() async {
    for await peers in bus.peerChanges() {
      pushes.subscribers(peers.filter { $0.role == .notifier || $0.role == .gateway })
      sharedPushes.subscribers(peers.filter { $0.role == .worker })
      notifications.subscribers(peers.filter { $0.role == .notifier })
      stores.subscribers(peers.filter { $0.role == .gateway })
    }
    pushes.close()
    sharedPushes.close()
    notifications.close()
    stores.close()
  }

  /// Returns once all connected peers have every change and notification so far, or the time is over. The shards' next
  /// owners don't know of them.
  func drain() async {
    async let zones: Void = pushes.drain(within: Self.drainLimit)
    async let shared: Void = sharedPushes.drain(within: Self.drainLimit)
    async let fired: Void = notifications.drain(within: Self.drainLimit)
    await stores.drain(within: Self.drainLimit)
    await zones
    await shared
    await fired
  }

  /// The number of waiting changes, by the subscriber's name.
  var pendingCounts: [String: Int] {
    pushes.pendingCounts.merging(notifications.pendingCounts, uniquingKeysWith: +).merging(
      stores.pendingCounts, uniquingKeysWith: +)
  }
  /// Notifications fired since the start, and those dropped because a notifier did not take them.
  var notificationCounts: (fired: Int, dropped: Int) { (fired.load(ordering: .relaxed), notifications.droppedCount) }
}
