import Glibc
import HTTPServer
import Testing

struct ServerTests {
  @Test func `a request reaches the handler taken apart`() async throws {
    let server = try HTTPServer(handler: echo)
    let client = try RawConnection(port: server.port)
    try await client.send(
      """
      POST /a%2Fb/c?x=1+2&y=%C3%A4 HTTP/1.1\r\nHost: h\r\nX-One: 1\r\nX-Two:  two words \r\nContent-Length: \
      5\r\n\r\nhello
      """
    )
    let answer = try await client.readAnswer()
    #expect(answer.status == 200)
    #expect(answer.text == "POST [\"a/b\", \"c\"]\nx=1+2\ny=ä\nx-one: 1\nx-two: two words\nhello")
    #expect(answer.header("content-length") == "\(answer.body.count)")
  }

  @Test func `the raw target and the peer's address are kept`() async throws {
    let server = try HTTPServer(
      handler: ClosureHandler {
        HTTPResponse(status: 200, body: .bytes(Array("\($0.target) \($0.remoteAddress)".utf8)))
      })
    let client = try RawConnection(port: server.port)
    try await client.send("GET /a%2fb?q=%41&&z HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(try await client.readAnswer().text == "/a%2fb?q=%41&&z 127.0.0.1")
  }

  @Test func `pipelined requests are answered in order on one connection`() async throws {
    let server = try HTTPServer(handler: echo)
    let client = try RawConnection(port: server.port)
    let requests = (0..<20).map { "POST /\($0) HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n\($0 % 10)x" }.joined()
    try await client.send(requests)
    for index in 0..<20 { #expect(try await client.readAnswer().text == "POST [\"\(index)\"]\n\(index % 10)x") }
  }

  @Test func `a chunked body arrives whole, however it is cut`() async throws {
    let server = try HTTPServer(handler: echo)
    let client = try RawConnection(port: server.port)
    let head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    for byte in (head + "4\r\nWiki\r\n6;ext=1\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nTrailer: x\r\n\r\n").utf8 {
      try await client.send([byte])
    }
    #expect(try await client.readAnswer().text == "POST []\nWikipedia in \r\n\r\nchunks.")
    try await client.send("GET /next HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(try await client.readAnswer().status == 200)
  }

  @Test func `a large body arrives whole and large answers are sent whole`() async throws {
    let server = try HTTPServer(handler: ClosureHandler { HTTPResponse(status: 200, body: .bytes($0.body.reversed())) })
    // The body is made first, because a server does not wait long for a silent client.
    let body = (0..<5_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
    let client = try RawConnection(port: server.port)
    try await client.send(Array("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: \(body.count)\r\n\r\n".utf8) + body)
    #expect(try await client.readAnswer().body == body.reversed())
  }

  @Test func `a body may wait for leave to come`() async throws {
    let server = try HTTPServer(handler: echo)
    let client = try RawConnection(port: server.port)
    try await client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    #expect(try await client.readHead().status == 100)
    try await client.send("ok")
    #expect(try await client.readAnswer().text == "POST []\nok")
  }

  @Test func `HEAD has GET's headers and no body`() async throws {
    let server = try HTTPServer(handler: echo)
    let client = try RawConnection(port: server.port)
    try await client.send("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n")
    let head = try await client.readAnswer(hasBody: false)
    let get = try await client.readAnswer()
    #expect(head.status == 200)
    #expect(head.header("content-length") == get.header("content-length"))
    #expect(get.text == "GET [\"a\"]\n")
  }

  @Test func `a handler sees a HEAD as a GET that it is told of`() async throws {
    let server = try HTTPServer(
      handler: ClosureHandler {
        HTTPResponse(status: $0.isHead ? 201 : 200, body: .bytes(Array($0.method.rawValue.utf8)))
      })
    let client = try RawConnection(port: server.port)
    try await client.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(try await client.readAnswer(hasBody: false).status == 201)
    let get = try await client.readAnswer()
    #expect(get.status == 200 && get.text == "GET")
  }

  @Test(arguments: ["PUT", "DELETE", "OPTIONS", "PATCH"])
  func `other methods reach the handler with their bodies`(method: String) async throws {
    let server = try HTTPServer(handler: echo)
    let client = try RawConnection(port: server.port)
    try await client.send("\(method) /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
    #expect(try await client.readAnswer().text == "\(method) [\"x\"]\nabc")
  }

  @Test func `answers without a body have none`() async throws {
    let server = try HTTPServer(handler: ClosureHandler { _ in HTTPResponse(status: 204) })
    let client = try RawConnection(port: server.port)
    try await client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(try await client.readAnswer().status == 204)
    #expect(try await client.readAnswer().status == 204)
  }

  @Test func `a handler's header that would break the answer's framing is not sent`() async throws {
    let server = try HTTPServer(
      handler: ClosureHandler { request in
        switch request.pathSegments.first {
        case "injected": HTTPResponse(status: 200, headers: [("X-Echo", "a\r\nSet-Cookie: b")])
        case "name": HTTPResponse(status: 200, headers: [("X Echo", "a")])
        case "status": HTTPResponse(status: 99)
        default:
          HTTPResponse(
            status: 200, headers: [("Content-Length", "1"), ("transfer-encoding", "chunked"), ("X-Ok", "yes")],
            body: .bytes([65, 66]))
        }
      })
    for path in ["injected", "name", "status"] {
      let client = try RawConnection(port: server.port)
      try await client.send("GET /\(path) HTTP/1.1\r\nHost: h\r\n\r\n")
      let answer = try await client.readAnswer()
      #expect(answer.status == 500)
      #expect(answer.header("set-cookie") == nil)
    }
    let client = try RawConnection(port: server.port)
    try await client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    let answer = try await client.readAnswer()
    #expect(answer.text == "AB")
    #expect(answer.headers.filter { $0.name == "content-length" }.map(\.value) == ["2"])
    #expect(answer.header("x-ok") == "yes")
  }

  @Test func `a taken address and a malformed one are named`() throws {
    let server = try HTTPServer(handler: echo)
    var configuration = HTTPServer.Configuration()
    configuration.port = server.port
    #expect { try HTTPServer(configuration: configuration, handler: echo) } throws: { error in
      "\(error)".contains("127.0.0.1:\(server.port)") && "\(error)".contains("another process")
    }
    configuration.address = "not-an-address"
    #expect { try HTTPServer(configuration: configuration, handler: echo) } throws: {
      "\($0)".contains("not-an-address")
    }
  }

  @Test func `IPv6 is served too`() throws {
    var configuration = HTTPServer.Configuration()
    configuration.address = "::1"
    switch Result(catching: { () throws(HTTPServer.StartError) in
      try HTTPServer(configuration: configuration, handler: echo)
    }) {
    case .success(let server): #expect(server.port > 0)
    // The error of a machine without IPv6.
    case .failure(let error): #expect([EADDRNOTAVAIL, EAFNOSUPPORT].contains(error.errno))
    }
  }
}

struct ContentTests {
  /// Content that comes in pieces of its own size, and may end at some offset.
  final class Squares: HTTPContent {
    private let end: UInt64
    init(end: UInt64 = .max) { self.end = end }
    static func byte(_ place: UInt64) -> UInt8 { UInt8(truncatingIfNeeded: place &* place >> 4) }
    func read(at offset: UInt64, limit: Int) -> [UInt8]? {
      offset >= end ? nil : (offset..<min(end, offset + UInt64(min(limit, 999)))).map(Self.byte)
    }
  }

  @Test func `content that is made while it is sent has its length, and ends the connection where it can't be read`()
    async throws
  {
    let server = try HTTPServer(
      handler: ClosureHandler { request in
        HTTPResponse(
          status: 206,
          body: .content(
            Squares(end: request.pathSegments == ["broken"] ? 5000 : .max), offset: 1000, byteCount: 200_000))
      })
    let client = try RawConnection(port: server.port)
    for _ in 0..<2 {
      try await client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
      let answer = try await client.readAnswer()
      #expect(answer.status == 206 && answer.header("content-length") == "200000")
      #expect(answer.body == (1000..<201_000).map(Squares.byte))
    }
    try await client.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(try await client.readAnswer(hasBody: false).header("content-length") == "200000")
    try await client.send("GET /broken HTTP/1.1\r\nHost: h\r\n\r\n")
    await #expect(throws: (any Error).self) { _ = try await client.readAnswer() }
  }
}
