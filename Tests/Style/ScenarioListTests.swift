import Foundation
import Testing

/// Tests/README.md's list of scenarios, and what the tests' names say of it.
private struct ScenarioList {
  /// A row of one of its tables.
  struct Row {
    let id: String
    let scenario: String
    /// The third column, as it stands there.
    let shownBy: String
  }

  static let path = "Tests/README.md"
  private static let openHeading = "## Without a test"

  var lines: [String]
  /// By their place among `lines`.
  private(set) var rows: [Int: Row] = [:]
  private(set) var open: [Int: String] = [:]

  init() throws {
    lines = try Repository.text(Self.path).split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    var isOpen = false
    for (index, line) in lines.enumerated() {
      if line.hasPrefix("## ") { isOpen = line == Self.openHeading }
      if isOpen, let match = line.wholeMatch(of: /- (T-[A-Z][0-9][0-9]).*/) { open[index] = String(match.output.1) }
      guard let match = line.wholeMatch(of: /\| (T-[A-Z][0-9][0-9]) \| (.*) \| (.*) \|/) else { continue }
      rows[index] = Row(id: String(match.output.1), scenario: String(match.output.2), shownBy: String(match.output.3))
    }
  }

  /// A test: its file, from the folder of tests and without `.swift`, and its name.
  struct Shown: Comparable {
    let file: String
    let test: String
    static func < (one: Shown, other: Shown) -> Bool { (one.file, one.test) < (other.file, other.test) }
  }

  /// The tests' names and scenarios' headings that name an id, by that id.
  static func shown() -> [String: [Shown]] {
    var shown: [String: [Shown]] = [:]
    func add(_ name: Substring, _ file: String) {
      for id in name.matches(of: /T-[A-Z][0-9][0-9]/) {
        shown[String(id.output), default: []].append(Shown(file: file, test: String(name)))
      }
    }
    for file in Repository.swiftFiles(under: "Tests") {
      let short = String(file.path.dropFirst("Tests/".count).dropLast(".swift".count))
      for match in file.text.matches(of: /func\s+`([^`\n]+)`/) { add(match.output.1, short) }
    }
    for file in Repository.texts(under: "Tests/Scenarios") {
      for line in file.lines where line.hasPrefix("# ") {
        add(line.dropFirst(2), String(file.path.dropFirst("Tests/".count)))
      }
    }
    return shown.mapValues { $0.sorted() }
  }

  static func column(_ shown: [Shown]?) -> String {
    guard let shown else { return "–" }
    return Set(shown.map(\.file)).sorted().joined(separator: ", ")
  }

  /// The list with its last column as the tests are, and without what is not open any more.
  func rewritten(_ shown: [String: [Shown]]) -> String {
    lines.enumerated().compactMap { index, line -> String? in
      if let row = rows[index] { return "| \(row.id) | \(row.scenario) | \(Self.column(shown[row.id])) |" }
      if let id = open[index], shown[id] != nil { return nil }
      return line
    }.joined(separator: "\n")
  }
}

@Test func `every scenario of the list has a test that names it, or stands among those without one`() throws {
  let shown = ScenarioList.shown()
  var list = try ScenarioList()
  if ProcessInfo.processInfo.environment["REWRITE"] == "1" {
    try list.rewritten(shown).write(
      to: Repository.root.appending(path: ScenarioList.path), atomically: true, encoding: .utf8)
    list = try ScenarioList()
  }
  let open = list.open.values
  #expect(
    list.rows.count > 100 && Set(list.rows.values.map(\.id)).count == list.rows.count, "each scenario is listed once")
  #expect(Set(open).count == open.count, "each is open once")

  for (_, row) in list.rows.sorted(by: { $0.key < $1.key }) {
    let tests = shown[row.id] ?? []
    for test in tests { print("\(row.id) \(test.file): \(test.test)") }
    if tests.isEmpty { print("\(row.id) –") }
    #expect(
      tests.isEmpty == open.contains(row.id),
      "\(row.id) \(tests.isEmpty ? "has no test and is not among those without one" : "has a test and is open")")
    #expect(
      row.shownBy == ScenarioList.column(shown[row.id]),
      "\(row.id): Tests/README.md is behind the tests; REWRITE=1 brings it up to date")
  }
  let known = Set(list.rows.values.map(\.id))
  for (id, tests) in shown.sorted(by: { $0.key < $1.key }) where !known.contains(id) {
    Issue.record("\(id) of \(tests[0].file) is not in the list")
  }
  #expect(Set(open).isSubset(of: known))
}
