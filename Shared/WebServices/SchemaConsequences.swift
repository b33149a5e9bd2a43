// The effects of a schema change on stored records, beside the parts it adds.

import JSON
public import ObjectModel
import Records

/// The fields that a schema change alters or removes, and the records that have them.
public struct SchemaConsequences: Hashable, Sendable {
  /// A field with another type or encryption. Devices do not get objects with earlier values, because these do not fit.
  public struct Retyped: Hashable, Sendable {
    public let name: SchemaFieldName
    /// The type before, in the schema's notation.
    public let from: String
    public let to: String
    /// The number of records with the field; nil if it is unknown.
    public var records: Int64?
    /// There may be more records than `records`.
    public var isAtLeast = false

    public init(_ name: SchemaFieldName, from: String, to: String) {
      self.name = name
      self.from = from
      self.to = to
    }

    /// `CD_Post.CD_likes: INT64 → STRING, 12 records`.
    public var text: String {
      "\(SchemaAnswer.path(name)): \(from) → \(to), \(RecordCount.text(records, isAtLeast: isAtLeast))"
    }
  }

  public var retyped: [Retyped] = []
  /// Removed fields, record types (without a field), indexes, grants and roles: one line each.
  public var removed: [String] = []
  public var added: [String] = []
  /// Fields that gain indexes, and record types that gain grants.
  public var extended: [String] = []
  /// Further remarks, a sentence or two each.
  public var notes: [String] = []

  public init() {}

  /// The consequences of a difference that development accepts, without counts of records.
  public init(of diff: SchemaDiff) {
    added = diff.added.map(SchemaAnswer.path) + diff.addedRoles.map { "role " + $0 }
    extended = diff.extended.map(SchemaAnswer.path)
    for refusal in diff.refusals {
      let name = SchemaFieldName(recordType: refusal.recordType, field: refusal.field)
      switch refusal.change {
      case .retyped(let from, let to): retyped.append(Retyped(name, from: from, to: to))
      case .encryptionChanged(let isEncrypted):
        retyped.append(
          Retyped(name, from: isEncrypted ? "in clear" : "ENCRYPTED", to: isEncrypted ? "ENCRYPTED" : "in clear"))
      case .removed: removed.append(SchemaAnswer.path(name))
      case .indexRemoved(let keywords):
        removed.append("\(keywords.joined(separator: ", ")) of \(SchemaAnswer.path(name))")
      case .grantRemoved(let role): removed.append("grants of \(SchemaAnswer.path(name)) to \(role)")
      case .roleRemoved: removed.append("role \(refusal.recordType)")
      }
    }
  }

  /// True if records may have values that no longer fit.
  public var hidesRecords: Bool { retyped.contains { $0.records != 0 || $0.isAtLeast } }

  /// One line each, for people: `+` added, `-` removed, `~` of another type, `*` an added index or grant. Empty without
  /// changes.
  public var text: String {
    let lines =
      added.map { "+ " + $0 } + removed.map { "- " + $0 } + retyped.map { "~ " + $0.text } + extended.map { "* " + $0 }
    return lines.map { $0 + "\n" }.joined()
  }

  /// Writes `diff`, and `retyped` and `notes` if there are any.
  func write(to writer: inout JSONWriter) {
    writer.member("diff", text)
    if !retyped.isEmpty { writeRetyped("retyped", to: &writer) }
    if notes.isEmpty { return }
    writer.key("notes")
    writer.beginArray()
    for note in notes { writer.string(note) }
    writer.endArray()
  }

  fileprivate func writeRetyped(_ key: String, to writer: inout JSONWriter) {
    writer.key(key)
    writer.beginArray()
    for field in retyped {
      writer.beginObject()
      writer.member("recordType", field.name.recordType)
      writer.key("field")
      if let name = field.name.field { writer.string(name) } else { writer.null() }
      writer.member("from", field.from)
      writer.member("to", field.to)
      writer.key("records")
      if let count = field.records { writer.integer(count) } else { writer.null() }
      if field.isAtLeast { writer.member("isAtLeast", true) }
      writer.member("reason", field.text)
      writer.endObject()
    }
    writer.endArray()
  }
}

extension SchemaAnswer {
  /// The error dictionary of a change that would hide records, for a caller who has not confirmed it; each field is
  /// listed in `retyped`.
  public static func refusal(_ consequences: SchemaConsequences, uuid: String) -> [UInt8] {
    var writer = JSONWriter(reservingByteCount: 1024)
    writer.beginObject()
    writer.member("uuid", uuid)
    let fields = consequences.retyped.map(\.text).joined(separator: "; ")
    RecordError(
      .badRequest,
      """
      Fields would change their types: \(fields). Objects with old values would be hidden from devices until the \
      values are set again. Allow it with changeTypes=true (--change-types), or give the attribute another name
      """
    ).writeMembers(to: &writer)
    consequences.writeRetyped("retyped", to: &writer)
    writer.endObject()
    return writer.bytes
  }
}

/// `12 records`, `at least 1 record`, `an unknown number of records`.
public enum RecordCount {
  public static func text(_ count: Int64?, isAtLeast: Bool) -> String {
    guard let count, count > 0 || !isAtLeast else { return "an unknown number of records" }
    return "\(isAtLeast ? "at least " : "")\(count) record\(count == 1 ? "" : "s")"
  }
}
