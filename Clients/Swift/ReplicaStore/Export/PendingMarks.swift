// Which properties and pairs a save that waits, or that is kept for later, still has to send.

import MirrorWire
import SQLite

/// The marks of one transaction in the table `pending`. Objects that are sent again are none of the user's own: imports
/// go before them, and their marks are in `sentAgain`. Not Sendable: they live within the writer's transaction.
struct PendingMarks {
  private let tables: ObjectTables
  /// The key in the outbox, or below 0 that of a rejected transaction.
  private let number: Int64
  private let isSentAgain: Bool
  private var connection: Connection { tables.connection }

  init(_ tables: ObjectTables, number: Int64, of transaction: Transaction) {
    self.tables = tables
    self.number = number
    isSentAgain = transaction.author == MirroringAuthor.reupload
  }

  /// The number of the marks of a rejected transaction.
  static func number(ofRejected transactionNumber: Int64) -> Int64 { -transactionNumber }

  private struct Mark {
    let object: Int64
    let property: Int64
    var target: Int64 = 0
  }

  // MARK: Changes

  /// Marks what a change says.
  func add(_ change: ObjectChange) throws {
    for mark in try marks(of: change) {
      if try isSentAgain && mark.property == Pending.wholeObject && !isNew(mark.object) {
        try connection.statement(Self.insertAgain).binding(mark.object, number).run()
      } else {
        try run(Self.insert, mark)
      }
    }
  }

  func remove(_ change: ObjectChange) throws {
    for mark in try marks(of: change) {
      try run(Self.delete, mark)
      guard mark.property == Pending.wholeObject else { continue }
      try connection.statement(Self.deleteAgain).binding(mark.object, number).run()
    }
  }

  /// Ends what earlier saves that are kept would send of what a change says: the server has taken the change. A
  /// deletion ends all of its object, and so does an insertion: the object was made again.
  /// - Parameter transactionNumber: of the save that the server has taken.
  func endEarlier(_ change: ObjectChange, than transactionNumber: Int64) throws {
    let first = Self.number(ofRejected: transactionNumber)
    for mark in try marks(of: change) {
      if mark.property == Pending.deletion || mark.property == Pending.wholeObject && !isSentAgain {
        for sql in [Self.endObject, Self.endObjectAgain] {
          try connection.statement(sql).binding(mark.object, first).run()
        }
      } else {
        try connection.statement(Self.endMark).binding(mark.object, mark.property, mark.target, first).run()
      }
    }
  }

  // MARK: Kept saves

  /// - Returns: what a rejected save is to send of the change: what is marked and no later save that waits tells. nil:
  ///   nothing.
  func remaining(of change: ObjectChange) throws -> ObjectChange? {
    guard let entity = tables.schema.entities[change.entity] else { return nil }
    let object = try tables.key(of: change.objectID, entity)
    var rest = change
    switch change.changeType {
    case .delete: return try remains(Mark(object: object, property: Pending.deletion)) ? change : nil
    case .insert: guard try remains(Mark(object: object, property: Pending.wholeObject)) else { return nil }
    case .update:
      rest.attributes = try change.attributes?.filter { name, _ in try remains(name, object, entity) }
    }
    rest.relationships = try change.relationships?.reduce(into: [:]) { kept, one in
      guard case .toManyEdits(let add, let remove) = one.value else {
        if try change.changeType == .insert || remains(one.key, object, entity) { kept[one.key] = one.value }
        return
      }
      func marked(_ targets: [String]) throws -> [String] {
        try targets.filter { try pair(one.key, object, $0, entity).map(remains) ?? false }
      }
      let (added, removed) = (try marked(add), try marked(remove))
      if !added.isEmpty || !removed.isEmpty { kept[one.key] = .toManyEdits(add: added, remove: removed) }
    }
    let isEmpty = rest.attributes?.isEmpty ?? true && rest.relationships?.isEmpty ?? true
    return isEmpty && change.changeType == .update ? nil : rest
  }

  private func remains(_ name: String, _ object: Int64, _ entity: EntityPlan) throws -> Bool {
    try entity.column(name).map { try remains(Mark(object: object, property: $0.key)) } ?? false
  }

  private func remains(_ mark: Mark) throws -> Bool {
    let isMarked = try connection.statement(Self.find).binding(
      mark.object, mark.property, mark.target, number, mark.property == Pending.wholeObject
    ).first { _ in true }
    let isTold = try connection.statement(Self.findLater).binding(mark.object, mark.property, mark.target, -number)
      .first { _ in true }
    return isMarked != nil && isTold == nil
  }

  // MARK: Marks

  /// An object of a former account is new here: the server has never had it.
  private func isNew(_ object: Int64) throws -> Bool {
    try connection.statement(Self.findNew).binding(object).first { _ in true } ?? false
  }

  private func marks(of change: ObjectChange) throws -> [Mark] {
    guard let entity = tables.schema.entities[change.entity] else { return [] }
    let object = try tables.key(of: change.objectID, entity)
    var marks: [Mark] = []
    switch change.changeType {
    case .delete: return [Mark(object: object, property: Pending.deletion)]
    case .insert: marks.append(Mark(object: object, property: Pending.wholeObject))
    case .update:
      for name in change.attributes?.keys.sorted() ?? [] {
        if let column = entity.column(name) { marks.append(Mark(object: object, property: column.key)) }
      }
    }
    for (name, value) in (change.relationships ?? [:]).sorted(by: { $0.key < $1.key }) {
      if case .toManyEdits(let add, let remove) = value {
        for target in add + remove { if let mark = try pair(name, object, target, entity) { marks.append(mark) } }
      } else if change.changeType == .update, let column = entity.column(name) {
        marks.append(Mark(object: object, property: column.key))
      }
    }
    return marks
  }

  private func pair(_ name: String, _ object: Int64, _ target: String, _ entity: EntityPlan) throws -> Mark? {
    try tables.pair(name, of: object, entity, with: target).map { pair in
      Mark(object: pair.a, property: pair.link.firstKey, target: pair.b)
    }
  }

  private func run(_ sql: SQL, _ mark: Mark) throws {
    try connection.statement(sql).binding(mark.object, mark.property, mark.target, number).run()
  }

  private static let insertAgain = SQL(
    "mark kept object", "INSERT OR REPLACE INTO sentAgain(object, number) VALUES (?, ?)")
  private static let deleteAgain = SQL(
    "remove mark of kept object", "DELETE FROM sentAgain WHERE object = ? AND number = ?")
  private static let insert = SQL(
    "mark pending", "INSERT OR IGNORE INTO pending(object, property, target, number) VALUES (?, ?, ?, ?)")
  private static let delete = SQL(
    "remove mark", "DELETE FROM pending WHERE object = ? AND property = ? AND target = ? AND number = ?")
  private static let endMark = SQL(
    "end earlier mark",
    "DELETE FROM pending WHERE object = ? AND property = ? AND target = ? AND number > ? AND number < 0")
  private static let endObject = SQL(
    "end earlier marks of object", "DELETE FROM pending WHERE object = ? AND number > ? AND number < 0")
  private static let endObjectAgain = SQL(
    "end earlier mark of kept object", "DELETE FROM sentAgain WHERE object = ? AND number > ? AND number < 0")
  private static let findNew = SQL(
    "is new", "SELECT 1 FROM pending WHERE object = ? AND property = \(Pending.wholeObject) LIMIT 1")
  private static let find = SQL(
    "is marked",
    "SELECT 1 FROM pending WHERE object = ?1 AND property = ?2 AND target = ?3 AND number = ?4 "
      + "UNION ALL SELECT 1 FROM sentAgain WHERE object = ?1 AND number = ?4 AND ?5")
  /// Of saves that were made later and wait. An insertion or deletion tells all of its object.
  private static let findLater = SQL(
    "is told later",
    "\(later) AND p.property = ?2 AND p.target = ?3 "
      + "UNION ALL \(later) AND p.property IN (\(Pending.wholeObject), \(Pending.deletion)) AND p.target = 0 LIMIT 1")
  /// The rest of the condition names the property and the target, so that no other mark of the object is read.
  private static let later =
    "SELECT 1 FROM pending p CROSS JOIN outbox o ON o.key = p.number "
    + "WHERE p.object = ?1 AND p.number > 0 AND o.number > ?4"
}
