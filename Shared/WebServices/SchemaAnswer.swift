// The answers to schema calls (docs/protocol/mirror-api.md#models-and-schemas).

import JSON
public import ObjectModel
import Records

public enum SchemaAnswer {
  /// The body after a promotion, with the parts it added.
  /// - Parameter schema: production's schema as text, if the request asked for it.
  public static func added(_ added: [SchemaFieldName], schema: String? = nil) -> [UInt8] {
    var writer = JSONWriter(reservingByteCount: 1024)
    writer.beginObject()
    writer.key("added")
    writer.beginArray()
    for name in added { write(name.recordType, name.field, reason: nil, to: &writer) }
    writer.endArray()
    if let schema { writer.member("schema", schema) }
    writer.endObject()
    return writer.bytes
  }

  /// The error dictionary of changes that production refuses, each listed in `refused`.
  /// - Precondition: there is at least one.
  public static func refusal(_ refusals: [SchemaRefusal], uuid: String) -> [UInt8] {
    precondition(!refusals.isEmpty, "nothing was refused")
    var writer = JSONWriter(reservingByteCount: 1024)
    writer.beginObject()
    writer.member("uuid", uuid)
    RecordError(.badRequest, refusals.map(\.reason).joined(separator: " ")).writeMembers(to: &writer)
    writer.key("refused")
    writer.beginArray()
    for refusal in refusals { write(refusal.recordType, refusal.field, reason: refusal.reason, to: &writer) }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }

  /// The body of the 422 for a model file that cannot be read.
  public static func unreadableModel(_ reason: String, entity: String?, property: String?, uuid: String) -> [UInt8] {
    var writer = JSONWriter(reservingByteCount: 512)
    writer.beginObject()
    writer.member("uuid", uuid)
    RecordError(.badRequest, reason, cocoaErrorCode: .mirroring).writeMembers(to: &writer)
    writer.key("problems")
    writer.beginArray()
    writer.beginObject()
    writer.key("entity")
    if let entity { writer.string(entity) } else { writer.null() }
    writer.key("property")
    if let property { writer.string(property) } else { writer.null() }
    writer.member("rule", "unreadable")
    writer.member("message", reason)
    writer.member("suggestion", "Correct the file, or save it again with Xcode.")
    writer.endObject()
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }

  /// A difference for people, one line each: `+` added, `*` an added index or grant, `!` a change that production
  /// refuses. Empty without differences.
  public static func text(of diff: SchemaDiff) -> String {
    var lines =
      diff.added.map { "+ " + path($0) } + diff.extended.map { "* " + path($0) }
      + diff.addedRoles.map { "+ role " + $0 }
    lines += diff.refusals.map { "! " + $0.reason }
    return lines.map { $0 + "\n" }.joined()
  }

  static func path(_ name: SchemaFieldName) -> String {
    name.field.map { "\(name.recordType).\($0)" } ?? name.recordType
  }

  private static func write(_ recordType: String, _ field: String?, reason: String?, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("recordType", recordType)
    writer.key("field")
    if let field { writer.string(field) } else { writer.null() }
    if let reason { writer.member("reason", reason) }
    writer.endObject()
  }
}
