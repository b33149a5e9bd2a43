// A change that costs more to compare with all queries than a shard's writer may spend: compared behind the commit, by a reader.

import RecordStore
import Records
import ServiceBus
import Sharing
import WebServices

/// What a body's writes made subscriptions say.
enum Firing: Sendable {
  /// To be told as soon as the commit is durable.
  case fired(FiredSubscription)
  /// Nobody knows yet whom it concerns.
  case late(LateChange)

  var database: DatabaseID {
    switch self {
    case .fired(let fired): fired.database
    case .late(let change): change.database.id
    }
  }
}

/// A changed record, and what is needed to find those whose query subscriptions it fires.
struct LateChange: Sendable {
  let index: SubscriptionIndex
  let database: StoredDatabase
  let watch: SubscriptionWatch
  let event: Subscription.Event
  /// As it is after the change; a deleted one as it was.
  let record: Record
  let sequence: Int64
  let zoneName: String
  let originDevice: String?

  /// What comparing one change costs at most: with all subscriptions that a database can have, some seconds.
  private static let costLimit = 200_000_000

  /// Those that the change fires, and that are there and may be told of it now: ascending by their keys where several queries match.
  /// - Throws: `CostBudget.Exceeded`, and what `snapshot` throws.
  func fired(in snapshot: any ShardSnapshot) throws -> [FiredSubscription] {
    var budget = CostBudget(limit: Self.costLimit, checkWanted: snapshot.checkWanted)
    let sight = SubscriberSight(of: database, watch.schema, in: snapshot)
    var fired: [FiredSubscription] = []
    for entry in try index.queries(firedBy: event, of: record, inZone: zoneName, spending: &budget) {
      try budget.spend(SubscriptionFiring.firingCost)
      guard sight.mayRead(record, entry.stored), try isThere(entry, in: snapshot) else { continue }
      if entry.stored.scope == .shared, sight.view(of: entry.stored, inZone: zoneName)?.surelyIncludes(record) != true { continue }
      fired.append(firing(of: entry))
    }
    return fired
  }

  private func isThere(_ entry: SubscriptionIndex.Entry, in snapshot: any ShardSnapshot) throws -> Bool {
    let stored = entry.stored
    return try snapshot.subscription(stored.identifier, of: stored.userRecordName, scope: stored.scope, in: stored.databaseKey)?.key == stored.key
  }

  /// What a subscription tells of the change.
  func firing(of entry: SubscriptionIndex.Entry) -> FiredSubscription {
    let zone = Zone.ID(zoneName: zoneName, ownerName: database.id.owner)
    return FiredSubscription(
      database: database.id, entry: entry, change: .query(.init(event, of: record, info: entry.subscription.notificationInfo), in: zone), sequence: sequence,
      originDevice: watch.userRecordName == entry.stored.userRecordName ? originDevice : nil)
  }
}

/// What subscribers may be told of: of the public database what they may read, of others' zones what they see as the snapshot is.
final class SubscriberSight {
  private let database: StoredDatabase
  private let schema: EnvironmentSchema
  private let snapshot: any ShardSnapshot
  /// Of participants with subscriptions, asked once.
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

  /// In the public database what a user may not read he is not told of either.
  func mayRead(_ record: Record, _ stored: StoredSubscription) -> Bool {
    !database.id.isPublic || schema.permissions(ofAbsentUser: stored.userRecordName).mayRead(record)
  }

  /// What a participant sees of a zone; nil: nothing, any more.
  func view(of stored: StoredSubscription, inZone zoneName: String) -> VisibleRecords? {
    let place = Participation(userRecordName: stored.userRecordName, zoneName: zoneName)
    if let known = views[place] { return known }
    // Dropped because what can't be read is not told of; the write that met it fails by itself.
    let members = (try? snapshot.members(stored.userRecordName, inZone: zoneName, of: database.key)) ?? []
    let (access, zone) = (ZoneAccess(members), (try? snapshot.zone(named: zoneName, in: database.key)) ?? nil)
    let view = access.mayRead ? zone.map { VisibleRecords(ZoneView(row: $0, access: access), in: snapshot) } : nil
    views[place] = .some(view)
    return view
  }
}
