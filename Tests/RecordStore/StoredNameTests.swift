import Indexing
import Records
import SQLite
import Testing

@testable import RecordStore

struct StoredNameTests {
  @Test func `only the spelling that the bytes give back is packed`() {
    let name = "6F0C2E61-4B7D-4C5E-8E1B-0123456789AB"
    let uuid = StoredName.uuid(name)
    #expect(uuid?.withBytes(StoredName.text) == name)
    #expect(
      uuid?.withBytes { Array($0) } == [
        0x6f, 0x0c, 0x2e, 0x61, 0x4b, 0x7d, 0x4c, 0x5e, 0x8e, 0x1b, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab,
      ])
    for other in [
      name.lowercased(), name + "0", String(name.dropLast()), "{" + name.dropFirst(), name.replacing("-", with: "_"),
      name.replacing("6F0C", with: "6F0G"),
      "6F0C2E6-14B7D-4C5E-8E1B-0123456789AB", "", String(repeating: "é", count: 18),
    ] {
      #expect(StoredName.uuid(other) == nil, "\(other)")
    }
    #expect([UInt8](repeating: 0, count: 15).withUnsafeBytes(StoredName.text) == nil)
  }

  @Test func `stored forms sort as names are ordered`() throws {
    let connection = try Connection(path: ":memory:", mode: .readWrite)
    defer { connection.close() }
    try connection.execute("CREATE TABLE t(name)")
    let names = [
      "", "a", "é", "6F0C2E61-4B7D", Sample.uuid(2), Sample.uuid(1), Sample.uuid(11).lowercased(), Sample.uuid(16), "~",
      "FFFF", "Z",
    ]
    for name in names {
      let insert = try connection.statement(SQL("insert", "INSERT INTO t VALUES (?1)"))
      try insert.bind(1, recordName: name)
      try insert.run()
    }
    let stored = try connection.statement(SQL("select", "SELECT name FROM t ORDER BY name")).all { $0.recordName(0) }
    let sorted = names.sorted { RecordNameOrder.precedes($0, $1) }
    #expect(stored == sorted)
    let forms = (names + ["a\0b"]).map(StoredName.bytes).sorted { $0.lexicographicallyPrecedes($1) }
    #expect(
      forms.map(name) == (names + ["a\0b"]).sorted { RecordNameOrder.precedes($0, $1) },
      "PostgreSQL's form does so, too")
    #expect(name([]) == nil && name([2, 65]) == nil && name([1, 65]) == nil && name([0, 255]) == nil)
  }

  private func name(_ bytes: [UInt8]) -> String? { bytes.withUnsafeBytes(StoredName.name) }

  @Test func `references have one form, whatever order they come in, and are read back`() throws {
    let entries = [
      StoredReferences.Entry(field: 2, target: "b"), StoredReferences.Entry(field: 1, target: Sample.uuid(7)),
      StoredReferences.Entry(field: 2, target: ""),
      StoredReferences.Entry(field: 1, target: String(repeating: "x", count: 300)),
    ]
    let bytes = try StoredReferences.encode(entries)
    #expect(try StoredReferences.encode(entries.reversed() + entries) == bytes)
    #expect(StoredReferences.decode(bytes).map(Set.init) == Set(entries))
    #expect(try StoredReferences.encode([]) == [])
    #expect(StoredReferences.decode([]) == [])
    for length in 1..<bytes.count
    where StoredReferences.decode(Array(bytes.prefix(length))).map({ $0.count == entries.count }) == true {
      Issue.record("\(length) of \(bytes.count) bytes were taken for all")
    }
    #expect(throws: ContradictingWrite.self) {
      try StoredReferences.encode([StoredReferences.Entry(field: 1, target: String(repeating: "x", count: 70_000))])
    }
  }
}
