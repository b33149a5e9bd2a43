// Long polls that wait for a database or a store to change: woken by the pushes of workers, by their time, or by the client hanging up.

import Records
import ServiceBus
import ServiceKit

/// Who waits for what.
///
/// A hint only: a lost push makes a poll answer late, never wrong. Between `register` and `leave` no change is missed: one that comes
/// while nobody is parked is remembered.
actor ChangeWaiters {
  enum Subject: Hashable, Sendable {
    /// Records of a database.
    case database(DatabaseID)
    /// What a mirrored store does: its events, its imports.
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

  /// More long polls than this are answered at once.
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

  /// Nobody else may wait: as many do as may, or the gateway is stopping.
  var isFull: Bool { count >= limit || isClosed }

  /// - Returns: nil when as many wait as may, or the gateway is stopping.
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

  /// Wakes whoever waits for a database that one of the changes shows up in: its owner's, and the participants' shared databases.
  func notice(_ changes: [ZoneChange]) {
    if waiters.isEmpty { return }
    for change in changes { notice(change) }
  }

  func notice(_ change: ZoneChange) {
    wake(.database(change.database))
    for user in change.audience where user != change.database.owner {
      wake(.database(DatabaseID(container: change.database.container, environment: change.database.environment, owner: user)))
    }
  }

  /// Wakes whoever waits for a store.
  func notice(_ changes: [StoreChange]) {
    if waiters.isEmpty { return }
    for change in changes { notice(change) }
  }

  func notice(_ change: StoreChange) { wake(.store(change.database, change.storeIdentifier)) }

  /// Ends all waits and takes no more.
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
