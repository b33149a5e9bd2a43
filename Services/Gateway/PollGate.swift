// Lets a few long polls at a time ask a worker, because one change wakes all polls of a database at the same moment.

import Queues
import Synchronization

/// The long polls that ask each worker now, and those that wait for it in turns of their parties. Their number is
/// bounded by that of the requests under way.
final class PollGate: Sendable {
  /// Questions at a time to one worker, and of one party: below the bus's window, which other requests need, too.
  static let laneCount = 128
  static let lanesOfParty = 16

  private struct Line {
    var count = 0
    var parties: [String: Int] = [:]
    var waiting = TurnQueue<CheckedContinuation<Void, Never>>()

    mutating func begin(_ party: String) {
      count += 1
      parties[party, default: 0] += 1
    }

    func hasLane(for party: String) -> Bool {
      count < PollGate.laneCount && parties[party, default: 0] < PollGate.lanesOfParty
    }
  }

  private let lines = Mutex<[String: Line]>([:])

  /// Polls that wait.
  var waitingCount: Int { lines.withLock { $0.values.reduce(0) { $0 + $1.waiting.count } } }

  /// Returns when the party may ask the worker.
  func enter(_ worker: String, _ party: String) async {
    await withCheckedContinuation { continuation in
      let mayGo = lines.withLock { lines in
        var line = lines.removeValue(forKey: worker) ?? Line()
        defer { lines[worker] = line }
        guard line.hasLane(for: party) else {
          line.waiting.append(continuation, of: party)
          return false
        }
        line.begin(party)
        return true
      }
      if mayGo { continuation.resume() }
    }
  }

  /// Called once after each `enter`.
  func leave(_ worker: String, _ party: String) {
    let next: CheckedContinuation<Void, Never>? = lines.withLock { lines in
      guard var line = lines.removeValue(forKey: worker) else { return nil }
      line.count -= 1
      let own = line.parties[party, default: 0] - 1
      line.parties[party] = own > 0 ? own : nil
      let parties = line.parties
      let next = line.waiting.popFirst { parties[$0, default: 0] < Self.lanesOfParty }
      if let next { line.begin(next.party) }
      if line.count > 0 { lines[worker] = line }
      return next?.element
    }
    next?.resume()
  }
}
