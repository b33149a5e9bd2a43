// Removes a shard's data of a deleted user: their own databases, and their rows in databases of others.

import ObjectPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Sharing
import ZoneCommit

/// Each zone, share, store and subscription is removed in a commit of its own, and a store with a long history, or a
/// journal, in several. A run skips rows that are gone, so that an interrupted removal can simply start again.
///
/// A zone ends as if its owner had deleted it, so its participants are told. Records that the user made in zones of
/// others and in the public database stay.
struct UserRemoval: Sendable {
  let context: CommitContext
  let user: String

  /// Rows that one read looks at.
  private static let pageCount = 500
  /// Held-back changes that one commit removes.
  private static let heldCount = 100
  /// Entries of a journal that one commit removes.
  private static let conflictCount = 100

  func run(on store: any ShardStore) async throws -> ForgetUser.Reply {
    // Stores first: a store with changes left to export would make its zone again.
    let storeCount = try await removeStores(store)
    let subscriptionCount = try await removeSubscriptions(store)
    let zoneCount = try await endZones(store)
    let shareCount = try await leaveShares(store)
    return ForgetUser.Reply(
      zoneCount: zoneCount, shareCount: shareCount, storeCount: storeCount, subscriptionCount: subscriptionCount)
  }

  /// Removes the user's stores of their own and the public database, and their guests in databases of others.
  private func removeStores(_ store: any ShardStore) async throws -> Int {
    var (count, last) = (0, Int64(0))
    while true {
      let after = last
      let mirrors = try await store.read { try $0.mirrors(afterKey: after, limit: Self.pageCount) }
      guard let end = mirrors.last?.key else { return count }
      for mirror in mirrors where mirror.userRecordName == user {
        while try await !remove(mirror, store) {}
        count += 1
      }
      last = end
    }
  }

  /// Removes a page of a store's held-back changes, then a slice of its history, at last the store.
  /// - Returns: true if nothing of the store is left.
  private func remove(_ mirror: StoredMirror, _ store: any ShardStore) async throws -> Bool {
    try await store.enqueue { [user] transaction in
      guard let current = try transaction.mirror(key: mirror.key), current.userRecordName == user else { return true }
      let held = try transaction.quarantined(of: current.key, afterKey: 0, limit: Self.heldCount)
      for row in held { try transaction.removeQuarantined(row.name, of: current.key) }
      guard held.count < Self.heldCount, try current.hasShortHistory(in: transaction, withUnexported: true) else {
        return false
      }
      try transaction.deleteMirror(current.key)
      return true
    }.value
  }

  /// - Parameter isWanted: selects the databases that `body` gets.
  private func forEachDatabase(
    in store: any ShardStore, where isWanted: @escaping @Sendable (StoredDatabase) -> Bool,
    _ body: (StoredDatabase) async throws -> Void
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

  // MARK: The user's own databases

  private func endZones(_ store: any ShardStore) async throws -> Int {
    var count = 0
    try await forEachDatabase(in: store, where: { [user] in $0.id.owner == user }) { database in
      let stamp = Stamp(timestamp: context.clock.now, userRecordName: user)
      let terms = CommitTerms(
        .removeUser, stamp, try await schema(of: database.id) ?? .none, shard: store.shard, context)
      for zone in try await store.read({ try $0.liveZones(of: database.key) }) {
        let effects = try await store.enqueue { transaction -> ZoneEffects? in
          guard let row = try transaction.zone(key: zone.key), !row.isDeleted else { return nil }
          let commit = try terms.begin(in: transaction.row(ofDatabase: row.databaseKey), transaction)
          try commit.end(row, as: .deleted)
          return try commit.finish()
        }.value
        guard let effects else { continue }
        count += 1
        effects.publish(by: context)
      }
      while try await removeConflicts(of: database, store) > 0 {}
    }
    return count
  }

  /// Removes a slice of a journal.
  private func removeConflicts(of database: StoredDatabase, _ store: any ShardStore) async throws -> Int {
    try await store.enqueue { try $0.deleteConflicts(of: database.key, limit: Self.conflictCount) }.value
  }

  /// - Returns: nil for a container that was deleted.
  private func schema(of database: DatabaseID) async throws -> EnvironmentSchema? {
    do throws(RecordError) {
      return try await context.schemas.schema(of: database.container, database.environment)
    } catch {
      if error.code == .notFound { return nil }
      throw error
    }
  }

  // MARK: Databases of others

  private func leaveShares(_ store: any ShardStore) async throws -> Int {
    var count = 0
    try await forEachDatabase(in: store, where: { [user] in $0.hasShares && $0.id.owner != user }) { database in
      for zone in try await store.read({ try $0.liveZones(of: database.key) }) {
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

  private func leave(_ name: String, _ zone: StoredZone, _ database: StoredDatabase, _ store: any ShardStore)
    async throws -> Bool
  {
    // Nobody reaches data of a deleted container.
    guard let schema = try await schema(of: database.id) else { return false }
    let known = KnownUser(userRecordName: user)
    let stamp = Stamp(timestamp: context.clock.now, userRecordName: user)
    let terms = CommitTerms(.shareAct, stamp, schema, shard: store.shard, context)
    let effects = try await store.enqueue { transaction -> ZoneEffects? in
      guard let row = try transaction.zone(key: zone.key), !row.isDeleted,
        let share = try transaction.share(named: name, in: row.key),
        let decision = share.state?.forgetting(known)
      else { return nil }
      let commit = try terms.begin(in: transaction.row(ofDatabase: row.databaseKey), transaction)
      guard try ShareWriter(writer: commit.serversWriter(to: row)).apply(decision, to: share, stamp: stamp) != nil
      else { return nil }
      return try commit.finish()
    }.value
    guard let effects else { return false }
    effects.publish(by: context)
    return true
  }

  private func removeSubscriptions(_ store: any ShardStore) async throws -> Int {
    var count = 0
    try await forEachDatabase(in: store, where: { $0.subscriptionEdition != 0 }) { database in
      count += try await store.enqueue { transaction in
        var count = 0
        for scope in DatabaseScope.allCases {
          for row in try transaction.subscriptions(
            of: user, scope: scope, in: database.key, limit: Limit.subscriptionsPerUser)
          {
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
