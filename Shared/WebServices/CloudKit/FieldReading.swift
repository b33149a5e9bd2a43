// Field dictionaries of requests into typed values (docs/protocol/record-plane.md#fields).

import JSON
import Records

/// Reads the fields of one record type in one zone.
struct FieldReader {
  /// The record's zone, which references without a zone mean.
  let zone: Zone.ID
  let recordType: String
  /// nil refuses assets.
  let assets: AssetReader?

  /// Reads a field: its dictionary, or null.
  /// - Parameter declared: the field's declaration in the schema; nil if it has none.
  /// - Returns: nil to remove the field.
  /// - Throws: `BAD_REQUEST` naming `Type.field`.
  func read(_ name: String, _ json: JSONValue, declared: SchemaIndex.FieldDeclaration?) throws(RecordError) -> Field? {
    do {
      return try field(json, declared: declared)
    } catch {
      throw error.within("\(recordType).\(name)")
    }
  }

  private func field(_ json: JSONValue, declared: SchemaIndex.FieldDeclaration?) throws(RecordError) -> Field? {
    if json.isNull { return nil }
    guard json.kind == .object else { throw RecordError(.badRequest, "a field must be an object with a value") }
    guard let value = json.member("value") else { return nil }
    let wireType = try json.optionalString("type").map { text throws(RecordError) in
      try WireType(text, likely: declared?.type)
    }
    let isMarked = try json.optionalBool("isEncrypted") ?? wireType?.isEncrypted ?? false
    if isMarked, let declared, !declared.isEncrypted {
      throw RecordError(.badRequest, "Attempt to save encrypted data in non encrypted field type")
    }
    let type: FieldType
    if let known = wireType?.type ?? declared?.type {
      type = known
    } else {
      type = try ValueReader.inferredType(of: value)
    }
    if let declared, declared.type != type {
      throw RecordError(
        .badRequest, "invalid attempt to set value type \(type.wireName), defined to be \(declared.type.wireName)")
    }
    let stored = try ValueReader(zone: zone, assets: assets).value(value, as: type)
    switch stored {
    case .reference(let reference): try Self.check(reference)
    case .list(element: .reference, let elements):
      for case .reference(let reference) in elements { try Self.check(reference) }
    default: break
    }
    return Field(stored, isEncrypted: isMarked || declared?.isEncrypted ?? false)
  }

  /// One commit must decide about both ends of a binding reference, so it stays in its zone.
  private static func check(_ reference: Reference) throws(RecordError) {
    guard reference.zoneID == nil || reference.action == .none else {
      throw RecordError(.badRequest, "a reference with the action \(reference.action.rawValue) can't leave its zone")
    }
  }
}

/// A `type` key: a schema type, or a spelling that marks the value as encrypted too.
struct WireType {
  let type: FieldType
  let isEncrypted: Bool

  private static let types: [String: FieldType] = {
    var types = Dictionary(uniqueKeysWithValues: FieldType.allCases.map { ($0.wireName, $0) })
    types["ASSET"] = .asset
    types["ASSET_LIST"] = .assetList
    return types
  }()

  /// - Parameter likely: the type that most requests name here; it needs no lookup.
  init(_ text: String, likely: FieldType? = nil) throws(RecordError) {
    if let likely, text == likely.wireName {
      (type, isEncrypted) = (likely, false)
      return
    }
    let encryptedPrefix = "ENCRYPTED_"
    isEncrypted = text.hasPrefix(encryptedPrefix)
    guard let type = Self.types[isEncrypted ? String(text.dropFirst(encryptedPrefix.count)) : text] else {
      throw RecordError(.badRequest, "unknown type '\(text.prefix(40))'")
    }
    self.type = type
  }
}

/// Reads values of known type.
struct ValueReader {
  let zone: Zone.ID
  /// nil refuses assets, as in queries.
  var assets: AssetReader?

  /// The most likely type of an untyped value, for fields that the schema does not know.
  static func inferredType(of json: JSONValue) throws(RecordError) -> FieldType {
    switch json.kind {
    case .integer, .bool: return .int64
    case .double: return .double
    case .string: return .string
    case .array:
      guard let first = json.elements.first else {
        throw RecordError(.badRequest, "an empty list needs a type: send its type")
      }
      let element = try inferredType(of: first)
      guard element.element == nil else { throw RecordError(.badRequest, "a list of lists is not a field value") }
      return .list(of: element)
    case .object:
      if json["latitude"] != nil { return .location }
      if json["recordName"] != nil { return .reference }
      if json["fileChecksum"] != nil { return .asset }
      throw RecordError(.badRequest, "the object is neither a location nor a reference nor an asset")
    case .null: throw RecordError(.badRequest, "a list can't contain null")
    }
  }

  /// - Throws: `BAD_REQUEST` with the expected kind of value.
  func value(_ json: JSONValue, as type: FieldType) throws(RecordError) -> FieldValue {
    if let element = type.element { return try list(json, of: element) }
    switch type {
    case .int64: return .int64(try integer(json, type))
    case .double: return .double(try double(json))
    case .string:
      guard let text = json.string else { throw expected("a string", type) }
      return .string(text)
    case .bytes:
      guard let bytes = json.base64 else { throw expected("padded base64", type) }
      return .bytes(bytes)
    case .timestamp: return .timestamp(try milliseconds(json))
    case .reference: return .reference(try reference(json))
    case .location: return .location(try location(json))
    default:
      guard let assets else { throw RecordError(.badRequest, AssetReader.noReceipt) }
      return .asset(try assets.asset(json))
    }
  }

  private func list(_ json: JSONValue, of element: FieldType) throws(RecordError) -> FieldValue {
    guard json.kind == .array else { throw expected("an array", .list(of: element)) }
    let items = json.elements
    var values: [FieldValue] = []
    values.reserveCapacity(items.count)
    for (index, item) in items.enumerated() {
      do {
        values.append(try value(item, as: element))
      } catch {
        throw error.within("[\(index)]")
      }
    }
    return .list(element: element, values)
  }

  private func integer(_ json: JSONValue, _ type: FieldType) throws(RecordError) -> Int64 {
    if let number = json.int64 { return number }
    if let flag = json.bool { return flag ? 1 : 0 }
    if let number = json.double, let exact = Int64(exactly: number) { return exact }
    if let text = json.string, let number = Int64(text) { return number }
    throw expected("an integer of 64 bits", type)
  }

  private func double(_ json: JSONValue) throws(RecordError) -> Double {
    if let number = json.double { return number }
    if let flag = json.bool { return flag ? 1 : 0 }
    if let text = json.string, let number = Self.decimal(text) { return number }
    throw expected("a number", .double)
  }

  /// A number in JSON's notation: Swift would also accept `nan`, `inf` and hexadecimal digits.
  private static func decimal(_ text: String) -> Double? {
    guard !text.isEmpty,
      text.utf8.allSatisfy({ (0x30...0x39).contains($0) || [0x2b, 0x2d, 0x2e, 0x45, 0x65].contains($0) }),
      let number = Double(text),
      number.isFinite
    else { return nil }
    return number
  }

  /// Fractions of a millisecond are rounded away: the wire has none (T-M25).
  private func milliseconds(_ json: JSONValue) throws(RecordError) -> Int64 {
    // Integers first, because a double cannot hold all of them exactly.
    if let number = json.int64 ?? json.string.flatMap({ Int64($0) }) { return number }
    // Rounded by hand: `rounded()` would add libm to everything that links this module.
    guard let number = json.double ?? json.string.flatMap(Self.decimal),
      let whole = Int64(exactly: number) ?? Self.truncated(number)
    else {
      throw expected("milliseconds since 1970", .timestamp)
    }
    let fraction = number - Double(whole)
    return fraction >= 0.5 ? whole + 1 : fraction <= -0.5 ? whole - 1 : whole
  }

  /// The integer part of a number that is small enough to have a fraction.
  private static func truncated(_ number: Double) -> Int64? {
    abs(number) < 0x1p53 ? Int64(number) : nil
  }

  private func reference(_ json: JSONValue) throws(RecordError) -> Reference {
    guard json.kind == .object, let name = try json.optionalString("recordName") else {
      throw expected("an object with a recordName", .reference)
    }
    // Names of user records start with an underscore, and references may name them.
    let target = name.hasPrefix("_") ? String(name.dropFirst()) : name
    if let problem = RecordName.problem(target, kind: "recordName") { throw RecordError(.badRequest, problem) }
    var action = Reference.Action.none
    if let text = try json.optionalString("action") {
      guard let known = Reference.Action(rawValue: text) else {
        throw RecordError(.badRequest, "action must be NONE, DELETE_SELF or VALIDATE")
      }
      action = known
    }
    guard let zoneJSON = json.member("zoneID") else { return Reference(recordName: name, action: action) }
    let sent = try ZoneReference(zoneJSON)
    // The public database's zone belongs to everybody, so the owner that a client names is ignored.
    let owner = zone.ownerName == DatabaseID.publicOwner ? nil : sent.ownerRecordName
    let zoneID = Zone.ID(zoneName: sent.zoneName, ownerName: owner ?? zone.ownerName)
    return Reference(recordName: name, action: action, zoneID: zoneID == zone ? nil : zoneID)
  }

  private func location(_ json: JSONValue) throws(RecordError) -> Location {
    guard json.kind == .object, let latitude = try number("latitude", of: json),
      let longitude = try number("longitude", of: json)
    else {
      throw expected("an object with latitude and longitude", .location)
    }
    guard abs(latitude) <= 90, abs(longitude) <= 180 else {
      throw RecordError(.badRequest, "latitude or longitude is out of range")
    }
    return Location(
      latitude: latitude, longitude: longitude, horizontalAccuracy: try number("horizontalAccuracy", of: json),
      verticalAccuracy: try number("verticalAccuracy", of: json), altitude: try number("altitude", of: json),
      speed: try number("speed", of: json),
      course: try number("course", of: json),
      timestamp: try json.member("timestamp").map { time throws(RecordError) in try milliseconds(time) })
  }

  private func number(_ key: String, of json: JSONValue) throws(RecordError) -> Double? {
    guard let value = json.member(key) else { return nil }
    do {
      return try double(value)
    } catch {
      throw error.within(key)
    }
  }

  private func expected(_ what: String, _ type: FieldType) -> RecordError {
    RecordError(.badRequest, "\(type.wireName) must be \(what)")
  }
}
