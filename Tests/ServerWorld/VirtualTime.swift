// The worker's clock in a run: only the run moves it, so that the seed decides when work is due.

import ServiceKit
import Synchronization

/// A clock, and the sleeps that wait for it.
final class VirtualTime: WallClock {
  private struct Sleeper {
    let until: Int64
    let continuation: CheckedContinuation<Void, any Error>
  }

  private struct State {
    /// Milliseconds since 1970.
    var now: Int64 = 1_700_000_000_000
    var sleepers: [Int: Sleeper] = [:]
    /// Sleeps that were cancelled before they began.
    var cancelled: Set<Int> = []
    var lastSleeper = 0
  }

  private let state = Mutex(State())
  private let beginning = ContinuousClock.now

  var now: Int64 { state.withLock { $0.now } }

  func advance(by milliseconds: Int64) { advance(to: now + milliseconds) }

  /// Moves to the end of the next sleep.
  func advanceToNextSleeper() {
    guard let next = state.withLock({ $0.sleepers.values.map(\.until).min() }) else { return }
    advance(to: next)
  }

  private func advance(to time: Int64) {
    let due = state.withLock { state in
      state.now = max(state.now, time)
      let due = state.sleepers.filter { $0.value.until <= state.now }.sorted { $0.key < $1.key }
      for (number, _) in due { state.sleepers[number] = nil }
      return due.map(\.value.continuation)
    }
    for continuation in due { continuation.resume() }
  }

  var timing: Timing {
    let start = now
    return Timing(
      now: { [self] in beginning + .milliseconds(now - start) },
      sleep: { [self] duration in
        try await sleep(duration.components.seconds * 1000 + duration.components.attoseconds / 1_000_000_000_000_000)
      })
  }

  private func sleep(_ milliseconds: Int64) async throws {
    let number = state.withLock { state in
      state.lastSleeper += 1
      return state.lastSleeper
    }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let isCancelled = state.withLock { state in
          if state.cancelled.remove(number) != nil { return true }
          state.sleepers[number] = Sleeper(until: state.now + max(1, milliseconds), continuation: continuation)
          return false
        }
        if isCancelled { continuation.resume(throwing: CancellationError()) }
      }
    } onCancel: {
      let sleeper = state.withLock { state in
        let sleeper = state.sleepers.removeValue(forKey: number)
        if sleeper == nil { state.cancelled.insert(number) }
        return sleeper
      }
      sleeper?.continuation.resume(throwing: CancellationError())
    }
  }
}
