// The rows of mirrored stores as of the latest commit, for callers that would otherwise wait for a reading thread.

import Records
import Synchronization

/// The last committed rows of recently written mirrors. Every save reads one such row, and a commit has usually written
/// it a moment before.
final class CommittedMirrors: Sendable {
  struct Name: Hashable {
    let database: DatabaseID
    let identifier: String
  }

  private struct State {
    var rows: [Name: StoredMirror] = [:]
    var names: [Int64: Name] = [:]
  }

  private let state = Mutex(State())
  private static let limit = 50_000

  subscript(name: Name) -> StoredMirror? { state.withLock { $0.rows[name] } }

  /// Stores committed rows. Called when the commit is durable, before its callers learn of it.
  /// - Parameter rows: by key; nil for a row that is gone, or whose database is not cached.
  func note(_ rows: some Sequence<(key: Int64, row: (DatabaseID, StoredMirror)?)>) {
    state.withLock { state in
      for (key, row) in rows {
        if let (database, mirror) = row {
          let name = Name(database: database, identifier: mirror.identifier)
          state.rows[name] = mirror
          state.names[key] = name
        } else if let name = state.names.removeValue(forKey: key) {
          state.rows[name] = nil
        }
      }
      if state.rows.count > Self.limit { state = State() }
    }
  }

  /// Forgets all rows, because after a failure the committed state is unknown.
  func removeAll() { state.withLock { $0 = State() } }
}
