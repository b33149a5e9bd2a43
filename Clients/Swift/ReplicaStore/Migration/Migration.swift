// Brings a file to another version of its model, in the transaction that opens it: all of it or nothing.

import FoundationEssentials
import SQLite

struct Migration {
  private let connection: Connection
  private let earlier: StoreSchema
  private let later: StoreSchema
  private let isMirrored: Bool
  private let mapping: ModelMapping

  init(_ connection: Connection, from earlier: StoreSchema, to later: StoreSchema, isMirrored: Bool) {
    self.connection = connection
    self.earlier = earlier
    self.later = later
    self.isMirrored = isMirrored
    mapping = ModelMapping(from: earlier.model, to: later.model)
  }

  /// - Throws: `migration` with all that can't be inferred.
  func run() throws {
    let problems = try problems()
    guard problems.isEmpty else { throw StoreError.migration(problems: problems) }
    for root in later.roots {
      for sql in Tables.create(root, in: later, named: "m_\(root.name)".quoted) { try connection.execute(sql) }
      for entity in later.all where entity.rootName == root.name && !entity.isAbstract {
        try copy(entity, into: "m_\(root.name)".quoted)
      }
    }
    for link in later.links { try copy(link) }
    for root in earlier.roots { try connection.execute("DROP TABLE \(root.table)") }
    for link in earlier.links { try connection.execute("DROP TABLE \(link.table)") }
    for root in later.roots {
      try connection.execute("ALTER TABLE \("m_\(root.name)".quoted) RENAME TO \(root.table)")
      for sql in Tables.indexes(of: root, in: later) { try connection.execute(sql) }
    }
    for link in later.links {
      try connection.execute("ALTER TABLE \(link.migrated) RENAME TO \(link.table)")
      try connection.execute(Tables.create(link)[1])
    }
    try remapEntities()
    try OutboxRewrite(connection, mapping, earlier, later).run()
  }

  // MARK: Rows

  /// Copies the objects of an entity.
  private func copy(_ entity: EntityPlan, into table: String) throws {
    guard let old = mapping.earlierEntity(entity.name).flatMap({ earlier.entities[$0] }) else { return }
    var names: [String] = []
    var values: [String] = []
    var defaults: [Literal] = []
    for column in entity.columns where column.isStored {
      names.append(column.quoted)
      let source = mapping.earlierProperty(column.name, of: entity.name).flatMap { old.column($0) }.flatMap {
        $0.isStored ? $0 : nil
      }
      let fallback = column.attribute.map(WireValue.defaultValue) ?? .null
      if let source {
        let value = Self.converted("e.\(source.quoted)", source, column)
        let needsValue = column.attribute?.traits.contains(.required) == true
        values.append(needsValue ? "coalesce(\(value), ?)" : value)
        if needsValue { defaults.append(fallback) }
      } else {
        values.append("?")
        defaults.append(fallback)
      }
    }
    let statement = try connection.prepare(
      SQL(
        "migrate rows",
        """
        INSERT INTO \(table)(_pk\(names.map { ", " + $0 }.joined())) SELECT e._pk\(values.map { ", " + $0 }.joined()) \
        FROM \(old.table) e JOIN object o ON o._pk = e._pk WHERE o.entity = \(old.key)
        """))
    for (place, value) in defaults.enumerated() { try statement.bind(Int32(place + 1), value) }
    try statement.run()
  }

  private static func converted(_ sql: String, _ source: Column, _ column: Column) -> String {
    guard let from = source.attribute?.type, let to = column.attribute?.type, from != to else { return sql }
    switch to {
    case .double, .float: return "CAST(\(sql) AS REAL)"
    case .decimal, .string: return "CAST(\(sql) AS TEXT)"
    default: return sql
    }
  }

  private func copy(_ link: LinkTable) throws {
    try connection.execute("CREATE TABLE \(link.migrated)(a INTEGER, b INTEGER, PRIMARY KEY(a, b)) WITHOUT ROWID")
    guard let (old, isTurned) = mapping.earlierLink(link, in: earlier) else { return }
    try connection.execute("INSERT INTO \(link.migrated)(a, b) SELECT \(isTurned ? "b, a" : "a, b") FROM \(old.table)")
  }

  /// Objects get the numbers of their entities' later names; those of entities that are gone are gone, too.
  private func remapEntities() throws {
    var moves: [(from: Int64, to: Int64?)] = []
    for entity in earlier.all {
      let to = mapping.laterEntity(entity.name).flatMap { later.entities[$0]?.key }
      if to != entity.key { moves.append((entity.key, to)) }
    }
    // Through negative numbers, so that two entities can change names.
    for move in moves {
      try connection.statement(SQL("lift entity", "UPDATE object SET entity = -entity WHERE entity = ?")).binding(
        move.from
      ).run()
    }
    for move in moves {
      if let to = move.to {
        try connection.statement(SQL("land entity", "UPDATE object SET entity = ? WHERE entity = ?")).binding(
          to, -move.from
        ).run()
      } else {
        try connection.statement(SQL("end entity", "UPDATE object SET entity = -entity, state = 2 WHERE entity = ?"))
          .binding(-move.from).run()
      }
    }
  }

  // MARK: Problems

  private func problems() throws -> [String] {
    var problems = mapping.problems
    for entity in later.all {
      guard let old = mapping.earlierEntity(entity.name).flatMap({ earlier.entities[$0] }) else { continue }
      for column in entity.columns where column.isStored {
        let source = mapping.earlierProperty(column.name, of: entity.name)
        if let problem = try problem(column, source.flatMap { old.column($0) }, entity, old) {
          problems.append("\(entity.name).\(column.name): \(problem)")
        }
        if isMirrored, let problem = nameProblem(column, source, entity, old) {
          problems.append("\(entity.name).\(column.name): \(problem)")
        }
        guard column.toOne != nil, let source else { continue }
        if old.toMany[source] != nil {
          problems.append("\(entity.name).\(column.name): a to-many relationship can't become a to-one relationship")
        } else if isMirrored, source != column.name {
          problems.append("\(entity.name).\(column.name): \(Self.pointerProblem(source))")
        }
      }
      for relationship in entity.toMany.values.sorted(by: { $0.name < $1.name }) {
        guard let source = mapping.earlierProperty(relationship.name, of: entity.name),
          let former = old.relationship(source)
        else { continue }
        if former.isToMany != relationship.isToMany || former.isInverseToMany != relationship.isInverseToMany {
          problems.append(
            "\(entity.name).\(relationship.name): the relationship or its inverse changes between to-one and to-many")
        }
      }
    }
    return problems
  }

  /// A pointer is read under one name alone, unlike attributes and pairs.
  private static func pointerProblem(_ former: String) -> String {
    "a to-one relationship of a mirrored store can't have another name: keep \(former), or add a relationship beside "
      + "it and fill that in a migration step"
  }

  /// Records keep an attribute's values under its former names, so none of these is another attribute's (R19). Its own
  /// it can be again: an app can go back to an earlier version, whose devices read that field anyway.
  private func nameProblem(_ column: Column, _ source: String?, _ entity: EntityPlan, _ old: EntityPlan) -> String? {
    guard column.isMirrored, let attribute = column.attribute else { return nil }
    if let source, source != column.name {
      if entity.column(source)?.isMirrored == true {
        return "it was called \(source), and \(source) is now another property: give that a name that none has had"
      }
    } else if source != nil, let former = attribute.renamingIdentifier, former != column.name,
      old.column(former) == nil, entity.column(former)?.isMirrored == true
    {
      return "it was called \(former), and \(former) is now another property: give that a name that none has had"
    }
    return nil
  }

  private func problem(_ column: Column, _ source: Column?, _ entity: EntityPlan, _ old: EntityPlan) throws -> String? {
    guard let attribute = column.attribute else { return nil }
    if let source {
      guard let former = source.attribute else { return "a relationship can't become an attribute" }
      if !Self.canConvert(former, attribute) {
        return "a value of \(former.type.rawValue) can't become one of \(attribute.type.rawValue)"
      }
    }
    guard attribute.traits.contains(.required), WireValue.defaultValue(attribute) == .null else { return nil }
    let value = source.flatMap { $0.isStored ? "e.\($0.quoted) IS NULL" : nil } ?? "1"
    let count = try connection.prepare(
      SQL(
        "without value",
        "SELECT count(*) FROM \(old.table) e JOIN object o ON o._pk = e._pk WHERE o.entity = \(old.key) AND \(value)")
    ).first { $0.int64(0) }
    return count == 0 ? nil : "a value is required, and there is no default for the objects without one"
  }

  private static func canConvert(_ from: AttributeDescription, _ to: AttributeDescription) -> Bool {
    if from.traits.contains(.external) != to.traits.contains(.external) { return false }
    if from.type == to.type { return true }
    let integers: [AttributeType] = [.boolean, .integer16, .integer32, .integer64]
    switch to.type {
    case .integer16, .integer32, .integer64:
      guard let one = integers.firstIndex(of: from.type), let other = integers.firstIndex(of: to.type) else {
        return false
      }
      return one < other
    case .double: return integers.contains(from.type) || from.type == .float
    case .float: return integers.contains(from.type)
    case .decimal: return integers.contains(from.type)
    case .string: return integers.dropFirst().contains(from.type) || [.decimal, .uri, .uuid].contains(from.type)
    case .transformable, .binary: return [.transformable, .binary].contains(from.type)
    default: return false
    }
  }
}

extension ModelMapping {
  /// The earlier table of a many-to-many relationship, and whether its columns change places; nil: it is new.
  func earlierLink(_ link: LinkTable, in earlier: StoreSchema) -> (table: LinkTable, isTurned: Bool)? {
    guard let owner = earlierEntity(link.firstEntity).flatMap({ earlier.entities[$0] }),
      let name = earlierProperty(link.firstRelationship, of: link.firstEntity),
      case .link(let table, let isFirst)? = owner.toMany[name]?.storage
    else { return nil }
    return (table, !isFirst)
  }
}

extension LinkTable {
  fileprivate var migrated: String { "m_\(table.dropFirst().dropLast())".quoted }
}
