// Stops a read whose caller no longer waits.

import Glibc
import SQLite
import Synchronization

/// Lets the caller cancel a read of a whole shard.
final class ReadCancellation: Sendable {
  private struct State {
    var isCancelled = false
    var watch: StatementWatch?
  }

  private let state = Mutex(State())

  var isCancelled: Bool { state.withLock(\.isCancelled) }

  func cancel() {
    state.withLock { state in
      state.isCancelled = true
      state.watch?.stop()
    }
  }

  /// Sets the watch of the current attempt, and stops it if the read is cancelled already.
  func stops(_ watch: StatementWatch) {
    state.withLock { state in
      state.watch = watch
      if state.isCancelled { watch.stop() }
    }
  }
}
