// A schema prepared for finding fields by name, once per version of the schema.

public import Indexing
public import ObjectModel
public import Records

/// The record types of an environment by name.
public struct SchemaIndex: Sendable {
  public struct FieldDeclaration: Hashable, Sendable {
    public let type: FieldType
    public let isEncrypted: Bool
    public let indexes: Schema.Indexes

    public init(type: FieldType, isEncrypted: Bool, indexes: Schema.Indexes = []) {
      self.type = type
      self.isEncrypted = isEncrypted
      self.indexes = indexes
    }
  }

  private let fieldsByType: [String: [String: FieldDeclaration]]
  private let systemIndexesByType: [String: [String: Schema.Indexes]]

  public init(_ schema: Schema) {
    var fieldsByType: [String: [String: FieldDeclaration]] = [:]
    for recordType in schema.recordTypes {
      var fields: [String: FieldDeclaration] = [:]
      for field in recordType.fields {
        fields[field.name] = FieldDeclaration(type: field.type, isEncrypted: field.isEncrypted, indexes: field.indexes)
      }
      fieldsByType[recordType.name] = fields
    }
    self.fieldsByType = fieldsByType
    systemIndexesByType = Dictionary(
      schema.recordTypes.map { ($0.name, $0.systemIndexes) }, uniquingKeysWith: { first, _ in first })
  }

  public func contains(recordType: String) -> Bool { fieldsByType[recordType] != nil }

  /// The declared fields of a type by name; empty for an unknown type.
  public func fields(of recordType: String) -> [String: FieldDeclaration] { fieldsByType[recordType] ?? [:] }
}

extension SchemaIndex {
  /// The uses that the schema allows for a field of a type.
  ///
  /// Schemas cannot name a record's parent and share: queries may always use those.
  public func indexes(of key: RecordKey, in recordType: String) -> Schema.Indexes {
    switch key {
    case .field(let name):
      guard let field = fieldsByType[recordType]?[name], !field.isEncrypted else { return [] }
      return field.indexes
    case .system(.parent), .system(.share): return .queryable
    case .system(let field): return systemIndexesByType[recordType]?[field.fieldName] ?? []
    }
  }

  /// True if a store may keep an index because the schema declares it. In development every system field may have one.
  /// A type's own index shows in no answer and needs no declaration; unique indexes follow from the environment's rules
  /// instead.
  public func declares(_ index: FieldIndex, in environment: Environment) -> Bool {
    if index.kind == .type { return true }
    if case .system = index.key, environment == .development { return true }
    let declared = indexes(of: index.key, in: index.recordType)
    return switch index.kind {
    case .type: true
    case .unique: false
    case .value: !declared.isDisjoint(with: [.queryable, .sortable])
    case .words: declared.contains(.searchable)
    case .place: declared.contains(.queryable)
    }
  }
}

/// A field that records carry and the schema does not know.
public struct UndeclaredField: Hashable, Sendable {
  public let recordType: String
  public let field: String
  public let type: FieldType
  public let isEncrypted: Bool

  public init(recordType: String, field: String, type: FieldType, isEncrypted: Bool) {
    self.recordType = recordType
    self.field = field
    self.type = type
    self.isEncrypted = isEncrypted
  }
}
