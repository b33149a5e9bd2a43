// Reads MessagePack as a tree that outlives the call that parsed it.

import CMessagePack
import Glibc

/// A value inside an unpacked tree. It keeps the tree and a copy of the bytes alive. An accessor for another kind of
/// value returns nil.
public struct MessagePackValue: Sendable {
  public enum Kind: Hashable, Sendable {
    case null, bool
    /// Within Int64 or UInt64.
    case integer
    case double, string, bytes, array, map
    /// An extension type of MessagePack. Aquifer never writes one.
    case `extension`
  }

  private let tree: Tree
  // The tree keeps the object alive and never changes it.
  nonisolated(unsafe) private let object: UnsafePointer<msgpack_object>

  /// Unpacks exactly one value.
  /// - Throws: when the bytes are malformed, truncated, too many, too deeply nested (`MessagePackLimit`), or followed
  ///   by others.
  public init(parsing bytes: [UInt8], maximumByteCount: Int = MessagePackLimit.byteCount) throws(MessagePackError) {
    tree = try Tree(bytes, maximumByteCount: maximumByteCount)
    object = UnsafePointer(tree.root)
  }

  private init(_ tree: Tree, _ object: UnsafePointer<msgpack_object>) {
    self.tree = tree
    self.object = object
  }

  public var kind: Kind {
    switch object.pointee.type {
    case MSGPACK_OBJECT_NIL: .null
    case MSGPACK_OBJECT_BOOLEAN: .bool
    case MSGPACK_OBJECT_POSITIVE_INTEGER, MSGPACK_OBJECT_NEGATIVE_INTEGER: .integer
    case MSGPACK_OBJECT_FLOAT32, MSGPACK_OBJECT_FLOAT64: .double
    case MSGPACK_OBJECT_STR: .string
    case MSGPACK_OBJECT_BIN: .bytes
    case MSGPACK_OBJECT_ARRAY: .array
    case MSGPACK_OBJECT_MAP: .map
    default: .extension
    }
  }

  public var isNull: Bool { object.pointee.type == MSGPACK_OBJECT_NIL }
  public var bool: Bool? { object.pointee.type == MSGPACK_OBJECT_BOOLEAN ? object.pointee.via.boolean : nil }
  /// The value of an integer within Int64; nil for doubles.
  public var int64: Int64? { object.pointee.integer }
  /// The value of an integer that is not negative.
  public var uint64: UInt64? { object.pointee.type == MSGPACK_OBJECT_POSITIVE_INTEGER ? object.pointee.via.u64 : nil }

  /// The value of an integer or double.
  public var double: Double? {
    switch object.pointee.type {
    case MSGPACK_OBJECT_FLOAT32, MSGPACK_OBJECT_FLOAT64: object.pointee.via.f64
    case MSGPACK_OBJECT_POSITIVE_INTEGER: Double(object.pointee.via.u64)
    case MSGPACK_OBJECT_NEGATIVE_INTEGER: Double(object.pointee.via.i64)
    default: nil
    }
  }

  /// The text of a string; nil when it is not UTF-8.
  public var string: String? { object.pointee.string }
  public var bytes: [UInt8]? { object.pointee.bytes.map { [UInt8]($0) } }

  /// The number of an array's elements or a map's pairs; 0 for other kinds.
  public var count: Int {
    switch object.pointee.type {
    case MSGPACK_OBJECT_ARRAY: Int(object.pointee.via.array.size)
    case MSGPACK_OBJECT_MAP: Int(object.pointee.via.map.size)
    default: 0
    }
  }

  /// The element of an array.
  /// - Precondition: `index` is within `0..<count` and this is an array.
  public subscript(index: Int) -> MessagePackValue {
    precondition(kind == .array && index >= 0 && index < count, "element \(index) of \(count) in a \(kind)")
    return MessagePackValue(tree, UnsafePointer(object.pointee.via.array.ptr + index))
  }

  /// The first value under a text key of a map; nil when the key is absent or this is no map. Copies no key.
  public subscript(key: String) -> MessagePackValue? {
    guard object.pointee.type == MSGPACK_OBJECT_MAP else { return nil }
    let map = object.pointee.via.map
    var key = key
    return key.withUTF8 { key in
      for index in 0..<Int(map.size) {
        let pair = map.ptr + index
        guard let name = pair.pointee.key.utf8, name.count == key.count else { continue }
        if let left = name.baseAddress, let right = key.baseAddress, memcmp(left, right, key.count) != 0 { continue }
        return MessagePackValue(tree, UnsafePointer(value(of: pair)))
      }
      return nil
    }
  }

  /// An array's elements; empty for other kinds.
  public var elements: [MessagePackValue] {
    kind == .array ? (0..<count).map { self[$0] } : []
  }

  /// A map's pairs in order; empty for other kinds.
  public var pairs: [(key: MessagePackValue, value: MessagePackValue)] {
    kind == .map ? (0..<count).map(pair) : []
  }

  /// A map's pair.
  /// - Precondition: `index` is within `0..<count` and this is a map.
  public func pair(_ index: Int) -> (key: MessagePackValue, value: MessagePackValue) {
    precondition(kind == .map && index >= 0 && index < count, "pair \(index) of \(count) in a \(kind)")
    let pair = object.pointee.via.map.ptr + index
    return (
      MessagePackValue(tree, UnsafePointer(key(of: pair))), MessagePackValue(tree, UnsafePointer(value(of: pair)))
    )
  }

  private func key(of pair: UnsafeMutablePointer<msgpack_object_kv>) -> UnsafeMutablePointer<msgpack_object> {
    UnsafeMutableRawPointer(pair).assumingMemoryBound(to: msgpack_object.self)
  }

  private func value(of pair: UnsafeMutablePointer<msgpack_object_kv>) -> UnsafeMutablePointer<msgpack_object> {
    (UnsafeMutableRawPointer(pair) + MemoryLayout<msgpack_object>.stride).assumingMemoryBound(to: msgpack_object.self)
  }
}

/// Owns the unpacked objects and the bytes that their text points into. Nothing writes to them after the first value
/// exists.
private final class Tree: Sendable {
  // Pointers are not Sendable, but this memory is constant and lives until the last reference is gone.
  nonisolated(unsafe) private let unpacked: UnsafeMutablePointer<msgpack_unpacked>
  nonisolated(unsafe) private let bytes: UnsafeMutableRawBufferPointer

  var root: UnsafeMutablePointer<msgpack_object> {
    (UnsafeMutableRawPointer(unpacked) + (MemoryLayout<msgpack_unpacked>.offset(of: \.data) ?? 0)).assumingMemoryBound(
      to: msgpack_object.self)
  }

  init(_ source: [UInt8], maximumByteCount: Int) throws(MessagePackError) {
    bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: source.count, alignment: 1)
    bytes.copyBytes(from: source)
    unpacked = UnsafeMutablePointer.allocate(capacity: 1)
    unpacked.initialize(to: msgpack_unpacked())
    msgpack_unpacked_init(unpacked)
    // When a class initializer throws after all members are set, the deinit runs, so nothing leaks.
    try MessagePackError.unpack(
      UnsafeRawBufferPointer(bytes), into: &unpacked.pointee, maximumByteCount: maximumByteCount)
  }

  deinit {
    msgpack_unpacked_destroy(unpacked)
    unpacked.deallocate()
    bytes.deallocate()
  }
}

extension msgpack_object {
  /// The value of an integer of either sign; nil when it exceeds Int64, and for other kinds.
  fileprivate var integer: Int64? {
    switch type {
    case MSGPACK_OBJECT_POSITIVE_INTEGER: Int64(exactly: via.u64)
    case MSGPACK_OBJECT_NEGATIVE_INTEGER: via.i64
    default: nil
    }
  }

  /// The value of a text in valid UTF-8; nil for other kinds.
  fileprivate var string: String? { utf8.flatMap { String(utf8: $0) } }

  fileprivate var utf8: UnsafeBufferPointer<UInt8>? {
    guard type == MSGPACK_OBJECT_STR else { return nil }
    let text = via.str
    return UnsafeBufferPointer(
      start: UnsafeRawPointer(text.ptr)?.assumingMemoryBound(to: UInt8.self), count: Int(text.size))
  }

  fileprivate var bytes: UnsafeBufferPointer<UInt8>? {
    guard type == MSGPACK_OBJECT_BIN else { return nil }
    let bytes = via.bin
    return UnsafeBufferPointer(
      start: UnsafeRawPointer(bytes.ptr)?.assumingMemoryBound(to: UInt8.self), count: Int(bytes.size))
  }
}
