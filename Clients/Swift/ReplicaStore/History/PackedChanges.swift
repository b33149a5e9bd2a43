// The changes of one history transaction as the bytes of one row: a save then writes one page for its history.

import FoundationEssentials

/// Changes in their order. A number takes seven bits a byte, lowest first, and a set eighth bit in all bytes but its
/// last.
struct PackedChanges {
  struct Change: Equatable {
    let object: Int64
    let kind: HistoryChange.Kind
    /// Keys of the table `property`.
    let properties: [Int64]
    /// JSON; empty: the change preserves no attributes.
    let tombstone: [UInt8]
  }

  private(set) var bytes: [UInt8] = []
  private(set) var count = 0

  mutating func append(_ change: Change) {
    count += 1
    add(change.object)
    add(Int64(change.kind.rawValue))
    add(Int64(change.properties.count))
    for property in change.properties { add(property) }
    add(Int64(change.tombstone.count))
    bytes.append(contentsOf: change.tombstone)
  }

  private mutating func add(_ number: Int64) {
    var rest = UInt64(bitPattern: number)
    while rest > 0x7f {
      bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest >>= 7
    }
    bytes.append(UInt8(truncatingIfNeeded: rest))
  }

  /// Calls `body` for each change of a row.
  /// - Throws: `damaged` when the bytes are no changes; what `body` throws.
  static func forEach(in bytes: [UInt8], _ body: (Change) throws -> Void) throws {
    var reading = Reading(bytes: bytes)
    while reading.place < bytes.count { try body(try reading.change()) }
  }

  private struct Reading {
    let bytes: [UInt8]
    var place = 0

    mutating func change() throws(StoreError) -> Change {
      let object = try number()
      guard let kind = HistoryChange.Kind(rawValue: Int(try number())) else { throw Self.damaged }
      var properties: [Int64] = []
      for _ in 0..<(try count()) { properties.append(try number()) }
      let tombstoneCount = try count()
      defer { place += tombstoneCount }
      return Change(
        object: object, kind: kind, properties: properties, tombstone: Array(bytes[place..<place + tombstoneCount]))
    }

    /// A number of things that take a byte each or more.
    private mutating func count() throws(StoreError) -> Int {
      guard let count = Int(exactly: try number()), (0...bytes.count - place).contains(count) else {
        throw Self.damaged
      }
      return count
    }

    private mutating func number() throws(StoreError) -> Int64 {
      var number: UInt64 = 0
      var shift: UInt64 = 0
      while place < bytes.count, shift < 64 {
        let byte = bytes[place]
        place += 1
        number |= UInt64(byte & 0x7f) << shift
        if byte < 0x80 { return Int64(bitPattern: number) }
        shift += 7
      }
      throw Self.damaged
    }

    private static var damaged: StoreError { .damaged("a transaction of the history can't be read") }
  }
}
