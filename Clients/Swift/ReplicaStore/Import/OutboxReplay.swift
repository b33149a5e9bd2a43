// What waiting and kept saves say of objects.

import MirrorWire
import SQLite

/// What the outbox, and the rejected transactions that are kept, say of objects: the server never tells a store its own
/// saves.
struct OutboxReplay {
  private let tables: ObjectTables
  private let schema: StoreSchema
  /// In order.
  private let changes: [ObjectChange]
  /// In order, by name.
  private let changesByName: [String: [ObjectChange]]

  /// All that waits or is kept.
  init(_ tables: ObjectTables, _ schema: StoreSchema) throws {
    try self.init(tables, schema, tables.connection.statement(Self.bodies))
  }

  /// What kept saves say of one object.
  init(_ tables: ObjectTables, _ schema: StoreSchema, keptOf name: String, _ object: Int64) throws {
    // JSON may spell other characters differently. Each body has the empty text.
    let isPlain = !name.contains { "/\\\"".contains($0) }
    let select = try tables.connection.statement(Self.keptBodies).binding(object, isPlain ? name : "")
    try self.init(tables, schema, select) { Self.part(of: $0, naming: name) }
  }

  /// - Parameter part: what is looked at of a change; nil: nothing.
  private init(
    _ tables: ObjectTables, _ schema: StoreSchema, _ select: Statement,
    part: (ObjectChange) -> ObjectChange? = { $0 }
  ) throws {
    self.tables = tables
    self.schema = schema
    let rows = try select.all { (body: $0.blob(0), number: $0.int64(1), isRejected: $0.int64(2) == 0) }
    var changes: [ObjectChange] = []
    for (body, number, isRejected) in rows {
      guard let transaction = try? Transaction(json: body) else {
        throw StoreError.damaged("a transaction of the outbox can't be read")
      }
      // The states of other devices go before objects that are sent again.
      if isRejected, transaction.author == MirroringAuthor.reupload { continue }
      let marks = PendingMarks(tables, number: PendingMarks.number(ofRejected: number), of: transaction)
      for change in transaction.changes where change.changeType != .delete {
        guard let change = part(change), let change = isRejected ? try marks.remaining(of: change) : change
        else { continue }
        changes.append(change)
      }
    }
    self.changes = changes
    changesByName = Dictionary(grouping: changes, by: \.objectID)
  }

  /// All of a change of the object itself, and of another's the pairs with it.
  private static func part(of change: ObjectChange, naming name: String) -> ObjectChange? {
    if change.objectID == name { return change }
    let pairs = (change.relationships ?? [:]).compactMapValues { value -> RelationshipValue? in
      guard case .toManyEdits(let add, let remove) = value else { return nil }
      let (added, removed) = (add.filter { $0 == name }, remove.filter { $0 == name })
      return added.isEmpty && removed.isEmpty ? nil : .toManyEdits(add: added, remove: removed)
    }
    if pairs.isEmpty { return nil }
    var part = change
    (part.attributes, part.relationships) = (nil, pairs)
    return part
  }

  func inserts(_ name: String) -> Bool { changesByName[name]?.contains { $0.changeType == .insert } ?? false }

  /// The pairs of an object that changes tell, from either end, in order.
  func pairs(of object: Int64) throws -> [(pair: Pair, isLinked: Bool)] {
    var pairs: [(pair: Pair, isLinked: Bool)] = []
    for change in changes {
      guard let entity = schema.entities[change.entity] else { continue }
      let owner = try tables.key(of: change.objectID, entity)
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
    return pairs
  }

  /// Puts pending edits onto an object.
  /// - Parameter values: of all columns, relationships as keys.
  func overlay(_ name: String, _ entity: EntityPlan, _ values: inout [Literal?]) throws {
    for change in changesByName[name] ?? [] {
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
    let changes = changesByName[name] ?? []
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
      + "WHERE number < 0 AND (object = ?1 OR target = ?1)) AND instr(CAST(body AS TEXT), ?2) > 0 ORDER BY number")
}
