import Gates
import Glibc
import HTTPServer
import Synchronization
import Testing

/// Requests that never reach a handler. Each gets the handler's own form of error where the library allows it, and the
/// connection is closed.
struct RefusalTests {
  private func server(_ seen: Counter, _ change: (inout HTTPServer.Configuration) -> Void = { _ in }) throws
    -> HTTPServer
  {
    var configuration = HTTPServer.Configuration()
    change(&configuration)
    return try HTTPServer(
      configuration: configuration,
      handler: ClosureHandler { request in
        seen.increment()
        return HTTPResponse(status: 200, body: .bytes(request.body))
      })
  }

  private static let smuggled = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"

  @Test(arguments: [
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + smuggled,
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nContent-Length: 40\r\n\r\n" + smuggled,
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\ncontent-length: 0\r\n\r\n" + smuggled,
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + smuggled,
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + smuggled,
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
    "POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n0\r\n\r\n" + smuggled,
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +0\r\n\r\n" + smuggled,
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n" + smuggled,
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0x10\r\n\r\n" + smuggled,
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999999\r\n\r\n" + smuggled,
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length : 40\r\n\r\n" + smuggled,
    "POST / HTTP/1.1\r\nHost: h\r\nX: a\r\n Content-Length: 40\r\nY : z\r\n\r\n" + smuggled,
    "GET / HTTP/1.1\r\nHost: h\r\nHost: other\r\n\r\n" + smuggled,
    "GET / HTTP/1.1\r\n\r\n" + smuggled,
    "GET / HTTP/1.1\r\nHost: h\r\nX: a\u{1}b\r\n\r\n" + smuggled,
    "GET / HTTP/1.1\r\nHost: h\r\nX\u{7f}: a\r\n\r\n" + smuggled,
    "GET / HTTP/1.1\r\nHost: h\r\n(x): a\r\n\r\n" + smuggled,
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + smuggled,
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n" + smuggled,
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + smuggled,
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nAB\r\n0\r\n\r\n" + smuggled,
  ])
  func `a request that could be framed in two ways is refused and its connection closed`(probe: String) async throws {
    let seen = Counter()
    let server = try server(seen)
    let client = try RawConnection(port: server.port)
    try await client.send(probe)
    let answer = String(decoding: try await client.readToEnd(), as: UTF8.self)
    #expect(answer.isEmpty || answer.hasPrefix("HTTP/1.1 4") || answer.hasPrefix("HTTP/1.0 4"), "\(answer)")
    #expect(seen.count == 0)
  }

  @Test(arguments: ["/%", "/%zz", "/?q=%f", "/%ff%fe", "/a%00b", "/\u{1}"])
  func `a target that does not decode is refused in the API's error form`(target: String) async throws {
    let seen = Counter()
    let server = try server(seen)
    let client = try RawConnection(port: server.port)
    try await client.send("GET \(target) HTTP/1.1\r\nHost: h\r\n\r\n")
    let answer = try await client.readAnswer()
    #expect(answer.status == 400)
    #expect(answer.text.hasPrefix("{\"refused\":"))
    #expect(answer.header("connection") == "close")
    #expect(seen.count == 0)
  }

  @Test func `a target that is not UTF-8 is refused`() async throws {
    let seen = Counter()
    let server = try server(seen)
    let client = try RawConnection(port: server.port)
    try await client.send(Array("GET /".utf8) + [0xff] + Array(" HTTP/1.1\r\nHost: h\r\n\r\n".utf8))
    #expect(try await client.readAnswer().status == 400)
    #expect(seen.count == 0)
  }

  @Test(arguments: ["BREW", "CONNECT", "TRACE", "get"])
  func `an unknown method is a 501`(method: String) async throws {
    let seen = Counter()
    let server = try server(seen)
    let client = try RawConnection(port: server.port)
    try await client.send("\(method) / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
    #expect(try await client.readAnswer().status == 501)
    #expect(seen.count == 0)
  }

  @Test(arguments: ["POST", "PUT", "PATCH", "DELETE", "GET"])
  func
    `a body declared too large is refused before it is read, and the answer arrives while the client still sends`(
      method: String
    ) async throws
  {
    let seen = Counter()
    let server = try server(seen) {
      $0.bodyByteLimit = 1000
      $0.lingerLimit = .seconds(60)
    }
    let client = try RawConnection(port: server.port)
    try await client.send("\(method) / HTTP/1.1\r\nHost: h\r\nContent-Length: 6000000\r\n\r\n")
    try await client.send([UInt8](repeating: 65, count: 6_000_000))
    let answer = try await client.readAnswer()
    #expect(answer.status == 413)
    #expect(answer.text.contains("more than 1000 bytes"))
    #expect(answer.header("connection") == "close")
    #expect(seen.count == 0)
  }

  @Test func `a body of exactly the limit is taken, one byte more is not`() async throws {
    let seen = Counter()
    let server = try server(seen) { $0.bodyByteLimit = 1000 }
    for (count, status) in [(1000, 200), (1001, 413)] {
      for isChunked in [false, true] {
        let client = try RawConnection(port: server.port)
        let body = String(repeating: "x", count: count)
        if isChunked {
          try await client.send(
            """
            POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \
            chunked\r\n\r\n\(String(count, radix: 16))\r\n\(body)\r\n0\r\n\r\n
            """
          )
        } else {
          try await client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: \(count)\r\n\r\n\(body)")
        }
        #expect(try await client.readAnswer().status == status)
      }
    }
    #expect(seen.count == 2)
  }

  @Test func `a chunked body without end is cut off`() async throws {
    let seen = Counter()
    let server = try server(seen) { $0.bodyByteLimit = 1000 }
    let client = try RawConnection(port: server.port)
    try await client.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
    let chunk = Array("400\r\n".utf8) + [UInt8](repeating: 65, count: 1024) + Array("\r\n".utf8)
    await #expect(throws: RawConnection.Failure.self) {
      while true { try await client.send(chunk) }
    }
    #expect(seen.count == 0)
  }

  @Test func `bodies in hand share a budget, which is given back`() async throws {
    let gate = Gate()
    let started = Counter()
    var configuration = HTTPServer.Configuration()
    configuration.totalBodyByteLimit = 2500
    let server = try HTTPServer(
      configuration: configuration,
      handler: ClosureHandler { request in
        started.increment()
        _ = await gate.pass()
        return HTTPResponse(status: 200)
      })
    let request = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n" + String(repeating: "x", count: 1000)
    let clients = try (0..<3).map { _ in try RawConnection(port: server.port) }
    for client in clients[..<2] { try await client.send(request) }
    await started.reaches(2)
    try await clients[2].send(request)
    #expect(try await clients[2].readAnswer().status == 503)
    gate.open()
    for client in clients[..<2] { #expect(try await client.readAnswer().status == 200) }
    for client in clients[..<2] {
      try await client.send(request)
      #expect(try await client.readAnswer().status == 200)
    }
  }

  @Test func `bodies that were only announced keep nobody out`() async throws {
    var configuration = HTTPServer.Configuration()
    configuration.totalBodyByteLimit = 2500
    let server = try HTTPServer(
      configuration: configuration, handler: ClosureHandler { _ in HTTPResponse(status: 200) })
    let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n"
    let idle = try (0..<5).map { _ in try RawConnection(port: server.port) }
    for client in idle { try await client.send(head + "x") }
    let client = try RawConnection(port: server.port)
    try await client.send(head + String(repeating: "x", count: 1000))
    #expect(try await client.readAnswer().status == 200)
    try await idle[0].send(String(repeating: "x", count: 999))
    #expect(try await idle[0].readAnswer().status == 200)
  }

  @Test func `the process's other files leave room for fewer connections`() throws {
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    limit.rlim_cur = limit.rlim_max
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    let files = Int(clamping: limit.rlim_cur)
    // 128 connections are accepted only to be refused.
    let server = try server(Counter()) { $0.otherFileCount = files - 128 - 7 }
    #expect(server.connectionLimit == 7)
  }

  @Test
  func `a connection beyond the limit is answered 503 and closed, those within it go on, and one that ends makes room`()
    async throws
  {
    let seen = Counter()
    let server = try server(seen) { $0.connectionLimit = 2 }
    #expect(server.connectionLimit == 2)
    let request = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
    let first = try RawConnection(port: server.port)
    var second: RawConnection? = try RawConnection(port: server.port)
    for client in [first, second] {
      try await client?.send(request)
      #expect(try await client?.readAnswer().status == 200)
    }
    let surplus = try RawConnection(port: server.port)
    try await surplus.send(request)
    let refused = try await surplus.readAnswer()
    #expect(refused.status == 503 && refused.header("connection") == "close")
    try await first.send(request)
    #expect(try await first.readAnswer().status == 200)
    second = nil
    while server.connectionCount > 1 { try await Task.sleep(for: .milliseconds(5)) }
    let third = try RawConnection(port: server.port)
    try await third.send(request)
    #expect(try await third.readAnswer().status == 200)
    #expect(seen.count == 4)
  }

  @Test func `headers over the limit are a 431 and a target over it a 414`() async throws {
    let seen = Counter()
    let server = try server(seen) { $0.headerByteLimit = 4096 }
    for (text, statuses) in [
      ("GET / HTTP/1.1\r\nHost: h\r\nX: \(String(repeating: "x", count: 10_000))\r\n\r\n", [431]),
      ("GET /\(String(repeating: "x", count: 10_000)) HTTP/1.1\r\nHost: h\r\n\r\n", [414, 431]),
    ] {
      let client = try RawConnection(port: server.port)
      try await client.send(text)
      #expect(statuses.contains(try await client.readHead().status))
    }
    #expect(seen.count == 0)
  }

  @Test func `headers that come a byte at a time are cut off at the deadline, however steadily they come`() async throws
  {
    let seen = Counter()
    let server = try server(seen) { $0.headerDeadline = .milliseconds(300) }
    let clients = try (0..<20).map { _ in try RawConnection(port: server.port) }
    let ended = Counter()
    try await withThrowingTaskGroup { group in
      for client in clients {
        group.addTask {
          // Errors are expected here: the server closes the connection.
          do {
            try await client.send("GET / HTTP/1.1\r\nHost: h\r\n")
            while true {
              try await client.send("X: y\r\n")
              try await Task.sleep(for: .milliseconds(20))
            }
          } catch is RawConnection.Failure { ended.increment() }
        }
      }
      try await group.waitForAll()
    }
    #expect(ended.count == 20)
    #expect(seen.count == 0)
  }

  @Test func `an idle connection is closed after the idle limit`() async throws {
    let seen = Counter()
    let server = try server(seen) { $0.idleLimit = .seconds(1) }
    let client = try RawConnection(port: server.port)
    try await client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(try await client.readAnswer().status == 200)
    #expect(try await client.readToEnd() == [])
  }

  @Test func `garbage harms nobody else`() async throws {
    let seen = Counter()
    let server = try server(seen)
    var generator = SystemRandomNumberGenerator()
    let genuine = try RawConnection(port: server.port)
    for round in 0..<200 {
      let garbage = try RawConnection(port: server.port)
      let count = Int.random(in: 1...400, using: &generator)
      var bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
      switch round % 4 {
      case 0: bytes = Array("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n".utf8) + bytes
      case 1: bytes = Array("GET / HTTP/1.1\r\n".utf8) + bytes
      case 2: bytes = Array("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".utf8) + bytes
      default: break
      }
      // Dropped because the server may close such a connection during the write.
      try? await garbage.send(bytes)
      if round % 2 == 0 { garbage.close() }
      if round % 10 == 0 {
        try await genuine.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello")
        #expect(try await genuine.readAnswer().text == "hello")
      }
    }
  }
}
