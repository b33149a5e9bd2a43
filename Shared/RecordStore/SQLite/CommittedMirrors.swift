// Rows of stores as of the latest commit, for callers that would otherwise wait for a reader's thread.

import Records
import Synchronization

/// What the writer last committed of mirrors that it knows. Every save asks for one row, and mostly wrote it a moment ago.
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

  /// To be called when the commit is durable, and before anybody hears of it.
  /// - Parameter rows: by key; nil for one that is gone, or whose database is not at hand.
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

  /// After a failure nobody knows what was committed.
  func removeAll() { state.withLock { $0 = State() } }
}
