// Encodes Codable values as MessagePack with text keys, for control messages, whose fields differ between releases.

/// Encodes a `Codable` value: keyed containers and dictionaries as maps with text keys, `[UInt8]` as bytes. Omits the
/// keys of absent optionals.
public struct MessagePackEncoder: Sendable {
  public init() {}

  /// - Throws: the error of a type's `encode(to:)`, as a `MessagePackError` that names the coding path.
  public func encode<Value: Encodable>(_ value: Value) throws(MessagePackError) -> [UInt8] {
    let output = Output()
    do {
      try ValueEncoder(output, path: .root).encode(value)
    } catch let error as EncodingError {
      throw MessagePackError(error)
    } catch let error as MessagePackError {
      throw error
    } catch {
      throw MessagePackError("\(error)")
    }
    return output.writer.bytes
  }
}

/// The output so far, and the containers that are still open, innermost last. Containers are written in place, nested.
private final class Output {
  struct Open {
    let place: Int
    var count: Int
  }

  // Unchecked because run-time exclusivity checks took a third of the time, and `Encodable` makes one call at a time.
  @exclusivity(unchecked) var writer = MessagePackWriter()
  @exclusivity(unchecked) private var open: [Open] = []

  func openContainer(isMap: Bool) -> Int {
    let place = writer.openHeader(isMap: isMap)
    open.append(Open(place: place, count: 0))
    return place
  }

  /// Counts one more element of the container at `place`. Closes the containers that were opened inside it.
  func addElement(to place: Int, path: CodingPath) throws {
    while let last = open.last, last.place > place { open.removeLast() }
    guard let last = open.indices.last, open[last].place == place else {
      throw EncodingError.invalidValue(
        place, .init(codingPath: path.keys, debugDescription: "a container was written to after one around it"))
    }
    open[last].count += 1
    writer.patchCount(open[last].count, at: place)
  }

  func count(at place: Int) -> Int { open.last { $0.place == place }?.count ?? 0 }
}

/// Encodes one value.
private final class ValueEncoder: Encoder {
  let output: Output
  let path: CodingPath
  var codingPath: [any CodingKey] { path.keys }
  var userInfo: [CodingUserInfoKey: Any] { [:] }
  private let start: Int
  private var place: Int?

  init(_ output: Output, path: CodingPath) {
    self.output = output
    self.path = path
    start = output.writer.bytes.count
  }

  func encode<Value: Encodable>(_ value: Value) throws {
    if Value.self == [UInt8].self, let bytes = value as? [UInt8] {
      output.writer.bytes(bytes)
    } else {
      try value.encode(to: self)
      // A type that encodes nothing, such as an empty struct, becomes an empty map.
      if output.writer.bytes.count == start { output.writer.mapHeader(0) }
    }
  }

  private func container(isMap: Bool) -> Int {
    // A type may ask for its container more than once, as subclasses do.
    if let place { return place }
    let place = output.openContainer(isMap: isMap)
    self.place = place
    return place
  }

  func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
    KeyedEncodingContainer(KeyedOutput(output: output, place: container(isMap: true), path: path))
  }

  func unkeyedContainer() -> any UnkeyedEncodingContainer {
    UnkeyedOutput(output: output, place: container(isMap: false), path: path)
  }

  func singleValueContainer() -> any SingleValueEncodingContainer {
    SingleOutput(encoder: self)
  }
}

extension MessagePackWriter {
  fileprivate mutating func put(_ value: some BinaryInteger) {
    if let value = Int64(exactly: value) { integer(value) } else { unsigned(UInt64(truncatingIfNeeded: value)) }
  }
}

private struct KeyedOutput<Key: CodingKey>: KeyedEncodingContainerProtocol {
  let output: Output
  let place: Int
  let path: CodingPath
  var codingPath: [any CodingKey] { path.keys }

  private func add(_ key: Key) throws {
    try output.addElement(to: place, path: path)
    output.writer.string(key.stringValue)
  }

  mutating func encodeNil(forKey key: Key) throws { try add(key); output.writer.null() }
  mutating func encode(_ value: Bool, forKey key: Key) throws { try add(key); output.writer.bool(value) }
  mutating func encode(_ value: String, forKey key: Key) throws { try add(key); output.writer.string(value) }
  mutating func encode(_ value: Double, forKey key: Key) throws { try add(key); output.writer.double(value) }
  mutating func encode(_ value: Float, forKey key: Key) throws { try add(key); output.writer.double(Double(value)) }
  mutating func encode(_ value: Int, forKey key: Key) throws { try add(key); output.writer.put(value) }
  mutating func encode(_ value: Int8, forKey key: Key) throws { try add(key); output.writer.put(value) }
  mutating func encode(_ value: Int16, forKey key: Key) throws { try add(key); output.writer.put(value) }
  mutating func encode(_ value: Int32, forKey key: Key) throws { try add(key); output.writer.put(value) }
  mutating func encode(_ value: Int64, forKey key: Key) throws { try add(key); output.writer.put(value) }
  mutating func encode(_ value: UInt, forKey key: Key) throws { try add(key); output.writer.put(value) }
  mutating func encode(_ value: UInt8, forKey key: Key) throws { try add(key); output.writer.put(value) }
  mutating func encode(_ value: UInt16, forKey key: Key) throws { try add(key); output.writer.put(value) }
  mutating func encode(_ value: UInt32, forKey key: Key) throws { try add(key); output.writer.put(value) }
  mutating func encode(_ value: UInt64, forKey key: Key) throws { try add(key); output.writer.put(value) }

  mutating func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
    try add(key)
    try ValueEncoder(output, path: .member(path, key)).encode(value)
  }

  mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key)
    -> KeyedEncodingContainer<Nested>
  {
    superEncoder(forKey: key).container(keyedBy: type)
  }

  mutating func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
    superEncoder(forKey: key).unkeyedContainer()
  }

  mutating func superEncoder() -> any Encoder {
    superEncoder(named: "super", codingKey: nil)
  }

  mutating func superEncoder(forKey key: Key) -> any Encoder {
    superEncoder(named: key.stringValue, codingKey: key)
  }

  private func superEncoder(named name: String, codingKey: Key?) -> any Encoder {
    do {
      try output.addElement(to: place, path: path)
    } catch {
      // The protocol forbids throwing here. Only a hand-written `encode(to:)` that interleaves containers gets here.
      preconditionFailure("\(error)")
    }
    output.writer.string(name)
    return ValueEncoder(output, path: codingKey.map { .member(path, $0) } ?? path)
  }
}

private struct UnkeyedOutput: UnkeyedEncodingContainer {
  let output: Output
  let place: Int
  let path: CodingPath
  var codingPath: [any CodingKey] { path.keys }

  var count: Int { output.count(at: place) }

  private func add() throws { try output.addElement(to: place, path: path) }

  mutating func encodeNil() throws { try add(); output.writer.null() }
  mutating func encode(_ value: Bool) throws { try add(); output.writer.bool(value) }
  mutating func encode(_ value: String) throws { try add(); output.writer.string(value) }
  mutating func encode(_ value: Double) throws { try add(); output.writer.double(value) }
  mutating func encode(_ value: Float) throws { try add(); output.writer.double(Double(value)) }
  mutating func encode(_ value: Int) throws { try add(); output.writer.put(value) }
  mutating func encode(_ value: Int8) throws { try add(); output.writer.put(value) }
  mutating func encode(_ value: Int16) throws { try add(); output.writer.put(value) }
  mutating func encode(_ value: Int32) throws { try add(); output.writer.put(value) }
  mutating func encode(_ value: Int64) throws { try add(); output.writer.put(value) }
  mutating func encode(_ value: UInt) throws { try add(); output.writer.put(value) }
  mutating func encode(_ value: UInt8) throws { try add(); output.writer.put(value) }
  mutating func encode(_ value: UInt16) throws { try add(); output.writer.put(value) }
  mutating func encode(_ value: UInt32) throws { try add(); output.writer.put(value) }
  mutating func encode(_ value: UInt64) throws { try add(); output.writer.put(value) }

  mutating func encode<Value: Encodable>(_ value: Value) throws {
    let index = count
    try add()
    try ValueEncoder(output, path: .element(path, index)).encode(value)
  }

  mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
    superEncoder().container(keyedBy: type)
  }

  mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { superEncoder().unkeyedContainer() }

  mutating func superEncoder() -> any Encoder {
    let index = count
    do { try add() } catch {
      // Only a hand-written `encode(to:)` that interleaves containers gets here, and the protocol forbids throwing.
      preconditionFailure("\(error)")
    }
    return ValueEncoder(output, path: .element(path, index))
  }
}

private struct SingleOutput: SingleValueEncodingContainer {
  let encoder: ValueEncoder
  var codingPath: [any CodingKey] { encoder.codingPath }

  mutating func encodeNil() { encoder.output.writer.null() }
  mutating func encode(_ value: Bool) { encoder.output.writer.bool(value) }
  mutating func encode(_ value: String) { encoder.output.writer.string(value) }
  mutating func encode(_ value: Double) { encoder.output.writer.double(value) }
  mutating func encode(_ value: Float) { encoder.output.writer.double(Double(value)) }
  mutating func encode(_ value: Int) { encoder.output.writer.put(value) }
  mutating func encode(_ value: Int8) { encoder.output.writer.put(value) }
  mutating func encode(_ value: Int16) { encoder.output.writer.put(value) }
  mutating func encode(_ value: Int32) { encoder.output.writer.put(value) }
  mutating func encode(_ value: Int64) { encoder.output.writer.put(value) }
  mutating func encode(_ value: UInt) { encoder.output.writer.put(value) }
  mutating func encode(_ value: UInt8) { encoder.output.writer.put(value) }
  mutating func encode(_ value: UInt16) { encoder.output.writer.put(value) }
  mutating func encode(_ value: UInt32) { encoder.output.writer.put(value) }
  mutating func encode(_ value: UInt64) { encoder.output.writer.put(value) }
  mutating func encode<Value: Encodable>(_ value: Value) throws { try encoder.encode(value) }
}
