// The moves under way on this worker, for `status`.

import RecordStore
import Synchronization

/// The moves under way on this worker, in memory only.
package final class MoveRuns: Sendable {
  package enum Phase: Hashable, Sendable {
    /// The number of records looked at so far.
    case planning(Int)
    case writing(Int, of: Int)
  }

  private let phases = Mutex<[MirrorID: (count: Int, phase: Phase)]>([:])

  package func begin(_ mirror: MirrorID) {
    phases.withLock { $0[mirror] = (($0[mirror]?.count ?? 0) + 1, $0[mirror]?.phase ?? .planning(0)) }
  }

  package func note(_ phase: Phase, of mirror: MirrorID) { phases.withLock { $0[mirror]?.phase = phase } }

  package func end(_ mirror: MirrorID) {
    phases.withLock { phases in
      let count = (phases[mirror]?.count ?? 1) - 1
      if count > 0 { phases[mirror]?.count = count } else { phases[mirror] = nil }
    }
  }

  func phase(of mirror: MirrorID) -> Phase? { phases.withLock { $0[mirror]?.phase } }
}
