// Lets a few long polls at a time ask a worker, because one change wakes all polls of a database at the same moment.

import Queues
import Synchronization

/// The long polls that ask each worker now, and those that wait for it in turns of their parties. Their number is
/// bounded by that of the requests under way.
final class PollGate: Sendable {
  /// Questions at a time to one worker, and of one party: below the bus's window, which other requests need, too.
  static let laneCount = 128
  static let lanesOfParty = 16

  private typealias Line = Lanes<CheckedContinuation<Void, Never>>

  private let lines = Mutex<[String: Line]>([:])

  /// Polls that wait.
  var waitingCount: Int { lines.withLock { $0.values.reduce(0) { $0 + $1.waitingCount } } }

  /// Returns when the party may ask the worker.
  func enter(_ worker: String, _ party: String) async {
    await withCheckedContinuation { continuation in
      goOn(worker) { $0.append(continuation, of: party) }
    }
  }

  /// Called once after each `enter`.
  func leave(_ worker: String, _ party: String) {
    goOn(worker) { $0.end(party) }
  }

  /// Changes a worker's line, and lets the poll go that has a lane then.
  private func goOn(_ worker: String, _ change: (inout Line) -> Void) {
    let next = lines.withLock { lines in
      var line = lines.removeValue(forKey: worker) ?? Line(Self.laneCount, share: Self.lanesOfParty)
      change(&line)
      let next = line.next()
      if !line.isEmpty { lines[worker] = line }
      return next?.element
    }
    next?.resume()
  }
}
