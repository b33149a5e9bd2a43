// Finds the known word that a misspelt one probably means.

public enum Spelling {
  /// - Returns: the candidate with the fewest edits, the first in order among equals; nil when even that has many.
  public static func nearest(to word: String, among candidates: [String]) -> String? {
    let near = candidates.map { (word: $0, distance: distance(word, $0)) }.filter {
      $0.distance <= max(2, word.count / 3)
    }
    return near.min { ($0.distance, $0.word) < ($1.distance, $1.word) }?.word
  }

  /// The Levenshtein distance: insertions, deletions and replacements of a character.
  static func distance(_ left: String, _ right: String) -> Int {
    let right = Array(right)
    var previous = Array(0...right.count)
    for (index, character) in left.enumerated() {
      var row = [index + 1]
      for (column, other) in right.enumerated() {
        row.append(min(previous[column] + (character == other ? 0 : 1), previous[column + 1] + 1, row[column] + 1))
      }
      previous = row
    }
    return previous[right.count]
  }
}
