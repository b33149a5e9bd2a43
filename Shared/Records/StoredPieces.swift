// The pieces of a stored record, for readers that copy them somewhere else and need no values of them.

public import MessagePack

/// A text within stored bytes, valid as long as they are. It need not be UTF-8.
public typealias StoredText = UnsafeBufferPointer<UInt8>

extension String {
  init(stored text: StoredText) throws(MessagePackError) {
    guard let value = String(utf8: text) else { throw MessagePackError("a text is not UTF-8") }
    self = value
  }
}

/// A `Stamp` within stored bytes.
public struct StoredStamp {
  public let timestamp: Int64
  public let userRecordName: StoredText
  public let deviceID: StoredText
}

/// What stands before the fields of a stored record (`RecordCodec.swift`).
public struct StoredRecordHead {
  public let created: StoredStamp
  public let modified: StoredStamp
  public let parent: StoredText?
  public let shortGUID: StoredText?
  public let hasVersions: Bool
  /// Whether both stamps have the same piece.
  let sharesUser: Bool
  let sharesDevice: Bool

  init(_ cursor: inout MessagePackCursor, hasVersions: Bool) throws(MessagePackError) {
    created = StoredStamp(
      timestamp: try cursor.integer(), userRecordName: try cursor.text(), deviceID: try cursor.text())
    let timestamp = try cursor.integer()
    let user = try cursor.optionalText()
    let device = try cursor.optionalText()
    modified = StoredStamp(
      timestamp: timestamp, userRecordName: user ?? created.userRecordName, deviceID: device ?? created.deviceID)
    (sharesUser, sharesDevice) = (user == nil, device == nil)
    parent = try cursor.optionalText()
    shortGUID = try cursor.optionalText()
    self.hasVersions = hasVersions
  }
}

/// The name and kind of a stored field, whose value follows.
public struct StoredFieldHead {
  public let name: StoredText
  public let type: FieldType
  public let isEncrypted: Bool
}

extension MessagePackCursor {
  /// Reads up to a field's value.
  /// - Parameter last: the name of the field before it.
  /// - Returns: nil behind the last field.
  public mutating func nextField(after last: StoredText?) throws(MessagePackError) -> StoredFieldHead? {
    guard remainingCount > 0 else { return nil }
    let name = try text()
    if let last, try !last.precedes(name) {
      throw MessagePackError("the field names are not in ascending order")
    }
    let tag = try FieldTag(integer())
    return StoredFieldHead(name: name, type: tag.type, isEncrypted: tag.isEncrypted)
  }
}

extension StoredText {
  /// The order of `Fields`, which is that of Swift's strings: other than that of their bytes beyond ASCII.
  fileprivate func precedes(_ other: StoredText) throws(MessagePackError) -> Bool {
    let sharedCount = Swift.min(count, other.count)
    var place = 0
    while place < sharedCount, self[place] == other[place], self[place] < 0x80 { place += 1 }
    guard isASCII(at: place), other.isASCII(at: place) else {
      return try String(stored: self) < String(stored: other)
    }
    return place == sharedCount ? count < other.count : self[place] < other[place]
  }

  /// True if no mark beyond ASCII can belong to the letter at `place`.
  private func isASCII(at place: Int) -> Bool { self[Swift.min(place, count)...].prefix(2).allSatisfy { $0 < 0x80 } }
}

/// A field's type and encryption, in one number.
struct FieldTag {
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
      throw MessagePackError("\(rawValue) is not a field's tag")
    }
    self.type = type
  }

  var rawValue: Int64 { Int64(type.rawValue) | (isEncrypted ? Self.encrypted : 0) }
}
