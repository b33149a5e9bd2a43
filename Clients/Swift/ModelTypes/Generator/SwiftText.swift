// Swift source as it is written: lines with their depth.

/// Lines of source, indented by two spaces a level.
struct SwiftText {
  private(set) var lines: [String] = []
  private var depth = 0

  var text: String { lines.joined(separator: "\n") + "\n" }

  /// Writes a line; an empty one has no indentation.
  mutating func line(_ line: String = "") {
    lines.append(line.isEmpty ? "" : String(repeating: "  ", count: depth) + line)
  }

  /// Writes a braced block.
  mutating func block(_ head: String, closing: String = "}", _ body: (inout SwiftText) -> Void) {
    line(head)
    indented(body)
    line(closing)
  }

  mutating func indented(_ body: (inout SwiftText) -> Void) {
    depth += 1
    body(&self)
    depth -= 1
  }
}
