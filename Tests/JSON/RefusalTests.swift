// All faults of documents, with the reasons for the client.

import Testing

import JSON

struct RefusalTests {
  private static func parse(_ bytes: [UInt8], maximumDepth: Int = 64) -> JSONError? {
    do throws(JSONError) {
      _ = try JSONValue(parsing: bytes, maximumDepth: maximumDepth)
      return nil
    } catch {
      return error
    }
  }

  @Test(arguments: [
    ("", "empty"), (" \n\t ", "empty"), ("{", "malformed"), ("{\"a\":1", "malformed"), ("[1,2", "malformed"),
    ("\"abc", "ends inside a string"),
    ("{\"a\":\"b", "ends inside a string"), ("[1,]", "malformed"), ("{\"a\":1,}", "malformed"), ("[,1]", "malformed"),
    ("{\"a\"}", "malformed"),
    ("{\"a\" 1}", "malformed"), ("{1:2}", "malformed"), ("{a:1}", "malformed"), ("[1 2]", "malformed"),
    ("[1]]", "malformed"), ("{} {}", "malformed"),
    ("{}x", "malformed"), ("1 2", "malformed"), ("{]", "malformed"), ("[}", "malformed"), ("nul", "word"),
    ("True", "malformed"), ("truex", "word"),
    ("falsey", "word"), ("'a'", "malformed"), ("// c\n1", "malformed"), ("NaN", "malformed"), ("nan", "word"),
    ("[Infinity]", "malformed"), ("-Infinity", "number"),
    ("1e999", "number"), ("-1e999", "number"), ("01", "number"), ("-01", "number"), ("1.", "number"),
    (".5", "malformed"), ("+1", "malformed"), ("1e", "number"),
    ("1e+", "number"),
    ("-", "number"), ("0x10", "number"), ("1_000", "number"), ("9223372036854775808", "fit into 64 bits"),
    ("-9223372036854775809", "number"),
    ("18446744073709551616", "number"), ("100000000000000000000000000000000000000000", "number"),
    (#""\ud800""#, "surrogate"), (#""\udc00""#, "surrogate"), (#""\ud800\ud800""#, "surrogate"),
    (#""\ud800A""#, "surrogate"), (#""\udc00\ud800""#, "surrogate"),
    (#"{"\ud800":1}"#, "surrogate"), (#""x\ud83d\u0041""#, "surrogate"), (#""\x""#, "escape"), (#""\u12""#, "escape"),
    (#""\u12G4""#, "escape"), (#""\""#, "ends inside"),
    ("\"\u{1}\"", "control character"), ("\"a\nb\"", "control character"), ("\"a\tb\"", "control character"),
    ("\"\u{0}\"", "control character"),
    ("[1]\u{0}", "malformed"), ("\u{0}", "malformed"), ("\u{feff}{}", "byte order mark"), ("{}\u{feff}", "malformed"),
  ])
  func `a malformed document is refused with a reason`(text: String, reason: String) throws {
    let error = try #require(Self.parse(Array(text.utf8)), "\(text.debugDescription) was accepted")
    #expect(error.reason.contains(reason), "\(text.debugDescription): \(error.reason)")
  }

  @Test(
    arguments: [
      ([0x22, 0xff, 0x22], 1), ([0x22, 0x61, 0xc0, 0xaf, 0x22], 2), ([0x22, 0xe0, 0x80, 0xaf, 0x22], 1),
      ([0x22, 0xf0, 0x80, 0x80, 0xaf, 0x22], 1),
      ([0x22, 0xed, 0xa0, 0x80, 0x22], 1), ([0x22, 0xf4, 0x90, 0x80, 0x80, 0x22], 1), ([0x22, 0xc3, 0x22], 1),
      ([0x22, 0x80, 0x22], 1),
      ([0xc3, 0xa9, 0x22, 0xc3, 0xa9, 0xfe, 0x22], 5),
    ] as [([UInt8], Int)])
  func `bytes that are not UTF-8 are refused with their place`(bytes: [UInt8], offset: Int) throws {
    let error = try #require(Self.parse(bytes))
    #expect(error.reason.contains("UTF-8"))
    #expect(error.offset == offset)
  }

  @Test func `UTF-16 and UTF-32 are refused`() {
    for bytes: [UInt8] in [[0xff, 0xfe, 0x31, 0], [0xfe, 0xff, 0, 0x31], [0x31, 0], [0, 0x31], [0, 0, 0, 0x31]] {
      #expect(Self.parse(bytes) != nil)
    }
  }

  @Test(arguments: [
    (#"{"a":1,"a":1}"#, "a"), (#"{"x":{"y":[{"deep":1,"b":2,"deep":3}]}}"#, "deep"), (#"{"a":1,"\u0061":2}"#, "a"),
    (#"{"":1,"":2}"#, ""), (#"{"é":1,"\u00e9":2}"#, "é"),
    ("{" + (0..<100).map { "\"k\($0)\":0" }.joined(separator: ",") + ",\"k57\":1}", "k57"),
  ])
  func `a duplicate key is refused by name`(text: String, key: String) throws {
    let error = try #require(Self.parse(Array(text.utf8)))
    #expect(error.reason == "the JSON has the key '\(key)' twice in one object")
  }

  @Test func `the same key in different objects, and keys that only look alike, are fine`() throws {
    // The two spellings of é are different keys: JSON compares code points.
    for text in [
      #"[{"a":{"a":1}},{"a":2}]"#, "{\"e\u{301}\":1,\"\u{e9}\":2}",
      "{" + (0..<500).map { "\"k\($0)\":0" }.joined(separator: ",") + "}",
    ] {
      #expect(Self.parse(Array(text.utf8)) == nil)
    }
  }

  @Test(arguments: [1, 2, 63, 64, 1000])
  func `nesting is allowed up to the limit and not beyond`(limit: Int) throws {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
      let inner = open == "[" ? "" : "1"
      let allowed = String(repeating: open, count: limit) + inner + String(repeating: close, count: limit)
      #expect(Self.parse(Array(allowed.utf8), maximumDepth: limit)?.reason == nil)
      let deeper = open + allowed + close
      #expect(
        Self.parse(Array(deeper.utf8), maximumDepth: limit)?.reason == "the JSON nests deeper than \(limit) levels")
    }
  }

  @Test func `a million brackets are refused without a crash`() throws {
    for text in [
      String(repeating: "[", count: 1_000_000), String(repeating: "{\"a\":", count: 300_000),
      String(repeating: "]", count: 1_000_000),
    ] {
      #expect(Self.parse(Array(text.utf8)) != nil)
    }
  }

  @Test func `a document that was cut anywhere is refused`() {
    let whole = Array(#" {"records":[{"name":"caf\u00e9 ü","n":-12.5e3,"ok":true,"nil":null}],"x":{}}"#.utf8)
    #expect(Self.parse(whole) == nil)
    for end in 0..<whole.count { #expect(Self.parse(Array(whole[..<end])) != nil) }
  }

  @Test func `a refusal leaves nothing behind for the next document`() throws {
    let good = Array(#"{"a":[1,2,{"b":"c"}]}"#.utf8)
    for bad in ["{\"a\":1,\"a\":2}", "[1,", "\"\\ud800\"", "[[[[[[[[[[", "99999999999999999999"] {
      #expect(Self.parse(Array(bad.utf8), maximumDepth: 3) != nil)
      let value = try JSONValue(parsing: good, maximumDepth: 3)
      #expect(value["a"]?.elements[2]["b"]?.string == "c")
    }
  }
}
