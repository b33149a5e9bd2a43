// What becomes of edits that were based on an older state than the one that they meet.

import SQLite

/// What a save does about properties that somebody else has changed since the generation that it is based on
/// (`NSMergePolicy`). All but `mergeByPropertyObjectTrump` throw `historyTokenExpired` if the history since was purged.
public enum MergePolicy: Sendable {
  /// Saves nothing, and throws `conflicts`.
  case error
  /// The save's values stay, property by property.
  case mergeByPropertyObjectTrump
  /// The store's values stay where both changed a property.
  case mergeByPropertyStoreTrump
  /// Objects in conflict become wholly what the save saw and did.
  case overwrite
  /// Objects in conflict stay what the store has.
  case rollback
}

/// The state that a save is based on. Not Sendable: it lives within the writer's transaction.
final class MergeBase {
  /// What happened to an object since.
  struct Changes {
    var properties: Set<Int64> = []
    /// Of the latest change.
    var author: String?
  }

  let policy: MergePolicy
  /// The values that an object had then; nil: it was not there.
  let values: (AnyObjectID) throws -> [Literal]?
  private let number: Int64
  private var changes: [Int64: Changes]?

  init(number: Int64, policy: MergePolicy, values: @escaping (AnyObjectID) throws -> [Literal]?) {
    (self.number, self.policy, self.values) = (number, policy, values)
  }

  /// The changes of an object since. The first call reads all of history since, because history has no index by object.
  func changes(of key: Int64, _ connection: Connection) throws -> Changes {
    if let changes { return changes[key] ?? Changes() }
    // What a save wins anyway needs no history.
    if policy != .mergeByPropertyObjectTrump, number < (try Meta(connection).number("purgedThrough") ?? 0) {
      throw StoreError.historyTokenExpired
    }
    var read: [Int64: Changes] = [:]
    try connection.statement(Self.since).binding(number).forEach { row in
      let author = row.optionalText(1)
      try PackedChanges.forEach(in: row.blob(0)) { change in
        read[change.object, default: Changes()].properties.formUnion(change.properties)
        read[change.object]?.author = author
      }
    }
    changes = read
    return read[key] ?? Changes()
  }

  private static let since = SQL(
    "history since",
    "SELECT h.changes, w.text FROM history h LEFT JOIN word w ON w.key = h.author WHERE h.number > ? ORDER BY h.number")
}

/// Finds conflicts, and settles them by the policy.
struct ConflictResolver {
  let base: MergeBase
  let save: SaveTransaction

  private func changes(of key: Int64) throws -> MergeBase.Changes {
    try base.changes(of: key, save.tables.connection)
  }

  /// Whether a deletion is left out, since somebody changed the object.
  func keeps(_ key: Int64) throws -> Bool {
    guard base.policy == .mergeByPropertyStoreTrump || base.policy == .rollback else { return false }
    return try !changes(of: key).properties.isEmpty
  }

  func settle() throws {
    var conflicts: [StoreError.PropertyConflict] = []
    for edit in save.orderedEdits where edit.kind != .insert {
      let since = try changes(of: edit.key)
      guard !since.properties.isEmpty else { continue }
      if edit.kind == .delete {
        conflicts.append(.init(object: edit.id, property: "id", changedBy: since.author))
        continue
      }
      let contested = edit.changed.filter { since.properties.contains(edit.entity.columns[$0].key) }
      guard !contested.isEmpty else { continue }
      conflicts += contested.map {
        .init(object: edit.id, property: edit.entity.columns[$0].name, changedBy: since.author)
      }
      switch base.policy {
      case .error, .mergeByPropertyObjectTrump: break
      case .mergeByPropertyStoreTrump: for place in contested { try restore(edit, place) }
      case .rollback:
        for place in edit.changed { try restore(edit, place) }
        try save.undoPairs(of: edit.key)
      case .overwrite: try overwrite(edit)
      }
      if edit.isEmpty, !save.hasPairs(of: edit.key) { save.forget(edit.key) }
    }
    if base.policy == .error, !conflicts.isEmpty { throw StoreError.conflicts(conflicts) }
  }

  private func restore(_ edit: Edit, _ place: Int) throws { try save.set(edit, place, edit.originals[place] ?? .null) }

  private func overwrite(_ edit: Edit) throws {
    guard let values = try base.values(edit.id) else { return }
    for (place, column) in edit.entity.columns.enumerated() {
      guard column.isWritable, edit.values[place] == nil, place < values.count else { continue }
      try save.set(edit, place, values[place])
    }
  }
}
