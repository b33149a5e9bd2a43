// A record's row: its stored bytes, and the checksum over them.

import CDeflate
import Records
import SQLite

/// The columns of a record's row that are numbers.
struct RecordRowHeader {
  var zone: Int64
  var sequence: Int64
  /// The symbol of the record type.
  var type: Int64
  var isDeleted: Bool
  var origin: Int64
  var sequenceOfOthers: Int64

  /// CRC-32 over all columns of the row: `integrity_check` does not see a flipped byte inside a value.
  func checksum(name: UnsafeRawBufferPointer, references: UnsafeRawBufferPointer, data: UnsafeRawBufferPointer) -> Int64
  {
    let numbers = (
      zone.littleEndian, sequence.littleEndian, type.littleEndian, Int64(isDeleted ? 1 : 0).littleEndian,
      origin.littleEndian,
      sequenceOfOthers.littleEndian
    )
    var sum = withUnsafeBytes(of: numbers) { Checksum.update(0, $0) }
    sum = Checksum.update(sum, name)
    sum = Checksum.update(sum, references)
    return Int64(Checksum.update(sum, data))
  }

  func checksum(name: String, references: [UInt8], data: UnsafeRawBufferPointer) -> Int64 {
    var name = name
    return name.withUTF8 { name in
      references.withUnsafeBytes { checksum(name: UnsafeRawBufferPointer(name), references: $0, data: data) }
    }
  }
}

/// CRC-32 as in zlib, piece by piece. Stored: never another polynomial.
enum Checksum {
  /// - Parameter sum: the checksum of the earlier pieces; 0 for none.
  static func update(_ sum: UInt32, _ bytes: UnsafeRawBufferPointer) -> UInt32 {
    // libdeflate reads a null pointer as "start again".
    guard let start = bytes.baseAddress else { return sum }
    return libdeflate_crc32(sum, start, bytes.count)
  }
}

/// A reference's field and action in one number, the column `reference.field`.
///
/// Each action has a number range of its own. So the sources that an action binds to a target are one range of the
/// index, however many plain pointers there are.
struct ReferenceKey: Hashable {
  /// The symbol of the field's name.
  let symbol: Int64
  let action: Reference.Action

  private static let step: Int64 = 1 << 40

  init(symbol: Int64, action: Reference.Action) {
    self.symbol = symbol
    self.action = action
  }

  /// Stored: never renumber.
  var rawValue: Int64 {
    switch action {
    case .none: symbol
    case .deleteSelf: symbol - Self.step
    case .validate: symbol - 2 * Self.step
    }
  }

  init(rawValue: Int64) {
    if rawValue >= 0 {
      self.init(symbol: rawValue, action: .none)
    } else if rawValue >= -Self.step {
      self.init(symbol: rawValue + Self.step, action: .deleteSelf)
    } else {
      self.init(symbol: rawValue &+ 2 * Self.step, action: .validate)
    }
  }

  /// The keys of a binding action; nil for `none`.
  static func range(of action: Reference.Action) -> ClosedRange<Int64>? {
    switch action {
    case .none: nil
    case .deleteSelf: -step...(-1)
    case .validate: -2 * step...(-step - 1)
    }
  }
}

/// A record's outgoing references as its row stores them: sorted and distinct. Equal sets have equal bytes, so an
/// update that changes none leaves the index alone.
enum StoredReferences {
  struct Entry: Hashable {
    /// `ReferenceKey.rawValue`.
    let field: Int64
    let target: String
  }

  /// Shape: entries ascending by their bytes. Each has 8 bytes of field, 2 bytes with the target's length plus 1 (0 for
  /// a UUID of 16 bytes), and the target.
  static func encode(_ entries: [Entry]) throws -> [UInt8] {
    if entries.count <= 1 {
      var bytes: [UInt8] = []
      if let entry = entries.first { try append(entry, to: &bytes) }
      return bytes
    }
    var pieces = try entries.map { entry in
      var piece: [UInt8] = []
      try append(entry, to: &piece)
      return piece
    }
    pieces.sort { $0.lexicographicallyPrecedes($1) }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(pieces.reduce(0) { $0 + $1.count })
    for (index, piece) in pieces.enumerated() where index == 0 || piece != pieces[index - 1] {
      bytes.append(contentsOf: piece)
    }
    return bytes
  }

  private static func append(_ entry: Entry, to bytes: inout [UInt8]) throws {
    bytes.reserveCapacity(bytes.count + 26)
    withUnsafeBytes(of: entry.field.bigEndian) { bytes.append(contentsOf: $0) }
    if let uuid = StoredName.uuid(entry.target) {
      bytes.append(contentsOf: [0, 0])
      uuid.withBytes { bytes.append(contentsOf: $0) }
    } else {
      let byteCount = entry.target.utf8.count
      guard byteCount < Int(UInt16.max) else { throw ContradictingWrite("a reference's target has \(byteCount) bytes") }
      withUnsafeBytes(of: UInt16(byteCount + 1).bigEndian) { bytes.append(contentsOf: $0) }
      bytes.append(contentsOf: entry.target.utf8)
    }
  }

  /// - Returns: nil unless the bytes have the shape that `encode` makes.
  static func decode(_ bytes: [UInt8]) -> [Entry]? {
    var entries: [Entry] = []
    var index = 0
    while index < bytes.count {
      guard index + 10 <= bytes.count else { return nil }
      let field = bytes[index..<index + 8].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
      let length = Int(bytes[index + 8]) << 8 | Int(bytes[index + 9])
      index += 10
      let end = index + (length == 0 ? 16 : length - 1)
      guard end <= bytes.count else { return nil }
      let target =
        length == 0
        ? bytes[index..<end].withUnsafeBytes(StoredName.text) : String(decoding: bytes[index..<end], as: UTF8.self)
      guard let target else { return nil }
      entries.append(Entry(field: Int64(bitPattern: field), target: target))
      index = end
    }
    return entries
  }
}
