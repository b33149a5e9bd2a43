// The console's pages: small files, and no way from a stored text to markup or to a script.

import Foundation
import Testing

/// The modules and style sheets of the console.
private let pages = Repository.scripts(under: "Services/ConsolePages")

@Test func `a page's file says why it exists, and is short`() {
  #expect(pages.count > 40)
  for page in pages {
    let opening = page.path.hasSuffix(".css") ? "/* " : "// "
    #expect(page.text.hasPrefix(opening), "\(page.path) begins with no sentence")
    #expect(page.lines.count <= 251, "\(page.path) has \(page.lines.count) lines: split where two ideas share it")
    for (index, line) in page.lines.enumerated() where line.count > 120 {
      Issue.record("\(page.path):\(index + 1) has \(line.count) columns")
    }
  }
}

@Test func `no page makes markup of a text, runs one, or asks another server`() {
  let banned = [
    "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval(", "new Function", "http://",
    "https://",
  ]
  // A name space, and examples of addresses that people type.
  let allowed = ["http://www.w3.org/2000/svg", "https://app.example.org"]
  for page in pages {
    for (index, line) in page.lines.enumerated() where !allowed.contains(where: { line.contains($0) }) {
      for word in banned where line.contains(word) { Issue.record("\(page.path):\(index + 1) has \(word)") }
    }
  }
}

@Test func `the entry page has no script, style or handler of its own`() throws {
  let entry = try Repository.text("Services/ConsolePages/index.html")
  #expect(entry.firstMatch(of: /<style|style=|<script(?![^>]* src=)|\son\w+=/) == nil)
}
