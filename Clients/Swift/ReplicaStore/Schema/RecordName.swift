// Record names in the file: an upper-case UUID takes 16 bytes instead of 36.

import FoundationEssentials
import SQLite

enum RecordName {
  /// Binds a name as the table `object` has it: 16 bytes for a canonical UUID, else text.
  static func bind(_ name: String, to statement: Statement, at index: Int32) throws(SQLiteError) {
    if let bytes = uuid(name) {
      let code: Result<Void, SQLiteError> = bytes.withUnsafeBytes { buffer in
        do throws(SQLiteError) { return .success(try statement.bind(index, buffer)) } catch { return .failure(error) }
      }
      try code.get()
    } else {
      try statement.bind(index, name)
    }
  }

  static func read(_ statement: Statement, _ column: Int32) -> String {
    guard statement.isBlob(column) else { return statement.text(column) }
    return statement.withBytes(column) { bytes in
      bytes.count == 16 ? canonical(bytes) : String(decoding: bytes, as: UTF8.self)
    }
  }

  static func isValid(_ name: String) -> Bool {
    !name.isEmpty && name.utf8.count <= 255 && name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f }
  }

  /// The bytes of a UUID that is spelled in upper case; nil for any other name.
  static func uuid(_ name: String) -> [UInt8]? {
    var name = name
    return name.withUTF8 { text in
      guard text.count == 36 else { return nil }
      var bytes: [UInt8] = []
      bytes.reserveCapacity(16)
      var index = 0
      while index < 36 {
        if dashes.contains(index) {
          guard text[index] == UInt8(ascii: "-") else { return nil }
          index += 1
          continue
        }
        guard let high = digit(text[index]), let low = digit(text[index + 1]) else { return nil }
        bytes.append(high << 4 | low)
        index += 2
      }
      return bytes
    }
  }

  private static func canonical(_ bytes: UnsafeRawBufferPointer) -> String {
    String(unsafeUninitializedCapacity: 36) { text in
      var index = 0
      for byte in bytes {
        if dashes.contains(index) {
          text[index] = UInt8(ascii: "-")
          index += 1
        }
        text[index] = character(byte >> 4)
        text[index + 1] = character(byte & 15)
        index += 2
      }
      return 36
    }
  }

  private static let dashes = DashPlaces()

  /// Places of the dashes in a UUID's text.
  private struct DashPlaces {
    func contains(_ index: Int) -> Bool { index == 8 || index == 13 || index == 18 || index == 23 }
  }

  private static func digit(_ character: UInt8) -> UInt8? {
    switch character {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0")
    case UInt8(ascii: "A")...UInt8(ascii: "F"): character - UInt8(ascii: "A") + 10
    default: nil
    }
  }

  private static func character(_ digit: UInt8) -> UInt8 {
    digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "A") + digit - 10
  }
}
