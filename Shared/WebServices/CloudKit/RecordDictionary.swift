// Records into JSON (docs/protocol/record-plane.md#record), streamed from the rows that the store hands out.

public import JSON
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
      write(element.field, numbersAsStrings: presentation.numbersAsStrings, to: &writer)
    }
    writer.constant(#"},"pluginFields":{},"recordChangeTag":"#)
    writer.string(tag.text)
    writer.constant(#","created":"#)
    write(record.created, to: &writer)
    writer.constant(#","modified":"#)
    write(record.modified, to: &writer)
    writer.constant(#","deleted":false"#)
    if let parent = record.parent {
      writer.key("parent")
      writer.beginObject()
      writer.member("recordName", parent)
      writer.endObject()
    }
    let isShare = shares?.writeMembers(of: record, zoneJSON: zoneJSON, to: &writer) ?? false
    if !isShare, let shortGUID = record.shortGUID { writer.member("shortGUID", shortGUID) }
    writer.constant(#","zoneID":"#)
    writer.raw(zoneJSON)
    writer.endObject()
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

  private func write(_ stamp: Stamp, to writer: inout JSONWriter) {
    writer.constant(#"{"timestamp":"#)
    writer.integer(stamp.timestamp)
    writer.constant(#","userRecordName":"#)
    writer.string(stamp.userRecordName)
    writer.constant(#","deviceID":"#)
    writer.string(stamp.deviceID)
    writer.endObject()
  }

  private func write(_ field: Field, numbersAsStrings: Bool, to writer: inout JSONWriter) {
    writer.constant(#"{"value":"#)
    write(field.value, numbersAsStrings: numbersAsStrings, to: &writer)
    if field.isEncrypted {
      writeEncryptedType(of: field.value, to: &writer)
    } else {
      switch field.value {
      case .string: writer.constant(#","type":"STRING"}"#)
      case .int64: writer.constant(#","type":"INT64"}"#)
      default:
        writer.constant(#","type":"#)
        writer.string(field.value.type.wireName)
        writer.endObject()
      }
    }
  }

  private func writeEncryptedType(of value: FieldValue, to writer: inout JSONWriter) {
    if value.type == .bytes {
      writer.constant(#","type":"ENCRYPTED_BYTES"}"#)
    } else {
      writer.constant(#","type":"#)
      writer.string(value.type.wireName)
      writer.constant(#","isEncrypted":true}"#)
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
    writer.member("downloadURL", assets.downloadURL(of: asset))
    writer.endObject()
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
