// Change tokens: a client's token is accepted unchanged, or refused with the expected reason.

import Crypto
import Testing

import Records

struct SyncTokenTests {
  private let token = SyncToken(.zone, incarnation: 0x0123_4567_89ab_cdef, sequence: 4711)

  @Test func `a token of one position has 48 characters and never changes`() {
    #expect(token.text.utf8.count == 48)
    #expect(token.text == "WgEAAQEjRWeJq83vAAAAAAAAEmclNkUW45f6YN/v+zXOKs6P")
    #expect(token.text == SyncToken(.zone, incarnation: 0x0123_4567_89ab_cdef, sequence: 4711).text)
  }

  @Test(
    arguments: [SyncToken.Kind.zone, .database, .importBatch, .history, .query, .sharedDatabase], [0, 1, 2, 3, 300])
  func `tokens of every kind and size come back equal`(kind: SyncToken.Kind, count: Int) throws {
    let token = SyncToken(
      kind, (0..<count).map { SyncToken.Position(incarnation: .max - UInt64($0), sequence: Int64($0) << 40) })
    #expect(try SyncToken(token.text, as: kind) == token)
  }

  @Test func `the ends of the ranges come back`() throws {
    for sequence in [0, Int64.max] {
      let token = SyncToken(.database, incarnation: .max, sequence: sequence)
      #expect(try SyncToken(token.text, as: .database) == token)
    }
  }

  @Test func `tokens that differ anywhere have different texts`() {
    let texts = [
      token.text, SyncToken(.database, token.positions).text, SyncToken(.zone, incarnation: 1, sequence: 4711).text,
      SyncToken(.zone, incarnation: 0x0123_4567_89ab_cdef, sequence: 4712).text,
      SyncToken(.zone, token.positions + token.positions).text,
    ]
    #expect(Set(texts).count == texts.count)
  }

  @Test(arguments: [
    "", "x", "not a token", "AAAA", "AQAAAAAAAAD/", "Wg==", "WgI=", "RAE=", "💥", String(repeating: "A", count: 48),
  ])
  func `a text that never was a token is of an unknown type`(text: String) {
    #expect(throws: SyncToken.Refusal.unknownType) { _ = try SyncToken(text, as: .zone) }
  }

  @Test func `a token of another kind is of an unknown type`() {
    for kind in [SyncToken.Kind.database, .importBatch, .history, .query] {
      #expect(throws: SyncToken.Refusal.unknownType) { _ = try SyncToken(token.text, as: kind) }
    }
  }

  @Test func `a token that was cut anywhere is refused`() {
    for end in 0..<token.text.utf8.count {
      let cut = String(token.text.prefix(end))
      // A cut between groups of four leaves base64 of this type; any other cut leaves no token at all.
      let expected: SyncToken.Refusal = end % 4 == 0 && end >= 4 ? .invalidFormat : .unknownType
      #expect(throws: expected) { _ = try SyncToken(cut, as: .zone) }
    }
    #expect(throws: SyncToken.Refusal.invalidFormat) { _ = try SyncToken(token.text + "AAAA", as: .zone) }
    #expect(throws: SyncToken.Refusal.invalidFormat) { _ = try SyncToken(token.text + token.text, as: .zone) }
  }

  @Test func `a token with any bit altered is refused`() throws {
    let bytes = try #require(Base64.decode(token.text))
    for place in bytes.indices {
      for bit in 0..<8 {
        var altered = bytes
        altered[place] ^= 1 << UInt8(bit)
        let expected: SyncToken.Refusal = place < 2 ? .unknownType : .invalidFormat
        #expect(throws: expected) { _ = try SyncToken(Base64.encode(altered), as: .zone) }
      }
    }
  }

  @Test func `a negative sequence with a right checksum is refused`() {
    var bytes: [UInt8] =
      [SyncToken.Kind.zone.rawValue, 1, 0, 1] + [UInt8](repeating: 0, count: 8) + [UInt8](repeating: 0xff, count: 8)
    bytes += SHA256.hash(bytes).prefix(16)
    #expect(throws: SyncToken.Refusal.invalidFormat) { _ = try SyncToken(Base64.encode(bytes), as: .zone) }
  }

  @Test func `refusals are bad requests in the words clients look for`() {
    #expect(SyncToken.Refusal.unknownType.recordError == RecordError(.badRequest, "Unknown sync continuation type"))
    #expect(SyncToken.Refusal.invalidFormat.recordError == RecordError(.badRequest, "Invalid continuation format"))
  }
}
