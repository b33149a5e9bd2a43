// How a record name is kept in a column: 16 bytes when it is a UUID as CloudKit writes them, text otherwise.

import SQLite

/// The two forms never collide: SQLite never takes a blob for a text, and only the one spelling that the bytes give back is packed.
enum StoredName {
  struct UUIDBytes: Hashable {
    var high: UInt64
    var low: UInt64

    /// The next larger value, nil after the last.
    var successor: UUIDBytes? {
      let (low, carry) = low.addingReportingOverflow(1)
      let (high, overflow) = high.addingReportingOverflow(carry ? 1 : 0)
      return overflow ? nil : UUIDBytes(high: high, low: low)
    }

    /// The 16 bytes of the blob, most significant first, so that blobs sort like the texts they stand for.
    func withBytes<Value, Failure: Error>(_ body: (UnsafeRawBufferPointer) throws(Failure) -> Value) throws(Failure) -> Value {
      let pair = (high.bigEndian, low.bigEndian)
      return try Swift.withUnsafeBytes(of: pair, body)
    }

    mutating func set(_ nibble: UInt64, at index: Int) {
      if index < 16 { high |= nibble << UInt64(60 - 4 * index) } else { low |= nibble << UInt64(60 - 4 * (index - 16)) }
    }
  }

  static let textLength = 36
  private static let dash = UInt8(ascii: "-")
  private static let digits = Array("0123456789ABCDEF".utf8)

  private static func isDash(_ position: Int) -> Bool { position == 8 || position == 13 || position == 18 || position == 23 }

  private static func nibble(_ byte: UInt8) -> UInt64? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt64(byte - UInt8(ascii: "0"))
    case UInt8(ascii: "A")...UInt8(ascii: "F"): UInt64(byte - UInt8(ascii: "A") + 10)
    default: nil
    }
  }

  /// The UUID that `name` spells in canonical upper case, or nil.
  static func uuid(_ name: String) -> UUIDBytes? {
    var name = name
    return name.withUTF8 { text in
      guard text.count == textLength else { return nil }
      var uuid = UUIDBytes(high: 0, low: 0)
      var index = 0
      for position in 0..<textLength {
        if isDash(position) {
          guard text[position] == dash else { return nil }
        } else {
          guard let nibble = nibble(text[position]) else { return nil }
          uuid.set(nibble, at: index)
          index += 1
        }
      }
      return uuid
    }
  }

  /// The text of a blob; nil when it has not 16 bytes.
  static func text(_ bytes: UnsafeRawBufferPointer) -> String? {
    guard bytes.count == 16 else { return nil }
    return String(unsafeUninitializedCapacity: textLength) { text in
      var position = 0
      for byte in bytes {
        if isDash(position) {
          text[position] = dash
          position += 1
        }
        text[position] = digits[Int(byte >> 4)]
        text[position + 1] = digits[Int(byte & 15)]
        position += 2
      }
      return textLength
    }
  }

  /// The smallest UUID whose text sorts after `text`, nil when there is none: where a scan in name order goes on among the blobs.
  static func firstUUID(after text: String) -> UUIDBytes? {
    let text = Array(text.utf8)
    var uuid = UUIDBytes(high: 0, low: 0)
    var index = 0
    for position in 0..<textLength {
      // `text` is a prefix of every UUID that begins like this.
      if position == text.count { return uuid }
      let byte = text[position]
      if isDash(position) {
        if byte < dash { return uuid }
        if byte > dash { return prefixSuccessor(uuid, length: index) }
      } else if let nibble = nibble(byte) {
        uuid.set(nibble, at: index)
        index += 1
      } else {
        guard let digit = digits.firstIndex(where: { $0 > byte }) else { return prefixSuccessor(uuid, length: index) }
        uuid.set(UInt64(digit), at: index)
        return uuid
      }
    }
    return uuid.successor
  }

  /// `uuid`, of which only the first `length` digits are set, with those counted up by one.
  private static func prefixSuccessor(_ uuid: UUIDBytes, length: Int) -> UUIDBytes? {
    if length == 0 { return nil }
    if length > 16 {
      let (low, carry) = uuid.low.addingReportingOverflow(1 << UInt64(64 - 4 * (length - 16)))
      let (high, overflow) = uuid.high.addingReportingOverflow(carry ? 1 : 0)
      return overflow ? nil : UUIDBytes(high: high, low: low)
    }
    let (high, overflow) = uuid.high.addingReportingOverflow(1 << UInt64(64 - 4 * length))
    return overflow ? nil : UUIDBytes(high: high, low: 0)
  }
}

extension Statement {
  /// Binds a record name in its stored form.
  func bind(_ index: Int32, recordName: String) throws(SQLiteError) {
    if let uuid = StoredName.uuid(recordName) {
      try uuid.withBytes { bytes throws(SQLiteError) in try bind(index, bytes) }
    } else {
      try bind(index, recordName)
    }
  }

  /// A record name from its stored form; nil when the column holds neither form.
  func recordName(_ column: Int32) -> String? {
    isBlob(column) ? withBytes(column, StoredName.text) : optionalText(column)
  }
}
