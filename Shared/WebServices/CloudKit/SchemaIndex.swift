// A schema made ready for looking fields up by name, once per version rather than once per field.

public import ObjectModel
public import Records

/// The record types of an environment by name.
public struct SchemaIndex: Sendable {
  /// A field's declaration.
  public struct FieldDeclaration: Hashable, Sendable {
    public let type: FieldType
    public let isEncrypted: Bool

    public init(type: FieldType, isEncrypted: Bool) {
      self.type = type
      self.isEncrypted = isEncrypted
    }
  }

  private let fieldsByType: [String: [String: FieldDeclaration]]

  public init(_ schema: Schema) {
    var fieldsByType: [String: [String: FieldDeclaration]] = [:]
    for recordType in schema.recordTypes {
      var fields: [String: FieldDeclaration] = [:]
      for field in recordType.fields { fields[field.name] = FieldDeclaration(type: field.type, isEncrypted: field.isEncrypted) }
      fieldsByType[recordType.name] = fields
    }
    self.fieldsByType = fieldsByType
  }

  public func contains(recordType: String) -> Bool { fieldsByType[recordType] != nil }

  /// The declared fields of a type by name; empty for an unknown type.
  public func fields(of recordType: String) -> [String: FieldDeclaration] { fieldsByType[recordType] ?? [:] }
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
