// Bytes as in the MessagePack specification, and all kinds of malformed ones.

import Testing

import MessagePack

struct FormatTests {
  private func bytes(_ body: (inout MessagePackWriter) -> Void) -> [UInt8] {
    var writer = MessagePackWriter()
    body(&writer)
    return writer.bytes
  }

  @Test func `values have the specification's bytes, in their shortest form`() {
    #expect(bytes { $0.null() } == [0xc0])
    #expect(bytes { $0.bool(false) } == [0xc2])
    #expect(bytes { $0.bool(true) } == [0xc3])
    #expect(bytes { $0.integer(0) } == [0])
    #expect(bytes { $0.integer(127) } == [0x7f])
    #expect(bytes { $0.integer(128) } == [0xcc, 0x80])
    #expect(bytes { $0.integer(256) } == [0xcd, 1, 0])
    #expect(bytes { $0.integer(65536) } == [0xce, 0, 1, 0, 0])
    #expect(bytes { $0.integer(1 << 32) } == [0xcf, 0, 0, 0, 1, 0, 0, 0, 0])
    #expect(bytes { $0.integer(-1) } == [0xff])
    #expect(bytes { $0.integer(-32) } == [0xe0])
    #expect(bytes { $0.integer(-33) } == [0xd0, 0xdf])
    #expect(bytes { $0.integer(-129) } == [0xd1, 0xff, 0x7f])
    #expect(bytes { $0.integer(.min) } == [0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0])
    #expect(bytes { $0.unsigned(.max) } == [0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])
    #expect(bytes { $0.double(1) } == [0xcb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0])
    #expect(bytes { $0.string("") } == [0xa0])
    #expect(bytes { $0.string("é") } == [0xa2, 0xc3, 0xa9])
    #expect(bytes { $0.string(String?.none) } == [0xc0])
    #expect(bytes { $0.string(String(repeating: "x", count: 32)) }.prefix(2) == [0xd9, 32])
    #expect(bytes { $0.bytes([]) } == [0xc4, 0])
    #expect(bytes { $0.bytes([UInt8](repeating: 7, count: 256)) }.prefix(3) == [0xc5, 1, 0])
    #expect(bytes { $0.arrayHeader(15) } == [0x9f])
    #expect(bytes { $0.arrayHeader(16) } == [0xdc, 0, 16])
    #expect(bytes { $0.arrayHeader(65536) } == [0xdd, 0, 1, 0, 0])
    #expect(bytes { $0.mapHeader(0) } == [0x80])
    #expect(bytes { $0.mapHeader(16) } == [0xde, 0, 16])
    #expect(bytes { $0.raw([0x91, 0xc0]) } == [0x91, 0xc0])
  }

  @Test(arguments: [
    Int64.min, -(1 << 31) - 1, -32769, -129, -33, -32, -1, 0, 127, 128, 255, 256, 65535, 65536, 1 << 31, 1 << 32, .max,
  ])
  func `integers of every width come back`(number: Int64) throws {
    #expect(try MessagePackValue(parsing: bytes { $0.integer(number) }).int64 == number)
  }

  @Test(
    arguments: [
      [0xdd, 0x05, 0, 0, 0], [0xdf, 0x05, 0, 0, 0, 1], [0x92, 0xa1, 0xdd, 0xdd, 0, 0, 0, 2, 1],
      [0x92, 0xc7, 1, 5, 7, 0xdf, 0, 0, 0, 5, 1],
    ] as [[UInt8]])
  func `nothing is reserved for values that can't follow`(bytes: [UInt8]) {
    #expect { try MessagePackValue(parsing: bytes) } throws: {
      ($0 as? MessagePackError)?.reason.contains("announces more values") == true
    }
  }

  @Test func `headers inside of text and content announce nothing`() throws {
    let alike: [UInt8] = [0xdd, 0xff, 0xff, 0xff, 0xff, 0xdf, 0xff]
    for count in [7, 300, 70_000] {
      let content = (0..<count).map { alike[$0 % alike.count] }
      let parsed = try MessagePackValue(
        parsing: bytes {
          $0.arrayHeader(70_000)
          $0.bytes(content)
          $0.string("\u{77f}\u{7c0}")
          for number in 2..<70_000 { $0.integer(Int64(number) << 17) }
        })
      #expect(parsed[0].bytes == content && parsed.count == 70_000)
    }
  }

  @Test func `each accessor answers for its own kind only`() throws {
    let cases: [([UInt8], MessagePackValue.Kind)] = [
      (bytes { $0.null() }, .null), (bytes { $0.bool(true) }, .bool), (bytes { $0.integer(5) }, .integer),
      (bytes { $0.double(0.5) }, .double),
      ([0xca, 0x3f, 0, 0, 0], .double), (bytes { $0.string("5") }, .string), (bytes { $0.bytes([5]) }, .bytes),
      ([0x91, 5], .array), ([0x81, 5, 5], .map),
      ([0xd4, 1, 5], .extension),
    ]
    for (bytes, kind) in cases {
      let value = try MessagePackValue(parsing: bytes)
      #expect(value.kind == kind)
      #expect(value.isNull == (kind == .null))
      #expect((value.bool != nil) == (kind == .bool))
      #expect((value.int64 != nil) == (kind == .integer))
      #expect((value.uint64 != nil) == (kind == .integer))
      #expect((value.double != nil) == (kind == .integer || kind == .double))
      #expect((value.string != nil) == (kind == .string))
      #expect((value.bytes != nil) == (kind == .bytes))
      #expect(value.elements.isEmpty == (kind != .array))
      #expect(value.pairs.isEmpty == (kind != .map))
      #expect(value["5"] == nil)
    }
    #expect(try MessagePackValue(parsing: bytes { $0.unsigned(.max) }).int64 == nil)
    #expect(try MessagePackValue(parsing: bytes { $0.unsigned(.max) }).uint64 == .max)
    #expect(try MessagePackValue(parsing: [0xa1, 0xff]).string == nil)
  }

  @Test func `map members are found by name, and values outlive their tree`() throws {
    var kept: [MessagePackValue] = []
    for number in 0..<50 {
      let value = try MessagePackValue(
        parsing: bytes { writer in
          writer.mapHeader(3)
          writer.integer(1)
          writer.string("not a text key")
          writer.string("list")
          writer.arrayHeader(2)
          writer.bytes([UInt8(number)])
          writer.string("element \(number)")
          writer.string("")
          writer.null()
        })
      #expect(value[""]?.isNull == true)
      #expect(value["lis"] == nil && value["listx"] == nil)
      #expect(value.pairs.map(\.key.kind) == [.integer, .string, .string])
      if let list = value["list"] { kept.append(list) }
    }
    #expect(kept.map { $0[1].string } == (0..<50).map { "element \($0)" })
    #expect(kept.map { $0.elements[0].bytes } == (0..<50).map { [UInt8($0)] })
  }

  @Test(
    arguments: [
      ([], "no bytes"), ([0xc1], "starts no value"), ([0x92, 0xc0], "in the middle"), ([0xa5, 0x61], "in the middle"),
      ([0xcb, 0, 0], "in the middle"),
      ([0xc0, 0xc0], "1 bytes follow"), ([0x90, 0x00, 0x01], "2 bytes follow"),
      ([0xdd, 0xff, 0xff, 0xff, 0xff], "announces more values"),
      ([0xdf, 0xff, 0xff, 0xff, 0xff, 0x01], "announces more values"),
      ([0xc6, 0xff, 0xff, 0xff, 0xff, 1], "in the middle"),
      ([0x81, 0x01, 0xc1], "starts no value"),
    ] as [([UInt8], String)])
  func `bytes that are not MessagePack are refused`(bytes: [UInt8], reason: String) {
    let error = #expect(throws: MessagePackError.self) { _ = try MessagePackValue(parsing: bytes) }
    #expect(reason.split(separator: "|").contains { error?.reason.contains($0) ?? false }, "\(error?.reason ?? "")")
  }

  @Test func `nesting and size are limited`() throws {
    let depth = MessagePackLimit.depth
    #expect(try MessagePackValue(parsing: [UInt8](repeating: 0x91, count: depth) + [0xc0]).kind == .array)
    #expect(throws: MessagePackError.self) {
      _ = try MessagePackValue(parsing: [UInt8](repeating: 0x91, count: depth + 1) + [0xc0])
    }
    #expect(throws: MessagePackError.self) {
      _ = try MessagePackValue(parsing: [UInt8](repeating: 0x91, count: 1_000_000))
    }
    #expect(try MessagePackValue(parsing: [0xa2, 0x61, 0x62], maximumByteCount: 3).string == "ab")
    #expect(throws: MessagePackError("3 bytes of MessagePack, the limit is 2")) {
      _ = try MessagePackValue(parsing: [0xa2, 0x61, 0x62], maximumByteCount: 2)
    }
  }
}

struct CursorTests {
  private let encoded: [UInt8] = {
    var writer = MessagePackWriter()
    writer.arrayHeader(9)
    writer.integer(-5)
    writer.integer(7)
    writer.double(0.5)
    writer.bool(true)
    writer.string("café")
    writer.null()
    writer.string("set")
    writer.bytes([1, 2])
    writer.arrayHeader(2)
    writer.integer(1)
    writer.integer(2)
    return writer.bytes
  }()

  private func read<Result>(
    _ bytes: [UInt8], _ body: (inout MessagePackCursor) throws(MessagePackError) -> Result
  ) throws(MessagePackError) -> Result {
    try MessagePackCursor.read(bytes, body)
  }

  @Test func `values are read in their order`() throws {
    try read(encoded) { cursor throws(MessagePackError) in
      #expect(cursor.remainingCount == 9)
      #expect(try cursor.integer() == -5)
      #expect(try cursor.count(upTo: 7) == 7)
      #expect(try cursor.double() == 0.5)
      #expect(try cursor.bool())
      #expect(try cursor.string() == "café")
      #expect(try cursor.optionalString() == nil)
      #expect(try !cursor.skipNull())
      #expect(try cursor.optionalString() == "set")
      #expect(try cursor.bytes() == [1, 2])
      let inner = try cursor.array { inner throws(MessagePackError) in [try inner.integer(), try inner.integer()] }
      #expect(inner == [1, 2])
      #expect(cursor.remainingCount == 0)
    }
  }

  @Test(arguments: [
    Int64.min, -(1 << 31) - 1, -32769, -129, -33, -32, -1, 0, 127, 128, 255, 256, 65535, 65536, 1 << 31, 1 << 32, .max,
  ])
  func `a cursor reads integers of every width`(number: Int64) throws {
    var writer = MessagePackWriter()
    writer.arrayHeader(1)
    writer.integer(number)
    #expect(try read(writer.bytes) { cursor throws(MessagePackError) in try cursor.integer() } == number)
    for end in 1..<writer.bytes.count {
      #expect(throws: MessagePackError.self) {
        _ = try read(Array(writer.bytes[..<end])) { cursor throws(MessagePackError) in try cursor.integer() }
      }
    }
  }

  @Test(arguments: [0, 1, 31, 32, 255, 256, 65535, 65536])
  func `a cursor reads text, bytes and arrays of every length`(count: Int) throws {
    var writer = MessagePackWriter()
    writer.arrayHeader(3)
    writer.string(String(repeating: "x", count: count))
    writer.bytes([UInt8](repeating: 7, count: count))
    writer.arrayHeader(count)
    for _ in 0..<count { writer.null() }
    try read(writer.bytes) { cursor throws(MessagePackError) in
      let text = try cursor.text()
      #expect(text.count == count && text.allSatisfy { $0 == UInt8(ascii: "x") })
      let content = try cursor.content()
      #expect(content.count == count && content.allSatisfy { $0 == 7 })
      try cursor.array { inner throws(MessagePackError) in
        #expect(inner.remainingCount == count)
        while inner.remainingCount > 0 { #expect(try inner.skipNull()) }
      }
    }
  }

  @Test(
    arguments: [
      [0x05], [0xff], [0xc0], [0xc2], [0xc3], [0xcc, 200], [0xcd, 1, 0], [0xce, 0, 1, 0, 0], [0xd0, 0x80],
      [0xcf, 0, 0, 0, 1, 0, 0, 0, 0], [0xca, 0, 0, 0, 0], [0xcb, 0, 0, 0, 0, 0, 0, 0, 0], [0xa2, 0x61, 0x62],
      [0xd9, 1, 0x61], [0xda, 0, 1, 0x61], [0xdb, 0, 0, 0, 1, 0x61], [0xc4, 1, 9], [0xc5, 0, 1, 9],
      [0xc6, 0, 0, 0, 1, 9], [0x92, 1, 0x91, 0x81, 1, 0xa1, 0x61], [0xdc, 0, 1, 5], [0xdd, 0, 0, 0, 1, 5],
      [0xde, 0, 1, 5, 5], [0xdf, 0, 0, 0, 1, 5, 5],
    ] as [[UInt8]])
  func `a cursor skips a value of any kind, and notices its missing end`(value: [UInt8]) throws {
    let read = { (bytes: [UInt8]) throws(MessagePackError) -> Int64 in
      try MessagePackCursor.read(bytes) { cursor throws(MessagePackError) in
        try cursor.skip()
        return try cursor.integer()
      }
    }
    #expect(try read([0x92] + value + [42]) == 42)
    for end in 0..<value.count {
      #expect(throws: MessagePackError.self) { _ = try read([0x92] + value[..<end]) }
    }
  }

  @Test(
    arguments: [[0xdd, 0xff, 0xff, 0xff, 0xff], [0x91, 0xdd, 0, 1, 0, 0, 1], [0xdc, 0xff, 0xff, 1]] as [[UInt8]])
  func `no array announces more values than bytes follow`(bytes: [UInt8]) {
    let error = #expect(throws: MessagePackError.self) {
      try read(bytes) { cursor throws(MessagePackError) in
        try cursor.array { inner throws(MessagePackError) in Issue.record("\(inner.remainingCount) values") }
      }
    }
    #expect(error?.reason.contains("announces") == true)
  }

  @Test func `another kind, a value missing or one left over is an error`() {
    #expect(throws: MessagePackError.self) {
      try read([0x91, 0xc0]) { cursor throws(MessagePackError) in _ = try cursor.integer() }
    }
    #expect(throws: MessagePackError.self) {
      try read([0x91, 0xff]) { cursor throws(MessagePackError) in _ = try cursor.count() }
    }
    #expect(throws: MessagePackError.self) {
      try read([0x91, 8]) { cursor throws(MessagePackError) in _ = try cursor.count(upTo: 7) }
    }
    #expect(throws: MessagePackError.self) {
      try read([0x91, 1]) { cursor throws(MessagePackError) in _ = try cursor.double() }
    }
    #expect(throws: MessagePackError.self) {
      try read([0x91, 1]) { cursor throws(MessagePackError) in _ = try cursor.string() }
    }
    #expect(throws: MessagePackError.self) {
      try read([0x91, 0xa1, 0xff]) { cursor throws(MessagePackError) in _ = try cursor.string() }
    }
    #expect(throws: MessagePackError.self) {
      try read([0x91, 0xa1, 0x61]) { cursor throws(MessagePackError) in _ = try cursor.bytes() }
    }
    #expect(throws: MessagePackError.self) {
      try read([0x91, 1]) { cursor throws(MessagePackError) in try cursor.array { _ throws(MessagePackError) in } }
    }
    #expect(throws: MessagePackError.self) {
      try read([0x90]) { cursor throws(MessagePackError) in _ = try cursor.bool() }
    }
    #expect(throws: MessagePackError.self) { try read([0x91, 1]) { _ throws(MessagePackError) in } }
    #expect(throws: MessagePackError.self) {
      try read([0x91, 0x91, 1]) { cursor throws(MessagePackError) in try cursor.array { _ throws(MessagePackError) in }
      }
    }
    #expect(throws: MessagePackError.self) { try read([0x80]) { _ throws(MessagePackError) in } }
  }
}
