import Testing

@testable import HTTPServer

struct RequestTargetTests {
  @Test(arguments: [
    ("/", []),
    ("/a", ["a"]),
    ("/a/", ["a", ""]),
    ("//a", ["", "a"]),
    ("/a%2Fb/c", ["a/b", "c"]),
    ("/Gr%C3%BC%c3%9fe", ["Grüße"]),
    ("/a+b", ["a+b"]),
    ("/../x", ["..", "x"]),
    ("http://host:80/a/b", ["a", "b"]),
    ("/é", ["é"]),
  ])
  func `a path is split and then decoded`(target: String, segments: [String]) throws {
    #expect(try RequestTarget(target).pathSegments == segments)
  }

  @Test(arguments: [
    ("/?a=1&b=2", [["a", "1"], ["b", "2"]]),
    ("/?a=1&a=2", [["a", "1"], ["a", "2"]]),
    ("/?a", [["a", ""]]),
    ("/?a=", [["a", ""]]),
    ("/?=x", [["", "x"]]),
    ("/?a==b", [["a", "=b"]]),
    ("/?&&a=1&", [["a", "1"]]),
    ("/?", []),
    ("/?t=A+b%2Bc%2f%3D", [["t", "A+b+c/="]]),
    ("/?q=a?b/c", [["q", "a?b/c"]]),
    ("/?k%20ey=v%26w", [["k ey", "v&w"]]),
  ])
  func `a query keeps its order, its repetitions and its plus signs`(target: String, pairs: [[String]]) throws {
    #expect(try RequestTarget(target).query.map { [$0.name, $0.value] } == pairs)
  }

  @Test(arguments: [
    "/%", "/%4", "/%4g", "/%G4", "/a%", "/?a=%", "/?a=%1", "/?%zz=1",
    "/%ff", "/%c3", "/%c0%af", "/%ed%a0%80", "/?a=%f8%88%80%80%80",
    "/%00", "/?a=%00", "/a b", "/a\tb", "/\u{7f}",
    "", "a", "*", "ftp://host/a", "http://host",
  ])
  func `a target that does not decode is refused`(target: String) {
    #expect(throws: Refusal.self) { try RequestTarget(target) }
  }
}

struct HeaderPolicyTests {
  private func framing(_ headers: [(String, String)], isHTTP10: Bool = false) throws -> HeaderPolicy.Framing {
    var policy = HeaderPolicy()
    for (name, value) in headers { Array(value.utf8).withUnsafeBufferPointer { policy.take(name: name, value: $0) } }
    return try policy.framing(isHTTP10: isHTTP10)
  }

  @Test func `a body is framed by its length, by chunks, or is not there`() throws {
    #expect(try framing([("host", "h")]) == .none)
    #expect(try framing([("host", "h"), ("content-length", "0")]) == .none)
    #expect(try framing([("host", "h"), ("content-length", "17")]) == .length(17))
    #expect(try framing([("host", "h"), ("transfer-encoding", "Chunked")]) == .chunked)
    #expect(try framing([], isHTTP10: true) == .none)
    #expect(try framing([("content-length", "3")], isHTTP10: true) == .length(3))
  }

  @Test(arguments: [
    [("content-length", "1"), ("transfer-encoding", "chunked")],
    [("content-length", "1"), ("content-length", "1")],
    [("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")],
    [("host", "other")],
    [("transfer-encoding", "gzip, chunked")], [("transfer-encoding", "identity")], [("transfer-encoding", "")],
    [("transfer-encoding", "chunked ")],
    [("content-length", "")], [("content-length", "+1")], [("content-length", "-1")], [("content-length", "0x1")],
    [("content-length", "1,1")],
    [("content-length", "1 ")], [("content-length", "18446744073709551617")],
    [("x y", "1")], [("", "1")], [("x\u{0}", "1")], [("naïve", "1")], [("x:", "1")],
    [("x", "a\rb")], [("x", "a\nb")], [("x", "a\u{0}b")], [("x", "a\u{7f}")], [("x", "\u{1b}[31m")],
  ])
  func `doubtful headers are refused`(headers: [(String, String)]) {
    #expect(throws: Refusal.self) { try framing([("host", "h")] + headers) }
  }

  @Test func `HTTP 1.0 may leave the host out and must not send chunks, 1.1 the other way round`() {
    #expect(throws: Refusal.self) { try framing([]) }
    #expect(throws: Refusal.self) { try framing([("transfer-encoding", "chunked")], isHTTP10: true) }
  }

  @Test func `a value may have tabs and bytes beyond ASCII`() throws {
    #expect(try framing([("host", "h"), ("x-name", "Zoë\t1")]) == .none)
  }
}

struct ByteRangeTests {
  @Test(
    arguments: [
      (nil, ByteRange.whole),
      ("bytes=0-9", .part(offset: 0, byteCount: 10)),
      ("bytes=90-", .part(offset: 90, byteCount: 10)),
      ("bytes=90-1000", .part(offset: 90, byteCount: 10)),
      ("bytes=-5", .part(offset: 95, byteCount: 5)),
      ("bytes=-500", .part(offset: 0, byteCount: 100)),
      ("bytes=99-99", .part(offset: 99, byteCount: 1)),
      ("bytes=0-99999999999999999999999", .part(offset: 0, byteCount: 100)),
      ("bytes=100-", .unsatisfiable), ("bytes=-0", .unsatisfiable), ("bytes=99999999999999999999999-", .unsatisfiable),
      ("bytes=5-4", .whole), ("bytes=-", .whole), ("bytes=a-b", .whole), ("bytes=1-2,4-5", .whole),
      ("lines=1-2", .whole), ("bytes=1", .whole), ("bytes=+1-2", .whole),
    ] as [(String?, ByteRange)])
  func `a range of 100 bytes`(header: String?, expected: ByteRange) {
    #expect(ByteRange(header, of: 100) == expected)
  }

  @Test func `nothing can be taken from an empty body`() {
    #expect(ByteRange("bytes=0-", of: 0) == .unsatisfiable)
    #expect(ByteRange("bytes=-1", of: 0) == .unsatisfiable)
  }

  @Test func `the answer names the range`() {
    #expect(ByteRange("bytes=90-", of: 100).contentRange(of: 100) == "bytes 90-99/100")
    #expect(ByteRange("bytes=100-", of: 100).contentRange(of: 100) == "bytes */100")
  }
}
