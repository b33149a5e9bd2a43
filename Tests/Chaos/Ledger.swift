// Collects the observations of clients and readers as they happen.

import Glibc
import Installations
import Synchronization

/// The history of a running test, and a file of acknowledged saves. The checking process is never killed, so nothing is
/// synced.
final class Ledger: Sendable {
  private struct State {
    var history = History()
    var isOver = false
  }

  private let state = Mutex(State())
  private let descriptor: Int32

  init(path: String) throws {
    descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw RunError("\(path) can't be written: \(String(cString: strerror(errno)))") }
  }

  deinit { close(descriptor) }

  /// Tells the clients to finish what they have begun, and to stop.
  func end() { state.withLock { $0.isOver = true } }
  var isOver: Bool { state.withLock(\.isOver) }
  var saveCount: Int { state.withLock { $0.history.saves.count } }
  var saves: [Save] { state.withLock(\.history.saves) }

  func acknowledged(_ save: Save) {
    let line =
      "\(save.client) \(save.number) \(save.ended) "
      + save.changes.map { "\($0.name)=\($0.kind)" }.joined(separator: " ") + "\n"
    state.withLock { state in
      state.history.saves.append(save)
      _ = line.withCString { write(descriptor, $0, strlen($0)) }
    }
  }

  func refused(_ text: String) { state.withLock { $0.history.refusals.append(text) } }

  /// The history so far, after `body` has added to it.
  func history(adding body: (inout History) -> Void) -> History {
    state.withLock { state in
      var history = state.history
      body(&history)
      return history
    }
  }
}
