// Subscriptions that fire: decided in the transaction that writes, so that one that fires once does so once, whoever else saves.

import RecordStore
import Records
import ServiceBus
import ServiceKit
import Sharing
import WebServices

/// What firing needs besides the transaction; nothing of it is asked where nobody has subscribed.
struct SubscriptionWatch: Sendable {
  let indexes: SubscriptionIndexes
  let schema: EnvironmentSchema
  /// The user who writes. Names of devices are their users' choice: another user's device of the same name is told.
  let userRecordName: String?
  let firings: LateFirings
  let log: Log

  /// - Returns: nil when nobody has ever subscribed to anything of the database.
  func firing(in database: Int64, _ transaction: any ShardTransaction) throws -> SubscriptionFiring? {
    guard let row = try transaction.database(key: database), row.subscriptionEdition != 0 else { return nil }
    return SubscriptionFiring(try indexes.index(of: row, schema: schema, in: transaction, log: log), of: row, in: transaction, self)
  }
}

/// A notification that is to be sent once the commit is durable.
struct FiredSubscription: Sendable {
  let database: DatabaseID
  let entry: SubscriptionIndex.Entry
  let change: NotificationContent.Change
  let sequence: Int64
  let originDevice: String?
}

/// What one body's writes fire. Told of each write by `ZoneWriter`, and of zones by who makes or deletes them.
final class SubscriptionFiring {
  private let index: SubscriptionIndex
  private let database: StoredDatabase
  private let transaction: any ShardTransaction
  private let watch: SubscriptionWatch
  private var fired: [Firing] = []
  /// What comparing may cost this body. Every other writer of the shard waits for it: what is over it is compared behind the commit.
  private var budget = CostBudget(limit: SubscriptionFiring.costLimit)
  /// Of participants: what they may see is known when everything is written.
  private var shared: [(zoneName: String, record: Record, firing: FiredSubscription)] = []
  /// The zones that changed, in the order of their first changes.
  private var zones: [ChangedZone] = []
  /// Those that must not fire again, by key.
  private var spent: Set<Int64> = []
  private var ended: [Int64] = []
  private let sight: SubscriberSight

  private struct ChangedZone {
    let zoneName: String
    /// Of the last change.
    var sequence: Int64
    /// The device that made all changes; nil when there were several or none.
    var originDevice: String?
  }

  /// How many were left out.
  private(set) var droppedCount = 0

  /// Notifications of one commit's body at most.
  static let limit = 20_000
  /// Steps that one body's comparisons take at most (`CostBudget`): some tenths of a millisecond.
  static let costLimit = 20_000
  /// What telling one subscription costs beside.
  static let firingCost = 20

  fileprivate init(_ index: SubscriptionIndex, of database: StoredDatabase, in transaction: any ShardTransaction, _ watch: SubscriptionWatch) {
    self.index = index
    self.database = database
    self.transaction = transaction
    self.watch = watch
    sight = SubscriberSight(of: database, watch.schema, in: transaction)
  }

  /// A record was written, or deleted.
  /// - Parameters:
  ///   - before: nil for a new record.
  ///   - originDevice: who did it, and is not told; nil for the server itself.
  func record(changedFrom before: Record?, to after: Record?, sequence: Int64, inZone zoneName: String, by originDevice: String?) {
    zone(changed: zoneName, sequence: sequence, by: originDevice)
    guard let (event, record) = index.event(changing: before, to: after) else { return }
    let change = LateChange(
      index: index, database: database, watch: watch, event: event, record: record, sequence: sequence, zoneName: zoneName, originDevice: originDevice)
    do {
      let entries = try index.queries(firedBy: event, of: record, inZone: zoneName, spending: &budget)
      try budget.spend(Self.firingCost * entries.count)
      for entry in entries where sight.mayRead(record, entry.stored) { fire(entry, change) }
    } catch {
      // Dropped because a reader compares it behind the commit.
      add(.late(change))
    }
  }

  private func fire(_ entry: SubscriptionIndex.Entry, _ change: LateChange) {
    guard entry.stored.scope == .shared else { return fire(entry, change.firing(of: entry)) }
    guard shared.count < Self.limit else {
      droppedCount += 1
      return
    }
    shared.append((change.zoneName, change.record, change.firing(of: entry)))
  }

  /// What a participant sees of a zone as it is with all of this body's writes; nil: his access has ended, and with it his subscription to the zone.
  private func view(of entry: SubscriptionIndex.Entry, inZone zoneName: String) -> VisibleRecords? {
    if let view = sight.view(of: entry.stored, inZone: zoneName) { return view }
    if entry.subscription.zone?.zoneName == zoneName { ended.append(entry.stored.key) }
    return nil
  }

  /// Something in a zone changed, or the zone was made.
  func zone(changed zoneName: String, sequence: Int64, by originDevice: String?) {
    let position = zones.last?.zoneName == zoneName ? zones.indices.last : zones.firstIndex { $0.zoneName == zoneName }
    guard let position else { return zones.append(ChangedZone(zoneName: zoneName, sequence: sequence, originDevice: originDevice)) }
    zones[position].sequence = sequence
    if zones[position].originDevice != originDevice { zones[position].originDevice = nil }
  }

  /// A zone was deleted with all its records, none of which is told of by itself: that would cost as much as the zone is large. What was
  /// bound to the zone ends with it: one of the same name that is made later is another zone.
  func zone(deleted zoneName: String, sequence: Int64, by originDevice: String?) {
    zone(changed: zoneName, sequence: sequence, by: originDevice)
    ended += index.bound(toZone: zoneName).map(\.stored.key)
  }

  /// To be called after the body's last write.
  /// - Returns: what is to be sent after the commit.
  func finish() throws -> [Firing] {
    for (zoneName, record, firing) in shared where view(of: firing.entry, inZone: zoneName)?.surelyIncludes(record) == true { fire(firing.entry, firing) }
    shared = []
    for changed in zones {
      let zone = Zone.ID(zoneName: changed.zoneName, ownerName: database.id.owner)
      for entry in index.subscribers(ofZone: changed.zoneName) where entry.stored.scope != .shared || view(of: entry, inZone: changed.zoneName) != nil {
        fire(entry, firing(of: entry, .zone(zone), changed))
      }
      for entry in index.subscribersOfDatabase { fire(entry, firing(of: entry, .database(zone), changed)) }
    }
    for key in spent.union(ended).sorted() { try transaction.deleteSubscription(key, in: database.key) }
    if droppedCount > 0 {
      watch.firings.noteDropped(droppedCount)
      watch.log.warning(
        "a save fired more subscriptions than can be told of",
        ["container": .text(database.id.container.rawValue), "dropped": .integer(Int64(droppedCount)), "limit": .integer(Int64(Self.limit))])
    }
    return fired
  }

  private func firing(of entry: SubscriptionIndex.Entry, _ change: NotificationContent.Change, _ zone: ChangedZone) -> FiredSubscription {
    FiredSubscription(
      database: database.id, entry: entry, change: change, sequence: zone.sequence,
      originDevice: watch.userRecordName == entry.stored.userRecordName ? zone.originDevice : nil)
  }

  private func fire(_ entry: SubscriptionIndex.Entry, _ firing: FiredSubscription) {
    if entry.subscription.firesOnce, spent.contains(entry.stored.key) { return }
    if add(.fired(firing)), entry.subscription.firesOnce { spent.insert(entry.stored.key) }
  }

  /// - Returns: false for one too many.
  @discardableResult private func add(_ firing: Firing) -> Bool {
    guard fired.count < Self.limit else {
      droppedCount += 1
      return false
    }
    fired.append(firing)
    return true
  }
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
      container: database.container, environment: database.environment, userRecordName: stored.userRecordName, subscriptionID: stored.identifier,
      scope: stored.scope, zone: zone, sequence: sequence, originDevice: originDevice, notificationID: notificationID,
      json: NotificationContent(
        container: database.container, scope: stored.scope, subscriptionID: stored.identifier, info: subscription.notificationInfo, change: change
      ).json(notificationID: notificationID))
  }
}

extension PlaneContext {
  /// What writes are watched with.
  func watch(_ schema: EnvironmentSchema, by userRecordName: String?) -> SubscriptionWatch {
    SubscriptionWatch(indexes: subscriptions, schema: schema, userRecordName: userRecordName, firings: lateFirings, log: log)
  }

  /// Sends what a commit fired, as far as that is known.
  func publish(_ fired: [Firing]) { lateFirings.publish(fired) }
}

extension DatabaseRequest {
  /// The device that asks, as it calls itself: the query's `clientId`; nil when it does not.
  var clientID: String? {
    guard let text = query["clientId"], (1...Limit.nameByteCount).contains(text.utf8.count) else { return nil }
    return text
  }
}
