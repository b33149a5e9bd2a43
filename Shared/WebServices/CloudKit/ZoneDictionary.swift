// Zone IDs and zone dictionaries (docs/protocol/record-plane.md#zone-id).

public import JSON
public import Records

/// A zone as a request names it, before its owner is known.
public struct ZoneReference: Hashable, Sendable {
  public let zoneName: String
  /// nil means the owner of the requested database, as do `_defaultOwner` and `__defaultOwner__`.
  public let ownerRecordName: String?

  public static let defaultZone = ZoneReference(zoneName: ReservedName.defaultZone, ownerRecordName: nil)

  public init(zoneName: String, ownerRecordName: String?) {
    self.zoneName = zoneName
    self.ownerRecordName = ownerRecordName
  }

  /// Reads a zone ID: an object, or only the zone's name.
  public init(_ value: JSONValue) throws(RecordError) {
    if let name = value.string {
      self.init(zoneName: name, ownerRecordName: nil)
      return
    }
    guard value.kind == .object else { throw RecordError(.badRequest, "zoneID must be an object") }
    let owner = try value.optionalString("ownerRecordName").flatMap {
      ReservedName.callerOwners.contains($0) ? nil : $0
    }
    self.init(zoneName: try value.optionalString("zoneName") ?? ReservedName.defaultZone, ownerRecordName: owner)
  }

  /// Reads an object's `zoneID`; absent and null mean the default zone.
  public init(of value: JSONValue) throws(RecordError) {
    self = try value.member("zoneID").map { zone throws(RecordError) in try ZoneReference(zone) } ?? .defaultZone
  }
}

extension Zone.ID {
  /// The owner as clients see it; a fixed name for the public database.
  public var ownerRecordName: String { ownerName == DatabaseID.publicOwner ? ReservedName.defaultOwner : ownerName }

  public func write(to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("zoneName", zoneName)
    writer.member("ownerRecordName", ownerRecordName)
    writer.member("zoneType", wireType)
    writer.endObject()
  }

  /// The zone ID as JSON, to insert into every record of an answer.
  public var json: [UInt8] {
    var writer = JSONWriter(reservingByteCount: 160)
    write(to: &writer)
    return writer.bytes
  }
}

extension ZoneReference {
  /// Writes the zone ID of an item that failed, with the owner that the client sent.
  public func write(to writer: inout JSONWriter, defaultOwner: String) {
    Zone.ID(zoneName: zoneName, ownerName: ownerRecordName ?? defaultOwner).write(to: &writer)
  }
}

/// A zone in an answer.
public enum ZoneDictionary {
  /// Writes a zone that exists.
  /// - Parameters:
  ///   - syncToken: nil for the default zone, which has no feed.
  ///   - statesAtomicity: whether to write if the zone accepts atomic batches.
  public static func write(
    _ zone: Zone.ID, syncToken: String?, statesAtomicity: Bool = true, to writer: inout JSONWriter
  ) {
    writer.beginObject()
    writer.key("zoneID")
    zone.write(to: &writer)
    if let syncToken { writer.member("syncToken", syncToken) }
    if statesAtomicity { writer.member("atomic", !zone.isDefault) }
    writer.member("deleted", false)
    writer.endObject()
  }

  /// Writes a deleted zone, in the answer to the deletion or in the database's feed.
  public static func writeDeleted(_ zone: Zone.ID, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.key("zoneID")
    zone.write(to: &writer)
    writer.member("deleted", true)
    writer.endObject()
  }

  /// Writes an item that failed.
  public static func writeError(
    _ error: RecordError, of zone: ZoneReference, defaultOwner: String, to writer: inout JSONWriter
  ) {
    writer.beginObject()
    writer.key("zoneID")
    zone.write(to: &writer, defaultOwner: defaultOwner)
    error.writeMembers(to: &writer)
    writer.endObject()
  }
}
