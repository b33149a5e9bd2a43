// Reads one state of a file: within a reader's transaction, or within the writer's.

import FoundationEssentials
import SQLite

/// One state of a store. Not Sendable: it ends with the transaction that lends it.
package final class Snapshot {
  let connection: Connection
  let schema: StoreSchema
  private let contents: (any ContentProvider)?
  private var rowStatements: [Int64: SQL] = [:]

  init(_ connection: Connection, _ schema: StoreSchema, contents: (any ContentProvider)?) {
    self.connection = connection
    self.schema = schema
    self.contents = contents
  }

  private var compiler: QueryCompiler { QueryCompiler(schema: schema) }

  package func forEach(_ query: Query, _ body: (borrowing Row) throws -> Void) throws {
    try run(try compiler.select(query)) { try body(Row($0, contents: contents)) }
  }

  /// As `forEach`, with the values that the rows are sorted by, for results of several stores that are merged.
  package func forEachSorted(_ query: Query, _ body: (borrowing Row, [Literal]) throws -> Void) throws {
    let start = Int32(try schema.entity(query.entityName).columns.count + 1)
    let keys = start..<start + Int32(query.order.count)
    try run(try compiler.select(query, hasSortKeys: true)) { row in
      try body(Row(row, contents: contents), keys.map { row.literal($0) })
    }
  }

  package func hasEntity(_ name: String) -> Bool { schema.entities[name] != nil }

  package func count(_ query: Query) throws(StoreError) -> Int {
    let query = try compiler.count(query)
    do {
      var count = 0
      try run(query) { count = $0.int(0) }
      return count
    } catch { throw storeError(error) }
  }

  /// Rows at the other end of a to-many relationship of all objects that `query` finds.
  /// - Parameter body: takes the row and the record name of its owner; rows of one owner come together.
  package func forEach(related relationship: String, of query: Query, _ body: (borrowing Row, String) throws -> Void)
    throws
  {
    let destination = try schema.toMany(relationship, of: try schema.entity(query.entityName)).destination
    let column = Int32(try schema.entity(destination).columns.count + 1)
    try run(try compiler.select(related: relationship, of: query)) {
      try body(Row($0, contents: contents), RecordName.read($0, column))
    }
  }

  /// - Returns: nil when the object is not here, or is of another entity.
  package func object<Value>(_ id: AnyObjectID, _ body: (borrowing Row) throws -> Value) throws -> Value? {
    let entity = try schema.entity(id.entityName)
    guard let found = try find(id.recordName), found.state == Tables.State.here,
      let kind = schema.entitiesByKey[found.entity],
      entity.kindNames.contains(kind.name)
    else { return nil }
    return try row(found.key, of: entity) { try body(Row($0, contents: contents)) }
  }

  func row<Value>(_ key: Int64, of entity: EntityPlan, _ body: (Statement) throws -> Value) throws -> Value? {
    let sql = rowStatements[entity.key] ?? SQL("row \(entity.name)", compiler.row(of: entity).sql)
    rowStatements[entity.key] = sql
    let statement = try connection.statement(sql)
    try statement.bind(1, key)
    return try statement.first(body)
  }

  /// What the table `object` has of a name.
  func find(_ name: String) throws(StoreError) -> FoundObject? {
    do {
      let statement = try connection.statement(Self.objectByName)
      try RecordName.bind(name, to: statement, at: 1)
      return try statement.first { row in
        FoundObject(key: row.int64(0), entity: row.int64(1), zone: row.optionalInt64(2), state: row.int64(3))
      }
    } catch { throw storeError(error) }
  }

  func object(_ key: Int64) throws -> (id: AnyObjectID, found: FoundObject)? {
    let statement = try connection.statement(Self.objectByKey)
    try statement.bind(1, key)
    return try statement.first { row in
      let found = FoundObject(key: key, entity: row.int64(1), zone: row.optionalInt64(2), state: row.int64(3))
      return (
        AnyObjectID(entityName: schema.entitiesByKey[found.entity]?.name ?? "", recordName: RecordName.read(row, 0)),
        found
      )
    }
  }

  /// nil: nobody has heard of the name.
  package func objectID(named name: String) throws(StoreError) -> AnyObjectID? {
    guard let found = try find(name), let entity = schema.entitiesByKey[found.entity] else { return nil }
    return AnyObjectID(entityName: entity.name, recordName: name)
  }

  /// nil: no object of that name is here.
  package func presentObject(named name: String) throws(StoreError) -> AnyObjectID? {
    guard let found = try find(name), found.state == Tables.State.here,
      let entity = schema.entitiesByKey[found.entity]
    else { return nil }
    return AnyObjectID(entityName: entity.name, recordName: name)
  }

  /// What cached permissions say of an object; nil: it is not here.
  package func rights(_ id: AnyObjectID) throws -> (canUpdate: Bool, canDelete: Bool)? {
    guard let found = try find(id.recordName), found.state == Tables.State.here else { return nil }
    return try CachedRights(connection).of(found.key, zone: found.zone)
  }

  /// The names of all objects that `query` finds.
  package func objectIDs(_ query: Query) throws(StoreError) -> [AnyObjectID] {
    let keys = try compiler.keys(query)
    do {
      var ids: [AnyObjectID] = []
      try run(
        CompiledQuery(
          sql: "SELECT o.name, o.entity FROM (\(keys.sql)) k JOIN object o ON o._pk = k._pk", bindings: keys.bindings)
      ) { row in
        ids.append(
          AnyObjectID(entityName: schema.entitiesByKey[row.int64(1)]?.name ?? "", recordName: RecordName.read(row, 0)))
      }
      return ids
    } catch { throw storeError(error) }
  }

  /// Rows of any statement that only reads.
  package func rows(_ sql: String, _ arguments: [Literal]) throws(StoreError) -> [[Literal]] {
    do {
      let statement = try connection.prepare(SQL("rows", sql))
      // COMMIT and its like count as statements that only read, and have no columns.
      guard statement.isReadOnly, statement.columnCount > 0 else { throw StoreError.invalid("the statement writes") }
      try bind(arguments, to: statement)
      return try statement.all { row in (0..<row.columnCount).map { row.literal($0) } }
    } catch { throw storeError(error) }
  }

  private func run(_ query: CompiledQuery, _ body: (Statement) throws -> Void) throws {
    // A query of a frequent form is prepared once; a body may run the same request again, so it is not shared.
    let statement = try statements.take(query.sql, connection)
    defer { statements.giveBack(statement, query.sql) }
    try bind(query.bindings, to: statement)
    try statement.forEach(body)
  }

  private func bind(_ literals: [Literal], to statement: Statement) throws {
    for (place, literal) in literals.enumerated() { try statement.bind(Int32(place + 1), literal) }
  }

  private let statements = StatementCache()

  private static let objectByName = SQL("object by name", "SELECT _pk, entity, zone, state FROM object WHERE name = ?")
  private static let objectByKey = SQL("object by key", "SELECT name, entity, zone, state FROM object WHERE _pk = ?")
}

/// What is known of an object beside its values.
struct FoundObject {
  let key: Int64
  let entity: Int64
  let zone: Int64?
  let state: Int64
}

/// Prepared requests that nobody steps through, at most 64.
private final class StatementCache {
  private var idle: [String: Statement] = [:]

  func take(_ sql: String, _ connection: Connection) throws -> Statement {
    if let statement = idle.removeValue(forKey: sql) { return statement }
    return try connection.prepare(SQL("request", sql))
  }

  func giveBack(_ statement: Statement, _ sql: String) {
    if idle.count >= 64 { idle = [:] }
    idle[sql] = statement
  }
}

extension Statement {
  func bind(_ index: Int32, _ literal: Literal) throws(SQLiteError) {
    switch literal {
    case .null: try bindNull(index)
    case .integer(let number): try bind(index, number)
    case .real(let number): try bind(index, number)
    case .text(let text): try bind(index, text)
    case .data(let data): try bind(index, [UInt8](data))
    case .object(let name): try RecordName.bind(name, to: self, at: index)
    }
  }

  func literal(_ column: Int32) -> Literal {
    switch kind(column) {
    case .null: .null
    case .integer: .integer(int64(column))
    case .real: .real(double(column))
    case .text: .text(text(column))
    case .blob: .data(withBytes(column) { Data($0) })
    }
  }
}
