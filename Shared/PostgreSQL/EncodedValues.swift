// The binary form of parameters, as libpq takes it.

/// Binary parameters of one command in one buffer.
struct EncodedValues {
  /// All values, one after the other.
  private(set) var bytes: [UInt8] = []
  /// Where each value begins in `bytes`, and its length; nil for NULL.
  private(set) var places: [(start: Int, count: Int)?] = []

  /// The most bytes of one command's values. The server ends a session that sends 1 GiB at once.
  let byteLimit: Int

  init(byteLimit: Int = 512 << 20) { self.byteLimit = byteLimit }

  enum Refusal: Error {
    case containsNUL
    case tooLarge
  }

  /// Replaces the content, and keeps the memory.
  mutating func encode(_ values: [Value]) throws(Refusal) {
    bytes.removeAll(keepingCapacity: true)
    places.removeAll(keepingCapacity: true)
    for value in values {
      let start = bytes.count
      let isPresent = try append(value)
      guard bytes.count <= byteLimit else { throw .tooLarge }
      places.append(isPresent ? (start, bytes.count - start) : nil)
    }
  }

  /// - Returns: false for NULL.
  private mutating func append(_ value: Value) throws(Refusal) -> Bool {
    switch value {
    case .integer(let value?): append(value)
    case .real(let value?): append(value.bitPattern)
    case .boolean(let value?): bytes.append(value ? 1 : 0)
    case .text(let value?): try append(value)
    case .bytes(let value?): try append(value)
    case .integers(let values): try append(values, of: .bigint) { (buffer, value) in buffer.append(value) }
    case .texts(let values):
      try append(values, of: .text) { (buffer, value) throws(Refusal) in try buffer.append(value) }
    case .byteStrings(let values):
      try append(values, of: .bytes) { (buffer, value) throws(Refusal) in try buffer.append(value) }
    case .integer(nil), .real(nil), .boolean(nil), .text(nil), .bytes(nil): return false
    }
    return true
  }

  private mutating func append(_ value: some FixedWidthInteger) {
    withUnsafeBytes(of: value.bigEndian) { bytes.append(contentsOf: $0) }
  }

  private mutating func append(_ text: String) throws(Refusal) {
    let start = bytes.count
    guard text.utf8.count <= byteLimit - start else { throw .tooLarge }
    bytes.append(contentsOf: text.utf8)
    guard !bytes[start...].contains(0) else { throw .containsNUL }
  }

  private mutating func append(_ value: [UInt8]) throws(Refusal) {
    guard value.count <= byteLimit - bytes.count else { throw .tooLarge }
    bytes.append(contentsOf: value)
  }

  /// Appends an array of one dimension: a head, then each element after its length.
  private mutating func append<Element>(
    _ values: [Element?], of type: ValueType, _ body: (inout Self, Element) throws(Refusal) -> Void
  ) throws(Refusal) {
    append(Int32(values.isEmpty ? 0 : 1))
    append(Int32(values.contains { $0 == nil } ? 1 : 0))
    append(type.rawValue)
    guard !values.isEmpty else { return }
    // An element takes at least its length's four bytes.
    guard values.count <= byteLimit / 4 else { throw .tooLarge }
    append(Int32(values.count))
    append(Int32(1))
    for value in values {
      guard let value else {
        append(Int32(-1))
        continue
      }
      let place = bytes.count
      append(Int32(0))
      try body(&self, value)
      let count = Int32(bytes.count - place - 4)
      withUnsafeBytes(of: count.bigEndian) { bytes.replaceSubrange(place..<place + 4, with: $0) }
    }
  }
}

extension EncodedValues {
  /// Lends libpq's arrays of values, lengths and formats.
  func withPointers<Value>(
    _ body: (
      Int32, UnsafePointer<UnsafePointer<CChar>?>, UnsafePointer<Int32>, UnsafePointer<Int32>
    ) -> Value
  ) -> Value {
    let lengths = places.map { Int32($0?.count ?? 0) }
    let formats = [Int32](repeating: 1, count: places.count)
    return bytes.withUnsafeBytes { buffer in
      // A value without bytes needs an address, too: libpq reads a null pointer as NULL.
      let base = buffer.baseAddress ?? Self.nothing
      let starts: [UnsafePointer<CChar>?] = places.map { place in
        place.map { base.advanced(by: $0.start).assumingMemoryBound(to: CChar.self) }
      }
      return body(Int32(places.count), starts, lengths, formats)
    }
  }

  nonisolated(unsafe) private static let nothing = UnsafeRawPointer(
    UnsafeMutableRawPointer.allocate(byteCount: 1, alignment: 1))
}
