// Long polls that wait for a database or a store to change. A worker's push, a timeout or a client's hang-up ends
// them.

import Records
import ServiceBus
import ServiceKit

/// The long polls under way, by the database or store that each waits for.
///
/// Pushes are hints: a lost one makes a poll answer late, never wrong. No change between `register` and `leave` is
/// missed: a change that comes while no task is suspended is remembered.
actor ChangeWaiters {
  enum Subject: Hashable, Sendable {
    /// Records of a database.
    case database(DatabaseID)
    /// Events and imports of a mirrored store.
    case store(DatabaseID, String)
  }

  struct Registration: Hashable, Sendable {
    fileprivate let subject: Subject
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

  /// Long polls beyond this number are answered at once.
  private let limit: Int
  private let timing: Timing
  private var waiters: [Subject: [Int: Waiter]] = [:]
  private var nextNumber = 0
  private(set) var count = 0
  private(set) var isClosed = false

  init(limit: Int, timing: Timing) {
    self.limit = limit
    self.timing = timing
  }

  /// True when no more polls may wait: the limit is reached, or the gateway is stopping.
  var isFull: Bool { count >= limit || isClosed }

  /// - Returns: nil when the limit is reached or the gateway is stopping.
  func register(for subject: Subject) -> Registration? {
    if isFull { return nil }
    nextNumber += 1
    count += 1
    waiters[subject, default: [:]][nextNumber] = Waiter()
    return Registration(subject: subject, number: nextNumber)
  }

  func leave(_ registration: Registration) {
    guard waiters[registration.subject]?.removeValue(forKey: registration.number) != nil else { return }
    count -= 1
    if waiters[registration.subject]?.isEmpty == true { waiters[registration.subject] = nil }
  }

  /// Waits for a change since the last call. Returns early when `limit` is over, the task is cancelled or the gateway
  /// stops.
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
      // Rearmed only here, because this wait's timer can't end the next wait any more.
      await self.rearm(registration)
      return reason
    }
  }

  /// Wakes the polls that wait for a changed database: the owner's, and the shared databases of the zone's
  /// participants.
  func notice(_ changes: [ZoneChange]) {
    if waiters.isEmpty { return }
    for change in changes { notice(change) }
  }

  func notice(_ change: ZoneChange) {
    wake(.database(change.database))
    for user in change.audience where user != change.database.owner {
      wake(
        .database(
          DatabaseID(container: change.database.container, environment: change.database.environment, owner: user)))
    }
  }

  /// Wakes the polls that wait for a changed store.
  func notice(_ changes: [StoreChange]) {
    if waiters.isEmpty { return }
    for change in changes { notice(change) }
  }

  func notice(_ change: StoreChange) { wake(.store(change.database, change.storeIdentifier)) }

  /// Ends all waits and accepts no more.
  func close() {
    isClosed = true
    for (subject, registered) in waiters {
      for number in registered.keys { finish(subject, number) { $0.isOver = true } }
    }
  }

  private func wake(_ subject: Subject) {
    guard let registered = waiters[subject] else { return }
    for number in registered.keys { finish(subject, number) { $0.wasChanged = true } }
  }

  private func end(_ registration: Registration) {
    finish(registration.subject, registration.number) { $0.isOver = true }
  }

  private func finish(_ subject: Subject, _ number: Int, _ mark: (inout Waiter) -> Void) {
    guard var waiter = waiters[subject]?[number] else { return }
    mark(&waiter)
    let parked = waiter.parked
    waiter.parked = nil
    waiters[subject]?[number] = waiter
    parked?.resume()
  }

  private func park(_ registration: Registration) async -> Reason {
    guard let waiter = waiters[registration.subject]?[registration.number] else { return .timeUp }
    if !waiter.wasChanged && !waiter.isOver && !isClosed {
      await withCheckedContinuation { waiters[registration.subject]?[registration.number]?.parked = $0 }
    }
    guard let woken = waiters[registration.subject]?[registration.number], woken.wasChanged else { return .timeUp }
    waiters[registration.subject]?[registration.number]?.wasChanged = false
    return .changed
  }

  private func rearm(_ registration: Registration) {
    waiters[registration.subject]?[registration.number]?.isOver = false
  }
}
