// A subscription that a commit fired, and its notification.

import RecordStore
import Records
import ServiceBus
import WebServices

/// A notification that is to be sent once the commit is durable.
struct FiredSubscription: Sendable {
  let database: DatabaseID
  let entry: SubscriptionIndex.Entry
  let change: NotificationContent.Change
  let sequence: Int64
  let originDevice: String?
}

extension FiredSubscription {
  /// The notification as it is sent; made after the commit, so that the shard's writer does not wait for it.
  func notification(identifiedBy notificationID: String) -> SubscriptionNotification {
    let (stored, subscription) = (entry.stored, entry.subscription)
    let zone: Zone.ID? =
      switch change {
      case .query: nil
      case .zone(let zone), .database(let zone): zone
      }
    return SubscriptionNotification(
      container: database.container, environment: database.environment, userRecordName: stored.userRecordName,
      subscriptionID: stored.identifier,
      scope: stored.scope, zone: zone, sequence: sequence, originDevice: originDevice, notificationID: notificationID,
      json: NotificationContent(
        container: database.container, scope: stored.scope, subscriptionID: stored.identifier,
        info: subscription.notificationInfo, change: change
      ).json(notificationID: notificationID))
  }
}
