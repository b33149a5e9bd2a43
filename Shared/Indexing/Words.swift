// Cuts text into words, for queries by word. The index and the comparison with the record use the same cut.

public import Records

/// Words without regard to case.
///
/// A word is a run of letters, marks and digits. In scripts without blanks between words (Chinese, Japanese, Thai, …)
/// each sign is a word, so that a query finds any part of a sentence. Unicode's lower-case mapping folds case; accents
/// count.
public enum Words {
  /// A word as UTF-8. The index and queries compare it byte for byte.
  public typealias Word = [UInt8]

  /// The number of leading bytes of a word that an index keeps.
  static let keyByteLimit = 64

  public static func words(in text: String) -> Set<Word> {
    var words: Set<Word> = []
    forEachWord(in: text) { words.insert($0) }
    return words
  }

  /// The words of a string or of all strings of a list; nil for another value.
  public static func words(of value: FieldValue?) -> Set<Word>? {
    switch value {
    case .string(let text)?: words(in: text)
    case .list(element: .string, let elements)?:
      elements.reduce(into: []) { words, element in
        if case .string(let text) = element { forEachWord(in: text) { words.insert($0) } }
      }
    default: nil
    }
  }

  static func keys(of value: FieldValue?) -> [[UInt8]] { (words(of: value) ?? []).map(key) }

  static func key(of word: Word) -> [UInt8] { Array(word.prefix(keyByteLimit)) }

  /// The key range of texts that contain `word`.
  public static func range(of word: Word) -> IndexRange { IndexRange(key: key(of: word)) }

  private static func forEachWord(in text: String, _ body: (Word) -> Void) {
    var word: Word = []
    func finish() {
      if word.isEmpty { return }
      body(word)
      word.removeAll(keepingCapacity: true)
    }
    for scalar in text.unicodeScalars {
      if scalar.isASCII {
        let byte = UInt8(truncatingIfNeeded: scalar.value)
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"): word.append(byte)
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): word.append(byte | 0x20)
        default: finish()
        }
        continue
      }
      guard isPartOfWords(scalar) else {
        finish()
        continue
      }
      if standsAlone(scalar) { finish() }
      word.append(contentsOf: scalar.properties.lowercaseMapping.utf8)
      if standsAlone(scalar) { finish() }
    }
    finish()
  }

  private static func isPartOfWords(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter, .nonspacingMark,
      .spacingMark, .enclosingMark,
      .decimalNumber, .letterNumber, .otherNumber:
      true
    default: false
    }
  }

  /// True when the sign belongs to a script that puts no blanks between words.
  private static func standsAlone(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    // Thai, Lao; Myanmar, Khmer; Hiragana and Katakana.
    case 0x0e01...0x0e30, 0x0e80...0x0eb0, 0x1000...0x102a, 0x1780...0x17b3, 0x3041...0x3096, 0x30a1...0x30fa,
      0x31f0...0x31ff:
      true
    default: scalar.properties.isIdeographic
    }
  }
}
