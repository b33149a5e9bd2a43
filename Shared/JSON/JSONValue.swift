// Reads JSON with simdjson. A value is an index into the flat nodes of its document.

import CSimdJSON
import Crypto
import Glibc

/// A value inside a parsed document, which it keeps alive. An accessor for another kind of value returns nil.
public struct JSONValue: Sendable {
  public enum Kind: Hashable, Sendable {
    case object, array, string, integer, double, bool, null
  }

  private let document: JSONDocument
  private let index: UInt32

  /// Parses a whole document.
  ///
  /// The parser is strict: it refuses invalid UTF-8, duplicate keys in one object, trailing bytes, a depth above
  /// `maximumDepth` (at most 1000), and integers outside Int64.
  public init(parsing bytes: [UInt8], maximumDepth: Int = 64) throws(JSONError) {
    precondition((1...1000).contains(maximumDepth), "a depth limit of \(maximumDepth) is not offered")
    let result = bytes.withUnsafeBufferPointer { csj_parse($0.baseAddress, $0.count, maximumDepth) }
    guard result.outcome == .ok else { throw JSONError(result, in: bytes, maximumDepth: maximumDepth) }
    self.init(JSONDocument(result.document), 0)
  }

  private init(_ document: JSONDocument, _ index: UInt32) {
    self.document = document
    self.index = index
  }

  private var node: csj_node { document.node(index) }

  public var kind: Kind {
    switch node.kind {
    case .object: .object
    case .array: .array
    case .string: .string
    case .integer: .integer
    case .double: .double
    case .bool: .bool
    case .null: .null
    }
  }

  public var string: String? {
    withUTF8 { String(decoding: $0, as: UTF8.self) }
  }

  /// The value of an integer literal; nil for other kinds, doubles included.
  public var int64: Int64? {
    let node = node
    return node.kind == .integer ? Int64(bitPattern: node.bits) : nil
  }

  /// The value of an integer or double literal.
  public var double: Double? {
    let node = node
    return switch node.kind {
    case .double: Double(bitPattern: node.bits)
    case .integer: Double(Int64(bitPattern: node.bits))
    default: nil
    }
  }

  public var bool: Bool? {
    let node = node
    return node.kind == .bool ? node.bits != 0 : nil
  }

  public var isNull: Bool { node.kind == .null }

  /// The bytes of a string in canonical base64; nil for other text and other kinds.
  public var base64: [UInt8]? {
    withUTF8 { Base64.decode($0) } ?? nil
  }

  /// Lends a string's UTF-8 without making a `String`; nil for other kinds. The buffer is invalid once `body` returns.
  public func withUTF8<Result>(_ body: (UnsafeBufferPointer<UInt8>) throws -> Result) rethrows -> Result? {
    let node = node
    guard node.kind == .string else { return nil }
    return try withExtendedLifetime(document) { try body(document.text(node)) }
  }

  /// True when this is a string of exactly these bytes, without Unicode equivalence. Makes no `String`.
  public func isString(_ text: String) -> Bool {
    var text = text
    let node = node
    return node.kind == .string && text.withUTF8 { Self.areEqual($0, document.text(node)) }
  }

  /// The number of an object's members or an array's elements; 0 for other kinds.
  public var count: Int {
    let node = node
    return node.kind == .object || node.kind == .array ? Int(node.bits) : 0
  }

  /// The member of an object; nil when it is absent or this is no object. Compares keys byte by byte without copying
  /// them.
  public subscript(key: String) -> JSONValue? {
    var key = key
    return key.withUTF8 { key in
      let object = node
      guard object.kind == .object else { return nil }
      var position = index + 1
      while position < object.next {
        if Self.areEqual(key, document.text(document.node(position))) { return JSONValue(document, position + 1) }
        position = document.node(position + 1).next
      }
      return nil
    }
  }

  /// An object's members in the order of the text; empty for other kinds.
  public var members: [(key: String, value: JSONValue)] {
    var members: [(key: String, value: JSONValue)] = []
    members.reserveCapacity(node.kind == .object ? count : 0)
    forEachMember { key, value in members.append((key.string ?? "", value)) }
    return members
  }

  /// An array's elements; empty for other kinds.
  public var elements: [JSONValue] {
    var elements: [JSONValue] = []
    elements.reserveCapacity(node.kind == .array ? count : 0)
    forEachElement { elements.append($0) }
    return elements
  }

  /// Calls `body` with each key (a string value) and value of an object, in order. Does nothing for other kinds.
  public func forEachMember<Failure: Error>(_ body: (_ key: JSONValue, _ value: JSONValue) throws(Failure) -> Void)
    throws(Failure)
  {
    let object = node
    guard object.kind == .object else { return }
    var position = index + 1
    while position < object.next {
      try body(JSONValue(document, position), JSONValue(document, position + 1))
      position = document.node(position + 1).next
    }
  }

  /// Calls `body` with each element of an array. Does nothing for other kinds.
  public func forEachElement<Failure: Error>(_ body: (JSONValue) throws(Failure) -> Void) throws(Failure) {
    let array = node
    guard array.kind == .array else { return }
    var position = index + 1
    while position < array.next {
      try body(JSONValue(document, position))
      position = document.node(position).next
    }
  }

  private static func areEqual(_ left: UnsafeBufferPointer<UInt8>, _ right: UnsafeBufferPointer<UInt8>) -> Bool {
    guard left.count == right.count else { return false }
    guard let leftBase = left.baseAddress, let rightBase = right.baseAddress else { return true }
    return memcmp(leftBase, rightBase, left.count) == 0
  }
}
