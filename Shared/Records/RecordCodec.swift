// The stored form of a record. One file encodes and decodes it, so that the two directions agree.
//
// One MessagePack array; its first value is the number of the format, so that stores of older releases stay readable:
//
//   format, created timestamp, created user, created device,
//   modified timestamp, modified user or null, modified device or null, parent or null, shortGUID or null,
//   then for each field in ascending order of names: name, tag, value
//
// Format 2 is written for records with versions of fields. It has them after shortGUID, as one array. For each field:
// its name; the number of edits, and for each edit device, time and the value it sent (a tag and a value, or null); the
// number of elements, and for each element text, device, time and whether it is present.
//
// A null in `modified` means the same value as in `created`. The tag is the `FieldType` number, plus 64 for an
// encrypted field. Values:
//
//   int64, timestamp  integer     reference  [record name, 0 none | 1 deleteSelf | 2 validate, zone name or null,
//   double            double                 the zone's owner or null]
//   string            text        location   [latitude, longitude, horizontal and vertical accuracy, altitude, speed,
//   bytes             bytes                  course, timestamp]; the last six may be null
//   asset [SHA-256 as bytes, byte count]     a list     an array of its elements' values
//
// Record name, type, sequence and deletion are columns of the store, outside the blob. Equal records have equal bytes.

public import MessagePack

/// The reasons why stored bytes cannot be read.
public enum StoredFormatError: Error, Hashable, Sendable {
  /// A newer release wrote the bytes.
  case unknownFormat(Int64)
  /// The bytes are damaged; `reason` describes the damage and never contains a value.
  case corrupt(reason: String)

  public init(_ error: MessagePackError) { self = .corrupt(reason: error.reason) }
}

extension Record {
  private static let format: Int64 = 1
  private static let versionedFormat: Int64 = 2

  /// The stored bytes: the record without its name and type.
  public func encoded() -> [UInt8] { encodedNotingEncryption().bytes }

  /// The stored bytes, and whether any field is encrypted: one pass over the fields serves both.
  public func encodedNotingEncryption() -> (bytes: [UInt8], isEncrypted: Bool) {
    var writer = MessagePackWriter(reservingByteCount: 1024)
    writer.arrayHeader((versions.isEmpty ? 9 : 10) + 3 * fields.count)
    writer.integer(versions.isEmpty ? Self.format : Self.versionedFormat)
    writer.integer(created.timestamp)
    writer.string(created.userRecordName)
    writer.string(created.deviceID)
    writer.integer(modified.timestamp)
    writer.string(modified.userRecordName == created.userRecordName ? nil : modified.userRecordName)
    writer.string(modified.deviceID == created.deviceID ? nil : modified.deviceID)
    writer.string(parent)
    writer.string(shortGUID)
    if !versions.isEmpty { writer.versions(versions) }
    var isEncrypted = false
    for element in fields.elements {
      writer.string(element.name)
      let tag = FieldTag(element.field)
      writer.integer(tag.rawValue)
      isEncrypted = isEncrypted || tag.isEncrypted
      writer.field(element.field.value)
    }
    return (writer.bytes, isEncrypted)
  }

  /// Reads the bytes that `encoded` wrote.
  /// - Throws: `StoredFormatError` for a format of a later release and for bytes that `encoded` does not write.
  public init(decoding blob: [UInt8], recordName: String, recordType: String) throws(StoredFormatError) {
    self = try blob.withUnsafeBufferPointer { blob throws(StoredFormatError) in
      try Record(decoding: UnsafeRawBufferPointer(blob), recordName: recordName, recordType: recordType)
    }
  }

  /// Reads a record straight from a database's memory, and keeps no reference to that memory.
  public init(decoding blob: UnsafeRawBufferPointer, recordName: String, recordType: String) throws(StoredFormatError) {
    self = try Self.read(blob) { head, cursor throws(MessagePackError) in
      try Record(head, &cursor, recordName: recordName, recordType: recordType)
    }
  }

  /// Lends the pieces of a stored record: its head, and a cursor at the versions of its fields if it has any, else at
  /// its fields.
  /// - Throws: as `init(decoding:)`, for what `body` reads.
  public static func read<Result>(
    _ blob: UnsafeRawBufferPointer,
    _ body: (_ head: StoredRecordHead, _ cursor: inout MessagePackCursor) throws(MessagePackError) -> Result
  ) throws(StoredFormatError) -> Result {
    var unknownFormat: Int64?
    do throws(MessagePackError) {
      return try MessagePackCursor.read(blob) { cursor throws(MessagePackError) in
        let format = try cursor.integer()
        guard format == Self.format || format == Self.versionedFormat else {
          unknownFormat = format
          throw MessagePackError("format \(format)")
        }
        return try body(StoredRecordHead(&cursor, hasVersions: format == Self.versionedFormat), &cursor)
      }
    } catch {
      throw unknownFormat.map { .unknownFormat($0) } ?? StoredFormatError(error)
    }
  }

  private init(
    _ head: StoredRecordHead, _ cursor: inout MessagePackCursor, recordName: String, recordType: String
  ) throws(MessagePackError) {
    let created = try Stamp(head.created)
    let modified = Stamp(
      timestamp: head.modified.timestamp,
      userRecordName: head.sharesUser ? created.userRecordName : try String(stored: head.modified.userRecordName),
      deviceID: head.sharesDevice ? created.deviceID : try String(stored: head.modified.deviceID))
    let parent = try head.parent.map { piece throws(MessagePackError) in try String(stored: piece) }
    let shortGUID = try head.shortGUID.map { piece throws(MessagePackError) in try String(stored: piece) }
    let versions = head.hasVersions ? try cursor.versions() : []
    self.init(
      recordName: recordName, recordType: recordType, fields: try Fields(&cursor), created: created, modified: modified,
      parent: parent, shortGUID: shortGUID)
    self.versions = versions
  }
}

extension Stamp {
  fileprivate init(_ stored: StoredStamp) throws(MessagePackError) {
    self.init(
      timestamp: stored.timestamp, userRecordName: try String(stored: stored.userRecordName),
      deviceID: try String(stored: stored.deviceID))
  }
}

extension Fields {
  fileprivate init(_ cursor: inout MessagePackCursor) throws(MessagePackError) {
    self.init()
    reserveCapacity(cursor.remainingCount / 3)
    var last: StoredText?
    while let field = try cursor.nextField(after: last) {
      append(
        try String(stored: field.name), Field(try cursor.fieldValue(field.type), isEncrypted: field.isEncrypted))
      last = field.name
    }
  }
}

extension MessagePackWriter {
  fileprivate mutating func versions(_ versions: [FieldVersion]) {
    arrayHeader(
      versions.reduce(0) { $0 + 3 + $1.edits.reduce(0) { $0 + ($1.sent == nil ? 3 : 4) } + 4 * $1.elements.count })
    for version in versions {
      string(version.field)
      integer(Int64(version.edits.count))
      for edit in version.edits {
        string(edit.device)
        integer(edit.time)
        guard let sent = edit.sent else {
          null()
          continue
        }
        integer(FieldTag(Field(sent)).rawValue)
        field(sent)
      }
      integer(Int64(version.elements.count))
      for element in version.elements {
        string(element.text)
        string(element.edit.device)
        integer(element.edit.time)
        bool(element.isPresent)
      }
    }
  }
}

extension MessagePackCursor {
  fileprivate mutating func versions() throws(MessagePackError) -> [FieldVersion] {
    try array { cursor throws(MessagePackError) in
      var versions: [FieldVersion] = []
      while cursor.remainingCount > 0 {
        var version = FieldVersion(field: try cursor.string())
        for _ in 0..<(try cursor.count(upTo: cursor.remainingCount)) {
          var edit = FieldVersion.Edit(device: try cursor.string(), time: try cursor.integer())
          if try !cursor.skipNull() { edit.sent = try cursor.fieldValue(try FieldTag(cursor.integer()).type) }
          version.edits.append(edit)
        }
        for _ in 0..<(try cursor.count(upTo: cursor.remainingCount)) {
          version.elements.append(
            FieldVersion.Element(
              text: try cursor.string(),
              edit: FieldVersion.Edit(device: try cursor.string(), time: try cursor.integer()),
              isPresent: try cursor.bool()))
        }
        versions.append(version)
      }
      return versions
    }
  }
}
