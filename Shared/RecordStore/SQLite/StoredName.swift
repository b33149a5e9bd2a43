// The form of a record name in a column: 16 bytes for a canonical upper-case UUID, text for other names.

import SQLite

/// Converts between both forms. They never collide: SQLite never treats a blob as text, and only the canonical spelling
/// of a UUID becomes a blob.
enum StoredName {
  struct UUIDBytes: Hashable {
    var high: UInt64
    var low: UInt64

    /// The 16 bytes of the blob, most significant first, so that blobs sort like their texts (`RecordNameOrder`).
    func withBytes<Value, Failure: Error>(_ body: (UnsafeRawBufferPointer) throws(Failure) -> Value) throws(Failure)
      -> Value
    {
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

  private static func isDash(_ position: Int) -> Bool {
    position == 8 || position == 13 || position == 18 || position == 23
  }

  private static func nibble(_ byte: UInt8) -> UInt64? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt64(byte - UInt8(ascii: "0"))
    case UInt8(ascii: "A")...UInt8(ascii: "F"): UInt64(byte - UInt8(ascii: "A") + 10)
    default: nil
    }
  }

  /// The UUID that `name` spells in canonical upper case; nil for other names.
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

  /// The form in PostgreSQL's columns, which have one type: 0 and the UTF-8 of a name, or 1 and the 16 bytes of a UUID.
  /// Bytes sort like the names (`RecordNameOrder`), no name is the first value, and a name may contain NUL.
  static func bytes(of name: String) -> [UInt8] {
    guard let uuid = uuid(name) else { return [textMark] + name.utf8 }
    return uuid.withBytes { [uuidMark] + $0 }
  }

  /// The name of such bytes; nil when they have neither form.
  static func name(_ bytes: UnsafeRawBufferPointer) -> String? {
    switch bytes.first {
    case textMark: String(validating: bytes.dropFirst(), as: UTF8.self)
    case uuidMark: text(UnsafeRawBufferPointer(rebasing: bytes.dropFirst()))
    default: nil
    }
  }

  private static let textMark: UInt8 = 0
  private static let uuidMark: UInt8 = 1

  /// The text of a blob; nil unless it has 16 bytes.
  static func text(_ bytes: UnsafeRawBufferPointer) -> String? {
    guard bytes.count == 16 else { return nil }
    return String(unsafeUninitializedCapacity: textLength) { text in
      write(bytes, to: text)
      return textLength
    }
  }

  /// Appends the text of a blob.
  /// - Returns: false unless it has 16 bytes.
  static func append(_ bytes: UnsafeRawBufferPointer, to buffer: inout [UInt8]) -> Bool {
    guard bytes.count == 16 else { return false }
    buffer.append(addingCapacity: textLength) { (span: inout OutputSpan<UInt8>) in
      span.withUnsafeMutableBufferPointer { text, count in
        write(bytes, to: UnsafeMutableBufferPointer(rebasing: text[count...]))
        count += textLength
      }
    }
    return true
  }

  private static func write(_ bytes: UnsafeRawBufferPointer, to text: UnsafeMutableBufferPointer<UInt8>) {
    digits.withUnsafeBufferPointer { digits in
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
    }
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

  /// Reads a record name from its stored form; nil when the column has neither form.
  func recordName(_ column: Int32) -> String? {
    isBlob(column) ? withBytes(column, StoredName.text) : optionalText(column)
  }

  /// As `recordName`, appends the name to bytes.
  /// - Returns: false when the column has neither form.
  func appendRecordName(_ column: Int32, to bytes: inout [UInt8]) -> Bool {
    if isBlob(column) { return withBytes(column) { StoredName.append($0, to: &bytes) } }
    guard let name = optionalText(column) else { return false }
    bytes.append(contentsOf: name.utf8)
    return true
  }
}
