// docs/design/writes.md shows the table of rules as the code has it.

import Foundation
import Testing
@testable import ZoneCommit

private enum WritesPage {
  static let path = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()
    .appending(path: "docs/design/writes.md")

  static var table: String {
    let rules = WriteRule.allCases
    let head = "| | " + rules.map { "\($0)" }.joined(separator: " | ") + " |"
    let line = "|---|" + rules.map { _ in "---|" }.joined()
    let rows = ZoneWrite.allCases.map { write in
      "| `\(write)` | " + rules.map { cell(WriteRules.rules(of: write)[$0]) }.joined(separator: " | ") + " |"
    }
    return ([head, line] + rows).joined(separator: "\n") + "\n"
  }

  private static func cell(_ application: RuleApplication) -> String {
    switch application {
    case .each: "each"
    case .whole: "whole"
    case .exempt(let reason): "no: \(reason)"
    }
  }
}

struct WriteRulesPageTests {
  @Test func `the page of writes has the table of rules`() throws {
    let text = try String(contentsOf: WritesPage.path, encoding: .utf8)
    let prose = text.range(of: "| | quota").map { String(text[..<$0.lowerBound]) } ?? text
    let expected = prose + WritesPage.table
    if ProcessInfo.processInfo.environment["REWRITE"] == "1" {
      try expected.write(to: WritesPage.path, atomically: true, encoding: .utf8)
    }
    #expect(try String(contentsOf: WritesPage.path, encoding: .utf8) == expected)
  }

  @Test func `each reason is a clause that a table can hold`() {
    for write in ZoneWrite.allCases {
      for rule in WriteRule.allCases {
        guard case .exempt(let reason) = WriteRules.rules(of: write)[rule] else { continue }
        #expect(!reason.isEmpty && !reason.contains("|") && !reason.hasSuffix("."), "\(write), \(rule)")
      }
    }
  }
}
