// Citations resolve: every document, anchor and rule that a comment names exists, and every link of a document leads
// somewhere.

import Foundation
import Testing

/// Finds the citations that lead nowhere.
///
/// A comment is the rest of a line behind `//`, where that begins the line or follows a space. It cites
/// - a document: a path that ends in `.md`, from the root of the repository, and its anchor where `#` follows;
/// - a rule: a capital letter and one or two digits that stand as a word outside of backquotes, such as (R16). The rule
///   is an anchor of the document right before it, as in docs/protocol/mirroring.md, R16, and without one of that
///   document, or of docs/design/replica.md if it begins with K.
///
/// The number of a section can't be checked, so it is refused. Identifiers of scenarios, such as T-E04, have a hyphen
/// and are no rules.
struct Citations {
  static let rules = "docs/protocol/mirroring.md"
  /// Rules that begin with K.
  static let clientRules = "docs/design/replica.md"
  /// Words that look like rules.
  private static let words: Set<String> = ["Z85"]

  private var known: [String: Set<String>] = [:]

  // MARK: Comments

  /// The comment of a line; nil without one.
  static func comment(of line: Substring) -> Substring? {
    var rest = line
    while let mark = rest.firstRange(of: "//") {
      if mark.lowerBound == line.startIndex || line[line.index(before: mark.lowerBound)] == " " {
        return line[mark.upperBound...]
      }
      rest = rest[mark.upperBound...]
    }
    return nil
  }

  /// One phrase for each citation that leads nowhere.
  mutating func problems(of comment: Substring) -> [String] {
    var problems: [String] = []
    if comment.contains("ection "), comment.contains(#/\b[Ss]ections? [0-9]/#) {
      problems.append("a section is cited by its anchor, not by a number")
    }
    if comment.contains(".md") {
      for match in comment.matches(of: #/([A-Za-z0-9_.\/+-]+\.md)(?:#([A-Za-z0-9_-]+))?/#)
      where !match.output.1.hasPrefix("//") {
        if let found = problem(of: String(match.output.1), match.output.2.map(String.init)) { problems.append(found) }
      }
    }
    return problems + problemsOfRules(comment)
  }

  private mutating func problemsOfRules(_ comment: Substring) -> [String] {
    // Most comments have no such word: the look at the bytes is the cheap one.
    guard
      zip(comment.utf8, comment.utf8.dropFirst()).contains(where: {
        (0x41...0x5a).contains($0) && (0x30...0x39).contains($1)
      })
    else { return [] }
    var problems: [String] = []
    let text = String(comment).replacing(#/`[^`]*`/#, with: "")
    for match in text.matches(of: #/(?:^|[^A-Za-z0-9_.\/#-])([A-Z][0-9]{1,2})(?![A-Za-z0-9_-])/#) {
      let code = String(match.output.1)
      if Self.words.contains(code) { continue }
      let before = text[..<match.output.1.startIndex]
      let document = before.firstMatch(of: #/([A-Za-z0-9_.\/+-]+\.md), (?:[A-Z][0-9]{1,2}(?:, | and |–))*$/#).map {
        String($0.output.1)
      }
      let rules = code.hasPrefix("K") ? Self.clientRules : Self.rules
      if let found = problem(of: document ?? rules, code) {
        problems.append("\(found); a word that is no rule stands in backquotes")
      }
    }
    return problems
  }

  // MARK: Documents

  private mutating func problem(of path: String, _ anchor: String?) -> String? {
    guard let anchors = anchors(of: path) else { return "there is no \(path)" }
    guard let anchor, !anchors.contains(anchor) else { return nil }
    return "\(path) has no \(anchor)"
  }

  /// The anchors of a document; nil for one that does not exist.
  private mutating func anchors(of path: String) -> Set<String>? {
    if let anchors = known[path] { return anchors }
    guard let text = try? Repository.text(path) else { return nil }
    let anchors = Self.anchors(in: text)
    known[path] = anchors
    return anchors
  }

  /// Named ones, and those of headings as GitHub makes them.
  static func anchors(in text: String) -> Set<String> {
    var anchors: Set<String> = []
    var counts: [String: Int] = [:]
    for line in prose(of: text) {
      for match in line.matches(of: #/<a id="([^"]+)">/#) { anchors.insert(String(match.output.1)) }
      guard line.hasPrefix("#") else { continue }
      let words = line.drop { $0 == "#" }.lowercased().filter {
        $0.isLetter || $0.isNumber || $0 == " " || $0 == "-" || $0 == "_"
      }
      let slug = words.trimmingCharacters(in: .whitespaces).replacing(" ", with: "-")
      let count = counts[slug, default: 0]
      counts[slug] = count + 1
      anchors.insert(count == 0 ? slug : "\(slug)-\(count)")
    }
    return anchors
  }

  /// The lines outside of fenced code.
  static func prose(of text: String) -> [Substring] {
    var isCode = false
    return text.split(separator: "\n", omittingEmptySubsequences: false).filter { line in
      guard line.hasPrefix("```") else { return !isCode }
      isCode.toggle()
      return false
    }
  }

  // MARK: Links

  /// The targets of a document's links, without those that stand in code.
  static func links(in text: String) -> [String] {
    prose(of: text).flatMap { line in
      line.contains("](")
        ? String(line).replacing(#/`[^`]*`/#, with: "").matches(of: #/\]\(([^)\s]+)\)/#).map { String($0.output.1) }
        : []
    }
  }

  /// - Parameter document: the path of the document that has the link.
  mutating func problem(ofLink target: String, in document: String) -> String? {
    if target.contains("://") { return nil }
    let parts = target.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    let path = parts[0].isEmpty ? document : Self.path(parts[0], from: document)
    guard FileManager.default.fileExists(atPath: Repository.root.appending(path: path).path) else {
      return "there is no \(path)"
    }
    return path.hasSuffix(".md") ? problem(of: path, parts.count == 2 ? parts[1] : nil) : nil
  }

  /// The path from the root of a path that begins at a document's folder.
  private static func path(_ target: String, from document: String) -> String {
    var parts = document.split(separator: "/").dropLast().map(String.init)
    for part in target.split(separator: "/").map(String.init) where part != "." {
      if part == ".." { _ = parts.popLast() } else { parts.append(part) }
    }
    return parts.joined(separator: "/")
  }
}

@Suite struct CitationTests {
  @Test func `every citation in a comment resolves`() throws {
    var citations = Citations()
    let package = SourceFile(path: "Package.swift", text: try Repository.text("Package.swift"))
    for file in Repository.swiftFiles(under: "Services", "Shared", "Clients", "Tests") + [package] {
      for (index, line) in file.lines.enumerated() {
        guard let comment = Citations.comment(of: line) else { continue }
        for problem in citations.problems(of: comment) { Issue.record("\(file.path):\(index + 1): \(problem)") }
      }
    }
  }

  @Test func `every link of a document leads somewhere`() {
    var citations = Citations()
    let documents = Repository.documents(under: "docs")
    #expect(documents.contains { $0.path == Citations.rules })
    for document in documents {
      for link in Citations.links(in: document.text) {
        if let problem = citations.problem(ofLink: link, in: document.path) {
          Issue.record("\(document.path) links to \(link): \(problem)")
        }
      }
    }
  }

  @Test(
    arguments: [
      ("let a = 1  // b", " b"), ("//b", "b"), ("  /// b", "/ b"), ("a://b // c", " c"), ("a://b", nil),
      ("let a = 1", nil),
    ] as [(String, String?)])
  func `a comment begins its line or follows a space`(line: String, comment: String?) {
    #expect(Citations.comment(of: line[...]).map(String.init) == comment)
  }

  @Test(arguments: [
    "a rule that nobody wrote (R99)", "of another family (T8)", "docs/protocol/absent.md",
    "docs/protocol/mirroring.md#absent", "docs/protocol/bus.md, R16",
    "as in section 7",
  ])
  func `a citation that leads nowhere is found`(comment: String) {
    var citations = Citations()
    let problems = citations.problems(of: comment[...])
    #expect(problems.count == 1)
  }

  @Test(arguments: [
    "(R16)", "R13–R15, and (C1, T-C10)", "`K13` is no rule, T-E04 a scenario, X25519 a curve, and Z85 a spelling",
    "docs/protocol/mirroring.md, R13 and R14",
    "docs/protocol/mirroring.md#access-matrix, README.md and https://host/absent.md", "in this section",
  ])
  func `a citation that resolves is none to be found`(comment: String) {
    var citations = Citations()
    let problems = citations.problems(of: comment[...])
    #expect(problems.isEmpty)
  }

  @Test func `links are read as readers see them`() {
    let text = "[a](b.md#c) and [d](#e)\n```\n[code](f.md)\n```\n`[g](h.md)` [`i`](../j)\n"
    #expect(Citations.links(in: text) == ["b.md#c", "#e", "../j"])
    #expect(
      Citations.anchors(in: "# A `b`: c\n## Two\n## Two\n<a id=\"records-modify\"></a>\n") == [
        "a-b-c", "two", "two-1", "records-modify",
      ])
  }
}
