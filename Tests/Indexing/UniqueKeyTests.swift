import Indexing
import Records
import Testing

/// Tests of the keys that enforce unique values.
struct UniqueKeyTests {
  private static func record(_ fields: Fields) -> Record {
    let stamp = Stamp(timestamp: 0, userRecordName: "_a")
    return Record(recordName: "r", recordType: "CD_Tag", fields: fields, created: stamp, modified: stamp)
  }

  private static func key(_ fields: Fields) -> [UInt8]? { UniqueKey.key(of: record(fields), fields: ["CD_a", "CD_b"]) }

  @Test func `equal values have equal keys of 32 bytes, whatever else the records hold`() throws {
    let key = try #require(Self.key(["CD_a": .string("x"), "CD_b": .int64(1)]))
    #expect(key.count == 32)
    #expect(Self.key(["CD_a": .string("x"), "CD_b": .int64(1), "CD_c": .string("other")]) == key)
    #expect(Self.key(["CD_a": .double(0), "CD_b": .int64(1)]) == Self.key(["CD_a": .double(-0.0), "CD_b": .int64(1)]))
  }

  @Test(
    arguments: [
      ["CD_a": .string("x"), "CD_b": .int64(2)], ["CD_a": .string("x"), "CD_b": .timestamp(1)],
      ["CD_a": .string("X"), "CD_b": .int64(1)],
      ["CD_a": .string(String(repeating: "x", count: 300)), "CD_b": .int64(1)],
      ["CD_a": .string(String(repeating: "x", count: 301)), "CD_b": .int64(1)],
    ] as [Fields])
  func `another value, another type and another length have another key`(fields: Fields) {
    let others: [Fields] = [
      ["CD_a": .string("x"), "CD_b": .int64(1)],
      ["CD_a": .string(String(repeating: "x", count: 302)), "CD_b": .int64(1)],
    ]
    for other in others { #expect(Self.key(fields) != Self.key(other)) }
  }

  @Test func `a border between two values is part of the key`() {
    #expect(
      Self.key(["CD_a": .string("ab"), "CD_b": .string("c")])
        != Self.key(["CD_a": .string("a"), "CD_b": .string("bc")]))
  }

  @Test func `a record that lacks a value, or has one that is not compared, has no key`() {
    #expect(Self.key(["CD_a": .string("x")]) == nil)
    #expect(Self.key(["CD_a": .string("x"), "CD_b": .bytes([1])]) == nil)
    #expect(Self.key(["CD_a": .string("x"), "CD_b": .asset(Asset(hash: [1], byteCount: 1))]) == nil)
  }

  @Test func `an index of what is unique names its fields in one order`() {
    let index = FieldIndex(uniqueFields: ["CD_b", "CD_a"], ofRecordType: "CD_Tag")
    #expect(index == FieldIndex(uniqueFields: ["CD_a", "CD_b"], ofRecordType: "CD_Tag"))
    #expect(index.key == .field("CD_a,CD_b"))
    let fields: Fields = ["CD_a": .string("x"), "CD_b": .int64(1)]
    #expect(index.keys(of: Self.record(fields)) == [Self.key(fields)])
    #expect(index.keys(of: Self.record(["CD_a": .string("x")])) == [])
  }
}
