// Decodes MessagePack into Codable values. Ignores unknown keys and reads absent optionals as nil, so releases can
// differ.

/// Decodes the output of `MessagePackEncoder`, of this release or another.
public struct MessagePackDecoder: Sendable {
  public init() {}

  /// - Throws: an error that names the coding path, for malformed MessagePack and for values of a wrong type.
  public func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws(MessagePackError) -> Value {
    try decode(type, from: MessagePackValue(parsing: bytes))
  }

  public func decode<Value: Decodable>(_ type: Value.Type, from value: MessagePackValue) throws(MessagePackError)
    -> Value
  {
    do {
      return try ValueDecoder(value, path: .root).decode(type)
    } catch let error as DecodingError {
      throw MessagePackError(error)
    } catch let error as MessagePackError {
      throw error
    } catch {
      throw MessagePackError("\(error)")
    }
  }
}

/// Decodes one value.
private struct ValueDecoder: Decoder {
  let value: MessagePackValue
  let path: CodingPath
  var codingPath: [any CodingKey] { path.keys }
  var userInfo: [CodingUserInfoKey: Any] { [:] }

  init(_ value: MessagePackValue, path: CodingPath) {
    self.value = value
    self.path = path
  }

  func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
    if type == [UInt8].self, let bytes = value.bytes, let result = bytes as? Value { return result }
    return try type.init(from: self)
  }

  func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
    guard value.kind == .map else { throw value.mismatch("a map", type, path) }
    return KeyedDecodingContainer(KeyedInput(value: value, path: path))
  }

  func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
    guard value.kind == .array else { throw value.mismatch("an array", [Any].self, path) }
    return UnkeyedInput(value: value, path: path)
  }

  func singleValueContainer() -> any SingleValueDecodingContainer { SingleInput(decoder: self) }
}

extension MessagePackValue {
  fileprivate func mismatch(_ expected: String, _ type: Any.Type, _ path: CodingPath) -> DecodingError {
    .typeMismatch(type, .init(codingPath: path.keys, debugDescription: "expected \(expected), found \(kind)"))
  }

  @inline(__always)
  fileprivate func number<Number: FixedWidthInteger>(_ type: Number.Type, _ path: @autoclosure () -> CodingPath) throws
    -> Number
  {
    let number: Number? =
      if let value = int64 { Number(exactly: value) } else { uint64.flatMap { Number(exactly: $0) } }
    guard let number else { throw mismatch("an integer within \(type)", type, path()) }
    return number
  }

  @inline(__always)
  fileprivate func double(_ path: @autoclosure () -> CodingPath) throws -> Double {
    guard let double else { throw mismatch("a number", Double.self, path()) }
    return double
  }

  @inline(__always)
  fileprivate func bool(_ path: @autoclosure () -> CodingPath) throws -> Bool {
    guard let bool else { throw mismatch("a boolean", Bool.self, path()) }
    return bool
  }

  @inline(__always)
  fileprivate func string(_ path: @autoclosure () -> CodingPath) throws -> String {
    guard let string else { throw mismatch("text in UTF-8", String.self, path()) }
    return string
  }
}

private struct KeyedInput<Key: CodingKey>: KeyedDecodingContainerProtocol {
  let value: MessagePackValue
  let path: CodingPath
  var codingPath: [any CodingKey] { path.keys }

  var allKeys: [Key] { value.pairs.compactMap { $0.key.string.flatMap { Key(stringValue: $0) } } }

  func contains(_ key: Key) -> Bool { value[key.stringValue] != nil }

  private func find(_ key: Key) throws -> MessagePackValue {
    guard let member = value[key.stringValue] else {
      throw DecodingError.keyNotFound(key, .init(codingPath: codingPath, debugDescription: ""))
    }
    return member
  }

  func decodeNil(forKey key: Key) throws -> Bool { try find(key).isNull }
  func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool { try find(key).bool(.member(path, key)) }
  func decode(_ type: String.Type, forKey key: Key) throws -> String { try find(key).string(.member(path, key)) }
  func decode(_ type: Double.Type, forKey key: Key) throws -> Double { try find(key).double(.member(path, key)) }
  func decode(_ type: Float.Type, forKey key: Key) throws -> Float { Float(try find(key).double(.member(path, key))) }
  func decode(_ type: Int.Type, forKey key: Key) throws -> Int { try find(key).number(type, .member(path, key)) }
  func decode(_ type: Int8.Type, forKey key: Key) throws -> Int8 { try find(key).number(type, .member(path, key)) }
  func decode(_ type: Int16.Type, forKey key: Key) throws -> Int16 { try find(key).number(type, .member(path, key)) }
  func decode(_ type: Int32.Type, forKey key: Key) throws -> Int32 { try find(key).number(type, .member(path, key)) }
  func decode(_ type: Int64.Type, forKey key: Key) throws -> Int64 { try find(key).number(type, .member(path, key)) }
  func decode(_ type: UInt.Type, forKey key: Key) throws -> UInt { try find(key).number(type, .member(path, key)) }
  func decode(_ type: UInt8.Type, forKey key: Key) throws -> UInt8 { try find(key).number(type, .member(path, key)) }
  func decode(_ type: UInt16.Type, forKey key: Key) throws -> UInt16 { try find(key).number(type, .member(path, key)) }
  func decode(_ type: UInt32.Type, forKey key: Key) throws -> UInt32 { try find(key).number(type, .member(path, key)) }
  func decode(_ type: UInt64.Type, forKey key: Key) throws -> UInt64 { try find(key).number(type, .member(path, key)) }

  func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
    try ValueDecoder(find(key), path: .member(path, key)).decode(type)
  }

  func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) throws -> KeyedDecodingContainer<
    Nested
  > {
    try superDecoder(forKey: key).container(keyedBy: type)
  }

  func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
    try superDecoder(forKey: key).unkeyedContainer()
  }

  func superDecoder() throws -> any Decoder {
    guard let member = value["super"] else { throw value.mismatch("a map with a superclass", Key.self, path) }
    return ValueDecoder(member, path: path)
  }

  func superDecoder(forKey key: Key) throws -> any Decoder { ValueDecoder(try find(key), path: .member(path, key)) }
}

private struct UnkeyedInput: UnkeyedDecodingContainer {
  let value: MessagePackValue
  let path: CodingPath
  var codingPath: [any CodingKey] { path.keys }
  private(set) var currentIndex = 0

  init(value: MessagePackValue, path: CodingPath) {
    self.value = value
    self.path = path
  }

  var count: Int? { value.count }
  var isAtEnd: Bool { currentIndex >= value.count }
  private var elementPath: CodingPath { .element(path, currentIndex) }

  private func peek() throws -> MessagePackValue {
    guard !isAtEnd else {
      throw DecodingError.valueNotFound(Any.self, .init(codingPath: elementPath.keys, debugDescription: ""))
    }
    return value[currentIndex]
  }

  /// Reads the current element. Advances only when `read` succeeds, as the protocol demands.
  private mutating func take<Value>(_ read: (MessagePackValue) throws -> Value) throws -> Value {
    let result = try read(peek())
    currentIndex += 1
    return result
  }

  mutating func decodeNil() throws -> Bool {
    guard try peek().isNull else { return false }
    currentIndex += 1
    return true
  }

  mutating func decode(_ type: Bool.Type) throws -> Bool {
    let path = elementPath; return try take { try $0.bool(path) }
  }
  mutating func decode(_ type: String.Type) throws -> String {
    let path = elementPath; return try take { try $0.string(path) }
  }
  mutating func decode(_ type: Double.Type) throws -> Double {
    let path = elementPath; return try take { try $0.double(path) }
  }
  mutating func decode(_ type: Float.Type) throws -> Float { Float(try decode(Double.self)) }
  mutating func decode(_ type: Int.Type) throws -> Int { try number(type) }
  mutating func decode(_ type: Int8.Type) throws -> Int8 { try number(type) }
  mutating func decode(_ type: Int16.Type) throws -> Int16 { try number(type) }
  mutating func decode(_ type: Int32.Type) throws -> Int32 { try number(type) }
  mutating func decode(_ type: Int64.Type) throws -> Int64 { try number(type) }
  mutating func decode(_ type: UInt.Type) throws -> UInt { try number(type) }
  mutating func decode(_ type: UInt8.Type) throws -> UInt8 { try number(type) }
  mutating func decode(_ type: UInt16.Type) throws -> UInt16 { try number(type) }
  mutating func decode(_ type: UInt32.Type) throws -> UInt32 { try number(type) }
  mutating func decode(_ type: UInt64.Type) throws -> UInt64 { try number(type) }

  private mutating func number<Number: FixedWidthInteger>(_ type: Number.Type) throws -> Number {
    let path = elementPath
    return try take { try $0.number(type, path) }
  }

  mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
    let path = elementPath
    return try take { try ValueDecoder($0, path: path).decode(type) }
  }

  mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) throws -> KeyedDecodingContainer<Nested> {
    try superDecoder().container(keyedBy: type)
  }

  mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
    try superDecoder().unkeyedContainer()
  }

  mutating func superDecoder() throws -> any Decoder {
    let path = elementPath
    return try take { ValueDecoder($0, path: path) }
  }
}

private struct SingleInput: SingleValueDecodingContainer {
  let decoder: ValueDecoder
  var codingPath: [any CodingKey] { decoder.codingPath }
  private var value: MessagePackValue { decoder.value }

  init(decoder: ValueDecoder) { self.decoder = decoder }

  func decodeNil() -> Bool { value.isNull }
  func decode(_ type: Bool.Type) throws -> Bool { try value.bool(decoder.path) }
  func decode(_ type: String.Type) throws -> String { try value.string(decoder.path) }
  func decode(_ type: Double.Type) throws -> Double { try value.double(decoder.path) }
  func decode(_ type: Float.Type) throws -> Float { Float(try value.double(decoder.path)) }
  func decode(_ type: Int.Type) throws -> Int { try value.number(type, decoder.path) }
  func decode(_ type: Int8.Type) throws -> Int8 { try value.number(type, decoder.path) }
  func decode(_ type: Int16.Type) throws -> Int16 { try value.number(type, decoder.path) }
  func decode(_ type: Int32.Type) throws -> Int32 { try value.number(type, decoder.path) }
  func decode(_ type: Int64.Type) throws -> Int64 { try value.number(type, decoder.path) }
  func decode(_ type: UInt.Type) throws -> UInt { try value.number(type, decoder.path) }
  func decode(_ type: UInt8.Type) throws -> UInt8 { try value.number(type, decoder.path) }
  func decode(_ type: UInt16.Type) throws -> UInt16 { try value.number(type, decoder.path) }
  func decode(_ type: UInt32.Type) throws -> UInt32 { try value.number(type, decoder.path) }
  func decode(_ type: UInt64.Type) throws -> UInt64 { try value.number(type, decoder.path) }
  func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try decoder.decode(type) }
}
