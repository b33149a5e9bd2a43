// The writer's text, character by character.

import Foundation
import Testing

import JSON

struct WritingTests {
  private func text(_ body: (inout JSONWriter) -> Void) -> String {
    var writer = JSONWriter()
    body(&writer)
    return String(decoding: writer.bytes, as: UTF8.self)
  }

  @Test func `commas stand between members and elements and nowhere else`() {
    let text = text { writer in
      writer.beginObject()
      writer.member("a", "x")
      writer.key("list")
      writer.beginArray()
      writer.integer(1)
      writer.beginArray()
      writer.endArray()
      writer.beginObject()
      writer.endObject()
      writer.null()
      writer.raw(Array(#"{"raw":[]}"#.utf8))
      writer.bool(true)
      writer.endArray()
      writer.key("bytes")
      writer.base64([1, 2, 3, 4])
      writer.member("n", 7)
      writer.member("m", Int64.min)
      writer.member("d", 0.5)
      writer.member("no", false)
      writer.endObject()
    }
    #expect(
      text
        == #"""
        {"a":"x","list":[1,[],{},null,{"raw":[]},true],"bytes":"AQIDBA==","n":7,"m":-9223372036854775808,"d":0.5,\#
        "no":false}
        """#
    )
  }

  @Test func `constant text stands as it is, and what follows it has the comma it needs`() {
    let text = text { writer in
      writer.beginArray()
      for number in 1...2 {
        writer.beginObject()
        writer.constant(#""a":"#)
        writer.integer(Int64(number))
        writer.constant(#","b":{},"c":{"d":["#)
        writer.string("x")
        writer.bool(true)
        writer.constant(#"]},"e":false"#)
        writer.member("f", "y")
        writer.constant(#","g":[{"#)
        writer.member("h", 1)
        writer.constant("}")
        writer.null()
        writer.constant("]")
        writer.endObject()
      }
      writer.endArray()
    }
    let rest = #","b":{},"c":{"d":["x",true]},"e":false,"f":"y","g":[{"h":1},null]}"#
    #expect(text == #"[{"a":1\#(rest),{"a":2\#(rest)]"#)
  }

  @Test(arguments: [
    ("", #""""#), ("\"\\/", #""\"\\/""#), ("\n\r\t", #""\n\r\t""#),
    ("\u{0}\u{8}\u{c}\u{1f}\u{20}\u{7f}", "\"\\u0000\\u0008\\u000c\\u001f \u{7f}\""),
    ("é€😀\u{2028}", "\"é€😀\u{2028}\""),
  ])
  func `strings are escaped where JSON demands it`(value: String, expected: String) {
    #expect(text { $0.string(value) } == expected)
  }

  @Test func `a byte that needs an escape is found at every place`() throws {
    for special in ["\"", "\\", "\n", "\u{1f}", "\u{0}"] {
      for before in 0..<20 {
        for filler in ["a", " ", "!", "#", "[", "]", "é"] {
          let value = String(repeating: filler, count: before) + special + String(repeating: filler, count: 19 - before)
          let written = text { $0.string(value) }
          #expect(try JSONValue(parsing: Array(written.utf8)).string == value)
        }
      }
    }
  }

  @Test func `text of every length has its escapes, from strings and from bytes`() {
    for count in 0..<70 {
      for special in 0...count {
        var scalars = Array(repeating: "x" as Unicode.Scalar, count: count)
        if special < count { scalars[special] = ["\"", "\n", "\u{1}", "é"][special % 4] }
        if special > 20 { scalars[special - 20] = "\\" }
        let value = String(String.UnicodeScalarView(scalars))
        let escaped = value.replacing("\\", with: #"\\"#).replacing("\"", with: #"\""#).replacing("\n", with: #"\n"#)
          .replacing("\u{1}", with: #"\u0001"#)
        #expect(text { $0.string(value) } == "\"\(escaped)\"")
        let bytes = Array(value.utf8)
        var writer = JSONWriter()
        let isText = bytes.withUnsafeBufferPointer { writer.string(utf8: $0) }
        #expect(isText && String(decoding: writer.bytes, as: UTF8.self) == "\"\(escaped)\"")
      }
    }
  }

  @Test(
    arguments: [
      [0xff], [0x80], [0xc3], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xe2, 0x82], [0xf4, 0x90, 0x80, 0x80],
    ] as [[UInt8]])
  func `bytes that are not UTF-8 are noticed at every place, as a value and as a key`(invalid: [UInt8]) {
    for before in 0..<40 {
      for end in [[], Array("\"quoted\" and more text behind it".utf8)] {
        let bytes = Array(repeating: UInt8(ascii: "x"), count: before) + invalid + end
        var writer = JSONWriter()
        let isText = bytes.withUnsafeBufferPointer { writer.string(utf8: $0) }
        writer.beginObject()
        let isName = bytes.withUnsafeBufferPointer { writer.key(utf8: $0) }
        #expect(!isText && !isName)
      }
    }
  }

  @Test(arguments: [
    0.0, -0.0, 1, -1, 0.1, 1e16, 1e20, 1e22, 1.5e300, .leastNonzeroMagnitude, .greatestFiniteMagnitude,
    -.leastNormalMagnitude, 1.0 / 3, 1e-7,
    123456789.125,
  ])
  func `a double is valid JSON that reads back as itself`(value: Double) throws {
    let written = text { $0.double(value) }
    let read = try JSONValue(parsing: Array(written.utf8))
    #expect(read.kind == .double, "\(written)")
    #expect(read.double?.bitPattern == value.bitPattern)
  }

  @Test func `integers of every length`() {
    var value: Int64 = 1
    for _ in 0..<19 {
      for number in [value, -value, value - 1, value &* 9] { #expect(text { $0.integer(number) } == "\(number)") }
      value = value &* 10
    }
    for number in [Int64.min, .max, 0] { #expect(text { $0.integer(number) } == "\(number)") }
  }
}
