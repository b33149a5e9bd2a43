// Folds texts for searches without regard to case and diacritics.

enum Fold {
  /// Lower case without marks: `É` and `e` fold alike.
  static func fold(_ text: String) -> String {
    if text.utf8.allSatisfy({ $0 < 0x80 }) { return text.lowercased() }
    var folded = ""
    for scalar in text.lowercased().unicodeScalars {
      if scalar.value < 0x80 {
        folded.unicodeScalars.append(scalar)
      } else if scalar.properties.generalCategory != .nonspacingMark {
        folded.unicodeScalars.append(bases[scalar] ?? scalar)
      }
    }
    return folded
  }

  /// Letters with marks, and the letters without. Unicode's names say it: `LATIN SMALL LETTER E WITH ACUTE`.
  private static let bases: [Unicode.Scalar: Unicode.Scalar] = {
    var letters: [String: Unicode.Scalar] = [:]
    var marked: [(scalar: Unicode.Scalar, base: Substring)] = []
    for scalar in (0x61...0x2fff).compactMap(Unicode.Scalar.init) where scalar.properties.isLowercase {
      guard let name = scalar.properties.name else { continue }
      letters[name] = scalar
      if let range = name.firstRange(of: " WITH ") { marked.append((scalar, name[..<range.lowerBound])) }
    }
    return Dictionary(marked.compactMap { mark in letters[String(mark.base)].map { (mark.scalar, $0) } }) { first, _ in
      first
    }
  }()
}
