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
