// Keeps in memory the users who hear of changes in shared zones: a publisher works after the commit, without the shard.

package import RecordStore
import Records
package import ServiceBus
package import ServiceKit
import Sharing
import Synchronization

/// The users with access to other users' zones, by zone; hints, like all pings. Databases without shares are left out.
///
/// Each change of a shared zone has its audience read again afterwards: a user who left hears of one more change at
/// most.
package final class ShareAudiences: Sendable {
  private struct Audiences {
    let shard: Int
    /// By zone.
    var users: [String: [String]] = [:]
    /// Users whose access to a zone has ended, until the zone is read again, by zone. Changes are merged, so that each
    /// until then leaves them out of the subscribers.
    var ended: [String: Set<String>] = [:]
  }

  private struct State {
    var databases: [DatabaseID: Audiences] = [:]
    /// Zones to be read again, by shard.
    var stale: [Int: [DatabaseID: Set<String>]] = [:]
    /// Users who were added while zones are read again, by shard: the read may lack them.
    var added: [Int: [DatabaseID: [String: Set<String>]]] = [:]
    var wakes: [Int: AsyncStream<Void>.Continuation] = [:]
  }

  private let log: Log
  /// Returns after that time, or early when its task is cancelled.
  private let pause: @Sendable (Duration) async -> Void
  private let state = Mutex(State())

  private static let page = 1000
  private static let firstPause: Duration = .milliseconds(100)
  private static let longestPause: Duration = .seconds(10)

  package init(_ log: Log, pause: @escaping @Sendable (Duration) async -> Void = { _ in await Task.yield() }) {
    self.log = log
    self.pause = pause
  }

  /// Adds users whose access a commit gave, changed or ended, beside those who have or just had it.
  /// - Parameter ended: those of them whose access it ended.
  func add(
    _ users: [String], toZone zoneName: String, of database: DatabaseID, shard: Int, ended: [String] = []
  ) {
    if users.isEmpty { return }
    state.withLock { state in
      var audiences = state.databases[database] ?? Audiences(shard: shard)
      audiences.users[zoneName] = Set(audiences.users[zoneName] ?? []).union(users).sorted()
      let left = (audiences.ended[zoneName] ?? []).subtracting(users).union(ended)
      audiences.ended[zoneName] = left.isEmpty ? nil : left
      state.databases[database] = audiences
      state.added[shard]?[database, default: [:]][zoneName, default: []].formUnion(users)
    }
  }

  /// Returns the users to tell of a change besides the owner, and those whose access has just ended. Marks the zone to
  /// be read again.
  fileprivate func take(_ change: ZoneChange) -> (users: [String], ended: Set<String>) {
    state.withLock { state in
      guard let audiences = state.databases[change.database], let users = audiences.users[change.zoneName],
        !users.isEmpty
      else { return ([], []) }
      state.stale[audiences.shard, default: [:]][change.database, default: []].insert(change.zoneName)
      state.wakes[audiences.shard]?.yield()
      return (users, audiences.ended[change.zoneName] ?? [])
    }
  }
}

extension ShareAudiences: ShardWork {
  package func run(on store: any ShardStore) async {
    let (wakes, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    let shard = store.shard
    state.withLock { $0.wakes[shard] = wake }
    await persist(on: store) { try await load(store) }
    for await _ in wakes {
      await persist(on: store) { try await refresh(store) }
      if Task.isCancelled { break }
    }
    state.withLock { state in
      state.wakes[shard] = nil
      state.stale[shard] = nil
      state.databases = state.databases.filter { $0.value.shard != shard }
    }
  }

  /// Reads until it succeeds. Giving up would silence all pings of the shard's shared zones; until it succeeds the
  /// earlier audiences hear of changes.
  private func persist(on store: any ShardStore, _ read: () async throws -> Void) async {
    var duration = Self.firstPause
    while !Task.isCancelled {
      do {
        return try await read()
      } catch is CancellationError {
        return
      } catch StoreError.fenced, StoreError.closed {
        return
      } catch {
        report("the audience of a shared zone could not be read", error, on: store, to: log)
        await pause(duration)
        duration = min(duration * 2, Self.longestPause)
      }
    }
  }

  private func load(_ store: any ShardStore) async throws {
    var place: StoredMemberPlace?
    while !Task.isCancelled {
      let after = place
      let rows = try await store.read { snapshot in
        try snapshot.members(after: after, limit: Self.page).map {
          ($0.databaseKey, $0.member, try snapshot.database(key: $0.databaseKey)?.id)
        }
      }
      for case (_, let member, let database?) in rows where member.isActive {
        add([member.userRecordName], toZone: member.zoneName, of: database, shard: store.shard)
      }
      guard rows.count == Self.page, let last = rows.last else { return }
      place = StoredMemberPlace(last.1, in: last.0)
    }
  }

  private func refresh(_ store: any ShardStore) async throws {
    let stale = state.withLock { state in
      state.added[store.shard] = [:]
      return state.stale.removeValue(forKey: store.shard) ?? [:]
    }
    let found: [(DatabaseID, [(String, [String])])]
    do {
      found = try await store.read { snapshot in
        try stale.map { database, zones in
          let row = try snapshot.database(database)
          return (
            database,
            try zones.map { zone in (zone, try row.map { try snapshot.audience(ofZone: zone, of: $0.key) } ?? []) }
          )
        }
      }
    } catch {
      // To be read with the next attempt, beside the zones that have changed by then.
      state.withLock { state in
        state.added[store.shard] = nil
        for (database, zones) in stale {
          state.stale[store.shard, default: [:]][database, default: []].formUnion(zones)
        }
      }
      throw error
    }
    state.withLock { state in
      let added = state.added.removeValue(forKey: store.shard) ?? [:]
      for (database, zones) in found {
        for (zone, members) in zones {
          let users = added[database]?[zone].map { $0.union(members).sorted() } ?? members
          state.databases[database, default: Audiences(shard: store.shard)].users[zone] = users.isEmpty ? nil : users
          // Those who left while it was read are added, and stay until the next time.
          let left = state.databases[database]?.ended[zone].map { $0.intersection(added[database]?[zone] ?? []) } ?? []
          state.databases[database]?.ended[zone] = left.isEmpty ? nil : left
        }
        if state.databases[database]?.users.isEmpty == true { state.databases[database] = nil }
      }
    }
  }
}

/// Publishes changes of shared zones to every user who sees them.
package struct AudiencePublisher: ChangePublisher {
  package let audiences: ShareAudiences
  package let changes: any ChangePublisher
  /// The subscriptions of owners' databases, which decide whom a change reaches.
  package var indexes = SubscriptionIndexes()
  /// Fires subscriptions of participants whose shards this worker holds.
  package var firing: SharedDatabaseFiring?

  package init(
    audiences: ShareAudiences, changes: any ChangePublisher, indexes: SubscriptionIndexes = SubscriptionIndexes(),
    firing: SharedDatabaseFiring? = nil
  ) {
    self.audiences = audiences
    self.changes = changes
    self.indexes = indexes
    self.firing = firing
  }

  package func publish(_ change: ZoneChange) {
    let (users, ended) = audiences.take(change)
    var heard = change
    // Subscribers to a shared database still hear of changes in their private one: the rule holds per database.
    let index = change.hasSubscriptions == true && !change.database.isPublic ? indexes.latest(of: change.database) : nil
    if !users.isEmpty || index != nil {
      heard = change.heard(
        by: users,
        // A user whose access has ended hears of it like one without subscriptions: theirs tell nothing any more.
        subscribers: index?.participants.filter { !ended.contains($0) } ?? [],
        hasSubscriptions: (change.hasSubscriptions ?? false) && !(index?.areAllShared ?? false))
    }
    changes.publish(heard)
    firing?.note([heard])
  }

  package func publish(_ notification: SubscriptionNotification) { changes.publish(notification) }
  package func publish(_ change: StoreChange) { changes.publish(change) }
}
