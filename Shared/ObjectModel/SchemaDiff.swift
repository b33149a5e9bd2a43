// The difference between two schemas, and the part of it that production takes (M5).

/// The name of a record type's field in answers; `field` is nil where an entry concerns the type itself.
public struct SchemaFieldName: Hashable, Sendable, Comparable {
  public let recordType: String
  public let field: String?

  public init(recordType: String, field: String?) {
    self.recordType = recordType
    self.field = field
  }

  public static func < (a: SchemaFieldName, b: SchemaFieldName) -> Bool {
    (a.recordType, a.field ?? "") < (b.recordType, b.field ?? "")
  }
}

/// A change that production refuses.
public struct SchemaRefusal: Hashable, Sendable {
  public enum Change: Hashable, Sendable {
    case removed
    case retyped(from: String, to: String)
    case encryptionChanged(isEncrypted: Bool)
    case indexRemoved([String])
    case grantRemoved(role: String)
    case roleRemoved
  }

  /// The record type's name; for `roleRemoved` the role's.
  public let recordType: String
  public let field: String?
  public let change: Change

  /// One sentence that names the field.
  public var reason: String {
    let subject = field.map { "field '\($0)' of record type '\(recordType)'" } ?? "record type '\(recordType)'"
    return switch change {
    case .removed: "The \(subject) can't be removed from a deployed schema."
    case .retyped(let old, let new): "The \(subject) can't change from \(old) to \(new) in a deployed schema."
    case .encryptionChanged(let isEncrypted):
      isEncrypted
        ? "The \(subject) can't become encrypted in a deployed schema."
        : "The \(subject) can't stop being encrypted in a deployed schema."
    case .indexRemoved(let keywords):
      "The \(subject) can't lose its index \(keywords.joined(separator: ", ")) in a deployed schema."
    case .grantRemoved(let role): "The \(subject) can't lose its grants to '\(role)' in a deployed schema."
    case .roleRemoved: "The role '\(recordType)' can't be removed from a deployed schema."
    }
  }
}

/// The differences between two schemas. All lists ascend.
public struct SchemaDiff: Hashable, Sendable {
  /// Added fields, those of added record types included; an added type without fields has one entry without a field.
  public private(set) var added: [SchemaFieldName] = []
  public private(set) var addedTypes: [String] = []
  /// Fields that gain indexes, and record types that gain grants (entries without a field).
  public private(set) var extended: [SchemaFieldName] = []
  public private(set) var addedRoles: [String] = []
  /// Changes that production refuses and development accepts.
  public private(set) var refusals: [SchemaRefusal] = []

  public var isAdditive: Bool { refusals.isEmpty }
  public var isEmpty: Bool { added.isEmpty && extended.isEmpty && addedRoles.isEmpty && refusals.isEmpty }

  public init(from deployed: Schema, to wanted: Schema) {
    for type in wanted.recordTypes.sorted(by: { $0.name < $1.name }) {
      if let old = deployed.recordType(named: type.name) {
        compare(old, type)
      } else {
        addedTypes.append(type.name)
        added +=
          type.fields.isEmpty
          ? [SchemaFieldName(recordType: type.name, field: nil)]
          : type.fields.map { SchemaFieldName(recordType: type.name, field: $0.name) }
      }
    }
    let wantedTypes = Set(wanted.recordTypes.map(\.name))
    for type in deployed.recordTypes where !wantedTypes.contains(type.name) {
      refusals.append(SchemaRefusal(recordType: type.name, field: nil, change: .removed))
    }
    addedRoles = Set(wanted.roles).subtracting(deployed.roles).sorted()
    refusals += Set(deployed.roles).subtracting(wanted.roles).map {
      SchemaRefusal(recordType: $0, field: nil, change: .roleRemoved)
    }
    added.sort()
    extended.sort()
    refusals.sort { ($0.recordType, $0.field ?? "", $0.reason) < ($1.recordType, $1.field ?? "", $1.reason) }
  }

  private mutating func compare(_ old: Schema.RecordType, _ new: Schema.RecordType) {
    let oldFields = Dictionary(old.fields.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    let newNames = Set(new.fields.map(\.name))
    for field in new.fields {
      let name = SchemaFieldName(recordType: new.name, field: field.name)
      guard let deployed = oldFields[field.name] else {
        added.append(name)
        continue
      }
      if deployed.type != field.type {
        refuse(name, .retyped(from: deployed.type.schemaName, to: field.type.schemaName))
      } else if deployed.isEncrypted != field.isEncrypted {
        refuse(name, .encryptionChanged(isEncrypted: field.isEncrypted))
      } else {
        compareIndexes(name, deployed.indexes, field.indexes)
      }
    }
    for field in old.fields where !newNames.contains(field.name) {
      refuse(SchemaFieldName(recordType: old.name, field: field.name), .removed)
    }
    for system in SystemField.all {
      compareIndexes(
        SchemaFieldName(recordType: new.name, field: system.name), old.systemIndexes[system.name] ?? [],
        new.systemIndexes[system.name] ?? [])
    }
    compareGrants(old, new)
  }

  private mutating func compareIndexes(_ name: SchemaFieldName, _ old: Schema.Indexes, _ new: Schema.Indexes) {
    let lost = old.subtracting(new)
    if !lost.isEmpty { refuse(name, .indexRemoved(Schema.Indexes.keywords.filter { lost.contains($0.0) }.map(\.1))) }
    if !new.subtracting(old).isEmpty { extended.append(name) }
  }

  private mutating func compareGrants(_ old: Schema.RecordType, _ new: Schema.RecordType) {
    let (oldGrants, newGrants) = (old.permissionsByRole, new.permissionsByRole)
    let name = SchemaFieldName(recordType: new.name, field: nil)
    for role in oldGrants.keys.sorted() where !(oldGrants[role] ?? []).isSubset(of: newGrants[role] ?? []) {
      refuse(name, .grantRemoved(role: role))
    }
    if newGrants.contains(where: { !$1.isSubset(of: oldGrants[$0] ?? []) }) { extended.append(name) }
  }

  private mutating func refuse(_ name: SchemaFieldName, _ change: SchemaRefusal.Change) {
    refusals.append(SchemaRefusal(recordType: name.recordType, field: name.field, change: change))
  }
}

extension Schema {
  /// The union of both schemas: types, fields, indexes, grants and roles of either.
  /// - Parameter replacesConflicts: true takes the other schema's field where the two differ in type or encryption;
  ///   false keeps this schema's.
  public func merging(_ other: Schema, replacesConflicts: Bool) -> Schema {
    var types = Dictionary(recordTypes.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    for type in other.recordTypes {
      types[type.name] = types[type.name]?.merging(type, replacesConflicts: replacesConflicts) ?? type
    }
    return Schema(recordTypes: Array(types.values), roles: Set(roles).union(other.roles).sorted())
  }
}

extension Schema.RecordType {
  var permissionsByRole: [String: Set<Schema.Grant.Permission>] {
    grants.reduce(into: [:]) { $0[$1.role, default: []].formUnion($1.permissions) }
  }

  fileprivate func merging(_ other: Schema.RecordType, replacesConflicts: Bool) -> Schema.RecordType {
    var merged = Dictionary(fields.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    for field in other.fields {
      guard var present = merged[field.name] else {
        merged[field.name] = field
        continue
      }
      if present.type == field.type, present.isEncrypted == field.isEncrypted {
        present.indexes.formUnion(field.indexes)
        merged[field.name] = present
      } else if replacesConflicts {
        merged[field.name] = field
      }
    }
    let held = permissionsByRole
    let newGrants = other.grants.filter { !Set($0.permissions).isSubset(of: held[$0.role] ?? []) }
    return Schema.RecordType(
      name: name, fields: Array(merged.values), grants: grants + newGrants,
      systemIndexes: systemIndexes.merging(other.systemIndexes) { $0.union($1) })
  }
}
