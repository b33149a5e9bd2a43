// An entity as tables have it: its columns in the order of rows, and where its relationships are stored.

import SQLite

/// A column of a root entity's table, as one entity sees it. A class, since rows by the thousand look at it.
final class Column: Sendable {
  enum Kind: Sendable {
    case attribute(AttributeDescription)
    case toOne(RelationshipPlan)
  }

  let name: String
  let kind: Kind
  let attribute: AttributeDescription?
  let toOne: RelationshipPlan?
  /// Of the table `property`; pending edits and history name properties by it.
  let key: Int64
  /// A derived attribute's SQL, in terms of the row's alias `$`; nil for a stored column.
  let derivation: String?
  let isStored: Bool
  /// Whether saves tell the server of it.
  let isMirrored: Bool
  /// Whether saves write it.
  let isWritable: Bool
  /// Statements that read and write the column of one row.
  let get: SQL
  let set: SQL

  init(name: String, kind: Kind, key: Int64, derivation: String?, root: String) {
    self.name = name
    self.kind = kind
    self.key = key
    self.derivation = derivation
    isStored = derivation == nil
    switch kind {
    case .attribute(let attribute):
      (self.attribute, toOne) = (attribute, nil)
      isMirrored = derivation == nil && attribute.traits.isDisjoint(with: [.derived, .notMirrored])
      isWritable = derivation == nil && !attribute.traits.contains(.derived)
    case .toOne(let relationship):
      (attribute, toOne) = (nil, relationship)
      isMirrored = true
      isWritable = true
    }
    let table = "e_\(root)".quoted
    get = SQL("get \(root).\(name)", "SELECT \(name.quoted) FROM \(table) WHERE _pk = ?")
    set = SQL("set \(root).\(name)", "UPDATE \(table) SET \(name.quoted) = ?1 WHERE _pk = ?2")
  }

  var isDecimal: Bool { attribute?.type == .decimal }
  var isExternal: Bool { attribute?.traits.contains(.external) == true }
  var quoted: String { name.quoted }
}

/// A relationship, and where it is stored.
final class RelationshipPlan: Sendable {
  enum Storage: Sendable {
    /// A column of the entity's own table.
    case column
    /// The column of the to-one inverse.
    case inverseColumn(table: String, column: String)
    /// A table of pairs; `isFirst` tells whether the entity is in column `a`.
    case link(LinkTable, isFirst: Bool)
  }

  let name: String
  let destination: String
  let inverse: String
  let isInverseToMany: Bool
  let isToMany: Bool
  let deleteRule: DeleteRule
  let storage: Storage
  /// Of the table `property`.
  let key: Int64

  init(
    name: String, destination: String, inverse: String, isInverseToMany: Bool, isToMany: Bool, deleteRule: DeleteRule,
    storage: Storage, key: Int64
  ) {
    self.name = name
    self.destination = destination
    self.inverse = inverse
    self.isInverseToMany = isInverseToMany
    self.isToMany = isToMany
    self.deleteRule = deleteRule
    self.storage = storage
    self.key = key
  }
}

/// The table of a many-to-many relationship. Subentities of one entity may share its key.
final class LinkTable: Sendable, Hashable {
  let table: String
  /// The relationship is its own inverse: each pair has two rows.
  let isSymmetric: Bool
  /// The relationship seen from column `a`, whose key names pending pairs.
  let firstEntity: String
  let firstRelationship: String
  let firstKey: Int64
  let insert: SQL
  let delete: SQL

  init(table: String, isSymmetric: Bool, firstEntity: String, firstRelationship: String, firstKey: Int64) {
    self.table = table
    self.isSymmetric = isSymmetric
    self.firstEntity = firstEntity
    self.firstRelationship = firstRelationship
    self.firstKey = firstKey
    insert = SQL("link \(table)", "INSERT OR IGNORE INTO \(table)(a, b) VALUES (?, ?)")
    delete = SQL("unlink \(table)", "DELETE FROM \(table) WHERE a = ? AND b = ?")
  }

  static func == (one: LinkTable, other: LinkTable) -> Bool { one.table == other.table }
  func hash(into hasher: inout Hasher) { hasher.combine(table) }
}

/// An entity of a store.
final class EntityPlan: Sendable {
  let name: String
  let rootName: String
  /// Of the table `entity`.
  let key: Int64
  let isAbstract: Bool
  /// Keys of the entity and all its subentities, ascending; nil when every object of the table is one.
  let kindKeys: [Int64]?
  let kindNames: Set<String>
  /// Columns 1 and following of a row.
  let columns: [Column]
  let columnPlaces: [String: Int]
  let toMany: [String: RelationshipPlan]

  let table: String
  /// Statements of one row, by its key.
  let insert: SQL
  let values: SQL
  let has: SQL
  let delete: SQL
  /// Places of the stored columns.
  let stored: [Int]

  init(
    name: String, rootName: String, key: Int64, isAbstract: Bool, kindKeys: [Int64]?, kindNames: Set<String>,
    columns: [Column],
    toMany: [RelationshipPlan]
  ) {
    self.name = name
    self.rootName = rootName
    self.key = key
    self.isAbstract = isAbstract
    self.kindKeys = kindKeys
    self.kindNames = kindNames
    self.columns = columns
    columnPlaces = Dictionary(uniqueKeysWithValues: columns.enumerated().map { ($1.name, $0) })
    self.toMany = Dictionary(uniqueKeysWithValues: toMany.map { ($0.name, $0) })
    let table = "e_\(rootName)".quoted
    self.table = table
    stored = columns.indices.filter { columns[$0].isStored }
    let names = stored.map { ", \(columns[$0].quoted)" }.joined()
    insert = SQL(
      "insert \(name)", "INSERT INTO \(table)(_pk\(names)) VALUES (?\(String(repeating: ", ?", count: stored.count)))")
    let all = columns.map { $0.isStored ? ", \($0.quoted)" : ", NULL" }.joined()
    values = SQL("values \(name)", "SELECT _pk\(all) FROM \(table) WHERE _pk = ?")
    has = SQL("has \(rootName)", "SELECT 1 FROM \(table) WHERE _pk = ?")
    delete = SQL("delete \(rootName)", "DELETE FROM \(table) WHERE _pk = ?")
  }

  func column(_ name: String) -> Column? { columnPlaces[name].map { columns[$0] } }
  func relationship(_ name: String) -> RelationshipPlan? { column(name)?.toOne ?? toMany[name] }
  /// In the order of columns, then by name.
  var relationships: [RelationshipPlan] { columns.compactMap(\.toOne) + toMany.values.sorted { $0.name < $1.name } }
}

extension String {
  /// As a name in SQL.
  var quoted: String { "\"" + replacing("\"", with: "\"\"") + "\"" }
}
