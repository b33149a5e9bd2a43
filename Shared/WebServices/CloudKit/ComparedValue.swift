// Decides whether a filter's operand matches a value: an equality with a fitting hash, so that long lists need no
// pairwise comparison.

import Glibc
import Records

/// A value, as filters compare it.
struct ComparedValue: Hashable {
  let value: FieldValue

  init(_ value: FieldValue) { self.value = value }

  /// References are equal by name and zone here; `withoutZone` covers operands that match any zone.
  static func == (one: ComparedValue, other: ComparedValue) -> Bool {
    switch (one.value, other.value) {
    case (.reference(let own), .reference(let other)): own.recordName == other.recordName && own.zoneID == other.zoneID
    case (.list(_, let own), .list(_, let other)):
      own.count == other.count && zip(own, other).allSatisfy { $0.isMeant(by: $1) }
    case (.location(let own), .location(let other)): own.latitude == other.latitude && own.longitude == other.longitude
    // Byte for byte, like an index: Swift's own equality takes canonically equivalent strings as equal.
    case (.string(let own), .string(let other)): own.hasSameBytes(as: other)
    case (let own, let other): own == other
    }
  }

  func hash(into hasher: inout Hasher) {
    switch value {
    case .reference(let reference): hasher.combine(reference.recordName)
    // Lists are no elements of lists, and whole lists are compared one by one.
    case .list(_, let elements): hasher.combine(elements.count)
    case .location(let place):
      hasher.combine(place.latitude)
      hasher.combine(place.longitude)
    case .string(let text): text.hashBytes(into: &hasher)
    default: hasher.combine(value)
    }
  }

  /// The operand without a zone that matches this value; nil for values without a zone.
  var withoutZone: ComparedValue? {
    guard case .reference(var reference) = value, reference.zoneID != nil else { return nil }
    reference.zoneID = nil
    return ComparedValue(.reference(reference))
  }
}

extension FieldValue {
  /// True if a filter's `operand` matches this value. References match by name, and by zone if the operand names one.
  func isMeant(by operand: FieldValue) -> Bool {
    if case (.reference(let own), .reference(let other)) = (self, operand), other.zoneID == nil {
      return own.recordName == other.recordName
    }
    return ComparedValue(self) == ComparedValue(operand)
  }

  /// The order of two values as < 0, 0 or > 0; nil for values without an order.
  func compared(with other: FieldValue) -> Int? {
    switch (self, other) {
    case (.int64(let a), .int64(let b)), (.timestamp(let a), .timestamp(let b)): a < b ? -1 : a > b ? 1 : 0
    case (.double(let a), .double(let b)): a < b ? -1 : a > b ? 1 : a == b ? 0 : nil
    case (.string(let a), .string(let b)): a.comparedByBytes(with: b)
    case (.reference(let a), .reference(let b)): a.recordName.comparedByBytes(with: b.recordName)
    default: nil
    }
  }

  /// The bytes that one comparison reads; without the elements of a list.
  var lookedAtByteCount: Int {
    switch self {
    case .string(let text): text.utf8.count
    case .bytes(let bytes): bytes.count
    case .reference(let reference): reference.recordName.utf8.count
    default: 0
    }
  }
}

extension String {
  fileprivate func hasSameBytes(as other: String) -> Bool {
    utf8.count == other.utf8.count && comparedByBytes(with: other) == 0
  }

  fileprivate func hashBytes(into hasher: inout Hasher) {
    if utf8.withContiguousStorageIfAvailable({ hasher.combine(bytes: UnsafeRawBufferPointer($0)) }) == nil {
      Array(utf8).withUnsafeBytes { hasher.combine(bytes: $0) }
    }
  }

  /// The order of the bytes as < 0, 0 or > 0.
  func comparedByBytes(with other: String) -> Int {
    let order = utf8.withContiguousStorageIfAvailable { own in
      other.utf8.withContiguousStorageIfAvailable { own.compared(with: $0) }
    }
    if let order, let order { return order }
    if utf8.elementsEqual(other.utf8) { return 0 }
    return utf8.lexicographicallyPrecedes(other.utf8) ? -1 : 1
  }
}

extension UnsafeBufferPointer<UInt8> {
  fileprivate func compared(with other: UnsafeBufferPointer<UInt8>) -> Int {
    guard let own = baseAddress, let others = other.baseAddress else { return count - other.count }
    let order = memcmp(own, others, Swift.min(count, other.count))
    return order == 0 ? count - other.count : Int(order)
  }
}
