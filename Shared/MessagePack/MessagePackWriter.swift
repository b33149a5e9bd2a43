// Writes MessagePack with libmsgpack's packer into a byte array.

import CMessagePack

/// Appends MessagePack to a byte array. The caller writes as many values as the headers announce.
public struct MessagePackWriter: Sendable {
  public private(set) var bytes: [UInt8] = []

  public init(reservingByteCount count: Int = 128) { bytes.reserveCapacity(count) }

  public mutating func null() { put { cmp_nil($0) } }
  public mutating func bool(_ value: Bool) { put { cmp_bool($0, value) } }
  /// Writes the shortest form. A value that is not negative has the same form as in `unsigned`.
  public mutating func integer(_ value: Int64) { put { cmp_int64($0, value) } }
  public mutating func unsigned(_ value: UInt64) { put { cmp_uint64($0, value) } }
  /// Writes nine bytes and keeps every bit pattern.
  public mutating func double(_ value: Double) { put { cmp_double($0, value) } }

  /// Writes UTF-8 text of at most 4 GB.
  public mutating func string(_ value: String) {
    var value = value
    value.withUTF8 { utf8 in
      put { cmp_string_header($0, Self.checked(utf8.count)) }
      bytes.append(contentsOf: utf8)
    }
  }

  /// Writes text, or null for nil.
  public mutating func string(_ value: String?) {
    if let value { string(value) } else { null() }
  }

  /// Writes at most 4 GB.
  public mutating func bytes(_ value: [UInt8]) {
    put { cmp_bytes_header($0, Self.checked(value.count)) }
    bytes.append(contentsOf: value)
  }

  /// Begins an array. The caller writes `count` values next.
  public mutating func arrayHeader(_ count: Int) { put { cmp_array_header($0, Self.checked(count)) } }

  /// Begins a map. The caller writes `count` pairs of key and value next.
  public mutating func mapHeader(_ count: Int) { put { cmp_map_header($0, Self.checked(count)) } }

  /// Splices values that are MessagePack already. Each counts as one value.
  public mutating func raw(_ encoded: some Collection<UInt8>) { bytes.append(contentsOf: encoded) }

  @inline(__always)
  private mutating func put(_ pack: (UnsafeMutablePointer<UInt8>) -> Int) {
    bytes.append(addingCapacity: Int(CMP_LONGEST)) { (span: inout OutputSpan<UInt8>) in
      span.withUnsafeMutableBufferPointer { buffer, count in
        if let base = buffer.baseAddress { count += pack(base + count) }
      }
    }
  }

  private static func checked(_ count: Int) -> Int {
    precondition(count >= 0 && count <= Int(UInt32.max), "MessagePack counts to 2^32, not to \(count)")
    return count
  }
}

extension MessagePackWriter {
  /// The codes of five-byte headers. Their counts are zero until `patchCount` sets them.
  private static let openArrayCode: UInt8 = 0xdd
  private static let openMapCode: UInt8 = 0xdf

  /// Begins an array or map whose count is not known yet.
  /// - Returns: the position of the header, for `patchCount`.
  mutating func openHeader(isMap: Bool) -> Int {
    let place = bytes.count
    bytes.append(isMap ? Self.openMapCode : Self.openArrayCode)
    bytes.append(contentsOf: repeatElement(0, count: 4))
    return place
  }

  mutating func patchCount(_ count: Int, at place: Int) {
    let count = UInt32(Self.checked(count))
    for index in 0..<4 { bytes[place + 1 + index] = UInt8(truncatingIfNeeded: count >> UInt32(24 - 8 * index)) }
  }
}
