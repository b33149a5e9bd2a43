// A schema made ready for lookups, and the gate a save has to pass: every save asks for every field.

public import Records

/// A schema with its types and fields by name.
public final class SchemaIndex: Sendable {
  public let schema: Schema
  private let types: [String: [String: Schema.Field]]

  public init(_ schema: Schema) {
    self.schema = schema
    types = Dictionary(
      schema.recordTypes.map { type in (type.name, Dictionary(type.fields.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })) },
      uniquingKeysWith: { first, _ in first })
  }

  public func hasRecordType(_ name: String) -> Bool { types[name] != nil }

  public func field(_ name: String, of recordType: String) -> Schema.Field? { types[recordType]?[name] }
}

/// What production answers to a save that its schema does not cover (semantics section 3), code 12 of CKError.
public enum SchemaGate {
  public static func unknownType(_ recordType: String) -> RecordError {
    RecordError(.badRequest, "Cannot create new type \(recordType) in production schema")
  }

  public static func unknownField(_ field: String, of recordType: String) -> RecordError {
    RecordError(.badRequest, "Cannot create or modify field '\(field)' in record '\(recordType)' in production schema")
  }

  /// The first thing of a record that the schema does not have; nil when it covers all.
  public static func refusal(of recordType: String, fields: Fields, by schema: SchemaIndex) -> RecordError? {
    guard schema.hasRecordType(recordType) else { return unknownType(recordType) }
    for element in fields {
      guard let known = schema.field(element.name, of: recordType), known.type == element.field.value.type, known.isEncrypted == element.field.isEncrypted else {
        return unknownField(element.name, of: recordType)
      }
    }
    return nil
  }

  /// The fields that a model's objects need and a schema does not have, or has otherwise (T-S12); ascending.
  public static func schemaGap(_ model: ModelIndex, configuration: String? = nil, _ schema: Schema) -> [SchemaFieldName] {
    let diff = SchemaDiff(from: schema, to: SchemaGenerator.schema(for: model, configuration: configuration))
    let changed = diff.refusals.compactMap { refusal -> SchemaFieldName? in
      switch refusal.change {
      case .retyped, .encryptionChanged: SchemaFieldName(recordType: refusal.recordType, field: refusal.field)
      // What other models or texts added is no gap of this one.
      case .removed, .indexRemoved, .grantRemoved, .roleRemoved: nil
      }
    }
    return (diff.added + changed).sorted()
  }
}
