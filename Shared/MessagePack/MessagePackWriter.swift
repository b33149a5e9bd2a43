// MessagePack out: libmsgpack's packer over a byte array.

import CMessagePack

/// Appends MessagePack to a byte array. That counts and contents agree is the caller's business.
public struct MessagePackWriter: Sendable {
  public private(set) var bytes: [UInt8] = []

  public init(reservingByteCount count: Int = 128) { bytes.reserveCapacity(count) }

  public mutating func null() { put { cmp_nil($0) } }
  public mutating func bool(_ value: Bool) { put { cmp_bool($0, value) } }
  /// In the shortest form, as `unsigned` writes it when it is not negative.
  public mutating func integer(_ value: Int64) { put { cmp_int64($0, value) } }
  public mutating func unsigned(_ value: UInt64) { put { cmp_uint64($0, value) } }
  /// Nine bytes; every bit pattern is kept.
  public mutating func double(_ value: Double) { put { cmp_double($0, value) } }

  /// Text: UTF-8, at most 4 GB.
  public mutating func string(_ value: String) {
    var value = value
    value.withUTF8 { utf8 in
      put { cmp_string_header($0, Self.checked(utf8.count)) }
      bytes.append(contentsOf: utf8)
    }
  }

  /// nil for nil.
  public mutating func string(_ value: String?) {
    if let value { string(value) } else { null() }
  }

  /// At most 4 GB.
  public mutating func bytes(_ value: [UInt8]) {
    put { cmp_bytes_header($0, Self.checked(value.count)) }
    bytes.append(contentsOf: value)
  }

  /// `count` values follow.
  public mutating func arrayHeader(_ count: Int) { put { cmp_array_header($0, Self.checked(count)) } }

  /// `count` pairs of key and value follow.
  public mutating func mapHeader(_ count: Int) { put { cmp_map_header($0, Self.checked(count)) } }

  /// Splices values that are MessagePack already, in the place of as many values.
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
  /// The five bytes of a header whose count is still zero; `patchCount` sets it.
  private static let openArrayCode: UInt8 = 0xdd
  private static let openMapCode: UInt8 = 0xdf

  /// Opens an array or map whose count is not known yet.
  /// - Returns: its place, for `patchCount`.
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
