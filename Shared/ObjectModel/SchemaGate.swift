// Refuses saves that a production schema does not cover, and lists the fields that a model still needs.

public import Records

/// Production's refusals of a save that its schema does not cover, code 12 of CKError (M6).
public enum SchemaGate {
  public static func unknownType(_ recordType: String) -> RecordError {
    RecordError(.badRequest, "Cannot create new type \(recordType) in production schema")
  }

  public static func unknownField(_ field: String, of recordType: String) -> RecordError {
    RecordError(.badRequest, "Cannot create or modify field '\(field)' in record '\(recordType)' in production schema")
  }

  /// The fields that a model's objects need and a schema does not have, or has otherwise (T-S12); ascending.
  public static func schemaGap(_ model: ModelIndex, configuration: String? = nil, _ schema: Schema) -> [SchemaFieldName]
  {
    let diff = SchemaDiff(from: schema, to: SchemaGenerator.schema(for: model, configuration: configuration))
    let changed = diff.refusals.compactMap { refusal -> SchemaFieldName? in
      switch refusal.change {
      case .retyped, .encryptionChanged: SchemaFieldName(recordType: refusal.recordType, field: refusal.field)
      // Removals are no gap: other models or schema texts added those parts.
      case .removed, .indexRemoved, .grantRemoved, .roleRemoved: nil
      }
    }
    return (diff.added + changed).sorted()
  }
}
