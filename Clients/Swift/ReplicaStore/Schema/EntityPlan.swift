// An entity as tables have it: its columns in the order of rows, and where its relationships are stored.

/// A column of a root entity's table, as one entity sees it.
struct Column: Sendable {
  enum Kind: Sendable {
    case attribute(AttributeDescription)
    case toOne(RelationshipPlan)
  }

  let name: String
  let kind: Kind
  /// Of the table `property`; pending edits and history name properties by it.
  let key: Int64
  /// A derived attribute's SQL, in terms of the row's alias `$`; nil for a stored column.
  let derivation: String?

  var attribute: AttributeDescription? { if case .attribute(let attribute) = kind { attribute } else { nil } }
  var toOne: RelationshipPlan? { if case .toOne(let relationship) = kind { relationship } else { nil } }
  var isStored: Bool { derivation == nil }
  /// Whether saves tell the server of it.
  var isMirrored: Bool {
    switch kind {
    case .attribute(let attribute): isStored && attribute.traits.isDisjoint(with: [.derived, .notMirrored])
    case .toOne: true
    }
  }
  var isDecimal: Bool { attribute?.type == .decimal }
  var isExternal: Bool { attribute?.traits.contains(.external) == true }
  var quoted: String { name.quoted }
}

/// A relationship, and where it is stored.
struct RelationshipPlan: Sendable {
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
}

/// The table of a many-to-many relationship.
struct LinkTable: Sendable, Hashable {
  let table: String
  /// The relationship is its own inverse: each pair has two rows.
  let isSymmetric: Bool
  /// The relationship seen from column `a`, whose key names pending pairs.
  let firstEntity: String
  let firstRelationship: String
  let firstKey: Int64
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

  var table: String { "e_\(rootName)".quoted }

  init(
    name: String, rootName: String, key: Int64, isAbstract: Bool, kindKeys: [Int64]?, kindNames: Set<String>, columns: [Column],
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
