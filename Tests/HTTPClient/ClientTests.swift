// The client against the real server: requests arrive as sent, and each kind of failure has its own error.

import HTTPServer
import Synchronization
import Testing

import HTTPClient

struct ClientTests {
  private static func url(_ server: HTTPServer, _ path: String = "/") -> String {
    "http://127.0.0.1:\(server.port)\(path)"
  }

  @Test(arguments: ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
  func `method, target, headers and body arrive as they were given`(method: String) async throws {
    let server = try HTTPServer(handler: Echo())
    let body: [UInt8]? = method == "GET" ? nil : Array(0...255)
    let response = try await HTTPClient().send(
      method, Self.url(server, "/a%20b/c?x=%2B&y"), headers: [.init("X-One", "1"), .init("X-Empty", "")], body: body)
    #expect(response.status == 200)
    #expect(response["content-LENGTH"] == "\(response.body.count)")
    let lines = String(decoding: response.body.prefix { $0 != 0 }, as: UTF8.self).split(separator: "\n").map(
      String.init)
    #expect(lines.first == "\(method) /a%20b/c?x=%2B&y")
    #expect(lines.contains("x-one: 1") && lines.contains("x-empty: "))
    #expect(!lines.contains { $0.hasPrefix("expect:") || $0.hasPrefix("content-type:") })
    #expect(Array(response.body.drop { $0 != 0 }.dropFirst()) == body ?? [])
  }

  @Test(arguments: ["/zone/../end", "/zone/./end", "/zone/%2E%2E/end", "/.."])
  func `a segment of dots arrives as it was given, since it may be a name`(path: String) async throws {
    let server = try HTTPServer(handler: Echo())
    let response = try await HTTPClient().send("GET", Self.url(server, path))
    #expect(String(decoding: response.body, as: UTF8.self).hasPrefix("GET \(path)\n"))
  }

  @Test func `a content type that is given is sent, and a body may be empty`() async throws {
    let server = try HTTPServer(handler: Echo())
    let client = HTTPClient()
    let typed = try await client.send(
      "POST", Self.url(server), headers: [.init("content-type", "text/plain")], body: [])
    #expect(String(decoding: typed.body, as: UTF8.self).contains("content-type: text/plain\n"))
    #expect(String(decoding: typed.body, as: UTF8.self).contains("content-length: 0\n"))
    let bare = try await client.send("POST", Self.url(server))
    #expect(String(decoding: bare.body, as: UTF8.self).contains("content-length: 0\n"))
  }

  @Test func `a HEAD has a head only, and errors and redirects are answers`() async throws {
    let server = try HTTPServer(handler: Echo())
    let client = HTTPClient()
    let head = try await client.send("HEAD", Self.url(server))
    #expect(head.status == 200 && head.body.isEmpty)
    let redirect = try await client.send("GET", Self.url(server, "/redirect"))
    #expect(redirect.status == 302 && redirect["Location"] == "/elsewhere")
    #expect(try await client.send("GET", Self.url(server, "/failure")).status == 503)
  }

  @Test func `connections are made from the address that was given`() async throws {
    let server = try HTTPServer(handler: Echo())
    for address in ["127.0.0.1", "127.0.0.9"] {
      let response = try await HTTPClient(localAddress: address).send("GET", Self.url(server, "/address"))
      #expect(String(decoding: response.body, as: UTF8.self) == address)
    }
  }

  @Test func `many requests at once are answered each with its own`() async throws {
    let server = try HTTPServer(handler: Echo())
    let client = HTTPClient()
    try await withThrowingTaskGroup(of: Bool.self) { group in
      for number in 0..<100 {
        group.addTask {
          let response = try await client.send(
            "POST", Self.url(server, "/\(number)"), body: [UInt8](repeating: UInt8(number), count: number * 1000))
          return response.body.starts(with: "POST /\(number)\n".utf8)
            && response.body.suffix(number * 1000).allSatisfy { $0 == UInt8(number) }
        }
      }
      for try await isRight in group { #expect(isRight) }
    }
  }

  @Test func `requests one after the other share a connection`() async throws {
    let server = try HTTPServer(handler: Echo())
    let client = HTTPClient()
    for _ in 0..<20 { #expect(try await client.send("POST", Self.url(server), body: [1]).status == 200) }
    #expect(server.connectionCount == 1)
  }

  @Test(arguments: [
    "", "no url", "ftp://127.0.0.1/", "file:///etc/passwd", "gopher://127.0.0.1/", "http://", "http://127.0.0.1:99999/",
    "http://exa mple/",
  ])
  func `a text that is not an http URL is refused unsent`(url: String) async {
    let error = await #expect(throws: HTTPClientError.self) { _ = try await HTTPClient().send("GET", url) }
    #expect(error?.kind == .badURL, "\(error?.reason ?? "")")
  }

  @Test func `a port nobody listens on is unreachable`() async throws {
    let port = try HTTPServer(handler: Echo()).port
    let error = await #expect(throws: HTTPClientError.self) {
      _ = try await HTTPClient().send("GET", "http://127.0.0.1:\(port)/")
    }
    #expect(error?.kind == .unreachable)
    let stream = await #expect(throws: HTTPClientError.self) {
      _ = try await HTTPClient().stream("http://127.0.0.1:\(port)/")
    }
    #expect(stream?.kind == .unreachable)
  }

  @Test func `an answer that does not come in time, a whole one or a stream's head`() async throws {
    let server = try HTTPServer(handler: Echo())
    let error = await #expect(throws: HTTPClientError.self) {
      _ = try await HTTPClient().send("GET", Self.url(server, "/never"), timeout: .milliseconds(50))
    }
    #expect(error?.kind == .timedOut)
    let stream = await #expect(throws: HTTPClientError.self) {
      _ = try await HTTPClient().stream(Self.url(server, "/never"), timeout: .milliseconds(50))
    }
    #expect(stream?.kind == .timedOut)
  }

  @Test func `a cancelled task gets no answer, whenever it is cancelled`() async throws {
    let server = try HTTPServer(handler: Echo())
    let client = HTTPClient()
    for delay in 0..<40 {
      let task = Task {
        do throws(HTTPClientError) {
          _ = try await client.send("GET", Self.url(server, "/never"), timeout: .seconds(60))
          return HTTPClientError.Kind?.none
        } catch {
          return error.kind
        }
      }
      for _ in 0..<delay { await Task.yield() }
      task.cancel()
      #expect(await task.value == .cancelled)
    }
    #expect(try await client.send("GET", Self.url(server)).status == 200)
  }

  @Test func `an answer over the limit is refused`() async throws {
    let server = try HTTPServer(handler: Echo())
    let client = HTTPClient(bodyByteLimit: 2000)
    #expect(try await client.send("POST", Self.url(server), body: [UInt8](repeating: 1, count: 1000)).status == 200)
    let error = await #expect(throws: HTTPClientError.self) {
      _ = try await client.send("POST", Self.url(server), body: [UInt8](repeating: 1, count: 3000))
    }
    #expect(error?.kind == .tooLarge)
  }

  /// The parts of an answer that have lines.
  enum Lines: CaseIterable {
    case head, interimHeads, trailers

    /// An answer with so many lines of a kilobyte there.
    func answer(_ count: Int) -> [UInt8] {
      let line = "X-Line: \(String(repeating: "a", count: 1014))\r\n"
      let lines = String(repeating: line, count: count)
      let text =
        switch self {
        case .head: "HTTP/1.1 200 OK\r\n\(lines)Content-Length: 0\r\n\r\n"
        case .interimHeads:
          String(repeating: "HTTP/1.1 103 Early Hints\r\n\(line)\r\n", count: count)
            + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        case .trailers: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\(lines)\r\n"
        }
      return Array(text.utf8)
    }
  }

  @Test(arguments: Lines.allCases) func `an answer has 64 KiB of heads and trailers at most`(lines: Lines) async throws
  {
    let server = try RawServer(answer: lines.answer(50))
    #expect(try await HTTPClient().send("GET", "http://127.0.0.1:\(server.port)/").status == 200)
    let larger = try RawServer(answer: lines.answer(100))
    let error = await #expect(throws: HTTPClientError.self) {
      _ = try await HTTPClient().send("GET", "http://127.0.0.1:\(larger.port)/")
    }
    #expect(error?.kind == .tooLarge, "\(error?.reason ?? "")")
  }

  @Test(arguments: [
    "", "garbage\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
  ])
  func `a connection that breaks, or speaks no HTTP, is lost`(answer: String) async throws {
    let server = try RawServer(answer: Array(answer.utf8))
    let error = await #expect(throws: HTTPClientError.self) {
      _ = try await HTTPClient().send("GET", "http://127.0.0.1:\(server.port)/")
    }
    #expect(error?.kind == .lost, "\(error?.reason ?? "")")
  }

  @Test func `an interim answer is not the answer`() async throws {
    let server = try RawServer(
      answer: Array(
        "HTTP/1.1 103 Early Hints\r\nX-Early: 1\r\n\r\nHTTP/1.1 201 Created\r\nX-Late:2\r\nContent-Length: 2\r\n\r\nok"
          .utf8))
    let response = try await HTTPClient().send("GET", "http://127.0.0.1:\(server.port)/")
    #expect(response.status == 201 && response.body == Array("ok".utf8))
    #expect(response["x-late"] == "2" && response["x-early"] == nil)
  }
}

struct StreamTests {
  @Test func `pieces arrive while the body goes on, and the end is the end`() async throws {
    let (pieces, source) = AsyncStream<[UInt8]>.makeStream()
    let server = try HTTPServer(handler: Streamer(pieces))
    let stream = try await HTTPClient().stream("http://127.0.0.1:\(server.port)/")
    #expect(stream.status == 200 && stream.head["content-type"] == "text/event-stream")
    var iterator = stream.chunks.makeAsyncIterator()
    for number in 0..<10 {
      let piece = Array("data: \(number)\n\n".utf8)
      source.yield(piece)
      var received: [UInt8] = []
      while received.count < piece.count, let chunk = try await iterator.next() { received += chunk }
      #expect(received == piece)
    }
    source.finish()
    #expect(try await iterator.next() == nil)
  }

  @Test func `letting go of a stream hangs up`() async throws {
    let (pieces, source) = AsyncStream<[UInt8]>.makeStream()
    let (hangUps, noteHangUp) = AsyncStream<Void>.makeStream()
    source.onTermination = { _ in noteHangUp.yield() }
    let server = try HTTPServer(handler: Streamer(pieces))
    let client = HTTPClient()
    let reader = Task {
      for try await _ in try await client.stream("http://127.0.0.1:\(server.port)/").chunks { break }
    }
    source.yield([1])
    try await reader.value
    var iterator = hangUps.makeAsyncIterator()
    #expect(await iterator.next() != nil)
  }

  @Test func `a stream outlives the name of its client, and a broken one throws`() async throws {
    let server = try RawServer(answer: Array("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc".utf8))
    let chunks = try await HTTPClient().stream("http://127.0.0.1:\(server.port)/").chunks
    var received: [UInt8] = []
    let error = await #expect(throws: HTTPClientError.self) { for try await chunk in chunks { received += chunk } }
    #expect(error?.kind == .lost)
    #expect(received == Array("abc".utf8))
  }

  @Test func `a reader that is too slow loses the stream instead of the memory`() async throws {
    let (pieces, source) = AsyncStream<[UInt8]>.makeStream()
    let server = try HTTPServer(handler: Streamer(pieces))
    let stream = try await HTTPClient().stream("http://127.0.0.1:\(server.port)/", waitingChunkLimit: 2)
    let (hangUps, noteHangUp) = AsyncStream<Void>.makeStream()
    source.onTermination = { _ in noteHangUp.yield() }
    for _ in 0..<100 { source.yield([UInt8](repeating: 1, count: 100_000)) }
    var hangUp = hangUps.makeAsyncIterator()
    #expect(await hangUp.next() != nil)
    let error = await #expect(throws: HTTPClientError.self) { for try await _ in stream.chunks {} }
    #expect(error?.kind == .tooLarge)
  }
}
