import JSON
import ObjectModel
import Records
import Testing
import WebServices

/// Rules as JSON.
struct RulesDocumentTests {
  private static func read(_ text: String) throws -> EnvironmentRules {
    try RulesDocument.rules(try JSONValue.request(Array(text.utf8)))
  }

  @Test func `a document is read, written and read again as the same rules`() throws {
    let rules = try Self.read(
      #"""
      {"unique":[{"entity":"Tag","attributes":["name"],"policy":"merge-lowest-uuid"},{"entity":"Photo",\#
      "attributes":["b","a"],"scope":"zone","policy":"reject"}]}
      """#
    )
    #expect(rules.unique.map(\.text) == ["Tag(name)", "Photo(b, a)"])
    #expect(rules.unique.map(\.policy) == [.mergeLowestUUID, .reject])
    #expect(try Self.read(String(decoding: RulesDocument.json(rules), as: UTF8.self)) == rules)
    #expect(try Self.read(#"{"unique":[]}"#) == .none)
  }

  @Test(
    arguments: [
      ("{}", "unique is missing"), (#"{"unique":[],"conflicts":[]}"#, "'conflicts' is not a key of rules"),
      (
        #"{"unique":[{"entity":"T","attributes":["a"],"policy":"keep"}]}"#,
        "unique[0]: policy must be one of merge-lowest-uuid, reject, report"
      ),
      (
        #"{"unique":[{"entity":"T","attributes":[],"policy":"report"}]}"#,
        "unique[0]: attributes must name 1 to 8 attributes"
      ),
      (#"{"unique":[{"entity":"T","policy":"report"}]}"#, "unique[0]: attributes must name 1 to 8 attributes"),
      (#"{"unique":[{"attributes":["a"],"policy":"report"}]}"#, "unique[0]: entity is missing"),
      (#"{"unique":[{"entity":"T","attributes":["a"]}]}"#, "unique[0]: policy is missing"),
      (
        #"{"unique":[{"entity":"T","attributes":["a"],"policy":"report","scop":"zone"}]}"#,
        "unique[0]: 'scop' is not a key of rules"
      ),
      (
        #"{"unique":[{"entity":"T","attributes":["a"],"policy":"report","scope":"database"}]}"#,
        "unique[0]: scope must be zone: objects of two zones are never duplicates of each other"
      ),
    ])
  func `a misspelt rule is refused with its place`(text: String, reason: String) {
    #expect(throws: RecordError(.badRequest, reason)) { try Self.read(text) }
  }
}
