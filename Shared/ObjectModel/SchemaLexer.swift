// Cuts `.ckdb` text into tokens and notes their places.

/// The reason why a schema text was refused, and the place.
public struct SchemaSyntaxError: Error, Hashable, Sendable, CustomStringConvertible {
  /// One sentence.
  public let reason: String
  /// Lines and columns count from 1; columns count bytes.
  public let line: Int
  public let column: Int

  public var description: String { "Line \(line), column \(column): \(reason)" }
}

struct SchemaToken: Hashable {
  enum Kind: Hashable {
    case word
    /// A name in quotation marks; it may spell a reserved word.
    case quoted
    case symbol(UInt8)
    case end
  }

  let kind: Kind
  /// The token's text without quotation marks.
  let text: String
  let line: Int
  let column: Int

  /// Keywords: a name that equals one must be quoted.
  static let reservedWords: Set<String> = ["grant", "preferred", "queryable", "sortable", "searchable"]

  /// True for `[A-Za-z][A-Za-z0-9_]*`.
  static func isPlainIdentifier(_ text: String) -> Bool {
    guard let first = text.utf8.first, isLetter(first) else { return false }
    return text.utf8.dropFirst().allSatisfy(isWordByte)
  }

  static func isLetter(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
  }

  static func isWordByte(_ byte: UInt8) -> Bool {
    isLetter(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || byte == UInt8(ascii: "_")
  }
}

struct SchemaLexer {
  private let bytes: [UInt8]
  private var position = 0
  private var line = 1
  private var lineStart = 0

  init(_ text: String) { bytes = Array(text.utf8) }

  private var column: Int { position - lineStart + 1 }

  mutating func next() throws(SchemaSyntaxError) -> SchemaToken {
    try skipBlanksAndComments()
    guard position < bytes.count else { return token(.end, "", from: position) }
    let byte = bytes[position]
    if SchemaToken.isLetter(byte) || byte == UInt8(ascii: "_") { return word() }
    if byte == UInt8(ascii: "\"") { return try quoted() }
    guard "(),;<>".utf8.contains(byte) else {
      let shown =
        (0x21...0x7e).contains(byte) ? "'\(Character(UnicodeScalar(byte)))'" : "byte 0x\(String(byte, radix: 16))"
      throw SchemaSyntaxError(reason: "\(shown) does not belong here.", line: line, column: column)
    }
    position += 1
    return token(.symbol(byte), String(UnicodeScalar(byte)), from: position - 1)
  }

  private func token(_ kind: SchemaToken.Kind, _ text: String, from start: Int) -> SchemaToken {
    SchemaToken(kind: kind, text: text, line: line, column: start - lineStart + 1)
  }

  private mutating func word() -> SchemaToken {
    let start = position
    while position < bytes.count, SchemaToken.isWordByte(bytes[position]) { position += 1 }
    return token(.word, String(decoding: bytes[start..<position], as: UTF8.self), from: start)
  }

  private mutating func quoted() throws(SchemaSyntaxError) -> SchemaToken {
    let start = position
    position += 1
    while position < bytes.count, bytes[position] != UInt8(ascii: "\""), bytes[position] >= 0x20 { position += 1 }
    guard position < bytes.count, bytes[position] == UInt8(ascii: "\"") else {
      throw SchemaSyntaxError(
        reason: "This name is not closed by a quotation mark on its line.", line: line, column: start - lineStart + 1)
    }
    position += 1
    return token(.quoted, String(decoding: bytes[start + 1..<position - 1], as: UTF8.self), from: start)
  }

  private mutating func skipBlanksAndComments() throws(SchemaSyntaxError) {
    while position < bytes.count {
      switch bytes[position] {
      case UInt8(ascii: "\n"):
        position += 1
        line += 1
        lineStart = position
      case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"): position += 1
      case UInt8(ascii: "/") where follows(UInt8(ascii: "/")), UInt8(ascii: "-") where follows(UInt8(ascii: "-")):
        while position < bytes.count, bytes[position] != UInt8(ascii: "\n") { position += 1 }
      case UInt8(ascii: "/") where follows(UInt8(ascii: "*")): try skipBlockComment()
      default: return
      }
    }
  }

  private mutating func skipBlockComment() throws(SchemaSyntaxError) {
    let (startLine, startColumn) = (line, column)
    position += 2
    while position < bytes.count {
      if bytes[position] == UInt8(ascii: "*"), follows(UInt8(ascii: "/")) {
        position += 2
        return
      }
      if bytes[position] == UInt8(ascii: "\n") {
        line += 1
        lineStart = position + 1
      }
      position += 1
    }
    throw SchemaSyntaxError(reason: "This comment is not closed by '*/'.", line: startLine, column: startColumn)
  }

  private func follows(_ byte: UInt8) -> Bool { position + 1 < bytes.count && bytes[position + 1] == byte }
}
