import Records
import Testing

@Suite struct ShortGUIDTests {
  @Test(arguments: [0, 1, 61, 62, 4095, 238_327]) func `a short GUID tells its shard and has the documented shape`(shard: Int) throws {
    var next: UInt8 = 0
    let made = ShortGUID(shard: shard) { count in
      (0..<count).map { _ in
        next &+= 37
        return next
      }
    }
    #expect(made.text.wholeMatch(of: /0[0-9A-Za-z]{24}/) != nil)
    #expect(try #require(ShortGUID(made.text)).shard == shard)
    #expect(ShortGUID(made.text) == made)
  }

  @Test func `every letter is as likely as any other`() {
    // Whole rounds of all bytes: those that would favour the first letters must be left out.
    var next = 0
    var counts: [Character: Int] = [:]
    for _ in 0..<2000 {
      let made = ShortGUID(shard: 0) { count in
        defer { next += count }
        return (next..<next + count).map { UInt8($0 % 256) }
      }
      for letter in made.text.dropFirst(4) { counts[letter, default: 0] += 1 }
    }
    let numbers = counts.values.sorted()
    #expect(counts.count == 62)
    #expect((numbers.last ?? 0) - (numbers.first ?? 0) < 60, "\(numbers)")
  }

  @Test(arguments: [
    "", "0", "1ABC456789012345678901234", "0ABC45678901234567890123", "0ABC4567890123456789012345", "0ABC45678901234567890123-", "0ÄBC4567890123456789012",
  ])
  func `what no installation made is none`(text: String) { #expect(ShortGUID(text) == nil) }
}
