// Fires subscriptions to a whole shared database: they live in their user's shard, the changes in the owners' shards.

import RecordStore
import Records
package import ServiceBus
package import ServiceKit
import Synchronization
import WebServices

/// Every worker hears of changes in shared zones, and fires for the participants whose shards it holds. Firings are
/// hints: one lost while a shard changes hands loses no data.
package final class SharedDatabaseFiring: Sendable {
  private struct ZoneKey: Hashable {
    let database: DatabaseID
    let zoneName: String
  }

  private let schemas: any SchemaSource
  private let indexes: SubscriptionIndexes
  private let changes: any ChangePublisher
  private let random: any RandomSource
  private let log: Log
  /// Changes of one zone merge while others are processed.
  private let pending = Mutex<[ZoneKey: ZoneChange]>([:])
  private let wakes: AsyncStream<Void>
  private let wake: AsyncStream<Void>.Continuation

  /// The most zones that wait; further ones are dropped.
  private static let limit = 50_000

  package init(
    schemas: any SchemaSource, indexes: SubscriptionIndexes, changes: any ChangePublisher, random: any RandomSource,
    log: Log
  ) {
    self.schemas = schemas
    self.indexes = indexes
    self.changes = changes
    self.random = random
    self.log = log
    (wakes, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
  }

  package func note(_ changes: [ZoneChange]) {
    let shared = changes.filter(\.isShared)
    if shared.isEmpty { return }
    pending.withLock { pending in
      for change in shared where pending.count < Self.limit {
        let key = ZoneKey(database: change.database, zoneName: change.zoneName)
        pending[key] = pending[key]?.merged(with: change) ?? change
      }
    }
    wake.yield()
  }

  /// Runs until the task is cancelled.
  package func run(on host: some OpenShards) async {
    for await _ in wakes {
      let noted = pending.withLock { pending in
        defer { pending = [:] }
        return pending.values.sorted { $0.sequence < $1.sequence }
      }
      for change in noted {
        for user in change.participants {
          guard let store = await host.openStore(of: change.home(of: user)) else { continue }
          do {
            try await fire(change, of: user, in: store)
          } catch StoreError.fenced, StoreError.closed {
            // Dropped because another worker holds the shard now and has heard of the change too.
          } catch {
            log.warning(
              "subscriptions of a shared database missed a change",
              ["user": .text(user), "error": .text(String(describing: error))])
          }
        }
      }
    }
  }

  /// Tells a participant's subscriptions of a change. Without one in the shared database, each of the user's couriers
  /// is told as if it had subscribed to all of it.
  /// - Parameter store: the participant's shard.
  func fire(_ change: ZoneChange, of user: String, in store: any ShardStore) async throws {
    let (home, indexes, log) = (change.home(of: user), indexes, log)
    let isSubscribed = try await store.read { snapshot in
      try snapshot.database(home).map { $0.subscriptionEdition != 0 } ?? false
    }
    if !isSubscribed { return tellCouriers(of: user, change) }
    let schema = try await schemas.schema(of: home.container, home.environment)
    var entries = try await store.read { snapshot -> [SubscriptionIndex.Entry] in
      guard let row = try snapshot.database(home) else { return [] }
      return try indexes.index(of: row, schema: schema, in: snapshot, log: log).subscribersOfSharedDatabase
    }
    if entries.isEmpty { return tellCouriers(of: user, change) }
    let spent = entries.filter(\.subscription.firesOnce)
    if !spent.isEmpty {
      let removed = try await store.remove(spent, of: home)
      entries.removeAll { $0.subscription.firesOnce && !removed.contains($0.stored.key) }
    }
    for entry in entries {
      let fired = FiredSubscription(
        database: home, entry: entry, change: .database(change.zone), sequence: change.sequence,
        originDevice: change.origin(of: user))
      changes.publish(fired.notification(identifiedBy: random.uuid()))
    }
  }
}

extension SharedDatabaseFiring {
  /// A user with a subscription at the owner's database hears through that one.
  private func tellCouriers(of user: String, _ change: ZoneChange) {
    guard change.tellsHomes == true, change.subscribers?.contains(user) != true else { return }
    let (database, notificationID, subscriptionID) = (
      change.database, random.uuid(), ReservedName.mirrorSubscription(.shared)
    )
    var content = NotificationContent(
      container: database.container, scope: .shared, subscriptionID: subscriptionID, info: nil,
      change: .database(change.zone))
    content.syncToken = change.syncToken
    var notification = SubscriptionNotification(
      container: database.container, environment: database.environment, userRecordName: user,
      subscriptionID: subscriptionID, scope: .shared, zone: change.zone,
      sequence: change.sequence, originDevice: change.origin(of: user), notificationID: notificationID,
      json: content.json(notificationID: notificationID))
    notification.isForCouriersOnly = true
    changes.publish(notification)
  }
}

extension ZoneChange {
  fileprivate var zone: Zone.ID { Zone.ID(zoneName: zoneName, ownerName: database.owner) }

  /// The device of a user that made the change.
  fileprivate func origin(of user: String) -> String? { originUser == nil || originUser == user ? originStore : nil }

  /// The users who hear of it besides the owner.
  fileprivate var participants: [String] { database.isPublic ? [] : audience.filter { $0 != database.owner } }

  /// True when a user besides the owner hears of it.
  package var isShared: Bool { !database.isPublic && audience.contains { $0 != database.owner } }

  /// The user's own database, in whose shard the user's subscriptions are.
  fileprivate func home(of user: String) -> DatabaseID {
    DatabaseID(container: database.container, environment: database.environment, owner: user)
  }
}
