// Hand-written coding for messages on hot paths. The form equals `Codable`'s (fields' names as keys, absent optionals
// as absent keys), so that releases with either coding understand each other; tests compare the two.

import MessagePack
import Records

extension DatabaseID {
  func encode(to writer: inout MessagePackWriter) {
    writer.mapHeader(3)
    writer.member("container", container.rawValue)
    writer.member("environment", environment.rawValue)
    writer.member("owner", owner)
  }

  init?(decoding map: MessagePackValue) throws {
    self.init(
      container: try map.required("container") { $0.string.flatMap(ContainerID.init(rawValue:)) },
      environment: try map.required("environment") { $0.string.flatMap(Environment.init(rawValue:)) },
      owner: try map.required("owner", \.string))
  }
}

extension MessagePackWriter {
  mutating func member(_ name: String, _ value: String) {
    string(name)
    string(value)
  }
}

extension MessagePackValue {
  /// The value under a key.
  /// - Throws: `MessagePackError` if it is absent, or if `read` returns nil for a value of another kind.
  func required<Value>(_ key: String, _ read: (MessagePackValue) throws -> Value?) throws -> Value {
    guard let value = try self[key].flatMap(read) else { throw MessagePackError("no fitting value under \(key)") }
    return value
  }

  /// The value under a key; nil if it is absent or null.
  func optional<Value>(_ key: String, _ read: (MessagePackValue) throws -> Value?) throws -> Value? {
    guard let value = self[key], !value.isNull else { return nil }
    guard let value = try read(value) else { throw MessagePackError("no fitting value under \(key)") }
    return value
  }

  var strings: [String]? {
    guard kind == .array else { return nil }
    var strings: [String] = []
    strings.reserveCapacity(count)
    for index in 0..<count {
      guard let string = self[index].string else { return nil }
      strings.append(string)
    }
    return strings
  }

  /// A map of text by text.
  var texts: [String: String]? {
    guard kind == .map else { return nil }
    var texts: [String: String] = [:]
    for index in 0..<count {
      let (key, value) = pair(index)
      guard let key = key.string, let value = value.string else { return nil }
      texts[key] = value
    }
    return texts
  }
}
