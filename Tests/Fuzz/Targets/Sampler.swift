// Makes a value of any message without knowing its members, so that every message, also a future one, gets a seed.

/// Answers each request of a `Decodable` with a value of the right type.
struct Sampler: Decoder {
  struct NoSample: Error {}

  /// Sample texts: most types that accept only certain texts accept one of these.
  private static let words = [
    "a", "iCloud.org.example.notes", "production", "private", "worker", "record", "accept", "share", "Note", "String",
    "Nullify", "READ", "stores", "password", "users",
  ]
  private static let numbers: [Int64] = [1, 0, 2, 3, 10]

  let word: String
  let number: Int64
  var depth = 0
  var codingPath: [any CodingKey] { [] }
  var userInfo: [CodingUserInfoKey: Any] { [:] }

  static func sample<Value: Decodable>(_ type: Value.Type, depth: Int = 0) throws -> Value {
    guard depth < 12 else { throw NoSample() }
    for word in words {
      // Dropped because another word may do.
      if let value = try? Value(from: Sampler(word: word, number: 1, depth: depth)) { return value }
    }
    for number in numbers {
      if let value = try? Value(from: Sampler(word: "a", number: number, depth: depth)) { return value }
    }
    throw NoSample()
  }

  func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedDecodingContainer<Key> {
    KeyedDecodingContainer(Keyed(sampler: self))
  }
  func unkeyedContainer() -> any UnkeyedDecodingContainer { Unkeyed(sampler: self) }
  func singleValueContainer() -> any SingleValueDecodingContainer { Single(sampler: self) }

  fileprivate func value<Value: Decodable>(_ type: Value.Type) throws -> Value {
    if let value = word as? Value ?? true as? Value ?? 0.5 as? Value { return value }
    if let type = Value.self as? any FixedWidthInteger.Type, let value = type.init(clamping: number) as? Value {
      return value
    }
    return try Self.sample(type, depth: depth + 1)
  }

  private struct Single: SingleValueDecodingContainer {
    let sampler: Sampler
    var codingPath: [any CodingKey] { [] }
    func decodeNil() -> Bool { false }
    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try sampler.value(type) }
  }

  /// One element; none below a certain depth, because types may contain themselves.
  private struct Unkeyed: UnkeyedDecodingContainer {
    let sampler: Sampler
    var codingPath: [any CodingKey] { [] }
    var count: Int? { sampler.depth < 6 ? 1 : 0 }
    var currentIndex = 0
    var isAtEnd: Bool { currentIndex == count }
    mutating func decodeNil() -> Bool { false }
    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
      let value = try sampler.value(type)
      currentIndex = 1
      return value
    }
    mutating func nestedContainer<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedDecodingContainer<Key> {
      sampler.container(keyedBy: type)
    }
    mutating func nestedUnkeyedContainer() -> any UnkeyedDecodingContainer { sampler.unkeyedContainer() }
    mutating func superDecoder() -> any Decoder { sampler }
  }

  private struct Keyed<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let sampler: Sampler
    var codingPath: [any CodingKey] { [] }
    /// For a dictionary, whose keys may be anything.
    var allKeys: [Key] { [Key(stringValue: "a")].compactMap { $0 } }
    func contains(_ key: Key) -> Bool { true }
    func decodeNil(forKey key: Key) -> Bool { false }
    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value { try sampler.value(type) }
    func decodeIfPresent<Value: Decodable>(_ type: Value.Type, forKey key: Key) -> Value? { try? sampler.value(type) }
    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) -> KeyedDecodingContainer<
      Nested
    > { sampler.container(keyedBy: type) }
    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedDecodingContainer { sampler.unkeyedContainer() }
    func superDecoder() -> any Decoder { sampler }
    func superDecoder(forKey key: Key) -> any Decoder { sampler }
  }
}
