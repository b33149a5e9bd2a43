// Writes an audit of a record: its states, one after the other, as changes with authors and times (T-X02).

import JSON
public import Records

/// Collects the changes from state to state of one record.
public struct AuditWriter {
  /// One state of the record; nil fields for a deletion.
  public struct State: Hashable, Sendable {
    public let sequence: Int64
    public let fields: Fields?
    public let modified: Stamp

    public init(sequence: Int64, fields: Fields?, modified: Stamp) {
      self.sequence = sequence
      self.fields = fields
      self.modified = modified
    }
  }

  /// The field that the request asks for; nil for all.
  private let field: String?
  /// Removed from fields' names: properties of the object plane are their fields without this prefix.
  private let prefix: String
  private var writer = JSONWriter()
  /// The state before the next one; nil if there was none.
  private var earlier: Fields?

  public init(field: String?, withoutPrefix prefix: String = "") {
    self.field = field
    self.prefix = prefix
    writer.beginObject()
    writer.key("changes")
    writer.beginArray()
  }

  public var byteCount: Int { writer.bytes.count }

  /// Sets the state before the first one that is shown.
  public mutating func begin(with fields: Fields?) { earlier = fields }

  /// Adds a state if it changed a requested field.
  /// - Parameter isEarliest: true if earlier states are no longer kept: nobody can tell who set this state's values.
  public mutating func add(_ state: State, isEarliest: Bool) {
    defer { earlier = state.fields }
    let names = Set((earlier ?? Fields()).map(\.name)).union((state.fields ?? Fields()).map(\.name)).sorted()
      .filter { (field == nil || field == $0) && $0 != ReservedName.moveReceipt }
      .filter { earlier?[$0] != state.fields?[$0] }
    // Creation and deletion are changes of the whole record.
    guard !names.isEmpty || field == nil && (earlier == nil) != (state.fields == nil) else { return }
    writer.beginObject()
    writer.member("sequence", state.sequence)
    writer.member("recordChangeTag", RecordChangeTag(sequence: state.sequence).text)
    writer.member(
      "changeType", isEarliest ? "earliest" : state.fields == nil ? "delete" : earlier == nil ? "insert" : "update")
    writer.member("timestamp", MirrorDate.text(state.modified.timestamp))
    writer.member("author", state.modified.userRecordName)
    writer.member("device", state.modified.deviceID)
    writer.key("properties")
    writer.beginArray()
    for name in names {
      writer.beginObject()
      writer.member("property", name.hasPrefix(prefix) ? String(name.dropFirst(prefix.count)) : name)
      write("old", isEarliest ? nil : earlier?[name])
      write("new", state.fields?[name])
      writer.endObject()
    }
    writer.endArray()
    writer.endObject()
  }

  /// Adds a move of the record, unless one field is requested: a move changes no field.
  public mutating func addMove(at sequence: Int64, from origin: String, to zoneName: String, by stamp: Stamp) {
    if field != nil { return }
    writer.beginObject()
    writer.member("sequence", sequence)
    writer.member("recordChangeTag", RecordChangeTag(sequence: sequence).text)
    writer.member("changeType", "move")
    writer.member("timestamp", MirrorDate.text(stamp.timestamp))
    writer.member("author", stamp.userRecordName)
    writer.member("device", stamp.deviceID)
    writer.member("from", origin)
    writer.member("to", zoneName)
    writer.key("properties")
    writer.beginArray()
    writer.endArray()
    writer.endObject()
  }

  private mutating func write(_ key: String, _ field: Field?) {
    writer.key(key)
    if let field { ZoneLineWriter.write(field, to: &writer) } else { writer.null() }
  }

  /// - Parameters:
  ///   - knownFrom: the sequence number from which every state is known.
  ///   - last: the sequence number after which the next page begins.
  public consuming func finish(knownFrom: Int64, last: Int64, moreComing: Bool) -> [UInt8] {
    writer.endArray()
    writer.member("knownFrom", knownFrom)
    writer.member("last", last)
    writer.member("moreComing", moreComing)
    writer.endObject()
    return writer.bytes
  }
}
