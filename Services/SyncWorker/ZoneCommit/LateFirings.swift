// Fires subscriptions after the commit when comparing a change with them costs more than the shard's writer may spend.

import Queues
import RecordStore
import Records
import ServiceBus
package import ServiceKit
import Synchronization
import WebServices

/// Publishes fired subscriptions at once, unless a change of the same database still waits for comparison: so each
/// subscription hears of changes in order. Changes are compared one at a time, with databases taking turns.
///
/// Firings wait in memory, as every notification does after its commit: a killed worker loses them, but no data. A
/// subscription that fires once is removed when it is told, so after a loss it fires with the next change.
package final class LateFirings: Sendable {
  fileprivate struct Waiting {
    let firing: Firing
    let byteCount: Int
  }

  fileprivate struct State {
    var waiting = TurnQueue<Waiting>()
    /// Bytes of the waiting firings, in all and by database.
    var byteCount = 0
    var byteCounts: [String: Int] = [:]
    /// The database whose change is being compared.
    var party: String?
    var lateCount = 0
    var droppedCount = 0

    var isIdle: Bool { party == nil && waiting.isEmpty }
  }

  private let changes: any ChangePublisher
  private let random: any RandomSource
  private let log: Log
  private let pause: @Sendable (Duration) async -> Void
  private let state = Mutex(State())
  private let wakes: AsyncStream<Void>
  private let wake: AsyncStream<Void>.Continuation

  /// Limits for the bytes of waiting records, in all and of one database.
  static let byteLimit = 134_217_728
  static let databaseByteLimit = 33_554_432
  private static let crowdedPause = Duration.milliseconds(100)

  package init(
    changes: any ChangePublisher, random: any RandomSource, log: Log,
    pause: @escaping @Sendable (Duration) async -> Void = { _ in await Task.yield() }
  ) {
    self.changes = changes
    self.random = random
    self.log = log
    self.pause = pause
    (wakes, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
  }

  /// Changes left to a reader, and notifications dropped.
  package var counts: (late: Int, dropped: Int) { state.withLock { ($0.lateCount, $0.droppedCount) } }

  /// Counts the notifications that one commit fired beyond its limit.
  func noteDropped(_ count: Int) { state.withLock { $0.droppedCount += count } }

  /// Tells what a commit fired, or keeps it behind a waiting change.
  func publish(_ firings: [Firing]) {
    for firing in firings {
      switch firing {
      case .fired(let fired): if !isBehind(fired.database, firing) { send(fired) }
      case .late(let change):
        state.withLock { state in
          state.lateCount += 1
          state.keep(firing, of: Self.party(change.database.id))
        }
        wake.yield()
      }
    }
  }

  private static func party(_ database: DatabaseID) -> String {
    "\(database.container.rawValue)/\(database.environment.rawValue)/\(database.owner)"
  }

  /// Keeps a firing that must not be told before a waiting one of its database.
  private func isBehind(_ database: DatabaseID, _ firing: Firing) -> Bool {
    state.withLock { state in
      if state.isIdle { return false }
      let party = Self.party(database)
      guard state.party == party || state.waiting.count(of: party) > 0 else { return false }
      state.keep(firing, of: party)
      return true
    }
  }

  /// Runs until the task is cancelled.
  package func run(on host: some OpenShards) async {
    for await _ in wakes {
      while !Task.isCancelled, let (waiting, party) = next() {
        await fire(waiting.firing, in: await host.openStore(of: waiting.firing.database))
        finished(waiting, party)
      }
    }
  }

  /// Fires everything that waits for the databases of one shard.
  func fireAll(in store: any ShardStore) async {
    while let (waiting, party) = next() {
      await fire(waiting.firing, in: store)
      finished(waiting, party)
    }
  }

  private func next() -> (Waiting, String)? {
    state.withLock { state in
      let next = state.waiting.popFirst()
      state.party = next?.party
      return next.map { ($0.element, $0.party) }
    }
  }

  private func finished(_ waiting: Waiting, _ party: String) {
    state.withLock { state in
      state.party = nil
      state.byteCount -= waiting.byteCount
      let rest = state.byteCounts[party, default: 0] - waiting.byteCount
      state.byteCounts[party] = rest > 0 ? rest : nil
    }
  }

  // MARK: Telling

  private func send(_ fired: FiredSubscription) {
    let notification = fired.notification(identifiedBy: random.uuid())
    log.debug(
      "subscription fired",
      [
        "nid": .text(notification.notificationID), "subscription": .text(notification.subscriptionID),
        "user": .text(notification.userRecordName),
        "sequence": .integer(notification.sequence),
      ])
    changes.publish(notification)
  }

  private func fire(_ firing: Firing, in store: (any ShardStore)?) async {
    switch firing {
    case .fired(let fired): send(fired)
    case .late(let change):
      do {
        guard let store else { throw StoreError.closed(shard: -1) }
        for fired in try await fired(by: change, in: store) { send(fired) }
      } catch {
        state.withLock { $0.droppedCount += 1 }
        log.warning(
          "query subscriptions missed a change",
          [
            "container": .text(change.database.id.container.rawValue), "sequence": .integer(change.sequence),
            "error": .text(String(describing: error)),
          ])
      }
    }
  }

  private func fired(by change: LateChange, in store: any ShardStore) async throws -> [FiredSubscription] {
    while true {
      do {
        let fired = try await store.read { snapshot in try change.fired(in: snapshot) }
        let once = fired.map(\.entry).filter(\.subscription.firesOnce)
        let removed = once.isEmpty ? [] : try await store.remove(once, of: change.database.id)
        return fired.filter { !$0.entry.subscription.firesOnce || removed.contains($0.entry.stored.key) }
      } catch StoreError.overloaded where !Task.isCancelled {
        await pause(Self.crowdedPause)
      }
    }
  }
}

extension LateFirings.State {
  /// Keeps a firing; drops it when a limit is exceeded.
  fileprivate mutating func keep(_ firing: Firing, of party: String) {
    let waiting = LateFirings.Waiting(firing: firing, byteCount: firing.byteCount)
    let own = byteCounts[party, default: 0] + waiting.byteCount
    guard own <= LateFirings.databaseByteLimit, byteCount + waiting.byteCount <= LateFirings.byteLimit else {
      droppedCount += 1
      return
    }
    byteCounts[party] = own
    byteCount += waiting.byteCount
    self.waiting.append(waiting, of: party)
  }
}

extension Firing {
  fileprivate var byteCount: Int {
    switch self {
    case .fired: 512
    case .late(let change): 512 + change.record.fields.byteCount
    }
  }
}

extension ShardStore {
  /// Removes subscriptions that fire once.
  /// - Returns: the keys of those that existed. The remover alone tells them, so none is told twice.
  func remove(_ entries: [SubscriptionIndex.Entry], of database: DatabaseID) async throws -> Set<Int64> {
    try await enqueue { transaction -> Set<Int64> in
      guard let row = try transaction.database(database) else { return [] }
      let present = entries.map(\.stored).filter { stored in
        let (user, scope) = (stored.userRecordName, stored.scope)
        // Dropped because an unreadable subscription is not told.
        return (try? transaction.subscription(stored.identifier, of: user, scope: scope, in: row.key))??.key
          == stored.key
      }
      for stored in present { try transaction.deleteSubscription(stored.key, in: row.key) }
      return Set(present.map(\.key))
    }.value
  }
}
