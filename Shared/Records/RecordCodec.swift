// The stored form of a record. One place for both directions, so that they can't drift apart.
//
// One MessagePack array; its first value is the number of the format, so that a store that was written by an older release can be read:
//
//   format, created timestamp, created user, created device, modified timestamp, modified user or null, modified device or null,
//   parent or null, shortGUID or null, then for each field in ascending order of names: name, tag, value
//
// Format 2 has the versions of fields after shortGUID, where there are any, as one array: for each field its name, the number of edits, for
// each of them device, time, and what was sent (a tag and a value, or null); the number of elements, and for each of them its text, device,
// time and whether it is present.
//
// A null in `modified` means: the same as in `created`. The tag is the `FieldType` number, plus 64 for an encrypted field. Values:
//
//   int64, timestamp  integer                 reference  [record name, 0 none | 1 deleteSelf | 2 validate, zone name or null, its owner or null]
//   double            double                  location   [latitude, longitude, horizontal and vertical accuracy, altitude, speed, course,
//   string            text                               timestamp], the last six may be null
//   bytes             bytes                   asset      [SHA-256 as bytes, byte count]
//                                             a list     an array of its elements' values
//
// Record name, type, sequence and deletion are columns of the store and not in the blob. Equal records have equal bytes.

public import MessagePack

/// Why stored bytes could not be read.
public enum StoredFormatError: Error, Hashable, Sendable {
  /// Written by a newer release.
  case unknownFormat(Int64)
  /// Not what was written; `reason` says what is wrong, never a value.
  case corrupt(reason: String)

  public init(_ error: MessagePackError) { self = .corrupt(reason: error.reason) }
}

extension Record {
  private static let format: Int64 = 1
  private static let versionedFormat: Int64 = 2

  /// The record but for its name and type, as the store keeps it.
  public func encoded() -> [UInt8] { encodedNotingEncryption().bytes }

  /// The same, and whether one of its fields is encrypted, which costs no look of its own.
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

  /// Reads what `encoded` wrote.
  /// - Throws: for a format of a later release and for any byte that is not as written.
  public init(decoding blob: [UInt8], recordName: String, recordType: String) throws(StoredFormatError) {
    self = try blob.withUnsafeBufferPointer { blob throws(StoredFormatError) in
      try Record(decoding: UnsafeRawBufferPointer(blob), recordName: recordName, recordType: recordType)
    }
  }

  /// The same straight from a database's memory, which is not kept.
  public init(decoding blob: UnsafeRawBufferPointer, recordName: String, recordType: String) throws(StoredFormatError) {
    var unknownFormat: Int64?
    do throws(MessagePackError) {
      self = try MessagePackCursor.read(blob) { cursor throws(MessagePackError) in
        let format = try cursor.integer()
        guard format == Self.format || format == Self.versionedFormat else {
          unknownFormat = format
          throw MessagePackError("format \(format)")
        }
        return try Record(&cursor, hasVersions: format == Self.versionedFormat, recordName: recordName, recordType: recordType)
      }
    } catch {
      throw unknownFormat.map { .unknownFormat($0) } ?? StoredFormatError(error)
    }
  }

  private init(_ cursor: inout MessagePackCursor, hasVersions: Bool, recordName: String, recordType: String) throws(MessagePackError) {
    let created = Stamp(timestamp: try cursor.integer(), userRecordName: try cursor.string(), deviceID: try cursor.string())
    let modified = Stamp(
      timestamp: try cursor.integer(), userRecordName: try cursor.optionalString() ?? created.userRecordName,
      deviceID: try cursor.optionalString() ?? created.deviceID)
    let parent = try cursor.optionalString()
    let shortGUID = try cursor.optionalString()
    let versions = hasVersions ? try cursor.versions() : []
    self.init(
      recordName: recordName, recordType: recordType, fields: try Fields(&cursor), created: created, modified: modified, parent: parent,
      shortGUID: shortGUID)
    self.versions = versions
  }
}

extension Fields {
  fileprivate init(_ cursor: inout MessagePackCursor) throws(MessagePackError) {
    self.init()
    reserveCapacity(cursor.remainingCount / 3)
    var last: String?
    while cursor.remainingCount > 0 {
      let name = try cursor.string()
      if let last, last >= name { throw MessagePackError("the field names are not in ascending order") }
      let tag = try FieldTag(cursor.integer())
      append(name, Field(try cursor.fieldValue(tag.type), isEncrypted: tag.isEncrypted))
      last = name
    }
  }
}

/// A field's type and encryption in one number.
private struct FieldTag {
  private static let encrypted: Int64 = 64
  let type: FieldType
  let isEncrypted: Bool

  init(_ field: Field) {
    type = field.value.type
    isEncrypted = field.isEncrypted
  }

  init(_ rawValue: Int64) throws(MessagePackError) {
    isEncrypted = rawValue & Self.encrypted != 0
    guard let number = UInt8(exactly: rawValue & ~Self.encrypted), let type = FieldType(rawValue: number) else {
      throw MessagePackError("\(rawValue) is no field's tag")
    }
    self.type = type
  }

  var rawValue: Int64 { Int64(type.rawValue) | (isEncrypted ? Self.encrypted : 0) }
}

extension MessagePackWriter {
  fileprivate mutating func versions(_ versions: [FieldVersion]) {
    arrayHeader(versions.reduce(0) { $0 + 3 + $1.edits.reduce(0) { $0 + ($1.sent == nil ? 3 : 4) } + 4 * $1.elements.count })
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
              text: try cursor.string(), edit: FieldVersion.Edit(device: try cursor.string(), time: try cursor.integer()), isPresent: try cursor.bool()))
        }
        versions.append(version)
      }
      return versions
    }
  }
}
