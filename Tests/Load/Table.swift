// A table for a terminal or a Markdown page.

struct Table: Equatable {
  let title: String
  /// Columns of text are aligned to the left, others to the right.
  let columns: [(name: String, isText: Bool)]
  var rows: [[String]] = []
  /// Sentences below the table.
  var notes: [String] = []

  static func == (left: Table, right: Table) -> Bool { left.markdown == right.markdown }

  /// - Parameter columns: names; text columns end with a colon, which is not printed.
  init(_ title: String, _ columns: String...) {
    self.init(title, columns: columns.map { $0.hasSuffix(":") ? (String($0.dropLast()), true) : ($0, false) })
  }

  init(_ title: String, columns: [(name: String, isText: Bool)]) {
    self.title = title
    self.columns = columns
  }

  var text: String {
    let all = [columns.map(\.name)] + rows
    let widths = columns.indices.map { column in all.map { $0[column].count }.max() ?? 0 }
    let lines = all.map { row in
      columns.indices.map { row[$0].padded(widths[$0], right: columns[$0].isText) }.joined(separator: "  ")
    }
    return ([title] + lines + notes).map { $0 + "\n" }.joined()
  }

  var markdown: String {
    let head = [columns.map(\.name), columns.map { $0.isText ? "---" : "--:" }]
    let lines = (head + rows).map { "| " + $0.map { $0.replacing("|", with: "\\|") }.joined(separator: " | ") + " |\n" }
    return "### \(title)\n\n" + lines.joined() + (notes.isEmpty ? "" : "\n" + notes.joined(separator: "\n") + "\n")
  }
}

extension String {
  func padded(_ width: Int, right: Bool = false) -> String {
    let space = String(repeating: " ", count: max(0, width - count))
    return right ? self + space : space + self
  }
}
