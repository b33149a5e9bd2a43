// The bodies of `zones/modify` and `zones/lookup` (docs/protocol/record-plane.md#zones-calls).

public import JSON
public import Records

/// An operation on a zone; operations of a request are independent.
public struct ZoneOperation: Hashable, Sendable {
  /// The raw value is `operationType`.
  public enum Kind: String, Hashable, Sendable, CaseIterable {
    case create, delete
  }

  public let kind: Kind
  public let zone: ZoneReference

  public init(kind: Kind, zone: ZoneReference) {
    self.kind = kind
    self.zone = zone
  }

  public static func operations(of request: JSONValue) throws(RecordError) -> [ZoneOperation] {
    let operations = try request.requiredList("operations", limit: Limit.operationsPerRequest) {
      json throws(RecordError) in
      let text = try json.requiredString("operationType")
      guard let kind = Kind(rawValue: text) else {
        throw RecordError(.badRequest, "unknown operationType '\(text.prefix(40))'")
      }
      let zone = try json.requiredObject("zone")
      guard zone.member("zoneID") != nil else { throw RecordError(.badRequest, "zone.zoneID is missing") }
      return ZoneOperation(kind: kind, zone: try ZoneReference(of: zone))
    }
    var zones: Set<ZoneReference> = []
    for operation in operations where !zones.insert(operation.zone).inserted {
      throw RecordError(
        .badRequest,
        "You can't modify the zone '\(operation.zone.zoneName.prefix(Limit.nameByteCount))' twice in one request")
    }
    return operations
  }

  /// The error for which the operation fails whatever zones exist; nil if there is none.
  public var problem: RecordError? {
    if zone.zoneName == ReservedName.defaultZone {
      return RecordError(.badRequest, "the default zone can't be created or deleted")
    }
    guard kind == .create else { return nil }
    return RecordName.problem(zone.zoneName, kind: "zoneName").map { RecordError(.badRequest, $0) }
  }
}

/// Reads `zones/lookup`.
public enum LookupZonesRequest {
  /// The zones, in the order of the answer: bare zone IDs, or objects that hold one.
  public static func zones(of request: JSONValue) throws(RecordError) -> [ZoneReference] {
    try request.requiredList("zones", limit: Limit.recordsPerResponse) { json throws(RecordError) in
      json.member("zoneID") == nil ? try ZoneReference(json) : try ZoneReference(of: json)
    }
  }
  /// The body of a request for some zones.
  public static func body(of zones: [ZoneReference]) -> [UInt8] {
    var output = JSONWriter()
    output.beginObject()
    output.key("zones")
    output.beginArray()
    for zone in zones {
      output.beginObject()
      output.member("zoneName", zone.zoneName)
      if let owner = zone.ownerRecordName { output.member("ownerRecordName", owner) }
      output.endObject()
    }
    output.endArray()
    output.endObject()
    return output.bytes
  }
}
