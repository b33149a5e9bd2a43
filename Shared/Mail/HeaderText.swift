// Text of any language in a header of a mail (RFC 2047).

import Crypto

enum HeaderText {
  /// Bytes of text in one word: 60 letters of base64, within the 75 that a word has.
  private static let wordByteCount = 45

  /// Text in ASCII: short plain text as it is, other text in words of base64, each on a line of its own, because
  /// servers refuse long lines (RFC 5321). Characters that could end the line become spaces.
  static func encoded(_ text: String) -> String {
    let line = oneLine(text)
    let isPlain = line.utf8.allSatisfy { (0x20...0x7e).contains($0) } && !line.contains("=?")
    return isPlain && line.utf8.count <= wordByteCount ? line : words(line)
  }

  /// The same for the name before an address, where punctuation has a meaning.
  static func phrase(_ text: String) -> String {
    let line = oneLine(text)
    let isPlain = line.utf8.count <= wordByteCount && line.allSatisfy { $0.isASCII && ($0.isLetter || $0 == " ") }
    return isPlain ? line : words(line)
  }

  private static func oneLine(_ text: String) -> String {
    var line = ""
    for scalar in text.unicodeScalars {
      switch scalar.properties.generalCategory {
      case .control, .lineSeparator, .paragraphSeparator: line.unicodeScalars.append(" ")
      default: line.unicodeScalars.append(scalar)
      }
    }
    return line
  }

  private static func words(_ line: String) -> String {
    var words: [[UInt8]] = [[]]
    for scalar in line.unicodeScalars {
      let bytes = Array(String(scalar).utf8)
      if words[words.count - 1].count + bytes.count > wordByteCount { words.append([]) }
      words[words.count - 1] += bytes
    }
    return words.map { "=?utf-8?B?\(Base64.encode($0))?=" }.joined(separator: "\r\n ")
  }
}
