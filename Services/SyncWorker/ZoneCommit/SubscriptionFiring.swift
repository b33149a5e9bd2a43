// Decides in the writing transaction which subscriptions fire, so that one that fires once does so once among all
// writers.

import RecordStore
import Records
import ServiceBus
import ServiceKit
import Sharing
import WebServices

/// The inputs of firing besides the transaction; a database without subscriptions uses none of them.
struct SubscriptionWatch: Sendable {
  let indexes: SubscriptionIndexes
  let schema: EnvironmentSchema
  /// The user who writes. Users name their devices freely: another user's device of the same name is told.
  let userRecordName: String?
  let firings: LateFirings
  let log: Log

  /// - Returns: nil when the database never had a subscription.
  func firing(in database: Int64, _ transaction: any ShardTransaction) throws -> SubscriptionFiring? {
    guard let row = try transaction.database(key: database), row.subscriptionEdition != 0 else { return nil }
    return SubscriptionFiring(
      try indexes.index(of: row, schema: schema, in: transaction, log: log), of: row, in: transaction, self)
  }
}

/// The firings of one body's writes. `ZoneWriter` reports records; the makers and deleters of zones report zones.
final class SubscriptionFiring {
  private let index: SubscriptionIndex
  private let database: StoredDatabase
  private let transaction: any ShardTransaction
  private let watch: SubscriptionWatch
  private var fired: [Firing] = []
  /// The cost limit of this body's comparisons, as other writers of the shard wait. Costlier ones follow after the
  /// commit.
  private var budget = CostBudget(limit: SubscriptionFiring.costLimit)
  /// Firings for participants; their access is decided after the last write.
  private var shared: [(zoneName: String, record: Record, firing: FiredSubscription)] = []
  /// The zones that changed, in the order of their first changes.
  private var zones: [ChangedZone] = []
  /// Keys of subscriptions that must not fire again.
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

  /// The number of firings left out.
  private(set) var droppedCount = 0

  /// The most notifications of one commit's body.
  static let limit = 20_000
  /// Steps that one body's comparisons take at most (`CostBudget`): some tenths of a millisecond.
  static let costLimit = 20_000
  /// The further cost of telling one subscription.
  static let firingCost = 20

  fileprivate init(
    _ index: SubscriptionIndex, of database: StoredDatabase, in transaction: any ShardTransaction,
    _ watch: SubscriptionWatch
  ) {
    self.index = index
    self.database = database
    self.transaction = transaction
    self.watch = watch
    sight = SubscriberSight(of: database, watch.schema, in: transaction)
  }

  /// Notes that a record was written or deleted.
  /// - Parameters:
  ///   - before: nil for a new record.
  ///   - originDevice: the device that did it and is not told; nil for the server itself.
  func record(
    changedFrom before: Record?, to after: Record?, sequence: Int64, inZone zoneName: String, by originDevice: String?
  ) {
    zone(changed: zoneName, sequence: sequence, by: originDevice)
    guard let (event, record) = index.event(changing: before, to: after) else { return }
    let change = LateChange(
      index: index, database: database, watch: watch, event: event, record: record, sequence: sequence,
      zoneName: zoneName, originDevice: originDevice)
    do {
      let entries = try index.queries(firedBy: event, of: record, inZone: zoneName, spending: &budget)
      try budget.spend(Self.firingCost * entries.count)
      for entry in entries where sight.mayRead(record, entry.stored) { fire(entry, change) }
    } catch {
      // Dropped because a reader compares it after the commit.
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

  /// A participant's view of a zone after this body's writes; nil: the access has ended, and the subscription with it.
  private func view(of entry: SubscriptionIndex.Entry, inZone zoneName: String) -> VisibleRecords? {
    if let view = sight.view(of: entry.stored, inZone: zoneName) { return view }
    if entry.subscription.zone?.zoneName == zoneName { ended.append(entry.stored.key) }
    return nil
  }

  /// Notes a change in a zone, or its creation.
  func zone(changed zoneName: String, sequence: Int64, by originDevice: String?) {
    let position = zones.last?.zoneName == zoneName ? zones.indices.last : zones.firstIndex { $0.zoneName == zoneName }
    guard let position else {
      return zones.append(ChangedZone(zoneName: zoneName, sequence: sequence, originDevice: originDevice))
    }
    zones[position].sequence = sequence
    if zones[position].originDevice != originDevice { zones[position].originDevice = nil }
  }

  /// Notes the deletion of a zone. Its records are not told one by one, which would cost as much as the zone is large.
  /// The zone's subscriptions end: a later zone of that name is another zone.
  func zone(deleted zoneName: String, sequence: Int64, by originDevice: String?) {
    zone(changed: zoneName, sequence: sequence, by: originDevice)
    ended += index.bound(toZone: zoneName).map(\.stored.key)
  }

  /// To be called after the body's last write.
  /// - Returns: the firings to send after the commit.
  func finish() throws -> [Firing] {
    for (zoneName, record, firing) in shared
    where view(of: firing.entry, inZone: zoneName)?.surelyIncludes(record) == true { fire(firing.entry, firing) }
    shared = []
    for changed in zones {
      let zone = Zone.ID(zoneName: changed.zoneName, ownerName: database.id.owner)
      for entry in index.subscribers(ofZone: changed.zoneName)
      where entry.stored.scope != .shared || view(of: entry, inZone: changed.zoneName) != nil {
        fire(entry, firing(of: entry, .zone(zone), changed))
      }
      for entry in index.subscribersOfDatabase { fire(entry, firing(of: entry, .database(zone), changed)) }
    }
    for key in spent.union(ended).sorted() { try transaction.deleteSubscription(key, in: database.key) }
    if droppedCount > 0 {
      watch.firings.noteDropped(droppedCount)
      watch.log.warning(
        "a save fired too many subscriptions",
        [
          "container": .text(database.id.container.rawValue), "dropped": .integer(Int64(droppedCount)),
          "limit": .integer(Int64(Self.limit)),
        ])
    }
    return fired
  }

  private func firing(of entry: SubscriptionIndex.Entry, _ change: NotificationContent.Change, _ zone: ChangedZone)
    -> FiredSubscription
  {
    FiredSubscription(
      database: database.id, entry: entry, change: change, sequence: zone.sequence,
      originDevice: watch.userRecordName == entry.stored.userRecordName ? zone.originDevice : nil)
  }

  private func fire(_ entry: SubscriptionIndex.Entry, _ firing: FiredSubscription) {
    if entry.subscription.firesOnce, spent.contains(entry.stored.key) { return }
    if add(.fired(firing)), entry.subscription.firesOnce { spent.insert(entry.stored.key) }
  }

  /// - Returns: false when the limit is reached.
  @discardableResult private func add(_ firing: Firing) -> Bool {
    guard fired.count < Self.limit else {
      droppedCount += 1
      return false
    }
    fired.append(firing)
    return true
  }
}

extension DatabaseRequest {
  /// The asking device's name for itself, the query's `clientId`; nil without one.
  package var clientID: String? {
    guard let text = query["clientId"], (1...Limit.nameByteCount).contains(text.utf8.count) else { return nil }
    return text
  }
}
