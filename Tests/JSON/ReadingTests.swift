// The results of all accessors for each kind of value.

import Testing

import JSON

struct ReadingTests {
  private func parse(_ text: String) throws -> JSONValue { try JSONValue(parsing: Array(text.utf8)) }

  @Test func `each accessor answers for its own kind only`() throws {
    let cases: [(String, JSONValue.Kind)] = [
      ("{}", .object), ("[]", .array), ("\"1\"", .string), ("1", .integer), ("1.0", .double), ("true", .bool),
      ("null", .null),
    ]
    for (text, kind) in cases {
      let value = try parse(text)
      #expect(value.kind == kind)
      #expect((value.string != nil) == (kind == .string))
      #expect((value.int64 != nil) == (kind == .integer))
      #expect((value.double != nil) == (kind == .integer || kind == .double))
      #expect((value.bool != nil) == (kind == .bool))
      #expect(value.isNull == (kind == .null))
      #expect(value["a"] == nil)
      #expect(value.members.isEmpty && value.elements.isEmpty && value.count == 0)
      #expect(value.base64 == nil)
    }
  }

  @Test func `integers are exact and doubles are the nearest`() throws {
    for number in [Int64.min, -1, 0, 1, (1 << 53) + 1, Int64.max] as [Int64] {
      #expect(try parse("\(number)").int64 == number)
    }
    #expect(try parse("-0").int64 == 0)
    for text in [
      "0.1", "-0.0", "1e2", "1E+2", "5e-324", "1.7976931348623157e308", "2.2250738585072011e-308",
      "123456789012345678901234567890.0", "1e-400",
    ] {
      let value = try parse(text)
      #expect(value.kind == .double && value.double?.bitPattern == Double(text)?.bitPattern, "\(text)")
    }
    #expect(try parse("9007199254740993").double == 9007199254740992)
  }

  @Test func `members are found at any place and kept in the order sent`() throws {
    let value = try parse(
      #" { "b" : [1, {"x":[[]]}, 2], "a" : {"c":null}, "" : 7, "long key with spaces" : "v" , "caf\u00e9":false} "#)
    #expect(value.members.map(\.key) == ["b", "a", "", "long key with spaces", "café"])
    #expect(value.count == 5)
    #expect(value["b"]?.elements.map(\.kind) == [.integer, .object, .integer])
    #expect(value["b"]?.count == 3)
    #expect(value["a"]?["c"]?.isNull == true)
    #expect(value[""]?.int64 == 7)
    #expect(value["long key with spaces"]?.isString("v") == true)
    #expect(value["long key with spaces"]?.isString("w") == false)
    #expect(value["café"]?.bool == false)
    #expect(value["cafe\u{301}"] == nil)
    for absent in ["B", "bb", "x", "c"] { #expect(value[absent] == nil) }
  }

  @Test func `escapes and surrogate pairs become the characters they mean`() throws {
    #expect(try parse(#""\"\\\/\b\f\n\r\t\u0000\u00e9\u20ac\ud83d\ude00""#).string == "\"\\/\u{8}\u{c}\n\r\t\u{0}é€😀")
    #expect(try parse("\"\u{7f}\u{80}\u{2028}\u{10ffff}\"").string == "\u{7f}\u{80}\u{2028}\u{10ffff}")
  }

  @Test func `a value outlives the value it was taken from`() throws {
    var kept: [JSONValue] = []
    for number in 0..<100 {
      let document = try parse(#"{"list":[{"name":"number \#(number)"}]}"#)
      if let value = document["list"]?.elements.first?["name"] { kept.append(value) }
    }
    #expect(kept.map(\.string) == (0..<100).map { "number \($0)" })
  }

  @Test func `base64 comes straight out of a string`() throws {
    #expect(try parse(#""AQID""#).base64 == [1, 2, 3])
    #expect(try parse(#""""#).base64 == [])
    #expect(try parse(#""AQI""#).base64 == nil)
  }

  @Test func `a document larger than what a thread keeps is read like any other`() throws {
    let text = "[" + (0..<300_000).map { "\"\($0)\"" }.joined(separator: ",") + "]"
    let value = try parse(text)
    #expect(value.count == 300_000)
    var expected = 0
    value.forEachElement { element in
      if !element.isString("\(expected)") { Issue.record("element \(expected) is \(element.string ?? "nil")") }
      expected += 1
    }
    #expect(try parse("[1]").count == 1)
  }

  @Test func `documents are read on many threads at once`() async throws {
    await withTaskGroup(of: Bool.self) { group in
      for number in 0..<64 {
        group.addTask {
          let text = "{\"n\":\(number),\"s\":\"\(String(repeating: "x", count: number))\"}"
          guard let value = try? JSONValue(parsing: Array(text.utf8)) else { return false }
          return value["n"]?.int64 == Int64(number) && value["s"]?.string?.utf8.count == number
        }
      }
      for await isRight in group { #expect(isRight) }
    }
  }
}
