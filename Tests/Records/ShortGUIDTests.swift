import Records
import Testing

@Suite struct ShortGUIDTests {
  @Test(arguments: [0, 1, 61, 62, 4095, 238_327]) func `a short GUID tells its shard and has the documented shape`(
    shard: Int
  ) throws {
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
    var random = SplitMix(state: 1)
    var counts: [Character: Int] = [:]
    for _ in 0..<2000 {
      let made = ShortGUID(shard: 0) { count in (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) } }
      for letter in made.text.dropFirst(4) { counts[letter, default: 0] += 1 }
    }
    #expect(counts.count == 62)
    // A careless remainder would favour the first eight by a quarter.
    let first = "01234567".reduce(0) { $0 + (counts[$1] ?? 0) } / 8
    #expect(abs(first - 2000 * 21 / 62) < 60, "\(counts)")
  }

  @Test(arguments: [
    "", "0", "1ABC456789012345678901234", "0ABC45678901234567890123", "0ABC4567890123456789012345",
    "0ABC45678901234567890123-", "0ÄBC4567890123456789012",
  ])
  func `a text that no installation made is not a short GUID`(text: String) { #expect(ShortGUID(text) == nil) }
}
