// Explains to a client why its JSON document was refused.

import CSimdJSON

/// The reason why a body was refused: `reason` is a text for the client, `offset` the position in bytes when it is
/// known.
public struct JSONError: Error, Hashable, Sendable {
  public let reason: String
  public let offset: Int?

  public init(_ reason: String, offset: Int? = nil) {
    self.reason = reason
    self.offset = offset
  }
}

extension JSONError {
  private static let shownKeyByteCount = 100

  /// - Precondition: `result` is a refusal, and the thread has not parsed again since.
  init(_ result: csj_result, in bytes: [UInt8], maximumDepth: Int) {
    switch result.outcome {
    case .empty: self.init("the body is empty where JSON is expected")
    case .too_large: self.init("the JSON is larger than 4 GB")
    case .too_deep: self.init("the JSON nests deeper than \(maximumDepth) levels")
    case .bad_string: self.init("a JSON string has an invalid escape or a lone surrogate")
    case .bad_literal: self.init("the JSON has a word that is not true, false or null")
    case .bad_number: self.init("the JSON has a malformed number or one out of range")
    case .integer_out_of_range: self.init("the JSON has an integer that does not fit into 64 bits with a sign")
    case .byte_order_mark: self.init("the JSON starts with a byte order mark", offset: 0)
    case .control_character: self.init("a JSON string has a control character that is not escaped")
    case .unclosed_string: self.init("the JSON ends inside a string", offset: bytes.count)
    case .out_of_memory: self.init("no memory is left for the JSON")
    case .bad_utf8:
      let offset = Self.firstInvalidByte(of: bytes)
      self.init("the JSON is not valid UTF-8" + (offset.map { " at byte \($0)" } ?? ""), offset: offset)
    case .duplicate_key:
      let key = UnsafeBufferPointer(start: result.key, count: result.key_length)
      self.init(
        """
        the JSON has the key '\(String(decoding: key.prefix(Self.shownKeyByteCount), as: UTF8.self))' twice in one \
        object
        """
      )
    case .malformed, .ok:
      self.init("the JSON is malformed: it ends early, or a comma, bracket, key or value is missing or too many")
    }
  }

  private static func firstInvalidByte(of bytes: [UInt8]) -> Int? {
    var offset = 0
    var parser = Unicode.UTF8.ForwardParser()
    var iterator = bytes.makeIterator()
    while true {
      switch parser.parseScalar(from: &iterator) {
      case .valid(let scalar): offset += scalar.count
      case .error: return offset
      case .emptyInput: return nil
      }
    }
  }
}
