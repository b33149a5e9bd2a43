// Stored rows that are damaged or come from another release. Their checksums are right, so that the decoders are
// reached.

import Crypto
import History
@testable import RecordStore
import Records
import Sharing

extension FuzzTarget {
  /// An accepted row is written as the same bytes, and nothing opens that was not sealed.
  static let storedRows = FuzzTarget(name: "stored-rows", seeds: { try seeds() }) { bytes in
    try readRow(bytes, { try Record(decoding: $0, recordName: "n", recordType: "Note") }, { $0.encoded() })
    try readRow(bytes, { try HistoryTransaction(decoding: $0) }, { $0.encoded() })
    try readRow(bytes, { try HeldTransactions(decoding: $0) }, { $0.encoded() })
    try readRow(bytes, { try ShareState(decoding: $0) }, { try $0.encoded() })
    if let entries = StoredReferences.decode(bytes) {
      let encoded = try StoredReferences.encode(entries)
      try holdEqual(
        try StoredReferences.decode(encoded).map { try StoredReferences.encode($0) }, encoded,
        "references are written differently when they were read")
    }
    for purpose in [KeyRing.Purpose.record, .history] {
      guard
        let content = try taken({
          try bytes.withUnsafeBytes { bytes throws(SealingError) in try ring.open(bytes, for: purpose) }
        })
      else { continue }
      try holdEqual(content, sealedContent, "something opens that was not sealed")
    }
  }

  /// An accepted value is written and read back as the same. The bytes are compared, because some values are unequal to
  /// themselves.
  private static func readRow<Value>(
    _ bytes: [UInt8], _ read: ([UInt8]) throws -> Value, _ write: (Value) throws -> [UInt8]
  ) throws {
    let value = try taken({ try read(bytes) }) { error in
      guard let error = error as? StoredFormatError else { throw Broken(description: "refused with \(error)") }
      if case .corrupt(let reason) = error { try hold(!reason.isEmpty, "damage has no reason") }
    }
    guard let value else { return }
    let written = try write(value)
    guard let again = try taken({ try read(written) }) else {
      throw Broken(description: "\(Value.self): refuses what it wrote")
    }
    try holdEqual(try write(again), written, "\(Value.self): what was read is written differently")
  }

  private static let ring = Fixture.make(try? KeyRing(parsing: String(repeating: "0f", count: 32)), "key ring")
  private static let sealedContent = Array("nobody's business".utf8)

  private static func seeds() throws -> [[UInt8]] {
    var versioned = Fixture.record
    versioned.versions = [
      FieldVersion(
        field: "f0", edits: [FieldVersion.Edit(device: "phone", time: Fixture.now, sent: .int64(1))],
        elements: [FieldVersion.Element(text: "a", edit: FieldVersion.Edit(device: "phone", time: 1), isPresent: true)])
    ]
    let values: [AttributeValue] = [
      .null, .integer(-3), .double(0.5), .decimal("1.5"), .string("a"), .boolean(true), .date(Fixture.now),
      .binary([1]), .uuid(Fixture.name), .uri("a:b"),
      .asset(Fixture.asset), .composite([AttributeValue.CompositeElement(name: "b", value: .boolean(false))]),
    ]
    let attributes = values.enumerated().map { NamedValue(name: "a\($0)", value: $1) }
    let relationships: [RelationshipValue] = [
      .toOne(nil), .toOne("b"), .toMany(["a", "b"]), .toManyDelta(add: ["c"], remove: ["d"]),
    ]
    var transaction = HistoryTransaction(
      transactionID: "t", timestamp: Fixture.now, author: "a", contextName: nil, bundleID: nil, processID: "1",
      changes: [
        HistoryChange(
          changeType: .insert, entity: "Note", objectID: Fixture.name, attributes: attributes,
          relationships: relationships.enumerated().map { NamedValue(name: "r\($0)", value: $1) }),
        HistoryChange(changeType: .delete, entity: "Note", objectID: "n", tombstone: attributes),
      ])
    let plain = transaction
    transaction.edit = HistoryTransaction.Edit(base: 1, time: Fixture.now)
    let entries = [
      StoredReferences.Entry(field: 3, target: Fixture.name), StoredReferences.Entry(field: -1, target: "b"),
    ]
    return [
      Fixture.record.encoded(), versioned.encoded(), plain.encoded(), transaction.encoded(),
      HeldTransactions([plain, transaction]).encoded(),
      try Sampler.sample(ShareState.self).encoded(), try StoredReferences.encode(entries),
      ring.seal(sealedContent, for: .record), ring.seal(sealedContent, for: .history),
    ]
  }
}
