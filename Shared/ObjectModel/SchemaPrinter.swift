// Prints a schema as `.ckdb` text, the form of exports: equal schemas have equal bytes.

public import Records

/// Prints the text that `SchemaParser` reads.
public enum SchemaPrinter {
  /// The text, ending in a line feed: roles, then record types ascending by name, each with its system fields first.
  public static func text(of schema: Schema) -> String {
    var whole = "DEFINE SCHEMA\n"
    for role in schema.roles.sorted() { whole += "\n    CREATE ROLE \(spell(role));\n" }
    for type in schema.recordTypes.sorted(by: { $0.name < $1.name }) { whole += "\n" + text(of: type) }
    return whole
  }

  private static func text(of type: Schema.RecordType) -> String {
    var fields: [(name: String, type: String)] = SystemField.all.map { field in
      (spell(field.name), typeText(field.type, isEncrypted: false, type.systemIndexes[field.name] ?? []))
    }
    for field in type.fields.sorted(by: { $0.name < $1.name }) {
      fields.append((spell(field.name), typeText(field.type, isEncrypted: field.isEncrypted, field.indexes)))
    }
    let width = fields.map(\.name.utf8.count).max() ?? 0
    var lines = fields.map { $0.name + String(repeating: " ", count: width - $0.name.utf8.count + 1) + $0.type }
    lines += type.grants.map { "GRANT \($0.permissions.map(\.rawValue).joined(separator: ", ")) TO \"\($0.role)\"" }
    return "    RECORD TYPE \(spell(type.name)) (\n" + lines.map { "        " + $0 }.joined(separator: ",\n")
      + "\n    );\n"
  }

  private static func typeText(_ type: FieldType, isEncrypted: Bool, _ indexes: Schema.Indexes) -> String {
    var words = isEncrypted ? ["ENCRYPTED", type.schemaName] : [type.schemaName]
    for (index, keyword) in Schema.Indexes.keywords where indexes.contains(index) { words.append(keyword) }
    return words.joined(separator: " ")
  }

  private static func spell(_ name: String) -> String {
    SchemaToken.isPlainIdentifier(name) && !SchemaToken.reservedWords.contains(name.lowercased()) ? name : "\"\(name)\""
  }
}

/// A field that every record has; only system fields begin with three underscores.
struct SystemField {
  let name: String
  let type: FieldType

  static let all = [
    SystemField(name: "___createTime", type: .timestamp), SystemField(name: "___createdBy", type: .reference),
    SystemField(name: "___etag", type: .string), SystemField(name: "___modTime", type: .timestamp),
    SystemField(name: "___modifiedBy", type: .reference), SystemField(name: "___recordID", type: .reference),
  ]
}

extension Schema.Indexes {
  /// Keywords in the order of the printed text.
  static let keywords: [(Schema.Indexes, String)] = [
    (.queryable, "QUERYABLE"), (.searchable, "SEARCHABLE"), (.sortable, "SORTABLE"),
  ]
}

extension FieldType {
  /// The type in `.ckdb` text, such as `LIST<INT64>`.
  public var schemaName: String {
    if let element { return "LIST<\(element.schemaName)>" }
    return self == .asset ? "ASSET" : wireName
  }

  /// Scalar types by upper-case name.
  static let scalarsBySchemaName: [String: FieldType] = [
    "STRING": .string, "INT64": .int64, "DOUBLE": .double, "TIMESTAMP": .timestamp, "BYTES": .bytes, "ASSET": .asset,
    "REFERENCE": .reference,
    "LOCATION": .location,
  ]
}
