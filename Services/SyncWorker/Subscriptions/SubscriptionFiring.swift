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
  private var fired: [FiredSubscription] = []
  /// Of participants: what they may see is known when everything is written.
  private var shared: [(zoneName: String, record: Record, firing: FiredSubscription)] = []
  /// The zones that changed, in the order of their first changes.
  private var zones: [ChangedZone] = []
  /// Those that must not fire again, by key.
  private var spent: Set<Int64> = []
  private var ended: [Int64] = []
  /// Of participants with subscriptions, asked once.
  private var views: [Participation: VisibleRecords?] = [:]

  private struct Participation: Hashable {
    let userRecordName: String
    let zoneName: String
  }

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

  fileprivate init(_ index: SubscriptionIndex, of database: StoredDatabase, in transaction: any ShardTransaction, _ watch: SubscriptionWatch) {
    self.index = index
    self.database = database
    self.transaction = transaction
    self.watch = watch
  }

  /// A record was written, or deleted.
  /// - Parameters:
  ///   - before: nil for a new record.
  ///   - originDevice: who did it, and is not told; nil for the server itself.
  func record(changedFrom before: Record?, to after: Record?, sequence: Int64, inZone zoneName: String, by originDevice: String?) {
    zone(changed: zoneName, sequence: sequence, by: originDevice)
    guard let (event, entries) = index.queries(firedBy: before, after, inZone: zoneName), let record = after ?? before else { return }
    let zone = Zone.ID(zoneName: zoneName, ownerName: database.id.owner)
    for entry in entries where mayRead(record, entry) {
      let change = NotificationContent.Change.query(.init(event, of: record, info: entry.subscription.notificationInfo), in: zone)
      guard entry.stored.scope == .shared else {
        fire(entry, change, sequence, originDevice)
        continue
      }
      guard shared.count < Self.limit else {
        droppedCount += 1
        continue
      }
      let firing = FiredSubscription(database: database.id, entry: entry, change: change, sequence: sequence, originDevice: originDevice)
      shared.append((zoneName, record, firing))
    }
  }

  /// In the public database what a user may not read he is not told of either.
  private func mayRead(_ record: Record, _ entry: SubscriptionIndex.Entry) -> Bool {
    !database.id.isPublic || watch.schema.permissions(ofAbsentUser: entry.stored.userRecordName).mayRead(record)
  }

  /// What a participant sees of a zone as it is with all of this body's writes; nil: his access has ended, and with it his subscription to the zone.
  private func view(of entry: SubscriptionIndex.Entry, inZone zoneName: String) -> VisibleRecords? {
    let place = Participation(userRecordName: entry.stored.userRecordName, zoneName: zoneName)
    if views[place] == nil {
      // Dropped because what can't be read is not told of; the write that met it fails by itself.
      let members = (try? transaction.members(entry.stored.userRecordName, inZone: zoneName, of: database.key)) ?? []
      let (access, zone) = (ZoneAccess(members), (try? transaction.zone(named: zoneName, in: database.key)) ?? nil)
      views[place] = .some(access.mayRead ? zone.map { VisibleRecords(ZoneView(row: $0, access: access), in: transaction) } : nil)
    }
    if let view = views[place] ?? nil { return view }
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
  func finish() throws -> [FiredSubscription] {
    for (zoneName, record, firing) in shared where view(of: firing.entry, inZone: zoneName)?.surelyIncludes(record) == true {
      fire(firing.entry, firing.change, firing.sequence, firing.originDevice)
    }
    shared = []
    for changed in zones {
      let zone = Zone.ID(zoneName: changed.zoneName, ownerName: database.id.owner)
      for entry in index.subscribers(ofZone: changed.zoneName) where entry.stored.scope != .shared || view(of: entry, inZone: changed.zoneName) != nil {
        fire(entry, .zone(zone), changed.sequence, changed.originDevice)
      }
      for entry in index.subscribersOfDatabase { fire(entry, .database(zone), changed.sequence, changed.originDevice) }
    }
    for key in spent.union(ended).sorted() { try transaction.deleteSubscription(key, in: database.key) }
    if droppedCount > 0 {
      watch.log.warning(
        "a save fired more subscriptions than can be told of",
        ["container": .text(database.id.container.rawValue), "dropped": .integer(Int64(droppedCount)), "limit": .integer(Int64(Self.limit))])
    }
    return fired
  }

  private func fire(_ entry: SubscriptionIndex.Entry, _ change: NotificationContent.Change, _ sequence: Int64, _ originDevice: String?) {
    guard fired.count < Self.limit else {
      droppedCount += 1
      return
    }
    if entry.subscription.firesOnce, !spent.insert(entry.stored.key).inserted { return }
    let origin = watch.userRecordName == entry.stored.userRecordName ? originDevice : nil
    fired.append(FiredSubscription(database: database.id, entry: entry, change: change, sequence: sequence, originDevice: origin))
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
    SubscriptionWatch(indexes: subscriptions, schema: schema, userRecordName: userRecordName, log: log)
  }

  /// Sends what a commit fired.
  func publish(_ fired: [FiredSubscription]) {
    for firing in fired {
      let notification = firing.notification(identifiedBy: random.uuid())
      log.debug(
        "subscription fired",
        [
          "nid": .text(notification.notificationID), "subscription": .text(notification.subscriptionID), "user": .text(notification.userRecordName),
          "sequence": .integer(notification.sequence),
        ])
      changes.publish(notification)
    }
  }
}

extension DatabaseRequest {
  /// The device that asks, as it calls itself: the query's `clientId`; nil when it does not.
  var clientID: String? {
    guard let text = query["clientId"], (1...Limit.nameByteCount).contains(text.utf8.count) else { return nil }
    return text
  }
}
