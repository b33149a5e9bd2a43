// The stored form of history transactions: round trips, stability, and damaged bytes.

import Records
import Testing

import History

struct HistoryCodecTests {
  @Test func `random transactions come back equal, and equal ones have equal bytes`() throws {
    var generator = SplitMix(state: 31)
    for _ in 0..<1000 {
      let transaction = HistoryTransaction.random(&generator)
      let blob = transaction.encoded()
      let decoded = try HistoryTransaction(decoding: blob)
      #expect(decoded == transaction)
      #expect(decoded.encoded() == blob)
    }
  }

  @Test func `every kind of value comes back`() throws {
    let values: [AttributeValue] = [
      .null, .integer(.min), .integer(.max), .double(-0.5), .double(.leastNonzeroMagnitude), .decimal("-0.10"),
      .string(""), .string("é\u{0}😀"), .boolean(true),
      .boolean(false),
      .date(-1), .uuid("0B7C1DF2-AAAA-4444-9999-000000000000"), .uri("x://y"), .binary([]),
      .binary([UInt8](repeating: 255, count: 100_000)),
      .asset(Asset(hash: [UInt8](repeating: 1, count: 32), byteCount: .max)), .composite([]),
      .composite([
        .init(name: "a", value: .composite([.init(name: "b", value: .null)])),
        .init(name: "c", value: .asset(Asset(hash: [], byteCount: 0))),
      ]),
    ]
    let named = values.enumerated().map { NamedValue(name: "v\($0.offset)", value: $0.element) }
    let relationships: [RelationshipValue] = [
      .toOne(nil), .toOne("x"), .toMany([]), .toMany(["a", "b"]), .toManyDelta(add: [], remove: []),
      .toManyDelta(add: ["a"], remove: ["b", "c"]),
    ]
    let transaction = HistoryTransaction(
      transactionID: "t", timestamp: -5, author: "a", contextName: nil, bundleID: "", processID: "411",
      changes: [
        HistoryChange(
          changeType: .update, entity: "E", objectID: "o", attributes: named,
          relationships: relationships.enumerated().map { NamedValue(name: "r\($0.offset)", value: $0.element) }),
        HistoryChange(changeType: .delete, entity: "E", objectID: "p", tombstone: named),
        HistoryChange(changeType: .insert, entity: "", objectID: ""),
      ])
    #expect(try HistoryTransaction(decoding: transaction.encoded()) == transaction)
    let empty = HistoryTransaction(transactionID: "", timestamp: 0, changes: [])
    #expect(try HistoryTransaction(decoding: empty.encoded()) == empty)
  }

  /// The bytes of the format's first version. Stores on disk have them, so they must never change.
  @Test func `the format has not changed`() throws {
    let transaction = HistoryTransaction(
      transactionID: "t1", timestamp: 7, author: "app",
      changes: [
        HistoryChange(
          changeType: .update, entity: "Tag", objectID: "A1",
          attributes: [NamedValue(name: "name", value: .string("desert"))],
          relationships: [NamedValue(name: "photos", value: .toManyDelta(add: ["P"], remove: []))])
      ])
    // 13 values: t1, 7, app, three nulls; an update of Tag `A1`; name: text "desert"; photos: delta of one added, none
    // removed; no tombstone.
    let golden: [UInt8] = [
      0x9d, 1, 0xa2, 0x74, 0x31, 7, 0xa3, 0x61, 0x70, 0x70, 0xc0, 0xc0, 0xc0, 1, 0xa3, 0x54, 0x61, 0x67, 0xa2, 0x41,
      0x31,
      0x93, 0xa4, 0x6e, 0x61, 0x6d, 0x65, 4, 0xa6, 0x64, 0x65, 0x73, 0x65, 0x72, 0x74,
      0x94, 0xa6, 0x70, 0x68, 0x6f, 0x74, 0x6f, 0x73, 3, 0x91, 0xa1, 0x50, 0x90, 0x90,
    ]
    #expect(transaction.encoded() == golden)
    #expect(try HistoryTransaction(decoding: golden) == transaction)
  }

  @Test func `composites may nest to the limit of a request`() throws {
    func nested(_ depth: Int) -> HistoryTransaction {
      let value = (0..<depth).reduce(AttributeValue.integer(1)) { value, _ in
        .composite([.init(name: "n", value: value)])
      }
      return HistoryTransaction(
        transactionID: "t", timestamp: 0,
        changes: [
          HistoryChange(
            changeType: .insert, entity: "E", objectID: "o", attributes: [NamedValue(name: "a", value: value)])
        ])
    }
    #expect(try HistoryTransaction(decoding: nested(64).encoded()) == nested(64))
    #expect(throws: StoredFormatError.corrupt(reason: "composites nest deeper than 64 levels")) {
      _ = try HistoryTransaction(decoding: nested(65).encoded())
    }
    #expect(throws: StoredFormatError.self) { _ = try HistoryTransaction(decoding: nested(5000).encoded()) }
  }

  @Test func `an edit's knowledge goes with its transaction, and costs transactions without any nothing`() throws {
    var transaction = HistoryTransaction(
      transactionID: "t", timestamp: 5, changes: [HistoryChange(changeType: .delete, entity: "E", objectID: "o")])
    let plain = transaction.encoded()
    transaction.edit = HistoryTransaction.Edit(base: 77, time: -5)
    #expect(try HistoryTransaction(decoding: transaction.encoded()) == transaction)
    #expect(transaction.encoded().count == plain.count + 2 && plain[1] == 1)
  }

  @Test func `a later format is named, and nothing but a whole blob is read`() {
    #expect(throws: StoredFormatError.unknownFormat(3)) { _ = try HistoryTransaction(decoding: [0x92, 3, 0xc0]) }
    for blob: [UInt8] in [[], [0xc0], [0x90], [0x91, 1], [0x91, 0xa1, 0x31], [0x80]] {
      #expect(throws: StoredFormatError.self) { _ = try HistoryTransaction(decoding: blob) }
    }
  }

  @Test func `a blob that was cut or altered is refused or read, never a crash`() {
    var generator = SplitMix(state: 32)
    for _ in 0..<80 {
      let blob = HistoryTransaction.random(&generator).encoded()
      for end in 0..<min(blob.count, 200) {
        #expect(throws: StoredFormatError.self) { _ = try HistoryTransaction(decoding: Array(blob[..<end])) }
      }
      for _ in 0..<100 {
        var altered = blob
        altered[Int.random(in: 0..<altered.count, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
        // Dropped because this decoder can't notice an altered letter; the store's checksums do.
        _ = try? HistoryTransaction(decoding: altered)
      }
    }
  }
}

struct HistoryChangeTests {
  @Test func `an update lists what it touched in ascending order, other changes nothing`() {
    let attributes = [NamedValue(name: "b", value: AttributeValue.null), NamedValue(name: "d", value: .null)]
    let relationships = [
      NamedValue(name: "a", value: RelationshipValue.toOne(nil)), NamedValue(name: "c", value: .toOne(nil)),
    ]
    func change(_ type: HistoryChange.ChangeType) -> HistoryChange {
      HistoryChange(changeType: type, entity: "E", objectID: "o", attributes: attributes, relationships: relationships)
    }
    #expect(change(.update).updatedProperties == ["a", "b", "c", "d"])
    #expect(change(.insert).updatedProperties.isEmpty && change(.delete).updatedProperties.isEmpty)
  }

  @Test func `change types have Core Data's numbers and their wire names`() {
    for (number, name) in ["insert", "update", "delete"].enumerated() {
      #expect(HistoryChange.ChangeType(rawValue: number)?.wireName == name)
      #expect(HistoryChange.ChangeType(wireName: name)?.rawValue == number)
    }
    #expect(HistoryChange.ChangeType(wireName: "Insert") == nil)
  }
}
