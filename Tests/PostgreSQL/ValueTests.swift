import Testing

@testable import PostgreSQL

/// Values of every type, and the text that PostgreSQL makes of them, which is compared with one written by hand.
private let values: [(type: String, value: Value, text: String?)] = [
  ("bigint", .integer(0), "0"), ("bigint", .integer(.max), "9223372036854775807"),
  ("bigint", .integer(.min), "-9223372036854775808"), ("bigint", .integer(nil), nil),
  ("double precision", .real(-0.0), "-0"), ("double precision", .real(.infinity), "Infinity"),
  ("double precision", .real(.nan), "NaN"), ("double precision", .real(0.1), "0.1"),
  ("double precision", .real(nil), nil),
  ("boolean", .boolean(true), "true"), ("boolean", .boolean(false), "false"), ("boolean", .boolean(nil), nil),
  ("text", .text(""), ""), ("text", .text("dünen 🏖 \u{1}\u{7f}\\\"'"), "dünen 🏖 \u{1}\u{7f}\\\"'"),
  ("text", .text(nil), nil),
  ("bytea", .bytes([]), "\\x"), ("bytea", .bytes([0, 1, 0, 255]), "\\x000100ff"), ("bytea", .bytes(nil), nil),
  ("bigint[]", .integers([]), "{}"), ("bigint[]", .integers([1, nil, -1]), "{1,NULL,-1}"),
  ("text[]", .texts([]), "{}"), ("text[]", .texts(["a", "", nil, "ß"]), "{a,\"\",NULL,ß}"),
  ("bytea[]", .byteStrings([]), "{}"),
  ("bytea[]", .byteStrings([[], [0, 16], nil]), "{\"\\\\x\",\"\\\\x0010\",NULL}"),
]

@Suite struct ValueTests {
  @Test(arguments: values.indices) func `the server understands a value of each type`(index: Int) throws {
    let (type, value, text) = values[index]
    let command = Command("value", "SELECT $1::\(type)::text, pg_typeof($1)::text")
    let row = try #require(try World().session().rows(command, [value]).first)
    #expect(try row.optionalText(0) == text)
    #expect(try row.text(1) == type)
  }

  @Test func `a value comes back as it was sent`() throws {
    let command = Command("echo", "SELECT $1, $2, $3, $4, $5, $2::integer, $2::smallint, $3::varchar")
    let session = try World().session()
    let all = (0...255).map { UInt8($0) }
    for (real, integer, text, bytes, boolean) in [
      (-1.5e300, Int64(-32768), "käse", all, true), (.leastNonzeroMagnitude, 32767, "", [], false),
    ] {
      let sent: [Value] = [.real(real), .integer(integer), .text(text), .bytes(bytes), .boolean(boolean)]
      let row = try #require(try session.rows(command, sent).first)
      #expect(try row.real(0) == real && row.integer(1) == integer && row.text(2) == text && row.bytes(3) == bytes)
      #expect(try row.boolean(4) == boolean && row.integer(5) == integer && row.integer(6) == integer)
      #expect(try row.text(7) == text && row.withBytes(2) { Array($0) } == Array(text.utf8))
    }
  }

  @Test func `a row of 64 MiB comes back as it was sent, among others of its pipeline`() throws {
    let session = try World().session()
    var large = [UInt8](repeating: 7, count: 64 << 20)
    for place in stride(from: 0, to: large.count, by: 4099) { large[place] = UInt8(truncatingIfNeeded: place) }
    let command = Command("echo", "SELECT $1::bytea, length($1)")
    for bytes in [[1], large, [2]] { try session.queue(command, [.bytes(bytes)]) }
    let rows = try session.finish()
    #expect(try rows.map { try #require($0.first).integer(1) } == [1, 64 << 20, 1])
    #expect(try #require(rows[1].first).bytes(0) == large)
  }

  @Test func `a text with NUL is refused before anything is sent, and the transaction goes on`() throws {
    let world = try World()
    let session = try world.session()
    try session.transaction {
      try session.insert(1)
      #expect(kind { try session.insert(2, "a\0b") } == .invalidValue)
      let names = Command("names", "SELECT unnest($1::text[])")
      #expect(kind { try session.queue(names, [.texts(["a", "\0"])]) } == .invalidValue)
      try session.insert(3)
    }
    #expect(try world.items().keys.sorted() == [1, 3])
  }

  @Test(
    arguments: [
      [.bytes([1, 2, 3, 4])], [.text("1234")], [.byteStrings([[1, 2], nil])], [.integers([1, nil, 3])],
      [.texts(["12345"])],
      [.bytes([1, 2]), .text("34")],
    ] as [[Value]])
  func `values are refused from the byte on that is too many`(values: [Value]) throws {
    var encoded = EncodedValues()
    try encoded.encode(values)
    let count = encoded.bytes.count
    for limit in 0...count + 1 {
      var bounded = EncodedValues(byteLimit: limit)
      if limit < count {
        #expect(throws: EncodedValues.Refusal.tooLarge) { try bounded.encode(values) }
      } else {
        try bounded.encode(values)
        #expect(bounded.bytes == encoded.bytes)
      }
    }
  }

  @Test func `a column of another type, a missing one and an unexpected NULL are errors`() throws {
    let row = try #require(
      try World().session().rows(Command("odd", "SELECT 1::numeric, 'a'::text, NULL::bigint, 1.5::real")).first)
    #expect(kind { _ = try row.integer(0) } == .invalidValue)
    #expect(kind { _ = try row.integer(1) } == .invalidValue)
    #expect(kind { _ = try row.bytes(1) } == .invalidValue)
    #expect(kind { _ = try row.integer(2) } == .invalidValue)
    #expect(kind { _ = try row.real(3) } == .invalidValue)
    #expect(kind { _ = try row.text(4) } == .invalidValue)
    #expect(try row.optionalInteger(2) == nil)
    #expect(row.isNull(2) && !row.isNull(1))
  }
}
