// Which properties and pairs are the user's, since the server has not acknowledged them.

import MirrorWire
import SQLite

/// Looks at the table `pending`, and not at all when it is empty.
struct PendingEdits {
  private let connection: Connection
  private let isEmpty: Bool

  init(_ connection: Connection) throws {
    self.connection = connection
    isEmpty = try connection.statement(Self.any).first { _ in true } == nil
  }

  /// Deleted here, and not yet there (K6).
  func isDeleted(_ object: Int64) throws -> Bool { try has(object, Pending.deletion, 0) }
  func isNew(_ object: Int64) throws -> Bool { try has(object, Pending.wholeObject, 0) }
  /// Its zone ended, and the server gets it again. Imports go before it.
  func isSentAgain(_ object: Int64) throws -> Bool {
    try connection.statement(Self.again).binding(object).first { _ in true } ?? false
  }
  func hasPair(_ pair: Pair) throws -> Bool { try has(pair.a, pair.link.firstKey, pair.b) }

  private func has(_ object: Int64, _ property: Int64, _ target: Int64) throws -> Bool {
    if isEmpty { return false }
    return try connection.statement(Self.one).binding(object, property, target).first { _ in true } ?? false
  }

  func properties(_ object: Int64) throws -> Set<Int64> {
    if isEmpty { return [] }
    return Set(try connection.statement(Self.all).binding(object).all { $0.int64(0) })
  }

  private static let any = SQL("any pending", "SELECT 1 FROM pending LIMIT 1")
  private static let one = SQL("is pending", "SELECT 1 FROM pending WHERE object = ? AND property = ? AND target = ?")
  private static let again = SQL("is sent again", "SELECT 1 FROM sentAgain WHERE object = ?")
  private static let all = SQL(
    "pending of object", "SELECT property FROM pending WHERE object = ? AND target = 0 AND property >= 0")
}

/// What the outbox, and the rejected transactions that are kept, say of objects: the server never tells a store its own
/// saves.
struct OutboxReplay {
  private let tables: ObjectTables
  private let schema: StoreSchema
  /// In order, by name.
  private let changes: [String: [ObjectChange]]

  /// All that waits or is kept.
  init(_ tables: ObjectTables, _ schema: StoreSchema) throws {
    try self.init(tables, schema, tables.connection.statement(Self.bodies))
  }

  /// What kept saves say of one object, and more.
  init(_ tables: ObjectTables, _ schema: StoreSchema, keptOf object: Int64) throws {
    try self.init(tables, schema, tables.connection.statement(Self.keptBodies).binding(object))
  }

  private init(_ tables: ObjectTables, _ schema: StoreSchema, _ select: Statement) throws {
    self.tables = tables
    self.schema = schema
    let rows = try select.all { (body: $0.blob(0), number: $0.int64(1), isRejected: $0.int64(2) == 0) }
    var changes: [String: [ObjectChange]] = [:]
    for (body, number, isRejected) in rows {
      guard let transaction = try? Transaction(json: body) else {
        throw StoreError.damaged("a transaction of the outbox can't be read")
      }
      // The states of other devices go before objects that are sent again.
      if isRejected, transaction.author == MirroringAuthor.reupload { continue }
      let marks = PendingMarks(tables, number: PendingMarks.number(ofRejected: number), of: transaction)
      for change in transaction.changes where change.changeType != .delete {
        guard let change = isRejected ? try marks.remaining(of: change) : change else { continue }
        changes[change.objectID, default: []].append(change)
      }
    }
    self.changes = changes
  }

  func inserts(_ name: String) -> Bool { changes[name]?.contains { $0.changeType == .insert } ?? false }

  /// The pairs of an object that changes tell, in order.
  func pairs(of object: Int64) throws -> [(pair: Pair, isLinked: Bool)] {
    var pairs: [(pair: Pair, isLinked: Bool)] = []
    for (name, changes) in changes.sorted(by: { $0.key < $1.key }) {
      for change in changes {
        guard let entity = schema.entities[change.entity] else { continue }
        let owner = try tables.key(of: name, entity)
        for (relationship, value) in (change.relationships ?? [:]).sorted(by: { $0.key < $1.key }) {
          guard case .toManyEdits(let add, let remove) = value else { continue }
          for (targets, isLinked) in [(add, true), (remove, false)] {
            for target in targets {
              let pair = try tables.pair(relationship, of: owner, entity, with: target)
              if let pair, pair.a == object || pair.b == object { pairs.append((pair, isLinked)) }
            }
          }
        }
      }
    }
    return pairs
  }

  /// Puts pending edits onto an object.
  /// - Parameter values: of all columns, relationships as keys.
  func overlay(_ name: String, _ entity: EntityPlan, _ values: inout [Literal?]) throws {
    for change in changes[name] ?? [] {
      for (place, column) in entity.columns.enumerated() {
        if let attribute = column.attribute, let value = change.attributes?[column.name] {
          values[place] =
            try WireValue.literal(value, attribute) { _ in
              throw StoreError.damaged("a content in the outbox is no asset")
            } ?? values[place]
        } else if let relationship = column.toOne, case .toOne(let target)? = change.relationships?[column.name] {
          let destination = try schema.entity(relationship.destination)
          values[place] = try target.map { .integer(try tables.key(of: $0, destination)) } ?? .null
        }
      }
    }
  }

  /// The keys of the properties that pending edits of an object tell.
  func properties(_ name: String, _ entity: EntityPlan) -> [Int64] {
    let changes = changes[name] ?? []
    return entity.columns.filter { column in
      changes.contains { $0.attributes?[column.name] != nil || $0.relationships?[column.name] != nil }
    }.map(\.key)
  }

  private static let bodies = SQL(
    "bodies",
    "SELECT body, number, key FROM (SELECT body, number, 0 AS key FROM rejected r WHERE \(RejectedRow.isKept) "
      + "UNION ALL SELECT body, number, key FROM outbox o "
      + "WHERE NOT EXISTS (SELECT 1 FROM sentAgain s WHERE s.number = o.key)) ORDER BY key, number")
  private static let keptBodies = SQL(
    "kept bodies",
    "SELECT body, number, 0 FROM rejected r WHERE \(RejectedRow.isKept) AND -number IN (SELECT number FROM pending "
      + "WHERE number < 0 AND (object = ?1 OR target = ?1)) ORDER BY number")
}
