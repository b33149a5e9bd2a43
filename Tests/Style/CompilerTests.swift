// Bans code that Swift 6.3 compiles wrongly when it optimises. Tests/CompilerProbe shows the error.

import Testing

/// In a child task, a task or a cancellation handler, the first part of a pair is lost that is returned from a `do` and
/// whose other part is awaited in the same expression: the answer of one shard was taken for another's, in releases
/// only.
@Suite struct CompilerTests {
  @Test func `no tuple is returned that awaits a part of itself`() {
    for file in Repository.swiftFiles(under: "Shared", "Services", "Clients") {
      for tuple in Self.awaitingTuples(in: file.code.joined(separator: "\n")) {
        Issue.record("\(file.path) returns (\(tuple)): await into a variable first")
      }
    }
  }

  @Test(arguments: [
    "return (place, .success(try await question(element)))", "return (place(of: element), await answer)",
    "return (\n  place,\n  try await question(element))",
    "return try await (place, question(element))", "return await (place, answer)",
  ])
  func `tuples that await are found`(text: String) {
    #expect(Self.awaitingTuples(in: "do { \(text) }").count == 1)
  }

  @Test(arguments: [
    "return (try await question(element), place)", "return (place, result)", "return await call(place, answer)",
    "return (await answer)",
    "return (place, { await $0.answer() })", "returns (place, await answer)",
    "return try await (first ?? second).answer(of: place)",
  ])
  func `correct tuples are not refused`(text: String) {
    #expect(Self.awaitingTuples(in: "do { \(text) }").isEmpty)
  }

  /// The texts between the parentheses of tuples that are returned and awaited, as a whole or in a part after the
  /// first.
  private static func awaitingTuples(in text: String) -> [Substring] {
    text.matches(of: #/\breturn (?:try )?(await )?\(/#).compactMap { match in
      let parts = parts(of: text[match.range.upperBound...])
      let awaits = match.output.1 != nil || parts.dropFirst().contains { $0.contains(#/\bawait /#) }
      guard parts.count > 1, awaits, let first = parts.first, let last = parts.last else { return nil }
      return text[first.startIndex..<last.endIndex]
    }
  }

  /// The parts between commas up to the closing parenthesis, without the contents of closures. One part if text follows
  /// the parenthesis: it is no tuple then.
  private static func parts(of text: Substring) -> [Substring] {
    var parts: [Substring] = []
    var (depth, start, index) = (0, text.startIndex, text.startIndex)
    while index < text.endIndex {
      switch text[index] {
      case "{": return []
      case "(", "[": depth += 1
      case ")" where depth == 0: return parts + [text[start..<index]]
      case ")", "]": depth -= 1
      case "," where depth == 0:
        parts.append(text[start..<index])
        start = text.index(after: index)
      default: break
      }
      index = text.index(after: index)
    }
    return []
  }
}
