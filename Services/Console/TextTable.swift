// Aligned columns for people; programs use --json.

enum TextTable {
  /// - Parameter rows: as many cells as there are columns. A column whose cells are all numbers is aligned to the
  ///   right.
  static func text(columns: [String], rows: [[String]]) -> String {
    guard !rows.isEmpty else { return "none" }
    let widths = columns.indices.map { column in rows.reduce(columns[column].count) { max($0, $1[column].count) } }
    // Dashes and empty cells stand for unknown numbers.
    let isNumeric = columns.indices.map { column in
      rows.allSatisfy { ["", "-"].contains($0[column]) || Double($0[column]) != nil }
        && rows.contains { Double($0[column]) != nil }
    }
    func line(_ cells: [String]) -> String {
      let padded = cells.indices.map { column in
        let padding = String(repeating: " ", count: widths[column] - cells[column].count)
        return isNumeric[column] ? padding + cells[column] : cells[column] + padding
      }
      return String(padded.joined(separator: "  ").reversed().drop { $0 == " " }.reversed())
    }
    return ([columns.map { $0.uppercased() }] + rows).map(line).joined(separator: "\n")
  }

  /// Replaces control characters and those that change the direction of text, so that no user-chosen name can fake a
  /// line, control the terminal, or make a line read differently.
  static func printable(_ text: String) -> String {
    String(String.UnicodeScalarView(text.unicodeScalars.map { isPrintable($0) ? $0 : "\u{FFFD}" }))
  }

  private static func isPrintable(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .control, .lineSeparator, .paragraphSeparator: false
    case .format: !(0x202a...0x202e).contains(scalar.value) && !(0x2066...0x2069).contains(scalar.value)
    default: true
    }
  }

  /// Names and values, one pair a line.
  static func text(pairs: [(name: String, value: String)]) -> String {
    let width = pairs.map(\.name.count).max() ?? 0
    return pairs.map { $0.name + String(repeating: " ", count: width - $0.name.count + 2) + $0.value }.joined(
      separator: "\n")
  }
}
