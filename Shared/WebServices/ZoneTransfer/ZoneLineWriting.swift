// A zone as lines of JSON: a header, a line a record, and how the page ends. Everything is exact, so that an import makes equal records.

import Crypto
import JSON
public import Records

/// Writes the lines of one page of a zone's export (`application/x-ndjson`).
public struct ZoneLineWriter {
  public private(set) var bytes: [UInt8] = []

  public static let format = "aquifer.zone/1"
  public static let contentType = "application/x-ndjson"

  public init() {}

  /// The first line of the first page.
  /// - Parameter sequence: the database's sequence whose state is told.
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

  /// Content that the records of this page use; whoever keeps the export fetches it there.
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

  /// The last line of a page that another one follows: the next call's parameters.
  public mutating func more(after recordName: String, sequence: Int64) {
    line { writer in
      writer.member("more", true)
      writer.member("after", recordName)
      writer.member("sequence", sequence)
    }
  }

  /// The last line of the last page.
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
    // JSON has no words for the others.
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
  /// Its numbers under the names that lines have for them; those that are not finite count as none.
  fileprivate var numbers: [(String, Double?)] {
    [
      ("latitude", latitude), ("longitude", longitude), ("horizontalAccuracy", horizontalAccuracy), ("verticalAccuracy", verticalAccuracy),
      ("altitude", altitude), ("speed", speed), ("course", course),
    ].map { ($0, $1.flatMap { $0.isFinite ? $0 : nil }) }
  }
}
