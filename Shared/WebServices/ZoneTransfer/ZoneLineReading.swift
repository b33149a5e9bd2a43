// Reads the lines of a zone's export back into records (ZoneLineWriting has the form).

import Crypto
public import JSON
public import Records

/// The records in one page of an import.
public struct ZoneLines: Hashable, Sendable {
  /// With their lines' numbers, counted from 1; at most `recordLimit`.
  public private(set) var records: [NumberedRecord] = []

  public struct NumberedRecord: Hashable, Sendable {
    public let line: Int
    public let record: Record
  }

  /// The most records that one commit writes.
  public static let recordLimit = 400

  /// - Parameters:
  ///   - receipts: reads assets that name the receipt of an upload.
  ///   - takesHashes: whether a hash alone may name content. Only for operators, because anybody who knows a hash could
  ///     claim its content.
  /// - Throws: `BAD_REQUEST` with the line and the field.
  public init(_ body: [UInt8], receipts: AssetReader, takesHashes: Bool) throws(RecordError) {
    let reader = RecordLineReader(receipts: receipts, takesHashes: takesHashes)
    var names: Set<String> = []
    for (index, text) in body.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated()
    where !text.isEmpty {
      do throws(RecordError) {
        guard let record = try reader.record(Array(text)) else { continue }
        guard records.count < Self.recordLimit else {
          throw RecordError(.badRequest, "more than \(Self.recordLimit) records: send fewer at a time")
        }
        guard names.insert(record.recordName).inserted else {
          throw RecordError(.badRequest, "the record '\(record.recordName)' appears twice")
        }
        records.append(NumberedRecord(line: index + 1, record: record))
      } catch {
        throw error.within("line \(index + 1)")
      }
    }
  }
}

private struct RecordLineReader {
  let receipts: AssetReader
  let takesHashes: Bool

  /// nil for a line without a record: header, content or end.
  func record(_ text: [UInt8]) throws(RecordError) -> Record? {
    let line = try JSONValue.request(text)
    if let format = try line.optionalString("format") {
      guard format == ZoneLineWriter.format else {
        throw RecordError(.badRequest, "the format is '\(format.prefix(40))', not \(ZoneLineWriter.format)")
      }
      return nil
    }
    guard let json = try line.optionalObject("record") else {
      guard line["asset"] != nil || line["more"] != nil || line["end"] != nil else {
        throw RecordError(.badRequest, "the line is not of an export")
      }
      return nil
    }
    let name = try json.requiredString("recordName")
    if let problem = RecordName.problem(name, kind: "recordName") { throw RecordError(.badRequest, problem) }
    let type = try json.requiredString("recordType")
    if let problem = RecordName.problem(type, kind: "recordType") { throw RecordError(.badRequest, problem) }
    var fields = Fields()
    try json.requiredObject("fields").forEachMember { key, value throws(RecordError) in
      let key = key.string ?? ""
      do throws(RecordError) {
        fields[key] = try field(value)
      } catch {
        throw error.within("\(type).\(key)")
      }
    }
    let record = Record(
      recordName: name, recordType: type, fields: fields, created: try stamp(json, "created"),
      modified: try stamp(json, "modified"),
      parent: try json.optionalString("parent"))
    guard fields.byteCount <= Limit.recordByteCount else {
      throw RecordError(
        .quotaExceeded, "record '\(name)' has \(fields.byteCount) bytes, the limit is \(Limit.recordByteCount)")
    }
    return record
  }

  private func stamp(_ json: JSONValue, _ key: String) throws(RecordError) -> Stamp {
    let stamp = try json.requiredObject(key)
    do throws(RecordError) {
      guard let timestamp = try stamp.optionalInteger("timestamp") else {
        throw RecordError(.badRequest, "timestamp is missing")
      }
      return Stamp(
        timestamp: timestamp, userRecordName: try stamp.requiredString("userRecordName"),
        deviceID: try stamp.optionalString("deviceID") ?? "")
    } catch {
      throw error.within(key)
    }
  }

  private func field(_ json: JSONValue) throws(RecordError) -> Field {
    let name = try json.requiredString("type")
    guard let type = FieldType.allCases.first(where: { $0.wireName == name }) else {
      throw RecordError(.badRequest, "unknown type '\(name.prefix(40))'")
    }
    guard let value = json["value"] else { throw RecordError(.badRequest, "value is missing") }
    return Field(try self.value(value, as: type), isEncrypted: try json.optionalBool("isEncrypted") ?? false)
  }

  private func value(_ json: JSONValue, as type: FieldType) throws(RecordError) -> FieldValue {
    if let element = type.element {
      guard json.kind == .array else { throw expected(type) }
      var values: [FieldValue] = []
      for item in json.elements { values.append(try value(item, as: element)) }
      return .list(element: element, values)
    }
    switch type {
    case .int64, .timestamp:
      guard let number = json.int64 else { throw expected(type) }
      return type == .int64 ? .int64(number) : .timestamp(number)
    case .double:
      guard let number = json.double ?? ["nan": Double.nan, "inf": .infinity, "-inf": -.infinity][json.string ?? ""]
      else { throw expected(type) }
      return .double(number)
    case .string:
      guard let text = json.string else { throw expected(type) }
      return .string(text)
    case .bytes:
      guard let bytes = json.base64 else { throw expected(type) }
      return .bytes(bytes)
    case .reference: return .reference(try reference(json))
    case .location: return .location(try location(json))
    default: return .asset(try asset(json))
    }
  }

  private func reference(_ json: JSONValue) throws(RecordError) -> Reference {
    guard json.kind == .object, let action = Reference.Action(rawValue: try json.optionalString("action") ?? "") else {
      throw expected(.reference)
    }
    let zone = try json.optionalString("zoneName").map { name throws(RecordError) in
      Zone.ID(zoneName: name, ownerName: try json.requiredString("ownerName"))
    }
    guard zone == nil || action == .none else {
      throw RecordError(.badRequest, "a reference with the action \(action.rawValue) can't leave its zone")
    }
    return Reference(recordName: try json.requiredString("recordName"), action: action, zoneID: zone)
  }

  private func location(_ json: JSONValue) throws(RecordError) -> Location {
    guard json.kind == .object, let latitude = json["latitude"]?.double, let longitude = json["longitude"]?.double
    else { throw expected(.location) }
    return Location(
      latitude: latitude, longitude: longitude, horizontalAccuracy: json["horizontalAccuracy"]?.double,
      verticalAccuracy: json["verticalAccuracy"]?.double,
      altitude: json["altitude"]?.double, speed: json["speed"]?.double, course: json["course"]?.double,
      timestamp: try json.optionalInteger("timestamp"))
  }

  private func asset(_ json: JSONValue) throws(RecordError) -> Asset {
    guard json.kind == .object else { throw expected(.asset) }
    if json["receipt"] != nil { return try receipts.asset(json) }
    guard takesHashes else { throw RecordError(.badRequest, AssetReader.noReceipt) }
    return try Asset(exported: json)
  }

  private func expected(_ type: FieldType) -> RecordError {
    RecordError(.badRequest, "the value is not of type \(type.wireName)")
  }
}

extension Asset {
  /// Reads `{"sha256","size"}`.
  fileprivate init(exported json: JSONValue) throws(RecordError) {
    guard let hash = Hex.decode(try json.requiredString("sha256")), hash.count == SHA256.byteCount,
      let size = try json.optionalInteger("size"), size >= 0
    else {
      throw RecordError(.badRequest, "an asset has a sha256 of 64 hexadecimal digits and a size")
    }
    self.init(hash: hash, byteCount: size)
  }
}

/// Reads `POST assets` of a zone: the content that an import is going to name.
public struct ZoneAssetsRequest: Hashable, Sendable {
  public let assets: [Asset]

  public init(_ body: JSONValue) throws(RecordError) {
    let items = try body.optionalArray("assets") ?? []
    guard items.count <= ZoneLines.recordLimit else {
      throw RecordError(.badRequest, "assets has \(items.count) items, the limit is \(ZoneLines.recordLimit)")
    }
    var assets: [Asset] = []
    for item in items { assets.append(try Asset(exported: item)) }
    self.assets = assets
  }

  /// - Parameter uploadURL: the URL for uploading missing content.
  public static func answer(_ assets: [(asset: Asset, isPresent: Bool)], uploadURL: String) -> [UInt8] {
    StoreAnswer.object { writer in
      writer.key("assets")
      writer.beginArray()
      for (asset, isPresent) in assets {
        writer.beginObject()
        writer.member("sha256", Hex.encode(asset.hash))
        writer.member("size", asset.byteCount)
        writer.member("present", isPresent)
        if !isPresent { writer.member("uploadURL", uploadURL) }
        writer.endObject()
      }
      writer.endArray()
    }
  }
}
