// Records into JSON (docs/protocol/record-plane.md#record), streamed from the rows that the store hands out.

import Glibc
public import JSON
import MessagePack
public import Records

/// Writes the records of one zone.
public struct RecordDictionaryWriter: Sendable {
  /// The signed URLs of assets.
  public struct AssetLinks: Sendable {
    /// The gateway's public address without a final slash.
    public let baseURL: String
    public let signingKey: [UInt8]
    /// The expiry of the URLs, in seconds since 1970.
    public let expiry: Int64
    /// The shard whose files the URLs name.
    public let shard: Int
    /// The participant for whom the URLs are made; nil for the database's owner, or for everybody.
    public let reader: AssetURL.Reader?

    public init(baseURL: String, signingKey: [UInt8], expiry: Int64, shard: Int, reader: AssetURL.Reader? = nil) {
      self.reader = reader
      self.baseURL = baseURL
      self.signingKey = signingKey
      self.expiry = expiry
      self.shard = shard
    }

    /// The URL of an asset's content.
    func downloadURL(of asset: Asset) -> String {
      baseURL + AssetURL(shard: shard, hash: asset.hash, expiry: expiry, reader: reader).path(signedWith: signingKey)
    }
  }

  private let zoneJSON: [UInt8]
  private let assets: AssetLinks
  /// The shares that answers show with records; nil shows none.
  public var shares: ShownShares?

  public init(zone: Zone.ID, assets: AssetLinks) {
    zoneJSON = zone.json
    self.assets = assets
  }

  /// Writes a live record.
  public func write(
    _ record: Record, tag: RecordChangeTag, as presentation: RecordPresentation, to writer: inout JSONWriter
  ) {
    writer.beginObject()
    writer.constant(#""recordName":"#)
    writer.string(record.recordName)
    writer.constant(#","recordType":"#)
    writer.string(record.recordType)
    writer.constant(#","fields":{"#)
    for element in record.fields where presentation.desiredKeys.contains(element.name) {
      writer.key(element.name)
      writer.constant(#"{"value":"#)
      write(element.field.value, numbersAsStrings: presentation.numbersAsStrings, to: &writer)
      writeEnd(of: element.field.value.type, isEncrypted: element.field.isEncrypted, to: &writer)
    }
    let end = RecordEnd(
      tag: tag, created: StampTexts(record.created), modified: StampTexts(record.modified), parent: record.parent,
      shortGUID: record.shortGUID)
    end.write(of: record.recordName, shares: shares, zoneJSON: zoneJSON, to: &writer)
  }

  /// Writes a live record from the bytes that the store keeps of it, as `write(_:tag:as:to:)` writes the record itself.
  /// - Throws: as `Record(decoding:)`. Then what was written is unusable.
  public func write(
    stored content: UnsafeRawBufferPointer, recordName: StoredText, recordType: String, tag: RecordChangeTag,
    as presentation: RecordPresentation, to writer: inout JSONWriter
  ) throws(StoredFormatError) {
    try Record.read(content) { head, cursor throws(MessagePackError) in
      if head.hasVersions { try cursor.skip() }
      writer.beginObject()
      writer.constant(#""recordName":"#)
      try writer.text(recordName)
      writer.constant(#","recordType":"#)
      writer.string(recordType)
      writer.constant(#","fields":{"#)
      var last: StoredText?
      while let field = try cursor.nextField(after: last) {
        last = field.name
        guard try presentation.desiredKeys.contains(field.name) else {
          try cursor.skip()
          continue
        }
        try writer.name(field.name)
        writer.constant(#"{"value":"#)
        try writeValue(field.type, at: &cursor, numbersAsStrings: presentation.numbersAsStrings, to: &writer)
        writeEnd(of: field.type, isEncrypted: field.isEncrypted, to: &writer)
      }
      let end = RecordEnd(
        tag: tag, created: StampTexts(head.created), modified: StampTexts(head.modified), parent: head.parent,
        shortGUID: head.shortGUID)
      try end.write(of: String(decoding: recordName, as: UTF8.self), shares: shares, zoneJSON: zoneJSON, to: &writer)
    }
  }

  /// Writes a tombstone of a feed.
  public func writeTombstone(_ recordName: String, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.constant(#""recordName":"#)
    writer.string(recordName)
    writer.constant(#","deleted":true,"zoneID":"#)
    writer.raw(zoneJSON)
    writer.endObject()
  }

  /// Writes the answer to a deletion, which has exactly these two keys.
  public static func writeDeleted(_ recordName: String, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("recordName", recordName)
    writer.member("deleted", true)
    writer.endObject()
  }

  /// Writes an item that failed.
  public static func writeError(_ error: RecordError, of recordName: String, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("recordName", recordName)
    error.writeMembers(to: &writer)
    writer.endObject()
  }

  /// A conflict with the three records that it is about, each as far as it is known (S2).
  public func writeConflict(
    _ error: RecordError, _ conflict: RecordConflict, numbersAsStrings: Bool, to writer: inout JSONWriter
  ) {
    writer.beginObject()
    writer.member("recordName", conflict.recordName)
    error.writeMembers(to: &writer)
    let presentation = RecordPresentation(desiredKeys: .all, numbersAsStrings: numbersAsStrings)
    for (name, found) in [
      ("clientRecord", conflict.client), ("serverRecord", conflict.server), ("ancestorRecord", conflict.ancestor),
    ] {
      writer.key(name)
      if let (record, tag) = found { write(record, tag: tag, as: presentation, to: &writer) } else { writer.null() }
    }
    writer.endObject()
  }

  /// Writes the value that follows a stored field's head.
  private func writeValue(
    _ type: FieldType, at cursor: inout MessagePackCursor, numbersAsStrings: Bool, to writer: inout JSONWriter
  ) throws(MessagePackError) {
    switch type {
    case .string: try writer.text(cursor.text())
    case .bytes: writer.base64(UnsafeRawBufferPointer(try cursor.content()))
    case .int64 where !numbersAsStrings, .timestamp where !numbersAsStrings: writer.integer(try cursor.integer())
    default: write(try cursor.fieldValue(type), numbersAsStrings: numbersAsStrings, to: &writer)
    }
  }

  /// Writes what follows a field's value.
  private func writeEnd(of type: FieldType, isEncrypted: Bool, to writer: inout JSONWriter) {
    switch (type, isEncrypted) {
    case (.string, false): writer.constant(#","type":"STRING"}"#)
    case (.int64, false): writer.constant(#","type":"INT64"}"#)
    case (.timestamp, false): writer.constant(#","type":"TIMESTAMP"}"#)
    case (.bytes, false): writer.constant(#","type":"BYTES"}"#)
    case (.bytes, true): writer.constant(#","type":"ENCRYPTED_BYTES"}"#)
    default:
      writer.constant(#","type":"#)
      writer.string(type.wireName)
      if isEncrypted { writer.constant(#","isEncrypted":true"#) }
      writer.endObject()
    }
  }

  private func write(_ value: FieldValue, numbersAsStrings: Bool, to writer: inout JSONWriter) {
    switch value {
    case .int64(let number), .timestamp(let number):
      if numbersAsStrings { writer.string(String(number)) } else { writer.integer(number) }
    case .double(let number):
      // JSON has no other numbers, and no request can bring one in.
      if !number.isFinite {
        writer.null()
      } else if numbersAsStrings {
        writer.string(number.description)
      } else {
        writer.double(number)
      }
    case .string(let text): writer.string(text)
    case .bytes(let bytes): writer.base64(bytes)
    case .reference(let reference): write(reference, to: &writer)
    case .location(let location): write(location, to: &writer)
    case .asset(let asset): write(asset, to: &writer)
    case .list(_, let values):
      writer.beginArray()
      for value in values { write(value, numbersAsStrings: numbersAsStrings, to: &writer) }
      writer.endArray()
    }
  }

  private func write(_ reference: Reference, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.constant(#""recordName":"#)
    writer.string(reference.recordName)
    writer.constant(#","action":"#)
    writer.string(reference.action.rawValue)
    writer.constant(#","zoneID":"#)
    if let zone = reference.zoneID { zone.write(to: &writer) } else { writer.raw(zoneJSON) }
    writer.endObject()
  }

  private func write(_ location: Location, to writer: inout JSONWriter) {
    writer.beginObject()
    for (name, value) in [
      ("latitude", location.latitude), ("longitude", location.longitude),
      ("horizontalAccuracy", location.horizontalAccuracy),
      ("verticalAccuracy", location.verticalAccuracy), ("altitude", location.altitude), ("speed", location.speed),
      ("course", location.course),
    ] as [(String, Double?)] {
      guard let value, value.isFinite else { continue }
      writer.key(name)
      writer.double(value)
    }
    if let timestamp = location.timestamp { writer.member("timestamp", timestamp) }
    writer.endObject()
  }

  private func write(_ asset: Asset, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("fileChecksum", asset.fileChecksum)
    writer.member("size", asset.byteCount)
    writer.member(Self.addressKey, assets.downloadURL(of: asset))
    writer.endObject()
  }

  private static let addressKey = "downloadURL"

  /// True for JSON with the address of an asset, which holds for a time; also for a field with the name of its key.
  public static func mayHaveAddresses(_ json: ArraySlice<UInt8>) -> Bool {
    let key = Array("\"\(addressKey)\":".utf8)
    return json.withUnsafeBytes { json in
      // A letter that is rare in JSON, and its place in the key.
      let letter = Int32(UInt8(ascii: "U"))
      let place = 9
      var rest = json[...]
      while !rest.isEmpty, let start = json.baseAddress?.advanced(by: rest.startIndex),
        let found = memchr(start, letter, rest.count)
      {
        let index = rest.startIndex + (UnsafeRawPointer(found) - UnsafeRawPointer(start))
        if index >= place, json[(index - place)...].starts(with: key) { return true }
        rest = json[(index + 1)...]
      }
      return false
    }
  }
}

/// The records of a conflict.
public struct RecordConflict: Sendable {
  public typealias Version = (record: Record, tag: RecordChangeTag)

  public let recordName: String
  /// The record that the request would have made of the version it knew.
  public var client: Version?
  /// The present record, into which the client merges its change.
  public var server: Version?
  /// The version that the request began with, found by its change tag.
  public var ancestor: Version?

  public init(recordName: String) { self.recordName = recordName }
}
