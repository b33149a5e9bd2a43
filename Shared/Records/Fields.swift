// The values that fields can hold, and the ordered map that holds a record's fields.

/// One value of a record's field, typed as the schema types it (docs/protocol/record-plane.md#fields).
public enum FieldValue: Hashable, Sendable {
  case int64(Int64)
  case double(Double)
  case string(String)
  case bytes([UInt8])
  /// Milliseconds since 1970, possibly negative.
  case timestamp(Int64)
  // Large, rare payloads live behind a pointer: every value takes as much memory as the longest case.
  indirect case reference(Reference)
  indirect case location(Location)
  case asset(Asset)
  /// All elements are of type `element`, so that an empty list keeps its type.
  case list(element: FieldType, [FieldValue])

  public var type: FieldType {
    switch self {
    case .int64: .int64
    case .double: .double
    case .string: .string
    case .bytes: .bytes
    case .timestamp: .timestamp
    case .reference: .reference
    case .location: .location
    case .asset: .asset
    case .list(let element, _): .list(of: element)
    }
  }
}

/// A field's type in the schema. `rawValue` is the number stored in record blobs: never renumber.
public enum FieldType: UInt8, Hashable, Sendable, Codable, CaseIterable {
  case int64 = 1
  case double, string, bytes, timestamp, reference, location, asset
  case int64List = 17
  case doubleList, stringList, bytesList, timestampList, referenceList, locationList, assetList

  private static let listOffset: UInt8 = 16

  /// The list type of a scalar type; lists of lists do not exist.
  public static func list(of element: FieldType) -> FieldType {
    guard let list = FieldType(rawValue: element.rawValue + listOffset) else {
      preconditionFailure("no list of \(element)")
    }
    return list
  }

  /// The type of a list's elements; nil for a scalar type.
  public var element: FieldType? {
    rawValue > Self.listOffset ? FieldType(rawValue: rawValue - Self.listOffset) : nil
  }

  /// The `type` key of a field dictionary, such as `STRING_LIST`.
  public var wireName: String {
    if let element { return element.wireName + "_LIST" }
    return switch self {
    case .int64: "INT64"
    case .double: "DOUBLE"
    case .string: "STRING"
    case .bytes: "BYTES"
    case .timestamp: "TIMESTAMP"
    case .reference: "REFERENCE"
    case .location: "LOCATION"
    default: "ASSETID"
    }
  }
}

/// A pointer to another record.
public struct Reference: Hashable, Sendable {
  /// The effect on the source when the target is deleted.
  public enum Action: String, Hashable, Sendable, CaseIterable {
    case none = "NONE"
    case deleteSelf = "DELETE_SELF"
    case validate = "VALIDATE"
  }

  public var recordName: String
  public var action: Action
  /// The target's zone; nil: the source's own.
  public var zoneID: Zone.ID?

  public init(recordName: String, action: Action, zoneID: Zone.ID? = nil) {
    self.recordName = recordName
    self.action = action
    self.zoneID = zoneID
  }
}

/// A place on earth. Units: degrees, metres, metres per second, milliseconds since 1970.
public struct Location: Hashable, Sendable {
  public var latitude: Double
  public var longitude: Double
  public var horizontalAccuracy: Double?
  public var verticalAccuracy: Double?
  public var altitude: Double?
  public var speed: Double?
  public var course: Double?
  public var timestamp: Int64?

  public init(
    latitude: Double, longitude: Double, horizontalAccuracy: Double? = nil, verticalAccuracy: Double? = nil,
    altitude: Double? = nil,
    speed: Double? = nil, course: Double? = nil, timestamp: Int64? = nil
  ) {
    self.latitude = latitude
    self.longitude = longitude
    self.horizontalAccuracy = horizontalAccuracy
    self.verticalAccuracy = verticalAccuracy
    self.altitude = altitude
    self.speed = speed
    self.course = course
    self.timestamp = timestamp
  }
}

/// A file kept beside the records, addressed by its content.
public struct Asset: Hashable, Sendable {
  /// SHA-256 of the content, 32 bytes.
  public var hash: [UInt8]
  public var byteCount: Int64

  public init(hash: [UInt8], byteCount: Int64) {
    self.hash = hash
    self.byteCount = byteCount
  }
}

/// A field: its value, and whether it is encrypted.
public struct Field: Hashable, Sendable {
  public var value: FieldValue
  public var isEncrypted: Bool

  public init(_ value: FieldValue, isEncrypted: Bool = false) {
    self.value = value
    self.isEncrypted = isEncrypted
  }
}

/// A record's fields in ascending order of their names' UTF-8, so that equal records have equal bytes. An absent name
/// means nil.
public struct Fields: Hashable, Sendable, ExpressibleByDictionaryLiteral, Sequence {
  public struct Element: Hashable, Sendable {
    public let name: String
    public var field: Field

    public init(name: String, field: Field) {
      self.name = name
      self.field = field
    }
  }

  public private(set) var elements: [Element]

  public init() { elements = [] }

  public init(dictionaryLiteral elements: (String, FieldValue)...) {
    self.init()
    for (name, value) in elements { self[name] = Field(value) }
  }

  public var count: Int { elements.count }
  public var isEmpty: Bool { elements.isEmpty }
  public func makeIterator() -> IndexingIterator<[Element]> { elements.makeIterator() }
  public mutating func reserveCapacity(_ count: Int) { elements.reserveCapacity(count) }

  /// Appends a field whose name sorts last: for decoders of stored blobs.
  /// - Precondition: `name` sorts after every name present.
  public mutating func append(_ name: String, _ field: Field) {
    precondition(elements.last.map { $0.name < name } ?? true, "fields come in ascending order of their names")
    elements.append(Element(name: name, field: field))
  }

  public subscript(name: String) -> Field? {
    get {
      let index = position(of: name)
      return index < elements.count && elements[index].name == name ? elements[index].field : nil
    }
    set {
      let index = position(of: name)
      let isPresent = index < elements.count && elements[index].name == name
      switch (newValue, isPresent) {
      case (let field?, true): elements[index].field = field
      case (let field?, false): elements.insert(Element(name: name, field: field), at: index)
      case (nil, true): elements.remove(at: index)
      case (nil, false): break
      }
    }
  }

  /// The value of a string field; nil if the field is absent or of another type.
  public func string(_ name: String) -> String? {
    if case .string(let text)? = self[name]?.value { text } else { nil }
  }

  private func position(of name: String) -> Int {
    if let last = elements.last, last.name < name { return elements.count }
    var low = 0
    var high = elements.count
    while low < high {
      let middle = (low + high) / 2
      if elements[middle].name < name { low = middle + 1 } else { high = middle }
    }
    return low
  }
}

extension Fields {
  /// The bytes that count towards the record limit: names and values, without the content of assets.
  public var byteCount: Int { elements.reduce(0) { $0 + $1.name.utf8.count + $1.field.value.byteCount } }
}

extension FieldValue {
  fileprivate var byteCount: Int {
    switch self {
    case .int64, .double, .timestamp: 8
    case .string(let text): text.utf8.count
    case .bytes(let bytes): bytes.count
    case .reference(let reference):
      reference.recordName.utf8.count + (reference.zoneID.map { $0.zoneName.utf8.count + $0.ownerName.utf8.count } ?? 0)
    case .location: 64
    case .asset: 40
    case .list(_, let values): values.reduce(0) { $0 + $1.byteCount }
    }
  }
}
