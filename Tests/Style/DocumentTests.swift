// README.md and docs: short paragraphs, documents of a length that is read, links that lead somewhere.

import Foundation
import Testing

extension SourceFile {
  /// The lines outside of fences; those within, and the fences, are empty.
  fileprivate var prose: [Substring] {
    var isFenced = false
    return lines.map { line in
      let isFence = line.drop { $0 == " " }.hasPrefix("```")
      if isFence { isFenced.toggle() }
      return isFence || isFenced ? "" : line
    }
  }

  /// Paragraphs, and each item of a list by itself. Headings and tables are none.
  fileprivate var paragraphs: [String] {
    var paragraphs: [String] = []
    var isOpen = false
    for line in prose.map({ $0.trimmingCharacters(in: .whitespaces) }) {
      let isItem = line.prefixMatch(of: #/([-*]|[0-9]+\.) /#) != nil
      if line.isEmpty || line.hasPrefix("|") || line.hasPrefix("#") {
        isOpen = false
      } else if isOpen, !isItem {
        paragraphs[paragraphs.count - 1] += " " + line
      } else {
        paragraphs.append(line)
        isOpen = true
      }
    }
    return paragraphs
  }

  /// Where its links lead that stay in the repository: a path from its folder, an anchor, or both.
  fileprivate var relativeLinks: [String] {
    let text = prose.joined(separator: "\n").replacing(/`[^`]*`/, with: "")
    return text.matches(of: /\]\(([^)\s]+)\)/).map { String($0.output.1) }.filter { !$0.contains("://") }
  }

  /// Its named anchors, and those of its headings as GitHub makes them.
  fileprivate var anchors: Set<String> {
    var anchors = Set(text.matches(of: /<a id="([^"]+)">/).map { String($0.output.1) })
    for heading in prose.compactMap({ $0.wholeMatch(of: /#+ (.+)/)?.output.1 }) {
      let text = heading.replacing(/\]\([^)]*\)/, with: "").lowercased()
      let slug = String(text.filter { $0.isLetter || $0.isNumber || "-_ ".contains($0) }.map { $0 == " " ? "-" : $0 })
      var anchor = slug
      var count = 0
      while !anchors.insert(anchor).inserted {
        count += 1
        anchor = "\(slug)-\(count)"
      }
    }
    return anchors
  }
}

extension String {
  /// As `wc -w` counts them.
  fileprivate var wordCount: Int { split(whereSeparator: \.isWhitespace).count }
}

/// README.md, and what is under docs.
private func documents() throws -> [SourceFile] {
  [SourceFile(path: "README.md", text: try Repository.text("README.md"))] + Repository.documents(under: "docs")
}

@Test func `a paragraph of a document has at most 90 words, and so has an item of a list`() throws {
  let documents = try documents()
  #expect(documents.count >= 10)
  for document in documents {
    for paragraph in document.paragraphs where paragraph.wordCount > 90 {
      Issue.record("\(document.path) has a paragraph of \(paragraph.wordCount) words: \(paragraph.prefix(80))…")
    }
  }
}

@Test func `README, the architecture and the guides are short`() throws {
  let limits = ["README.md": 900, "docs/architecture.md": 1500]
  for document in try documents() {
    guard let limit = limits[document.path] ?? (document.path.hasPrefix("docs/guide/") ? 1200 : nil) else { continue }
    #expect(document.text.wordCount <= limit, "\(document.path) has \(document.text.wordCount) words, \(limit) at most")
  }
}

@Test func `every relative link of a document leads to a file, and to a heading of it`() throws {
  for document in try documents() {
    let folder = Repository.root.appending(path: document.path).deletingLastPathComponent()
    for link in document.relativeLinks {
      let parts = link.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      let target =
        parts[0].isEmpty
        ? Repository.root.appending(path: document.path) : folder.appending(path: parts[0]).standardizedFileURL
      guard FileManager.default.fileExists(atPath: target.path) else {
        Issue.record("\(document.path) links to \(link), which is not there")
        continue
      }
      guard parts.count == 2, target.pathExtension == "md" else { continue }
      let anchors = SourceFile(path: target.path, text: try String(contentsOf: target, encoding: .utf8)).anchors
      #expect(anchors.contains(parts[1]), "\(document.path) links to \(link), which is no heading there")
    }
  }
}

@Test func `the source files that the architecture names exist, and it has every module of Shared`() throws {
  let text = try Repository.text("docs/architecture.md")
  let files = text.matches(of: /(Services|Shared)\/[A-Za-z\/+]+\.swift/).map { String($0.output.0) }
  #expect(files.count > 20, "a save is walked through the files that it passes")
  for file in files {
    #expect(
      FileManager.default.fileExists(atPath: Repository.root.appending(path: file).path),
      "docs/architecture.md names \(file), which is not there")
  }
  let words = Set(text.split { !$0.isLetter && !$0.isNumber }.map(String.init))
  for module in try Repository.layers() {
    #expect(words.contains(module), "docs/architecture.md does not have the module \(module)")
  }
}
