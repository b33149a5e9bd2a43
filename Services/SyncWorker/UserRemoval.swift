// What a shard has of a user who was deleted, and how it goes: his own databases, and what is his in others'.

import RecordStore
import Records
import ServiceBus
import ServiceKit
import Sharing

/// Each zone, share, store and subscription goes in a commit of its own, and what is gone is passed over: whoever is interrupted begins anew.
///
/// Zones end as if their owner had deleted them, so those who shared them are told. What he made in others' zones and in the public database stays: it
/// is theirs.
struct UserRemoval: Sendable {
  let context: PlaneContext
  let user: String

  /// Rows that one read looks at.
  private static let pageCount = 500

  func run(on store: any ShardStore) async throws -> ForgetUser.Reply {
    // Stores first: one that still has something to export would make its zone again.
    let storeCount = try await removeStores(store)
    let zoneCount = try await endZones(store)
    let shareCount = try await leaveShares(store)
    let subscriptionCount = try await removeSubscriptions(store)
    return ForgetUser.Reply(zoneCount: zoneCount, shareCount: shareCount, storeCount: storeCount, subscriptionCount: subscriptionCount)
  }

  /// His own databases' and the public one's, and the guests by which he works in others'.
  private func removeStores(_ store: any ShardStore) async throws -> Int {
    var (count, last) = (0, Int64(0))
    while true {
      let after = last
      let mirrors = try await store.read { try $0.mirrors(afterKey: after, limit: Self.pageCount) }
      guard let end = mirrors.last?.key else { return count }
      for mirror in mirrors where mirror.userRecordName == user {
        try await store.enqueue { transaction in if try transaction.mirror(key: mirror.key) != nil { try transaction.deleteMirror(mirror.key) } }.value
        count += 1
      }
      last = end
    }
  }

  /// - Parameter isWanted: databases that are of interest.
  private func forEachDatabase(
    in store: any ShardStore, where isWanted: @escaping @Sendable (StoredDatabase) -> Bool, _ body: (StoredDatabase) async throws -> Void
  ) async throws {
    var last: Int64 = 0
    while true {
      let after = last
      let databases = try await store.read { try $0.databases(afterKey: after, limit: Self.pageCount) }
      guard let end = databases.last?.key else { return }
      for database in databases where isWanted(database) { try await body(database) }
      last = end
    }
  }

  private static func liveZones(of database: StoredDatabase, in store: any ShardStore) async throws -> [StoredZone] {
    try await store.read { snapshot in
      var (found, last) = ([StoredZone](), Int64(0))
      while case let zones = try snapshot.zones(in: database.key, after: last, limit: pageCount), let end = zones.last?.sequence {
        found += zones.filter { !$0.isDeleted }
        last = end
      }
      return found
    }
  }

  // MARK: His own

  private func endZones(_ store: any ShardStore) async throws -> Int {
    var count = 0
    try await forEachDatabase(in: store, where: { [user] in $0.id.owner == user }) { database in
      for zone in try await Self.liveZones(of: database, in: store) {
        let ended = try await store.enqueue { transaction -> (zone: StoredZone, audience: [String])? in
          guard let row = try transaction.zone(key: zone.key), !row.isDeleted else { return nil }
          let audience = try transaction.audience(ofZone: row.zoneName, of: database.key)
          try transaction.deleteZone(row.key)
          return try transaction.zone(key: row.key).map { ($0, audience) }
        }.value
        guard let ended else { continue }
        count += 1
        context.noteShares(ended.audience, ofZone: zone.zoneName, in: database.id, shard: store.shard)
        context.changes.publish(
          ZoneChange(ended.zone, of: database.id, originStore: nil, originUser: nil, hasSubscriptions: database.subscriptionEdition != 0))
      }
      try await store.enqueue { try $0.deleteConflicts(of: database.key, inZone: nil) }.value
    }
    return count
  }

  // MARK: Others'

  private func leaveShares(_ store: any ShardStore) async throws -> Int {
    var count = 0
    try await forEachDatabase(in: store, where: { [user] in $0.hasShares && $0.id.owner != user }) { database in
      for zone in try await Self.liveZones(of: database, in: store) {
        var last: String?
        repeat {
          let after = last
          let shares = try await store.read { try $0.shares(in: zone.key, afterName: after, limit: Self.pageCount) }
          for share in shares where share.state?.forgetting(KnownUser(userRecordName: user)) != nil {
            if try await leave(share.name, zone, database, store) { count += 1 }
          }
          last = shares.count == Self.pageCount ? shares.last?.name : nil
        } while last != nil
      }
    }
    return count
  }

  private func leave(_ name: String, _ zone: StoredZone, _ database: StoredDatabase, _ store: any ShardStore) async throws -> Bool {
    let schema: EnvironmentSchema
    do throws(RecordError) {
      schema = try await context.schemas.schema(of: database.id.container, database.id.environment)
    } catch {
      // Of a container that was deleted nobody reaches anything.
      if error.code == .notFound { return false }
      throw error
    }
    let known = KnownUser(userRecordName: user)
    let stamp = Stamp(timestamp: context.clock.now, userRecordName: user)
    let watch = context.watch(schema, by: user)
    let change = try await store.enqueue { transaction -> (change: ZoneChange, fired: [Firing])? in
      guard let row = try transaction.zone(key: zone.key), !row.isDeleted, let share = try transaction.share(named: name, in: row.key),
        let decision = share.state?.forgetting(known)
      else { return nil }
      let firing = try watch.firing(in: database.key, transaction)
      let writer = ZoneWriter(transaction: transaction, zone: row, origin: 0, originDevice: nil, references: { schema.references(of: $0) }, firing: firing)
      guard try ShareWriter(transaction: transaction, writer: writer).apply(decision, to: share, stamp: stamp) != nil else { return nil }
      let fired = try firing?.finish()
      let changed = try transaction.zone(key: row.key) ?? row
      return (ZoneChange(changed, of: database.id, originStore: nil, originUser: nil, hasSubscriptions: fired != nil), fired ?? [])
    }.value
    guard let change else { return false }
    context.noteShares([user], ofZone: zone.zoneName, in: database.id, shard: store.shard)
    context.changes.publish(change.change)
    context.publish(change.fired)
    return true
  }

  private func removeSubscriptions(_ store: any ShardStore) async throws -> Int {
    var count = 0
    try await forEachDatabase(in: store, where: { $0.subscriptionEdition != 0 }) { database in
      count += try await store.enqueue { transaction in
        var count = 0
        for scope in DatabaseScope.allCases {
          for row in try transaction.subscriptions(of: user, scope: scope, in: database.key, limit: Limit.subscriptionsPerUser) {
            try transaction.deleteSubscription(row.key, in: database.key)
            count += 1
          }
        }
        return count
      }.value
    }
    return count
  }
}
