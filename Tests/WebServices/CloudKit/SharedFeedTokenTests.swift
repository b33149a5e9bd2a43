import Records
import Testing
import WebServices

@Suite struct SharedFeedTokenTests {
  @Test func `a token says where each owner's feed stands, and nothing of others`() throws {
    var token = SharedFeedToken()
    token["_ann"] = SyncToken.Position(incarnation: 7, sequence: 12)
    token["_bob"] = SyncToken.Position(incarnation: .max, sequence: 0)
    let read = try SharedFeedToken(token.text)
    #expect(read == token)
    #expect(
      read["_ann"] == SyncToken.Position(incarnation: 7, sequence: 12) && read["_bob"]?.incarnation == .max
        && read["_cem"] == nil)
    token["_ann"] = nil
    #expect(try SharedFeedToken(token.text)["_ann"] == nil)
  }

  @Test func `the order in which owners came does not show, nor do their names`() {
    var (one, other) = (SharedFeedToken(), SharedFeedToken())
    let names = (0..<20).map { "_owner\($0)" }
    for name in names { one[name] = SyncToken.Position(incarnation: 1, sequence: Int64(name.utf8.count)) }
    for name in names.reversed() { other[name] = SyncToken.Position(incarnation: 1, sequence: Int64(name.utf8.count)) }
    #expect(one.text == other.text)
    #expect(!one.text.contains("_owner"))
  }

  @Test func `a token without positions is good whoever gave it out`() throws {
    #expect(try SharedFeedToken(SyncToken(.database, []).text) == SharedFeedToken())
    #expect(try SharedFeedToken(SharedFeedToken().text) == SharedFeedToken())
  }

  @Test func `another feed's token, and one that was altered, are refused as a private database refuses them`() {
    #expect(throws: SyncToken.Refusal.unknownType) {
      try SharedFeedToken(SyncToken(.database, incarnation: 1, sequence: 1).text)
    }
    #expect(throws: SyncToken.Refusal.unknownType) {
      try SharedFeedToken(SyncToken(.zone, incarnation: 1, sequence: 1).text)
    }
    #expect(throws: SyncToken.Refusal.unknownType) { try SharedFeedToken("nonsense") }
    #expect(throws: SyncToken.Refusal.invalidFormat) {
      try SharedFeedToken(SyncToken(.sharedDatabase, incarnation: 1, sequence: 1).text)
    }
    var token = SharedFeedToken()
    token["_ann"] = SyncToken.Position(incarnation: 1, sequence: 1)
    #expect(throws: SyncToken.Refusal.invalidFormat) { try SharedFeedToken(String(token.text.dropLast(4))) }
  }

  @Test func `owners who share nothing any more are forgotten before a token grows too long, others never`() {
    var token = SharedFeedToken()
    let names = (0..<SharedFeedToken.partLimit + 5).map { "_owner\($0)" }
    for name in names { token[name] = SyncToken.Position(incarnation: 1, sequence: 1) }
    token.forget(butOf: Array(names[10...]))
    #expect(names[10...].allSatisfy { token[$0] != nil })
    #expect(names[..<10].count { token[$0] == nil } == 5)
    token.forget(butOf: [])
    #expect(names.count { token[$0] != nil } == SharedFeedToken.partLimit)
  }
}
