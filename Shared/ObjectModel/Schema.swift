// A CloudKit schema as values: record types, fields with their indexes, grants, roles (M3).

public import Records

/// An environment's schema. Record types and fields ascend by name; system fields (`___…`) are implied.
public struct Schema: Hashable, Sendable, Codable {
  public struct RecordType: Hashable, Sendable, Codable {
    public var name: String
    /// Ascending by name, without system fields.
    public var fields: [Field]
    public var grants: [Grant]
    /// Indexes on system fields, such as `___recordID QUERYABLE`, by the field's name.
    public var systemIndexes: [String: Indexes]

    public init(name: String, fields: [Field], grants: [Grant], systemIndexes: [String: Indexes] = [:]) {
      self.name = name
      self.fields = fields.sorted { $0.name < $1.name }
      self.grants = grants
      self.systemIndexes = systemIndexes
    }

    public func field(named name: String) -> Field? { fields.first { $0.name == name } }
  }

  public struct Field: Hashable, Sendable, Codable {
    public var name: String
    public var type: FieldType
    public var isEncrypted: Bool
    public var indexes: Indexes

    public init(name: String, type: FieldType, isEncrypted: Bool = false, indexes: Indexes = []) {
      self.name = name
      self.type = type
      self.isEncrypted = isEncrypted
      self.indexes = indexes
    }
  }

  public struct Indexes: OptionSet, Hashable, Sendable, Codable {
    public let rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }
    public static let queryable = Indexes(rawValue: 1)
    public static let searchable = Indexes(rawValue: 2)
    public static let sortable = Indexes(rawValue: 4)
  }

  public struct Grant: Hashable, Sendable, Codable {
    public enum Permission: String, Hashable, Sendable, Codable {
      case read = "READ"
      case create = "CREATE"
      case write = "WRITE"
    }
    /// In the order of the schema's text.
    public var permissions: [Permission]
    public var role: String

    public init(permissions: [Permission], role: String) {
      self.permissions = permissions
      self.role = role
    }
  }

  public var recordTypes: [RecordType]
  /// Names of custom roles.
  public var roles: [String]

  public init(recordTypes: [RecordType] = [], roles: [String] = []) {
    self.recordTypes = recordTypes.sorted { $0.name < $1.name }
    self.roles = roles
  }

  public func recordType(named name: String) -> RecordType? { recordTypes.first { $0.name == name } }
}
