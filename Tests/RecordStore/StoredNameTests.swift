import Records
import Testing

@testable import RecordStore

struct StoredNameTests {
  @Test func `only the spelling that the bytes give back is packed`() {
    let name = "6F0C2E61-4B7D-4C5E-8E1B-0123456789AB"
    let uuid = StoredName.uuid(name)
    #expect(uuid?.withBytes(StoredName.text) == name)
    #expect(uuid?.withBytes { Array($0) } == [0x6f, 0x0c, 0x2e, 0x61, 0x4b, 0x7d, 0x4c, 0x5e, 0x8e, 0x1b, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab])
    for other in [
      name.lowercased(), name + "0", String(name.dropLast()), "{" + name.dropFirst(), name.replacing("-", with: "_"), name.replacing("6F0C", with: "6F0G"),
      "6F0C2E6-14B7D-4C5E-8E1B-0123456789AB", "", String(repeating: "é", count: 18),
    ] {
      #expect(StoredName.uuid(other) == nil, "\(other)")
    }
    #expect([UInt8](repeating: 0, count: 15).withUnsafeBytes(StoredName.text) == nil)
  }

  @Test func `the first UUID after any text is the smallest that sorts after it`() throws {
    var generator = SeededGenerator(seed: 7)
    let letters = Array("-0123456789ABCDEFGaf~ ")
    let low = "00000000-0000-0000-0000-000000000000"
    let high = "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"
    for round in 0..<4000 {
      // Texts that follow a UUID for a while and then stray.
      var text = Array([low, high, "09AF09AF-09AF-09AF-09AF-09AF09AF09AF"][round % 3])
      text.removeLast(Int.random(in: 0...text.count, using: &generator))
      for _ in 0..<Int.random(in: 0...3, using: &generator) { text.append(try #require(letters.randomElement(using: &generator))) }
      let name = String(text)
      guard let found = StoredName.firstUUID(after: name) else {
        #expect(!name.precedes(high), "\(name)")
        continue
      }
      let foundText = try #require(found.withBytes(StoredName.text))
      #expect(name.precedes(foundText), "\(name)")
      // Its predecessor does not sort after the text.
      if found.high == 0 && found.low == 0 { continue }
      let (lower, borrow) = found.low.subtractingReportingOverflow(1)
      let before = StoredName.UUIDBytes(high: borrow ? found.high - 1 : found.high, low: lower)
      #expect(before.withBytes(StoredName.text)?.precedes(name) == true || before.withBytes(StoredName.text) == name, "\(name)")
    }
  }

  @Test func `references have one form, whatever order they come in, and are read back`() throws {
    let entries = [
      StoredReferences.Entry(field: 2, target: "b"), StoredReferences.Entry(field: 1, target: Sample.uuid(7)), StoredReferences.Entry(field: 2, target: ""),
      StoredReferences.Entry(field: 1, target: String(repeating: "x", count: 300)),
    ]
    let bytes = try StoredReferences.encode(entries)
    #expect(try StoredReferences.encode(entries.reversed() + entries) == bytes)
    #expect(StoredReferences.decode(bytes).map(Set.init) == Set(entries))
    #expect(try StoredReferences.encode([]) == [])
    #expect(StoredReferences.decode([]) == [])
    for length in 1..<bytes.count where StoredReferences.decode(Array(bytes.prefix(length))).map({ $0.count == entries.count }) == true {
      Issue.record("\(length) of \(bytes.count) bytes were taken for all")
    }
    #expect(throws: ContradictingWrite.self) { try StoredReferences.encode([StoredReferences.Entry(field: 1, target: String(repeating: "x", count: 70_000))]) }
  }
}
