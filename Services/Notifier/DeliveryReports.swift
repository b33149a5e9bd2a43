// Reports deliveries to the other notifiers: each has every courier's queue, and a client may poll any of them.

import ServiceBus
import Synchronization

/// Reports on their way to the other notifiers. Without other notifiers nothing is kept.
final class DeliveryReports: Sendable {
  private struct Key: Hashable {
    let courier: String
    let key: String
  }

  private let pushes = Mutex<ConflatedPush<Key, NotificationsDelivered.Delivery>?>(nil)

  private static let deadline = Duration.seconds(2)
  /// Reports waiting for one notifier, at most. A client whose report is dropped may get a notification twice.
  private static let limit = 20_000

  func tell(_ delivery: NotificationsDelivered.Delivery) { pushes.withLock { $0 }?.push(delivery) }

  /// Follows the other notifiers until the bus closes or the task is cancelled.
  func run(on bus: any Bus) async {
    let pushes = ConflatedPush<Key, NotificationsDelivered.Delivery>(
      limit: Self.limit,
      send: { [weak bus] peer, deliveries in
        _ = try await bus?.call(
          NotificationsDelivered(deliveries: deliveries), to: .peer(peer.name), within: Self.deadline)
      }, key: { Key(courier: $0.courier, key: $0.key) },
      merge: { earlier, later in later.sequence >= earlier.sequence ? later : earlier })
    self.pushes.withLock { $0 = pushes }
    for await peers in bus.peerChanges() { pushes.subscribers(peers.filter { $0.role == .notifier }) }
    pushes.close()
  }
}
