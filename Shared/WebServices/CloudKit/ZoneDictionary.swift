// Zone IDs and zone dictionaries (docs/protocol/record-plane.md#zone-id).

public import JSON
public import Records

/// A zone as a request names it, before it is known whose it is.
public struct ZoneReference: Hashable, Sendable {
  public let zoneName: String
  /// nil: the owner of the database that is asked (`_defaultOwner` and `__defaultOwner__` included).
  public let ownerRecordName: String?

  public static let defaultZone = ZoneReference(zoneName: ReservedName.defaultZone, ownerRecordName: nil)

  public init(zoneName: String, ownerRecordName: String?) {
    self.zoneName = zoneName
    self.ownerRecordName = ownerRecordName
  }

  /// Reads a zone ID: an object, or just the zone's name.
  public init(_ value: JSONValue) throws(RecordError) {
    if let name = value.string {
      self.init(zoneName: name, ownerRecordName: nil)
      return
    }
    guard value.kind == .object else { throw RecordError(.badRequest, "zoneID must be an object") }
    let owner = try value.optionalString("ownerRecordName").flatMap { ReservedName.callerOwners.contains($0) ? nil : $0 }
    self.init(zoneName: try value.optionalString("zoneName") ?? ReservedName.defaultZone, ownerRecordName: owner)
  }

  /// `zoneID` of an object; absent and null stand for the default zone.
  public init(of value: JSONValue) throws(RecordError) {
    self = try value.member("zoneID").map { zone throws(RecordError) in try ZoneReference(zone) } ?? .defaultZone
  }
}

extension Zone.ID {
  /// The owner as clients see it; the public database's is nobody in particular.
  public var ownerRecordName: String { ownerName == DatabaseID.publicOwner ? ReservedName.defaultOwner : ownerName }

  public func write(to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("zoneName", zoneName)
    writer.member("ownerRecordName", ownerRecordName)
    writer.member("zoneType", wireType)
    writer.endObject()
  }

  /// The zone ID as JSON, for splicing into every record of an answer.
  public var json: [UInt8] {
    var writer = JSONWriter(reservingByteCount: 160)
    write(to: &writer)
    return writer.bytes
  }
}

extension ZoneReference {
  /// The zone ID of an item that failed, with the owner as the client sent it.
  public func write(to writer: inout JSONWriter, defaultOwner: String) {
    Zone.ID(zoneName: zoneName, ownerName: ownerRecordName ?? defaultOwner).write(to: &writer)
  }
}

/// A zone in an answer.
public enum ZoneDictionary {
  /// A zone that exists.
  /// - Parameters:
  ///   - syncToken: nil for the default zone, which keeps no feed.
  ///   - statesAtomicity: whether to say if the zone takes atomic batches.
  public static func write(_ zone: Zone.ID, syncToken: String?, statesAtomicity: Bool = true, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.key("zoneID")
    zone.write(to: &writer)
    if let syncToken { writer.member("syncToken", syncToken) }
    if statesAtomicity { writer.member("atomic", !zone.isDefault) }
    writer.member("deleted", false)
    writer.endObject()
  }

  /// A zone that was deleted, as an answer to the deletion or in the database's feed.
  public static func writeDeleted(_ zone: Zone.ID, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.key("zoneID")
    zone.write(to: &writer)
    writer.member("deleted", true)
    writer.endObject()
  }

  /// An item that failed.
  public static func writeError(_ error: RecordError, of zone: ZoneReference, defaultOwner: String, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.key("zoneID")
    zone.write(to: &writer, defaultOwner: defaultOwner)
    error.writeMembers(to: &writer)
    writer.endObject()
  }
}
