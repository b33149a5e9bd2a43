// The two encodings on which the others build: JSON and MessagePack.

import JSON
import MessagePack
import Records

extension FuzzTarget {
  /// A value that is read and written is read again as the same value, and written as the same bytes.
  static let json = FuzzTarget(name: "json") { bytes in
    let read = try taken({ try JSONValue(parsing: bytes, maximumDepth: Limit.jsonDepth) }) { error in
      guard let error = error as? JSONError else { throw Broken(description: "refused with \(error)") }
      try hold(!error.reason.isEmpty, "a refusal says nothing")
      try hold(
        error.offset.map { (0...bytes.count).contains($0) } ?? true,
        "a refusal points to byte \(error.offset ?? 0) of \(bytes.count)")
    }
    guard let read else { return }
    let written = written(read)
    guard let again = try taken({ try JSONValue(parsing: written, maximumDepth: Limit.jsonDepth) }) else {
      throw Broken(description: "refuses what it wrote: \(String(decoding: written, as: UTF8.self))")
    }
    try holdEqual(tree(read), tree(again), "what was written reads differently")
    try holdEqual(FuzzTarget.written(again), written, "what was read again is written differently")
  }

  private static func written(_ value: JSONValue) -> [UInt8] {
    var writer = JSONWriter()
    writer.value(value)
    return writer.bytes
  }

  private indirect enum Tree: Equatable {
    case object([String], [Tree])
    case array([Tree])
    case string([UInt8]), integer(Int64), double(UInt64), bool(Bool)
    case null
  }

  private static func tree(_ value: JSONValue) -> Tree {
    switch value.kind {
    case .object: .object(value.members.map(\.key), value.members.map { tree(value[$0.key] ?? $0.value) })
    case .array: .array(value.elements.map(tree))
    case .string: .string(Array((value.string ?? "").utf8))
    case .integer: .integer(value.int64 ?? 0)
    case .double: .double((value.double ?? 0).bitPattern)
    case .bool: .bool(value.bool ?? false)
    case .null: .null
    }
  }
}

extension FuzzTarget {
  static let messagePack = FuzzTarget(name: "message-pack", seeds: { [sample] }) { bytes in
    guard let value = try taken({ try MessagePackValue(parsing: bytes) }) else { return }
    var writer = MessagePackWriter()
    guard write(value, to: &writer) else { return }
    guard let again = try taken({ try MessagePackValue(parsing: writer.bytes) }) else {
      throw Broken(description: "refuses what it wrote")
    }
    var second = MessagePackWriter()
    try hold(write(again, to: &second), "what was written holds something else")
    try holdEqual(second.bytes, writer.bytes, "what was read again is written differently")
  }

  /// One value of each kind.
  private static var sample: [UInt8] {
    var writer = MessagePackWriter()
    writer.arrayHeader(8)
    writer.null()
    writer.bool(true)
    writer.integer(-70_000)
    writer.unsigned(.max)
    writer.double(0.1)
    writer.string("é")
    writer.bytes([0, 255])
    writer.mapHeader(1)
    writer.string("key")
    writer.arrayHeader(0)
    return writer.bytes
  }

  /// - Returns: false for values that the writer can't express: text that is not UTF-8, and extensions.
  private static func write(_ value: MessagePackValue, to writer: inout MessagePackWriter) -> Bool {
    switch value.kind {
    case .null: writer.null()
    case .bool: writer.bool(value.bool ?? false)
    case .integer: if let number = value.int64 { writer.integer(number) } else { writer.unsigned(value.uint64 ?? 0) }
    case .double: writer.double(value.double ?? 0)
    case .string:
      guard let text = value.string else { return false }
      writer.string(text)
    case .bytes: writer.bytes(value.bytes ?? [])
    case .array:
      writer.arrayHeader(value.count)
      return value.elements.allSatisfy { write($0, to: &writer) }
    case .map:
      writer.mapHeader(value.count)
      return value.pairs.allSatisfy { write($0.key, to: &writer) && write($0.value, to: &writer) }
    case .extension: return false
    }
    return true
  }
}
