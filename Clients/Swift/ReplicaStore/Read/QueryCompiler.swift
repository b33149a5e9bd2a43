// Turns requests into SQL. Every literal is bound; names come from the schema alone.

/// A statement with its parameters.
struct CompiledQuery {
  var sql: String
  var bindings: [Literal]
}

/// Compiles requests for one schema. `NULL` never spreads: a comparison with nothing is false, and its negation true.
struct QueryCompiler {
  let schema: StoreSchema

  /// Selects rows as `Row` reads them.
  /// - Parameter hasSortKeys: the values that the rows are sorted by follow the row's columns.
  func select(_ query: Query, hasSortKeys: Bool = false) throws(StoreError) -> CompiledQuery {
    var scope = try Scope(query, schema)
    var columns = rowColumns(&scope)
    if hasSortKeys { for order in query.order { columns.append(try sortTerm(order, &scope)) } }
    return try finish(query, &scope, columns)
  }

  private func sortTerm(_ order: Order, _ scope: inout Scope) throws(StoreError) -> String {
    let term = try scope.term(order.path)
    return term.isDecimal ? "CAST(\(term.sql) AS REAL)" : term.sql
  }

  func count(_ query: Query) throws(StoreError) -> CompiledQuery {
    let keys = try self.keys(query)
    return CompiledQuery(sql: "SELECT count(*) FROM (\(keys.sql))", bindings: keys.bindings)
  }

  /// Selects keys alone.
  func keys(_ query: Query) throws(StoreError) -> CompiledQuery {
    var scope = try Scope(query, schema)
    return try finish(query, &scope, ["e._pk"])
  }

  /// Selects the rows at the other end of a to-many relationship of all objects of `query`, with the owner's name in
  /// the column after the row's.
  func select(related name: String, of query: Query) throws(StoreError) -> CompiledQuery {
    let owner = try schema.entity(query.entityName)
    let relationship = try schema.toMany(name, of: owner)
    let owners = try keys(query)
    var scope = try Scope(Query(relationship.destination), schema)
    var columns = rowColumns(&scope)
    columns.append("w.name")
    let (join, key) =
      switch relationship.storage {
      case .link(let link, let isFirst):
        ("JOIN \(link.table) l ON l.\(isFirst ? "b" : "a") = e._pk", "l.\(isFirst ? "a" : "b")")
      case .inverseColumn(_, let column): ("", "e.\(column)")
      case .column: throw .invalid("\(owner.name).\(name) is no to-many relationship")
      }
    let sql =
      """
      SELECT \(columns.joined(separator: ", ")) FROM \(scope.from) \(scope.joins.joined(separator: " ")) \(join) \
      JOIN object w ON w._pk = \(key) WHERE \(key) IN (\(owners.sql)) ORDER BY \(key), e._pk
      """
    return CompiledQuery(sql: sql, bindings: owners.bindings)
  }

  /// Selects the row of one object; its key is bound by the caller.
  func row(of entity: EntityPlan) -> CompiledQuery {
    var scope = Scope(entity, schema)
    let columns = rowColumns(&scope)
    return CompiledQuery(
      sql:
        "SELECT \(columns.joined(separator: ", ")) FROM \(scope.from) \(scope.joins.joined(separator: " ")) "
        + "WHERE e._pk = ?",
      bindings: [])
  }

  private func rowColumns(_ scope: inout Scope) -> [String] {
    var columns = ["o.name"]
    for column in scope.entity.columns {
      if let derivation = column.derivation {
        columns.append(derivation.replacing("$", with: "e"))
      } else if column.toOne != nil {
        scope.joins.append(
          """
          LEFT JOIN object n\(columns.count) ON n\(columns.count)._pk = e.\(column.quoted) AND n\(columns.count).state \
          = 1
          """
        )
        columns.append("n\(columns.count).name")
      } else {
        columns.append("e.\(column.quoted)")
      }
    }
    return columns
  }

  private func finish(_ query: Query, _ scope: inout Scope, _ columns: [String]) throws(StoreError) -> CompiledQuery {
    var wheres: [String] = []
    var bindings: [Literal] = []
    if let kinds = scope.entity.kindKeys {
      wheres.append("o.entity IN (\(kinds.map(String.init).joined(separator: ",")))")
    }
    if let related = query.related { wheres.append(try members(related, &bindings)) }
    var compiler = ConditionCompiler(schema: schema)
    if query.condition != .always {
      wheres.append(try compiler.sql(query.condition, in: &scope))
      bindings += compiler.bindings
    }
    var orders: [String] = []
    for order in query.order {
      orders.append(try sortTerm(order, &scope) + (order.isAscending ? "" : " DESC"))
    }
    var sql = "SELECT \(columns.joined(separator: ", ")) FROM \(scope.from)"
    if !scope.joins.isEmpty { sql += " " + scope.joins.joined(separator: " ") }
    if !wheres.isEmpty { sql += " WHERE " + wheres.joined(separator: " AND ") }
    sql += " ORDER BY " + (orders + ["e._pk"]).joined(separator: ", ")
    if query.limit != nil || query.offset > 0 {
      sql += " LIMIT ? OFFSET ?"
      bindings += [.integer(Int64(query.limit ?? -1)), .integer(Int64(query.offset))]
    }
    return CompiledQuery(sql: sql, bindings: bindings)
  }

  private func members(_ related: Query.Related, _ bindings: inout [Literal]) throws(StoreError) -> String {
    let owner = try schema.entity(related.object.entityName)
    guard let relationship = owner.relationship(related.relationship) else {
      throw .invalid("\(owner.name) has no relationship \(related.relationship)")
    }
    bindings.append(.object(related.object.recordName))
    let key = "(SELECT _pk FROM object WHERE name = ?)"
    return switch relationship.storage {
    case .column: "e._pk = (SELECT x.\(relationship.name.quoted) FROM \(owner.table) x WHERE x._pk = \(key))"
    case .inverseColumn(_, let column): "e.\(column) = \(key)"
    case .link(let link, let isFirst):
      "e._pk IN (SELECT \(isFirst ? "b" : "a") FROM \(link.table) WHERE \(isFirst ? "a" : "b") = \(key))"
    }
  }
}

/// SQL for one value.
struct Term {
  let sql: String
  /// Differs for a to-one relationship: the column, which an index has.
  let stored: String
  let isDecimal: Bool
  let isObject: Bool
}

/// The tables of one (sub)query: its own, and those that paths lead to.
struct Scope {
  let entity: EntityPlan
  let schema: StoreSchema
  let alias: String
  var joins: [String] = []
  private var reached: [[String]: (alias: String, entity: EntityPlan)] = [:]

  init(_ entity: EntityPlan, _ schema: StoreSchema, alias: String = "e") {
    self.entity = entity
    self.schema = schema
    self.alias = alias
  }

  init(_ query: Query, _ schema: StoreSchema) throws(StoreError) {
    self.init(try schema.entity(query.entityName), schema)
  }

  var from: String { "\(entity.table) \(alias) JOIN object o ON o._pk = \(alias)._pk" }

  /// SQL for a value of the object or of one that a path leads to.
  mutating func term(_ path: Path) throws(StoreError) -> Term {
    let (alias, entity) = try reach(path.relationships)
    if path.property == Path.id.property {
      return Term(sql: "\(alias)._pk", stored: "\(alias)._pk", isDecimal: false, isObject: true)
    }
    guard let column = entity.column(path.property) else {
      throw .invalid("\(entity.name) has no attribute or to-one relationship \(path.property)")
    }
    let stored = column.derivation?.replacing("$", with: alias) ?? "\(alias).\(column.quoted)"
    guard column.toOne != nil else {
      return Term(sql: stored, stored: stored, isDecimal: column.isDecimal, isObject: false)
    }
    // A target that is not here reads as nothing.
    let target = try reach(path.relationships + [path.property]).alias
    return Term(sql: "\(target)._pk", stored: stored, isDecimal: false, isObject: true)
  }

  /// The alias of the table that to-one relationships lead to.
  mutating func reach(_ path: [String]) throws(StoreError) -> (alias: String, entity: EntityPlan) {
    guard let last = path.last else { return (alias, entity) }
    if let known = reached[path] { return known }
    let (origin, owner) = try reach(Array(path.dropLast()))
    guard let column = owner.column(last), let relationship = column.toOne else {
      throw .invalid("\(owner.name) has no to-one relationship \(last)")
    }
    let destination = try schema.entity(relationship.destination)
    let joined = "\(alias)\(reached.count + 1)j"
    joins.append("LEFT JOIN \(destination.table) \(joined) ON \(joined)._pk = \(origin).\(column.quoted)")
    reached[path] = (joined, destination)
    return (joined, destination)
  }
}
