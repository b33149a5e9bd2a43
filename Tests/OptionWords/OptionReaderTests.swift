import Testing

@testable import OptionWords

struct OptionReaderTests {
  private static let known: [String: OptionReader.Form] = [
    "json": .flag(takesValue: false), "tls": .flag(takesValue: true), "server": .value("URL"), "follow": .count,
  ]

  private func words(_ line: String) throws(OptionReader.Fault) -> [OptionReader.Word] {
    var reader = OptionReader(line.split(separator: " ").map(String.init))
    var words: [OptionReader.Word] = []
    while let word = try reader.read(Self.known) { words.append(word) }
    return words
  }

  @Test(
    arguments: [
      ("", []), ("a b", [.argument("a"), .argument("b")]), ("--json", [.option("json", value: nil)]),
      ("--tls", [.option("tls", value: nil)]),
      ("--tls=false", [.option("tls", value: "false")]), ("--server u", [.option("server", value: "u")]),
      ("--server=a=b", [.option("server", value: "a=b")]), ("--server=", [.option("server", value: "")]),
      ("--follow", [.option("follow", value: nil)]), ("--follow 5 x", [.option("follow", value: "5"), .argument("x")]),
      ("--follow x", [.option("follow", value: nil), .argument("x")]), ("--follow=x", [.option("follow", value: "x")]),
      ("-h -- -", [.argument("-h"), .argument("--"), .argument("-")]),
    ] as [(String, [OptionReader.Word])])
  func `options come with their values, and everything else as an argument`(line: String, expected: [OptionReader.Word])
    throws
  {
    #expect(try words(line) == expected)
  }

  @Test(
    arguments: [
      ("--sever u", .unknown("sever", nearest: "server")), ("--quarantine", .unknown("quarantine", nearest: nil)),
      ("--=x", .unknown("", nearest: nil)),
      ("--server", .valueIsMissing("server", placeholder: "URL")),
      ("--server --json", .valueIsMissing("server", placeholder: "URL")),
      ("--json=1", .takesNoValue("json")),
    ] as [(String, OptionReader.Fault)])
  func `a mistake is named`(line: String, fault: OptionReader.Fault) {
    #expect(throws: fault) { try words(line) }
  }
}

struct SpellingTests {
  @Test(arguments: [
    ("", "", 0), ("a", "", 1), ("", "abc", 3), ("kitten", "sitting", 3), ("same", "same", 0), ("ab", "ba", 2),
  ])
  func `the distance is Levenshtein's`(a: String, b: String, distance: Int) {
    #expect(Spelling.distance(a, b) == distance)
    #expect(Spelling.distance(b, a) == distance)
  }

  @Test func `a word that is too far away is not suggested`() {
    #expect(Spelling.nearest(to: "quarantine", among: ["status", "user"]) == nil)
    #expect(Spelling.nearest(to: "stats", among: ["stores", "status"]) == "status")
  }
}
