// What becomes of edits that were based on an older state than the one that they meet.

import SQLite

/// What a save does about properties that somebody else has changed since the generation that it is based on
/// (`NSMergePolicy`).
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

/// The state that a save is based on.
struct MergeBase {
  let number: Int64
  let policy: MergePolicy
  /// The values that an object had then; nil: it was not there.
  let values: (AnyObjectID) throws -> [Literal]?
}

/// Finds conflicts, and settles them by the policy.
struct ConflictResolver {
  let base: MergeBase
  let save: SaveTransaction

  /// The properties of an object that changed since the base, and the author of the latest change.
  func changedSince(_ key: Int64) throws -> (properties: Set<Int64>, author: String?) {
    let statement = try save.tables.connection.statement(Self.changes)
    try statement.bind(1, key)
    try statement.bind(2, (base.number + 1) << 20)
    var properties: Set<Int64> = []
    var author: String?
    try statement.forEach { row in
      properties.formUnion(HistoryWriter.decode(row.blob(0)))
      author = row.optionalText(1)
    }
    return (properties, author)
  }

  /// Whether a deletion is left out, since somebody changed the object.
  func keeps(_ key: Int64) throws -> Bool {
    guard base.policy == .mergeByPropertyStoreTrump || base.policy == .rollback else { return false }
    return try !changedSince(key).properties.isEmpty
  }

  func settle() throws {
    var conflicts: [StoreError.PropertyConflict] = []
    for edit in save.orderedEdits where edit.kind != .insert {
      let (properties, author) = try changedSince(edit.key)
      guard !properties.isEmpty else { continue }
      if edit.kind == .delete {
        conflicts.append(.init(object: edit.id, property: "id", changedBy: author))
        continue
      }
      let contested = edit.changed.filter { properties.contains(edit.entity.columns[$0].key) }
      guard !contested.isEmpty else { continue }
      conflicts += contested.map { .init(object: edit.id, property: edit.entity.columns[$0].name, changedBy: author) }
      switch base.policy {
      case .error, .mergeByPropertyObjectTrump: break
      case .mergeByPropertyStoreTrump: for place in contested { try restore(edit, place) }
      case .rollback:
        for place in edit.changed { try restore(edit, place) }
        try save.undoPairs(of: edit.key)
      case .overwrite: try overwrite(edit)
      }
      if edit.kind == .update, edit.changed.isEmpty, !save.hasPairs(of: edit.key) { save.forget(edit.key) }
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

  private static let changes = SQL(
    "changes since",
    "SELECT c.properties, w.text FROM hchange c JOIN htransaction t ON t.number = c.id >> 20 LEFT JOIN word w ON "
      + "w.key = t.author "
      + "WHERE c.object = ? AND c.id >= ? ORDER BY c.id")
}
