// Reads the JSON objects of operators strictly: a misspelt member is refused, not ignored.

import JSON
import Records
import WebServices

/// The members of a body.
struct RequestObject {
  private let value: JSONValue

  /// - Throws: `badRequest` for a body that is no JSON object, or has members that are not in `keys`.
  init(_ body: [UInt8], keys: String...) throws(RecordError) {
    value = try JSONValue.request(body)
    for member in value.members where !keys.contains(member.key) {
      throw RecordError(
        .badRequest,
        "'\(member.key)' is not a key of this call; its keys are \(keys.map { "'\($0)'" }.joined(separator: ", "))")
    }
  }

  /// True for a member that is present, even if it is null.
  func has(_ key: String) -> Bool { value[key] != nil }

  /// nil when absent or null.
  /// - Throws: `badRequest` for another kind, an empty text, one of more than `limit` bytes, or control characters.
  func text(_ key: String, limit: Int = Limit.nameByteCount, allowsLines: Bool = false) throws(RecordError) -> String? {
    guard let member = value[key], !member.isNull else { return nil }
    guard let text = member.string else { throw RecordError(.badRequest, "'\(key)' must be a string") }
    try Self.check(text, key, limit, allowsLines)
    return text
  }

  func required(_ key: String, limit: Int = Limit.nameByteCount, allowsLines: Bool = false) throws(RecordError)
    -> String
  {
    guard let text = try text(key, limit: limit, allowsLines: allowsLines) else {
      throw RecordError(.badRequest, "'\(key)' is missing")
    }
    return text
  }

  /// nil when absent or null.
  /// - Throws: `badRequest` for another kind.
  func flag(_ key: String) throws(RecordError) -> Bool? {
    guard let member = value[key], !member.isNull else { return nil }
    guard let flag = member.bool else { throw RecordError(.badRequest, "'\(key)' must be true or false") }
    return flag
  }

  /// Empty when absent or null.
  /// - Throws: `badRequest` for another kind, or more than `limit` texts.
  func texts(_ key: String, limit: Int) throws(RecordError) -> [String] {
    guard let member = value[key], !member.isNull else { return [] }
    guard member.kind == .array, member.count <= limit else {
      throw RecordError(.badRequest, "'\(key)' must be an array of at most \(limit) strings")
    }
    var texts: [String] = []
    for element in member.elements {
      guard let text = element.string else { throw RecordError(.badRequest, "'\(key)' must be an array of strings") }
      try Self.check(text, key, Limit.nameByteCount, false)
      texts.append(text)
    }
    return texts
  }

  /// nil when null.
  /// - Throws: `badRequest` when it is absent, or not a whole number from 0 on.
  func byteCount(_ key: String) throws(RecordError) -> Int64? {
    guard let member = value[key] else { throw RecordError(.badRequest, "'\(key)' is missing") }
    if member.isNull { return nil }
    guard let count = member.int64, count >= 0 else {
      throw RecordError(.badRequest, "'\(key)' must be a whole number of bytes, or null")
    }
    return count
  }

  private static func check(_ text: String, _ key: String, _ limit: Int, _ allowsLines: Bool) throws(RecordError) {
    guard (1...limit).contains(text.utf8.count) else {
      throw RecordError(.badRequest, "'\(key)' must have 1 to \(limit) bytes")
    }
    let isClean = text.utf8.allSatisfy {
      $0 >= 0x20 && $0 != 0x7f || allowsLines && ($0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r"))
    }
    guard isClean else { throw RecordError(.badRequest, "'\(key)' has control characters") }
  }
}
