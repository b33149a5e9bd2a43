// Turns conditions into SQL.

struct ConditionCompiler {
  let schema: StoreSchema
  private(set) var bindings: [Literal] = []
  private var depth = 0

  init(schema: StoreSchema) { self.schema = schema }

  /// - Returns: an expression that is 0 or 1, never `NULL`. Its parameters are the bindings added, in order.
  mutating func sql(_ condition: Condition, in scope: inout Scope) throws(StoreError) -> String {
    switch condition {
    case .always: return "1"
    case .and(let one, let other): return "(\(try sql(one, in: &scope)) AND \(try sql(other, in: &scope)))"
    case .or(let one, let other): return "(\(try sql(one, in: &scope)) OR \(try sql(other, in: &scope)))"
    case .not(let condition): return "(NOT \(try sql(condition, in: &scope)))"
    case .compare(let path, let comparison, let literal): return try compare(path, comparison, literal, &scope)
    case .isIn(let path, let literals): return try isIn(path, literals, &scope)
    case .any(let path, let condition): return "EXISTS(SELECT 1 FROM \(try members(path, condition, &scope)))"
    case .count(let path, let condition, let comparison, let count):
      guard let sign = comparison.sign else { throw .invalid("a count is compared as a number") }
      let members = try members(path, condition, &scope)
      bindings.append(.integer(Int64(count)))
      return "((SELECT count(*) FROM \(members)) \(sign) ?)"
    }
  }

  private mutating func compare(
    _ path: Path, _ comparison: Condition.Comparison, _ literal: Literal, _ scope: inout Scope
  ) throws(StoreError) -> String {
    let term = try scope.term(path)
    if let sign = comparison.sign {
      if literal == .null, comparison != .equal, comparison != .notEqual { return "0" }
      let (left, right) = operands(term, literal)
      if term.isObject, comparison == .equal, literal != .null {
        return "(\(term.stored) = \(right) AND \(left) IS NOT NULL)"
      }
      if comparison == .equal || comparison == .notEqual {
        return "(\(left) \(comparison == .equal ? "IS" : "IS NOT") \(right))"
      }
      return "(\(left) \(sign) \(right) AND \(left) IS NOT NULL)"
    }
    guard case .text(let text) = literal else {
      throw .invalid("\(path.property) is searched for something else than a text")
    }
    let needle = Fold.fold(text)
    let folded = "aquifer_fold(\(term.sql))"
    bindings.append(.text(needle))
    let search: String
    switch comparison {
    case .contains: search = needle.isEmpty ? "? IS NOT NULL" : "instr(\(folded), ?) > 0"
    case .hasPrefix:
      bindings.append(.text(needle))
      search = "substr(\(folded), 1, length(?)) = ?"
    case .hasSuffix:
      bindings += [.text(needle), .text(needle)]
      search = "(length(\(folded)) >= length(?) AND substr(\(folded), 1 + length(\(folded)) - length(?)) = ?)"
    default: search = "\(folded) = ?"
    }
    return "(\(term.sql) IS NOT NULL AND \(search))"
  }

  private mutating func isIn(_ path: Path, _ literals: [Literal], _ scope: inout Scope) throws(StoreError) -> String {
    let term = try scope.term(path)
    let values = literals.filter { $0 != .null }
    var alternatives: [String] = []
    if values.count < literals.count { alternatives.append("\(term.sql) IS NULL") }
    if !values.isEmpty {
      let left = term.isDecimal ? "CAST(\(term.sql) AS REAL)" : term.stored
      let list = values.map { operands(term, $0).right }.joined(separator: ", ")
      alternatives.append("(\(left) IN (\(list)) AND \(term.sql) IS NOT NULL)")
    }
    return alternatives.isEmpty ? "0" : "(\(alternatives.joined(separator: " OR ")))"
  }

  /// The two sides of a comparison; binds the literal.
  private mutating func operands(_ term: Term, _ literal: Literal) -> (left: String, right: String) {
    bindings.append(literal)
    // A name that nobody has heard of must not be taken for nothing.
    if term.isObject, literal != .null { return (term.sql, "coalesce((SELECT _pk FROM object WHERE name = ?), -1)") }
    if term.isDecimal, literal != .null { return ("CAST(\(term.sql) AS REAL)", "CAST(? AS REAL)") }
    return (term.sql, "?")
  }

  /// `FROM` and `WHERE` of the objects of a to-many relationship that meet a condition.
  private mutating func members(_ path: Path, _ condition: Condition, _ scope: inout Scope) throws(StoreError) -> String
  {
    let (owner, entity) = try scope.reach(path.relationships)
    let relationship = try schema.toMany(path.property, of: entity)
    let destination = try schema.entity(relationship.destination)
    depth += 1
    var inner = Scope(destination, schema, alias: "s\(depth)")
    let met = try sql(condition, in: &inner)
    let members = RelationshipSQL.members(
      of: relationship, owner: "\(owner)._pk", table: destination.table, alias: inner.alias)
    guard let start = members.firstRange(of: " WHERE ") else { return members }
    return
      "\(members[..<start.lowerBound]) \(inner.joins.joined(separator: " "))\(members[start.lowerBound...]) AND \(met)"
  }
}

extension Condition.Comparison {
  /// nil: the comparison is a search in folded text.
  fileprivate var sign: String? {
    switch self {
    case .equal: "="
    case .notEqual: "<>"
    case .less: "<"
    case .lessOrEqual: "<="
    case .greater: ">"
    case .greaterOrEqual: ">="
    case .contains, .hasPrefix, .hasSuffix, .equalFolded: nil
    }
  }
}
