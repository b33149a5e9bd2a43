// Long polls that wait for a database to change: woken by the pushes of workers, by their time, or by the client hanging up.

import Records
import ServiceBus
import ServiceKit

/// Who waits for which database.
///
/// A hint only: a lost push makes a poll answer late, never wrong. Between `register` and `leave` no change is missed: one that comes
/// while nobody is parked is remembered.
actor ChangeWaiters {
  struct Registration: Hashable, Sendable {
    fileprivate let database: DatabaseID
    fileprivate let number: Int
  }

  enum Reason: Hashable, Sendable {
    case changed, timeUp
  }

  private struct Waiter {
    var wasChanged = false
    var isOver = false
    var parked: CheckedContinuation<Void, Never>?
  }

  /// More long polls than this are answered at once.
  private let limit: Int
  private let timing: Timing
  private var waiters: [DatabaseID: [Int: Waiter]] = [:]
  private var nextNumber = 0
  private(set) var count = 0
  private var isClosed = false

  init(limit: Int, timing: Timing) {
    self.limit = limit
    self.timing = timing
  }

  /// - Returns: nil when as many wait as may, or the gateway is stopping.
  func register(for database: DatabaseID) -> Registration? {
    guard count < limit, !isClosed else { return nil }
    nextNumber += 1
    count += 1
    waiters[database, default: [:]][nextNumber] = Waiter()
    return Registration(database: database, number: nextNumber)
  }

  func leave(_ registration: Registration) {
    guard waiters[registration.database]?.removeValue(forKey: registration.number) != nil else { return }
    count -= 1
    if waiters[registration.database]?.isEmpty == true { waiters[registration.database] = nil }
  }

  /// Waits for a change since the last call; returns also when `limit` is over, the task is cancelled, or the gateway stops.
  nonisolated func wait(_ registration: Registration, within limit: Duration) async -> Reason {
    await withTaskGroup(of: Void.self) { group in
      let timing = timing
      group.addTask {
        // Dropped because a cancelled sleep ends the wait just as a finished one does.
        try? await timing.sleep(limit)
        await self.end(registration)
      }
      let reason = await self.park(registration)
      group.cancelAll()
      await group.waitForAll()
      // Only now, when this wait's timer can't end the next one.
      await self.rearm(registration)
      return reason
    }
  }

  /// Wakes whoever waits for a database the change shows up in: its owner's, and the participants' shared databases.
  func notice(_ change: ZoneChange) {
    wake(change.database)
    for user in change.audience where user != change.database.owner {
      wake(DatabaseID(container: change.database.container, environment: change.database.environment, owner: user))
    }
  }

  /// Ends all waits and takes no more.
  func close() {
    isClosed = true
    for (database, registered) in waiters {
      for number in registered.keys { finish(database, number) { $0.isOver = true } }
    }
  }

  private func wake(_ database: DatabaseID) {
    guard let registered = waiters[database] else { return }
    for number in registered.keys { finish(database, number) { $0.wasChanged = true } }
  }

  private func end(_ registration: Registration) {
    finish(registration.database, registration.number) { $0.isOver = true }
  }

  private func finish(_ database: DatabaseID, _ number: Int, _ mark: (inout Waiter) -> Void) {
    guard var waiter = waiters[database]?[number] else { return }
    mark(&waiter)
    let parked = waiter.parked
    waiter.parked = nil
    waiters[database]?[number] = waiter
    parked?.resume()
  }

  private func park(_ registration: Registration) async -> Reason {
    guard let waiter = waiters[registration.database]?[registration.number] else { return .timeUp }
    if !waiter.wasChanged && !waiter.isOver && !isClosed {
      await withCheckedContinuation { waiters[registration.database]?[registration.number]?.parked = $0 }
    }
    guard let woken = waiters[registration.database]?[registration.number], woken.wasChanged else { return .timeUp }
    waiters[registration.database]?[registration.number]?.wasChanged = false
    return .changed
  }

  private func rearm(_ registration: Registration) {
    waiters[registration.database]?[registration.number]?.isOver = false
  }
}
