// The statements that write objects, rows and pairs; saves and imports share them.

import SQLite

/// Not Sendable: it belongs to the writer's connection.
final class ObjectTables {
  let connection: Connection
  let schema: StoreSchema

  init(_ connection: Connection, _ schema: StoreSchema) {
    self.connection = connection
    self.schema = schema
  }

  // MARK: Names

  /// The key of a name, which becomes known if it was not.
  func key(of name: String, _ entity: EntityPlan) throws -> Int64 {
    let find = try connection.statement(Self.find)
    try RecordName.bind(name, to: find, at: 1)
    if let key = try find.first({ $0.int64(0) }) { return key }
    return try add(name, entity, state: Tables.State.named)
  }

  /// The key of an object that begins to exist.
  func makeHere(_ name: String, _ entity: EntityPlan, found: FoundObject?) throws -> Int64 {
    guard let found else { return try add(name, entity, state: Tables.State.here) }
    try connection.statement(Self.revive).binding(entity.key, found.key).run()
    return found.key
  }

  private func add(_ name: String, _ entity: EntityPlan, state: Int64) throws -> Int64 {
    let statement = try connection.statement(Self.add)
    try RecordName.bind(name, to: statement, at: 1)
    try statement.bind(2, entity.key)
    try statement.bind(3, state)
    try statement.run()
    return connection.lastInsertRowID
  }

  // MARK: Rows

  /// Inserts a row.
  /// - Parameter value: of a column's place. Relationships are keys.
  func insertRow(_ key: Int64, _ entity: EntityPlan, _ value: (Int) throws -> Literal) throws {
    let statement = try connection.statement(entity.insert)
    try statement.bind(1, key)
    for (place, column) in entity.stored.enumerated() { try statement.bind(Int32(place + 2), try value(column)) }
    try statement.run()
  }

  func set(_ column: Column, of entity: EntityPlan, _ key: Int64, to value: Literal) throws {
    let statement = try connection.statement(column.set)
    try statement.bind(1, value)
    try statement.bind(2, key)
    try statement.run()
  }

  /// The stored columns as the table has them, by place; derived ones are null.
  func values(of entity: EntityPlan, _ key: Int64) throws -> [Literal] {
    let statement = try connection.statement(entity.values)
    try statement.bind(1, key)
    return try statement.first { row in entity.columns.indices.map { row.literal(Int32($0 + 1)) } }
      ?? entity.columns.map { _ in .null }
  }

  func toOne(_ column: Column, of entity: EntityPlan, _ key: Int64) throws -> Int64? {
    let statement = try connection.statement(column.get)
    try statement.bind(1, key)
    return try statement.first { $0.optionalInt64(0) } ?? nil
  }

  /// Keys of the rows whose relationship leads to an object.
  func pointing(_ column: Column, of entity: EntityPlan, to key: Int64) throws -> [Int64] {
    let statement = try connection.statement(
      SQL(
        "pointing \(entity.rootName).\(column.name)",
        "SELECT _pk FROM \(entity.table) WHERE \(column.quoted) = ? ORDER BY _pk"))
    try statement.bind(1, key)
    return try statement.all { $0.int64(0) }
  }

  func hasRow(_ entity: EntityPlan, _ key: Int64) throws -> Bool {
    let statement = try connection.statement(entity.has)
    try statement.bind(1, key)
    return try statement.first { _ in true } ?? false
  }

  /// Deletes the row, and notes that the object is deleted. Pairs stay.
  func deleteRow(_ entity: EntityPlan, _ key: Int64) throws {
    let statement = try connection.statement(entity.delete)
    try statement.bind(1, key)
    try statement.run()
    try connection.statement(Self.markDeleted).binding(key).run()
  }

  // MARK: Pairs

  /// - Returns: whether the pair was not so before.
  func setPair(_ pair: Pair, isLinked: Bool) throws -> Bool {
    let statement = try connection.statement(isLinked ? pair.link.insert : pair.link.delete)
    try statement.binding(pair.a, pair.b).run()
    let isChanged = connection.changes > 0
    if pair.link.isSymmetric, pair.a != pair.b { try statement.binding(pair.b, pair.a).run() }
    return isChanged
  }

  /// The pair that a change of an object tells; nil: the relationship has no pairs.
  func pair(_ name: String, of object: Int64, _ entity: EntityPlan, with target: String) throws -> Pair? {
    guard let relationship = entity.toMany[name], case .link(let link, let isFirst) = relationship.storage,
      let destination = schema.entities[relationship.destination]
    else { return nil }
    let other = try key(of: target, destination)
    let isOrdered = link.isSymmetric ? object <= other : isFirst
    return Pair(link: link, a: isOrdered ? object : other, b: isOrdered ? other : object)
  }

  /// The pairs that an object is an end of; those of a symmetric relationship once.
  func pairs(_ link: LinkTable, of key: Int64) throws -> [Pair] {
    let sql = SQL("pairs of \(link.table)", "SELECT a, b FROM \(link.table) WHERE a = ?1 OR b = ?1 ORDER BY a, b")
    return try connection.statement(sql).binding(key).all { Pair(link: link, a: $0.int64(0), b: $0.int64(1)) }
      .filter { !link.isSymmetric || $0.a <= $0.b }
  }

  func deletePairs(_ link: LinkTable, _ key: Int64) throws {
    try connection.statement(SQL("unlink all \(link.table)", "DELETE FROM \(link.table) WHERE a = ?1 OR b = ?1"))
      .binding(key).run()
  }

  /// Keys at the other end of a relationship, ascending.
  func members(of relationship: RelationshipPlan, _ entity: EntityPlan, _ key: Int64, _ destination: EntityPlan) throws
    -> [Int64]
  {
    let text =
      switch relationship.storage {
      case .column:
        "SELECT \(relationship.name.quoted) FROM \(entity.table) WHERE _pk = ? "
          + "AND \(relationship.name.quoted) IN (SELECT _pk FROM \(destination.table))"
      case .inverseColumn(let table, let column): "SELECT _pk FROM \(table) WHERE \(column) = ? ORDER BY _pk"
      case .link(let link, let isFirst):
        "SELECT \(isFirst ? "b" : "a") AS k FROM \(link.table) WHERE \(isFirst ? "a" : "b") = ? ORDER BY k"
      }
    // Subentities of one entity may have relationships of the same name.
    let statement = try connection.statement(SQL("members \(text)", text))
    try statement.bind(1, key)
    return try statement.all { $0.int64(0) }
  }

  // MARK: Words

  /// The number of an author, context or process.
  func word(_ text: String?) throws -> Int64? {
    guard let text else { return nil }
    if let key = try connection.statement(Self.findWord).binding(text).first({ $0.int64(0) }) { return key }
    try connection.statement(Self.addWord).binding(text).run()
    return connection.lastInsertRowID
  }

  private static let find = SQL("key by name", "SELECT _pk FROM object WHERE name = ?")
  private static let add = SQL("add object", "INSERT INTO object(name, entity, state) VALUES (?, ?, ?)")
  private static let revive = SQL("revive object", "UPDATE object SET entity = ?1, state = 1 WHERE _pk = ?2")
  private static let markDeleted = SQL("mark deleted", "UPDATE object SET state = 2 WHERE _pk = ?")
  private static let findWord = SQL("find word", "SELECT key FROM word WHERE text = ?")
  private static let addWord = SQL("add word", "INSERT INTO word(text) VALUES (?)")
}
