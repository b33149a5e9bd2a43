// A zone as lines of JSON: a header, one line per record, and the end of the page. Field values are exact, so that an
// import restores them.

import Crypto
import JSON
public import Records

/// Writes the lines of one page of a zone's export (`application/x-ndjson`).
public struct ZoneLineWriter {
  public private(set) var bytes: [UInt8] = []

  public static let format = "aquifer.zone/1"
  public static let contentType = "application/x-ndjson"

  public init() {}

  /// Writes the first line of the first page.
  /// - Parameter sequence: the database's sequence number of the exported state.
  public mutating func header(zone: Zone.ID, of database: DatabaseID, sequence: Int64) {
    line { writer in
      writer.member("format", Self.format)
      writer.member("container", database.container.rawValue)
      writer.member("environment", database.environment.rawValue)
      writer.key("zoneID")
      zone.write(to: &writer)
      writer.member("sequence", sequence)
    }
  }

  /// Writes content that the page's records use; the export's owner fetches it from the URL.
  public mutating func asset(_ asset: Asset, links: RecordDictionaryWriter.AssetLinks) {
    line { writer in
      writer.key("asset")
      writer.beginObject()
      writer.member("sha256", Hex.encode(asset.hash))
      writer.member("size", asset.byteCount)
      writer.member("downloadURL", links.downloadURL(of: asset))
      writer.endObject()
    }
  }

  public mutating func record(_ record: Record) {
    line { writer in
      writer.key("record")
      writer.beginObject()
      writer.member("recordName", record.recordName)
      writer.member("recordType", record.recordType)
      writer.key("fields")
      writer.beginObject()
      for element in record.fields {
        writer.key(element.name)
        Self.write(element.field, to: &writer)
      }
      writer.endObject()
      Self.write(record.created, "created", to: &writer)
      Self.write(record.modified, "modified", to: &writer)
      if let parent = record.parent { writer.member("parent", parent) }
      writer.endObject()
    }
  }

  /// Writes the last line of a page that is not the last, with the parameters of the next call.
  public mutating func more(after recordName: String, sequence: Int64) {
    line { writer in
      writer.member("more", true)
      writer.member("after", recordName)
      writer.member("sequence", sequence)
    }
  }

  /// Writes the last line of the last page.
  public mutating func end() { line { $0.member("end", true) } }

  private mutating func line(_ body: (inout JSONWriter) -> Void) {
    bytes += StoreAnswer.object(body)
    bytes.append(UInt8(ascii: "\n"))
  }

  private static func write(_ stamp: Stamp, _ key: String, to writer: inout JSONWriter) {
    writer.key(key)
    writer.beginObject()
    writer.member("timestamp", stamp.timestamp)
    writer.member("userRecordName", stamp.userRecordName)
    writer.member("deviceID", stamp.deviceID)
    writer.endObject()
  }

  static func write(_ field: Field, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("type", field.value.type.wireName)
    if field.isEncrypted { writer.member("isEncrypted", true) }
    writer.key("value")
    write(field.value, to: &writer)
    writer.endObject()
  }

  private static func write(_ value: FieldValue, to writer: inout JSONWriter) {
    switch value {
    case .int64(let number), .timestamp(let number): writer.integer(number)
    // JSON has no other numbers, so text stands for them.
    case .double(let number): if number.isFinite { writer.double(number) } else { writer.string(number.description) }
    case .string(let text): writer.string(text)
    case .bytes(let bytes): writer.base64(bytes)
    case .reference(let reference): write(reference, to: &writer)
    case .location(let location): write(location, to: &writer)
    case .asset(let asset):
      writer.beginObject()
      writer.member("sha256", Hex.encode(asset.hash))
      writer.member("size", asset.byteCount)
      writer.endObject()
    case .list(_, let values):
      writer.beginArray()
      for value in values { write(value, to: &writer) }
      writer.endArray()
    }
  }

  private static func write(_ reference: Reference, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("recordName", reference.recordName)
    writer.member("action", reference.action.rawValue)
    if let zone = reference.zoneID {
      writer.member("zoneName", zone.zoneName)
      writer.member("ownerName", zone.ownerName)
    }
    writer.endObject()
  }

  private static func write(_ location: Location, to writer: inout JSONWriter) {
    writer.beginObject()
    for (name, value) in location.numbers {
      guard let value else { continue }
      writer.key(name)
      writer.double(value)
    }
    if let timestamp = location.timestamp { writer.member("timestamp", timestamp) }
    writer.endObject()
  }
}

extension Location {
  /// The location's numbers by their names in a line; numbers that are not finite count as absent.
  fileprivate var numbers: [(String, Double?)] {
    [
      ("latitude", latitude), ("longitude", longitude), ("horizontalAccuracy", horizontalAccuracy),
      ("verticalAccuracy", verticalAccuracy),
      ("altitude", altitude), ("speed", speed), ("course", course),
    ].map { ($0, $1.flatMap { $0.isFinite ? $0 : nil }) }
  }
}
