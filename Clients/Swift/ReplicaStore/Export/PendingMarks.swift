// Which properties and pairs stay the user's since a rejected transaction is kept for later.

import MirrorWire
import SQLite

/// The marks of one transaction in the table `pending`. Objects that are sent again are none of the user's own: imports
/// go before them, and their marks are in `sentAgain`. Not Sendable: they live within the writer's transaction.
struct PendingMarks {
  private let tables: ObjectTables
  /// Below 0, unlike the keys of the outbox.
  private let number: Int64
  private let isSentAgain: Bool

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

  /// Marks what a change says, but for what a later save changed and has not sent.
  func add(_ change: ObjectChange) throws {
    if let object = try objectSentAgain(by: change) { try run(Self.insertAgain, object) }
    for mark in try marks(of: change) { try run(Self.insert, mark) }
  }

  func remove(_ change: ObjectChange) throws {
    if let object = try objectSentAgain(by: change) { try run(Self.deleteAgain, object) }
    for mark in try marks(of: change) { try run(Self.delete, mark) }
  }

  /// Gives the marks of a change to a row of the outbox.
  func move(_ change: ObjectChange, to key: Int64) throws {
    if let object = try objectSentAgain(by: change) {
      try tables.connection.statement(Self.moveAgain).binding(object, number, key).run()
    }
    for mark in try marks(of: change) {
      try tables.connection.statement(Self.move).binding(mark.object, mark.property, mark.target, number, key).run()
    }
  }

  /// - Returns: what of the change is still marked; nil: nothing.
  func remaining(of change: ObjectChange) throws -> ObjectChange? {
    guard let entity = tables.schema.entities[change.entity] else { return nil }
    let object = try tables.key(of: change.objectID, entity)
    switch change.changeType {
    case .delete: return try has(Mark(object: object, property: Pending.deletion)) ? change : nil
    case .insert:
      if isSentAgain {
        return try tables.connection.statement(Self.findAgain).binding(object, number).first { _ in change } ?? nil
      }
      return try has(Mark(object: object, property: Pending.wholeObject)) ? change : nil
    case .update: break
    }
    var rest = change
    rest.attributes = try change.attributes?.filter { name, _ in
      try entity.column(name).map { try has(Mark(object: object, property: $0.key)) } ?? false
    }
    rest.relationships = try change.relationships?.reduce(into: [:]) { kept, one in
      kept[one.key] = try remaining(one.value, one.key, object, entity)
    }
    return rest.attributes?.isEmpty ?? true && rest.relationships?.isEmpty ?? true ? nil : rest
  }

  private func remaining(_ value: RelationshipValue, _ name: String, _ object: Int64, _ entity: EntityPlan) throws
    -> RelationshipValue?
  {
    guard case .toManyEdits(let add, let remove) = value else {
      return try entity.column(name).map { try has(Mark(object: object, property: $0.key)) } ?? false ? value : nil
    }
    func rest(_ targets: [String]) throws -> [String] {
      try targets.filter { try pair(name, object, $0, entity).map(has) ?? false }
    }
    let (added, removed) = (try rest(add), try rest(remove))
    return added.isEmpty && removed.isEmpty ? nil : .toManyEdits(add: added, remove: removed)
  }

  private func objectSentAgain(by change: ObjectChange) throws -> Int64? {
    guard isSentAgain, change.changeType == .insert, let entity = tables.schema.entities[change.entity] else {
      return nil
    }
    return try tables.key(of: change.objectID, entity)
  }

  private func marks(of change: ObjectChange) throws -> [Mark] {
    guard let entity = tables.schema.entities[change.entity] else { return [] }
    let object = try tables.key(of: change.objectID, entity)
    var marks: [Mark] = []
    switch change.changeType {
    case .delete: return [Mark(object: object, property: Pending.deletion)]
    case .insert: if !isSentAgain { marks.append(Mark(object: object, property: Pending.wholeObject)) }
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
    guard let relationship = entity.toMany[name], case .link(let link, let isFirst) = relationship.storage,
      let destination = tables.schema.entities[relationship.destination]
    else { return nil }
    let other = try tables.key(of: target, destination)
    let isOrdered = link.isSymmetric ? object <= other : isFirst
    return Mark(
      object: isOrdered ? object : other, property: link.firstKey, target: isOrdered ? other : object)
  }

  private func has(_ mark: Mark) throws -> Bool {
    try tables.connection.statement(Self.find).binding(mark.object, mark.property, mark.target, number).first { _ in
      true
    } ?? false
  }

  private func run(_ sql: SQL, _ mark: Mark) throws {
    try tables.connection.statement(sql).binding(mark.object, mark.property, mark.target, number).run()
  }

  private func run(_ sql: SQL, _ object: Int64) throws {
    try tables.connection.statement(sql).binding(object, number).run()
  }

  private static let insertAgain = SQL(
    "mark kept object", "INSERT OR IGNORE INTO sentAgain(object, number) VALUES (?, ?)")
  private static let deleteAgain = SQL(
    "remove mark of kept object", "DELETE FROM sentAgain WHERE object = ? AND number = ?")
  private static let findAgain = SQL("is kept object", "SELECT 1 FROM sentAgain WHERE object = ? AND number = ?")
  private static let moveAgain = SQL(
    "move mark of kept object", "UPDATE sentAgain SET number = ?3 WHERE object = ?1 AND number = ?2")
  private static let insert = SQL(
    "mark pending", "INSERT OR IGNORE INTO pending(object, property, target, number) VALUES (?, ?, ?, ?)")
  private static let delete = SQL(
    "remove mark", "DELETE FROM pending WHERE object = ? AND property = ? AND target = ? AND number = ?")
  private static let find = SQL(
    "is marked", "SELECT 1 FROM pending WHERE object = ? AND property = ? AND target = ? AND number = ?")
  private static let move = SQL(
    "move mark", "UPDATE pending SET number = ?5 WHERE object = ?1 AND property = ?2 AND target = ?3 AND number = ?4")
}
