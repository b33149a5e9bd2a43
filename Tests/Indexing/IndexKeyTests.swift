import Records
import Testing

@testable import Indexing

/// Compares keys with comparisons of the values themselves.
@Suite struct `Index keys` {
  static let samples: [FieldValue?] =
    [nil]
    + [Int64.min, -1_000_000, -1, 0, 1, 255, 256, .max].map { .int64($0) }
    + [
      -Double.infinity, -1e300, -1.5, -Double.leastNonzeroMagnitude, -0.0, 0.0, .leastNonzeroMagnitude, 1, 1.5, 1e300,
      .infinity,
    ].map { .double($0) }
    + ["", "A", "B", "a", "ab", "b", "é", "z", "\u{ffff}", "\u{1f600}"].map { .string($0) }
    + [Int64.min, 0, 7].map { .timestamp($0) }
    + ["", "a", "b"].map { .reference(Reference(recordName: $0, action: .none)) }

  /// Orders by the numbers of the kinds, then by value.
  static func compare(_ a: FieldValue?, _ b: FieldValue?) -> Int {
    switch (a, b) {
    case (.int64(let a)?, .int64(let b)?), (.timestamp(let a)?, .timestamp(let b)?): a < b ? -1 : a > b ? 1 : 0
    case (.double(let a)?, .double(let b)?): a < b ? -1 : a > b ? 1 : 0
    case (.string(let a)?, .string(let b)?):
      Array(a.utf8) == Array(b.utf8) ? 0 : Array(a.utf8).lexicographicallyPrecedes(Array(b.utf8)) ? -1 : 1
    case (.reference(let a)?, .reference(let b)?):
      a.recordName == b.recordName ? 0 : a.recordName < b.recordName ? -1 : 1
    default: Int(a?.type.rawValue ?? 0) - Int(b?.type.rawValue ?? 0)
    }
  }

  @Test func `keys sort like the values they stand for`() {
    for a in Self.samples {
      for b in Self.samples {
        let (keyA, keyB) = (IndexKey.order(a), IndexKey.order(b))
        let expected = Self.compare(a, b).signum()
        #expect(
          (keyA == keyB ? 0 : keyA.lexicographicallyPrecedes(keyB) ? -1 : 1) == expected,
          "\(String(describing: a)) \(String(describing: b))")
        #expect(IndexKey.everything.contains(keyA))
      }
    }
    #expect(IndexKey.order(.double(.nan)).lexicographicallyPrecedes(IndexKey.order(.double(-.infinity))))
    #expect(IndexKey.order(.bytes([1])) == IndexKey.order(.bytes([2])))
  }

  @Test func `ranges hold what passes a comparison, and no value of another type`() throws {
    for case let a? in Self.samples {
      let (equal, atMost, atLeast) = try (
        #require(IndexKey.equal(a)), #require(IndexKey.atMost(a)), #require(IndexKey.atLeast(a))
      )
      #expect(equal.isSingleKey)
      for b in Self.samples {
        let key = IndexKey.order(b)
        let isSameType = b?.type == a.type
        #expect(equal.contains(key) == (isSameType && Self.compare(b, a) == 0))
        #expect(atMost.contains(key) == (isSameType && Self.compare(b, a) <= 0))
        #expect(atLeast.contains(key) == (isSameType && Self.compare(b, a) >= 0))
      }
    }
    #expect(IndexKey.begins("ab", asElement: false).contains(IndexKey.order(.string("abc"))))
    #expect(IndexKey.begins("", asElement: false).contains(IndexKey.order(.string("\u{10ffff}"))))
    #expect(!IndexKey.begins("", asElement: false).contains(IndexKey.order(.timestamp(0))))
    #expect(!IndexKey.begins("ab", asElement: true).contains(IndexKey.order(.string("abc"))))
    let overlap = try #require(IndexKey.atLeast(.int64(2))).intersection(try #require(IndexKey.atMost(.int64(4))))
    #expect((0..<7).filter { overlap.contains(IndexKey.order(.int64($0))) } == [2, 3, 4])
  }

  @Test func `long texts that begin alike share a key, which every comparison keeps`() throws {
    let prefix = String(repeating: "x", count: IndexKey.textByteLimit)
    let (a, b) = (FieldValue.string(prefix + "a"), FieldValue.string(prefix + "b"))
    #expect(IndexKey.order(a) == IndexKey.order(b))
    #expect(IndexKey.order(a).count == IndexKey.textByteLimit + 1)
    #expect(try #require(IndexKey.atMost(a)).contains(IndexKey.order(b)))
    #expect(try #require(IndexKey.atLeast(b)).contains(IndexKey.order(a)))
    #expect(IndexKey.begins(prefix + "abc", asElement: false).contains(IndexKey.order(a)))
  }

  static func record(_ fields: Fields) -> Record {
    let stamp = Stamp(timestamp: 7, userRecordName: "_ada")
    return Record(recordName: "r", recordType: "Note", fields: fields, created: stamp, modified: stamp)
  }

  @Test func `a list has a key as a whole and one for each distinct element, or says that it has too many`() {
    let index = FieldIndex(recordType: "Note", key: .field("l"), kind: .value)
    let keys = index.keys(of: Self.record(["l": .list(element: .int64, [.int64(3), .int64(1), .int64(3)])]))
    #expect(keys.count == 3)
    #expect(keys.filter(IndexKey.everything.contains).count == 1)
    #expect(IndexKey.equalElement(.int64(1)).map { range in keys.count(where: range.contains) } == 1)
    let many = (0...IndexKey.countLimit).map { FieldValue.int64(Int64($0)) }
    #expect(index.keys(of: Self.record(["l": .list(element: .int64, many)])).last == IndexKey.overflow)
    #expect(
      index.keys(of: Self.record(["l": .list(element: .int64, many.dropLast())])).count == IndexKey.countLimit + 1)
    #expect(index.keys(of: Self.record([:])) == [IndexKey.missing])
    #expect(FieldIndex(recordType: "Note", key: .field("l"), kind: .place).keys(of: Self.record([:])) == [])
    #expect(FieldIndex(recordsOfType: "Note").keys(of: Self.record([:])) == [[]])
    #expect(
      FieldIndex(recordType: "Note", key: .system(.createdTimestamp), kind: .value).keys(of: Self.record([:])) == [
        IndexKey.order(.timestamp(7))
      ])
  }

  @Test func `schemas' spellings of system fields come back`() {
    for field in SystemField.allCases {
      #expect(RecordKey(schemaName: RecordKey.system(field).schemaName) == .system(field))
    }
    #expect(SystemField(fieldName: "___recordId") == .recordName)
    #expect(SystemField(fieldName: "___etag") == nil)
    #expect(RecordKey(schemaName: "title") == .field("title"))
  }

  @Test func `names that are UUIDs come last`() {
    let uuid = "6F0C2E61-4B7D-4C5E-8E1B-0123456789AB"
    #expect(RecordNameOrder.precedes("z", uuid) && !RecordNameOrder.precedes(uuid, "z"))
    #expect(RecordNameOrder.precedes(uuid.lowercased(), uuid))
    #expect(RecordNameOrder.precedes("a", "b") && !RecordNameOrder.precedes("a", "a"))
    #expect(!RecordNameOrder.isUUID("6F0C2E61+4B7D-4C5E-8E1B-0123456789AB"))
    #expect(!RecordNameOrder.isUUID("6F0C2E6-14B7D-4C5E-8E1B-0123456789AB"))
  }
}

@Suite struct `Words of a text` {
  @Test(
    arguments: [
      ("", []), ("  ,. ", []), ("Milk & eggs", ["milk", "eggs"]), ("don't", ["don", "t"]), ("ÉCOLE école", ["école"]),
      ("x1y2 42", ["x1y2", "42"]),
      ("Straße ΣΟΦΟΣ", ["straße", "σοφοσ"]), ("東京 tower", ["東", "京", "tower"]),
      ("ひらがなABC", ["ひ", "ら", "が", "な", "abc"]),
      ("a_b-c/d", ["a", "b", "c", "d"]), ("e\u{301}a", ["e\u{301}a"]), ("🎉party🎉", ["party"]), ("한국어 말", ["한국어", "말"]),
    ] as [(String, [String])])
  func `are its runs of letters and digits, in lower case, once each`(text: String, words: [String]) {
    #expect(Words.words(in: text) == Set(words.map { Array($0.utf8) }))
  }

  @Test func `lists of strings have the words of all, other values none`() {
    #expect(Words.words(of: .list(element: .string, [.string("a b"), .string("B c")])) == [[0x61], [0x62], [0x63]])
    #expect(Words.words(of: .int64(1)) == nil)
    #expect(Words.words(of: nil) == nil)
  }

  @Test func `a word beyond the limit has the key of its beginning`() {
    let word = String(repeating: "w", count: Words.keyByteLimit)
    #expect(Words.range(of: Array((word + "x").utf8)).contains(Words.key(of: Array((word + "y").utf8))))
  }
}
