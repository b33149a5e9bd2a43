// A change whose comparison with all queries costs more than the shard's writer may spend: a reader does it later.

import RecordStore
import Records
import ServiceBus
import Sharing
import WebServices

/// A subscription that a body's writes fire, or a change still to be compared.
enum Firing: Sendable {
  /// To be told as soon as the commit is durable.
  case fired(FiredSubscription)
  /// Its subscribers are not known yet.
  case late(LateChange)

  var database: DatabaseID {
    switch self {
    case .fired(let fired): fired.database
    case .late(let change): change.database.id
    }
  }
}

/// A changed record, with the data for finding the query subscriptions that it fires.
struct LateChange: Sendable {
  let index: SubscriptionIndex
  let database: StoredDatabase
  let watch: SubscriptionWatch
  let event: Subscription.Event
  /// The state after the change; of a deleted record the state before.
  let record: Record
  let sequence: Int64
  let zoneName: String
  let originDevice: String?

  /// The cost limit of comparing one change: with all subscriptions that a database can have, some seconds.
  private static let costLimit = 200_000_000

  /// The subscriptions that the change fires, that still exist and may be told of it, ascending by key.
  /// - Throws: `CostBudget.Exceeded`, and errors of `snapshot`.
  func fired(in snapshot: any ShardSnapshot) throws -> [FiredSubscription] {
    var budget = CostBudget(limit: Self.costLimit, checkWanted: snapshot.checkWanted)
    let sight = SubscriberSight(of: database, watch.schema, in: snapshot)
    var fired: [FiredSubscription] = []
    for entry in try index.queries(firedBy: event, of: record, inZone: zoneName, spending: &budget) {
      try budget.spend(SubscriptionFiring.firingCost)
      guard sight.mayRead(record, entry.stored), try isThere(entry, in: snapshot) else { continue }
      if entry.stored.scope == .shared, sight.view(of: entry.stored, inZone: zoneName)?.surelyIncludes(record) != true {
        continue
      }
      fired.append(firing(of: entry))
    }
    return fired
  }

  private func isThere(_ entry: SubscriptionIndex.Entry, in snapshot: any ShardSnapshot) throws -> Bool {
    let stored = entry.stored
    return try snapshot.subscription(
      stored.identifier, of: stored.userRecordName, scope: stored.scope, in: stored.databaseKey)?.key == stored.key
  }

  /// The notification of a subscription about the change.
  func firing(of entry: SubscriptionIndex.Entry) -> FiredSubscription {
    let zone = Zone.ID(zoneName: zoneName, ownerName: database.id.owner)
    return FiredSubscription(
      database: database.id, entry: entry,
      change: .query(.init(event, of: record, info: entry.subscription.notificationInfo), in: zone), sequence: sequence,
      originDevice: watch.userRecordName == entry.stored.userRecordName ? originDevice : nil)
  }
}

/// The records that subscribers may hear of: readable ones of the public database, visible ones of shared zones.
final class SubscriberSight {
  private let database: StoredDatabase
  private let schema: EnvironmentSchema
  private let snapshot: any ShardSnapshot
  /// Participants' views, each made once.
  private var views: [Participation: VisibleRecords?] = [:]

  private struct Participation: Hashable {
    let userRecordName: String
    let zoneName: String
  }

  init(of database: StoredDatabase, _ schema: EnvironmentSchema, in snapshot: any ShardSnapshot) {
    self.database = database
    self.schema = schema
    self.snapshot = snapshot
  }

  /// In the public database, a user hears only of records that the user may read.
  func mayRead(_ record: Record, _ stored: StoredSubscription) -> Bool {
    !database.id.isPublic || schema.permissions(ofAbsentUser: stored.userRecordName).mayRead(record)
  }

  /// A participant's view of a zone; nil when the access has ended.
  func view(of stored: StoredSubscription, inZone zoneName: String) -> VisibleRecords? {
    let place = Participation(userRecordName: stored.userRecordName, zoneName: zoneName)
    if let known = views[place] { return known }
    // Dropped because nothing unreadable is told; the write that met it fails by itself.
    let members = (try? snapshot.members(stored.userRecordName, inZone: zoneName, of: database.key)) ?? []
    let (access, zone) = (ZoneAccess(members), (try? snapshot.zone(named: zoneName, in: database.key)) ?? nil)
    let view = access.mayRead ? zone.map { VisibleRecords(ZoneView(row: $0, access: access), in: snapshot) } : nil
    views[place] = .some(view)
    return view
  }
}
