// Composite attributes as bytes. Apple stores a keyed archive, which needs Apple's classes; this is one MessagePack map
// from element name to value, in ascending order of names:
//
//   integers, boolean, floats    as such                date            integer, milliseconds since 1970
//   string, URI, UUID, decimal   text                   binary, transformable   bytes
//   composite                    a map of the same kind  nil            nil
//
// The model gives each value's type, so the map does not. Apple's archives are readable (`KeyedArchive`); the next edit
// of the attribute replaces them by a map.

import History
import MessagePack
import ObjectModel

enum CompositeCoding {
  /// - Parameter elements: ascending by name.
  static func encode(_ elements: [AttributeValue.CompositeElement]) -> [UInt8] {
    var writer = MessagePackWriter()
    write(elements, to: &writer)
    return writer.bytes
  }

  private static func write(_ elements: [AttributeValue.CompositeElement], to writer: inout MessagePackWriter) {
    writer.mapHeader(elements.count)
    for element in elements {
      writer.string(element.name)
      switch element.value {
      // Assets inside composites never get here: reading a transaction refuses them.
      case .null, .asset: writer.null()
      case .integer(let number), .date(let number): writer.integer(number)
      case .double(let number): writer.double(number)
      case .decimal(let text), .string(let text), .uuid(let text), .uri(let text): writer.string(text)
      case .boolean(let flag): writer.bool(flag)
      case .binary(let bytes): writer.bytes(bytes)
      case .composite(let inner): write(inner, to: &writer)
      }
    }
  }

  /// The elements that the model knows, ascending by name. nil if the bytes are neither such a map nor a keyed archive
  /// of a dictionary, or if a value is of another type.
  static func decode(_ bytes: [UInt8], elements: [Attribute]) -> [AttributeValue.CompositeElement]? {
    if PropertyList.isOne(bytes) { return KeyedArchive(bytes)?.composite(of: elements) }
    // Dropped because the caller names the attribute, and details of another writer's bytes help nobody.
    guard let root = try? MessagePackValue(parsing: bytes) else { return nil }
    return read(root, elements: elements)
  }

  private static func read(_ map: MessagePackValue, elements: [Attribute]) -> [AttributeValue.CompositeElement]? {
    guard map.kind == .map else { return nil }
    let names = Set(elements.map(\.name))
    var members: [String: MessagePackValue] = [:]
    // One pass over the map for any number of elements; of equal keys, the first counts.
    for (key, value) in map.pairs {
      if let name = key.string, names.contains(name), members[name] == nil { members[name] = value }
    }
    var values: [AttributeValue.CompositeElement] = []
    for element in elements.sorted(by: { $0.name < $1.name }) {
      guard let stored = members[element.name] else { continue }
      guard let value = value(stored, of: element) else { return nil }
      values.append(AttributeValue.CompositeElement(name: element.name, value: value))
    }
    return values
  }

  private static func value(_ stored: MessagePackValue, of element: Attribute) -> AttributeValue? {
    if stored.isNull { return .null }
    return switch element.type {
    case .integer16, .integer32, .integer64: stored.int64.map(AttributeValue.integer)
    case .float, .double: stored.kind == .double ? stored.double.map(AttributeValue.double) : nil
    case .decimal: stored.string.map(AttributeValue.decimal)
    case .string: stored.string.map(AttributeValue.string)
    case .uri: stored.string.map(AttributeValue.uri)
    case .uuid: stored.string.flatMap(UUIDText.canonical).map(AttributeValue.uuid)
    case .boolean: stored.bool.map(AttributeValue.boolean)
    case .date: stored.int64.map(AttributeValue.date)
    case .binary, .transformable: stored.bytes.map(AttributeValue.binary)
    case .composite: read(stored, elements: element.elements).map(AttributeValue.composite)
    case .undefined, .objectID: nil
    }
  }
}
