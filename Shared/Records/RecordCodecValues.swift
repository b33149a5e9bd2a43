// The stored form of each kind of field value; the table is in RecordCodec.swift.

public import MessagePack

extension MessagePackWriter {
  mutating func field(_ value: FieldValue) {
    switch value {
    case .int64(let number), .timestamp(let number): integer(number)
    case .double(let number): double(number)
    case .string(let text): string(text)
    case .bytes(let data): bytes(data)
    case .reference(let reference): self.reference(reference)
    case .location(let location): self.location(location)
    case .asset(let asset):
      arrayHeader(2)
      bytes(asset.hash)
      integer(asset.byteCount)
    case .list(_, let elements):
      arrayHeader(elements.count)
      for element in elements { field(element) }
    }
  }

  private mutating func reference(_ reference: Reference) {
    arrayHeader(4)
    string(reference.recordName)
    integer(reference.action.storedNumber)
    string(reference.zoneID?.zoneName)
    string(reference.zoneID?.ownerName)
  }

  private mutating func location(_ location: Location) {
    arrayHeader(8)
    double(location.latitude)
    double(location.longitude)
    for value in [
      location.horizontalAccuracy, location.verticalAccuracy, location.altitude, location.speed, location.course,
    ] {
      if let value { double(value) } else { null() }
    }
    if let timestamp = location.timestamp { integer(timestamp) } else { null() }
  }
}

extension MessagePackCursor {
  /// Reads the value that follows a field's head.
  public mutating func fieldValue(_ type: FieldType) throws(MessagePackError) -> FieldValue {
    switch type {
    case .int64: return .int64(try integer())
    case .timestamp: return .timestamp(try integer())
    case .double: return .double(try double())
    case .string: return .string(try string())
    case .bytes: return .bytes(try bytes())
    case .reference:
      return .reference(
        try array { cursor throws(MessagePackError) in
          let recordName = try cursor.string()
          guard let action = Reference.Action(storedNumber: try cursor.integer()) else {
            throw MessagePackError("a reference has an unknown action")
          }
          let zoneName = try cursor.optionalString()
          let ownerName = try cursor.optionalString()
          guard (zoneName == nil) == (ownerName == nil) else { throw MessagePackError("a reference names half a zone") }
          return Reference(
            recordName: recordName, action: action,
            zoneID: zoneName.map { Zone.ID(zoneName: $0, ownerName: ownerName ?? "") })
        })
    case .location: return .location(try array { cursor throws(MessagePackError) in try cursor.location() })
    case .asset:
      return .asset(
        try array { cursor throws(MessagePackError) in Asset(hash: try cursor.bytes(), byteCount: try cursor.integer())
        })
    default:
      // The remaining types are lists. Lists of lists do not exist, so the recursion is one level deep.
      guard let element = type.element else { throw MessagePackError("a field's type has no stored form") }
      return .list(
        element: element,
        try array { cursor throws(MessagePackError) in
          var elements: [FieldValue] = []
          elements.reserveCapacity(cursor.remainingCount)
          while cursor.remainingCount > 0 { elements.append(try cursor.fieldValue(element)) }
          return elements
        })
    }
  }

  private mutating func location() throws(MessagePackError) -> Location {
    var location = Location(latitude: try double(), longitude: try double())
    location.horizontalAccuracy = try optionalDouble()
    location.verticalAccuracy = try optionalDouble()
    location.altitude = try optionalDouble()
    location.speed = try optionalDouble()
    location.course = try optionalDouble()
    location.timestamp = try skipNull() ? nil : integer()
    return location
  }

  private mutating func optionalDouble() throws(MessagePackError) -> Double? {
    try skipNull() ? nil : double()
  }
}

extension Reference.Action {
  /// Stored: never renumber.
  fileprivate var storedNumber: Int64 {
    switch self {
    case .none: 0
    case .deleteSelf: 1
    case .validate: 2
    }
  }

  fileprivate init?(storedNumber: Int64) {
    guard let action = Self.allCases.first(where: { $0.storedNumber == storedNumber }) else { return nil }
    self = action
  }
}
