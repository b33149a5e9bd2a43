import Gates
import HTTPServer
import Synchronization
import Testing

/// Requests that take long: hang-ups and stop.
struct HeldRequestTests {
  private static let get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

  @Test func `a hang-up cancels the handler`() async throws {
    let gate = Gate()
    let started = Counter()
    let cancelled = Counter()
    let server = try HTTPServer(
      configuration: .patient,
      handler: ClosureHandler { _ in
        started.increment()
        if await !gate.pass() { cancelled.increment() }
        return HTTPResponse(status: 200)
      })
    let clients = try (0..<50).map { _ in try RawConnection(port: server.port) }
    for client in clients { try await client.send(Self.get) }
    await started.reaches(50)
    for client in clients[..<49] { client.close() }
    await cancelled.reaches(49)
    gate.open()
    #expect(try await clients[49].readAnswer().status == 200)
    #expect(cancelled.count == 49)
  }

  @Test func `a peer that hung up before its request was read is noticed too`() async throws {
    let gate = Gate()
    let cancelled = Counter()
    let server = try HTTPServer(
      handler: ClosureHandler { _ in
        if await !gate.pass() { cancelled.increment() }
        return HTTPResponse(status: 200)
      })
    let client = try RawConnection(port: server.port)
    try await client.send(Self.get)
    client.closeForWriting()
    await cancelled.reaches(1)
    _ = server
  }

  @Test func `stop returns although requests are held, streamed and half sent`() async throws {
    let gate = Gate()
    let started = Counter()
    let source = TestSource()
    let server = try HTTPServer(
      configuration: .patient,
      handler: ClosureHandler { request in
        if request.pathSegments == ["events"] { return HTTPResponse(status: 200, body: .source(source)) }
        started.increment()
        _ = await gate.pass()
        return HTTPResponse(status: 200)
      })
    let held = try (0..<20).map { _ in try RawConnection(port: server.port) }
    for client in held { try await client.send(Self.get) }
    let listener = try RawConnection(port: server.port)
    try await listener.send("GET /events HTTP/1.1\r\nHost: h\r\n\r\n")
    source.say("one")
    _ = try await listener.read(through: "one")
    let half = try RawConnection(port: server.port)
    try await half.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc")
    await started.reaches(20)
    try await blocking { server.stop() }
    for client in held {
      let answer = String(decoding: try await client.readToEnd(), as: UTF8.self)
      #expect(answer.isEmpty || answer.hasPrefix("HTTP/1.1 503"))
    }
    await source.detached.reaches(1)
    server.stop()
    #expect(throws: RawConnection.Failure.self) { try RawConnection(port: server.port) }
  }

  @Test func `an answer that can't be sent gives its source back`() async throws {
    let source = TestSource()
    let server = try HTTPServer(
      handler: ClosureHandler { _ in HTTPResponse(status: 200, headers: [("X-A", "line\nfeed")], body: .source(source))
      })
    let client = try RawConnection(port: server.port)
    try await client.send(Self.get)
    #expect(try await client.readAnswer().status == 500)
    await source.detached.reaches(1)
  }

  @Test func `a server that goes out of scope stops`() async throws {
    var server: HTTPServer? = try HTTPServer(handler: echo)
    let port = try #require(server?.port)
    server = nil
    #expect(throws: RawConnection.Failure.self) { try RawConnection(port: port) }
  }
}

/// A source whose pieces the test supplies.
final class TestSource: HTTPBodySource {
  private struct State {
    var pieces: [[UInt8]] = []
    var wake: (@Sendable () -> Void)?
    var hasEnded = false
  }
  private let state = Mutex(State())
  let attached = Counter()
  let detached = Counter()

  func say(_ text: String) {
    let wake = state.withLock { state in
      state.pieces.append(Array(text.utf8))
      return state.wake
    }
    wake?()
  }

  func end() {
    let wake = state.withLock { state in
      state.hasEnded = true
      return state.wake
    }
    wake?()
  }

  var waitingCount: Int { state.withLock { $0.pieces.count } }

  func attach(wake: @escaping @Sendable () -> Void) {
    state.withLock { $0.wake = wake }
    attached.increment()
  }

  func next() -> HTTPBodyPiece {
    state.withLock { state in
      if !state.pieces.isEmpty { return .bytes(state.pieces.removeFirst()) }
      return state.hasEnded ? .end : .nothingYet
    }
  }

  func detach() { detached.increment() }
}

struct StreamTests {
  @Test func `a stream's pieces arrive in order and then it ends`() async throws {
    let server = try HTTPServer(
      handler: ClosureHandler { _ in
        let (stream, continuation) = AsyncStream.makeStream(of: [UInt8].self)
        for index in 0..<500 { continuation.yield(Array("piece \(index);".utf8)) }
        continuation.yield([])
        continuation.finish()
        return HTTPResponse(status: 200, body: .stream(stream))
      })
    let client = try RawConnection(port: server.port)
    for _ in 0..<2 {
      try await client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
      #expect(try await client.readAnswer().text == (0..<500).map { "piece \($0);" }.joined())
    }
  }

  @Test func `an HTTP 1.0 client gets a stream up to the connection's end`() async throws {
    let server = try HTTPServer(
      handler: ClosureHandler { _ in
        HTTPResponse(
          status: 200,
          body: .stream(
            AsyncStream {
              $0.yield(Array("one".utf8)); $0.yield(Array("two".utf8)); $0.finish()
            }))
      })
    let client = try RawConnection(port: server.port)
    try await client.send("GET / HTTP/1.0\r\n\r\n")
    #expect(String(decoding: try await client.readToEnd(), as: UTF8.self).hasSuffix("\r\n\r\nonetwo"))
  }

  @Test func `a slow reader holds back the stream instead of filling memory, and its hang-up ends the iteration`()
    async throws
  {
    let produced = Counter()
    let ended = Counter()
    let server = try HTTPServer(
      handler: ClosureHandler { _ in
        let stream = AsyncStream<[UInt8]> {
          produced.increment()
          return [UInt8](repeating: 65, count: 65_536)
        } onCancel: {
          ended.increment()
        }
        return HTTPResponse(status: 200, body: .stream(stream))
      })
    let client = try RawConnection(port: server.port)
    client.shrinkReceiveBuffer()
    try await client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    await produced.reaches(2)
    // The kernel buffers some megabytes at most; a queue in the server would grow without limit.
    try await Task.sleep(for: .milliseconds(200))
    #expect(produced.count < 500)
    client.close()
    await ended.reaches(1)
    _ = server
  }

  @Test func `a source is asked again when it wakes the server, and never after the hang-up`() async throws {
    let source = TestSource()
    let server = try HTTPServer(handler: ClosureHandler { _ in HTTPResponse(status: 200, body: .source(source)) })
    let client = try RawConnection(port: server.port)
    try await client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    for index in 0..<200 {
      source.say("<\(index)>")
      _ = try await client.read(through: "<\(index)>")
    }
    client.close()
    await source.detached.reaches(1)
    source.say("lost")
    #expect(source.detached.count == 1)
    #expect(source.waitingCount == 1)
    _ = server
  }

  @Test func `a source that ends lets the connection live`() async throws {
    let source = TestSource()
    source.say("a")
    source.say("b")
    source.end()
    let server = try HTTPServer(handler: ClosureHandler { _ in HTTPResponse(status: 200, body: .source(source)) })
    let client = try RawConnection(port: server.port)
    try await client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(try await client.readAnswer().text == "ab")
    #expect(source.attached.count == 1)
    await source.detached.reaches(1)
    try await client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(try await client.readAnswer().text == "")
  }

  @Test func `a source answered to HEAD is given up without being asked`() async throws {
    let source = TestSource()
    let server = try HTTPServer(handler: ClosureHandler { _ in HTTPResponse(status: 200, body: .source(source)) })
    let client = try RawConnection(port: server.port)
    try await client.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(try await client.readAnswer(hasBody: false).status == 200)
    await source.detached.reaches(1)
    #expect(source.attached.count == 0)
    _ = server
  }

  @Test func `a thousand listeners are told`() async throws {
    let sources = Mutex<[TestSource]>([])
    let attached = Counter()
    let server = try HTTPServer(
      configuration: .patient,
      handler: ClosureHandler { _ in
        let source = TestSource()
        sources.withLock { $0.append(source) }
        attached.increment()
        return HTTPResponse(status: 200, body: .source(source))
      })
    let clients = try (0..<1000).map { _ in try RawConnection(port: server.port) }
    for client in clients { try await client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n") }
    await attached.reaches(1000)
    for round in 0..<3 { for source in sources.withLock({ $0 }) { source.say("<\(round)>") } }
    for client in clients { _ = try await client.read(through: "<2>") }
    #expect(server.connectionCount == 1000)
    withExtendedLifetime(clients) {}
    await server.drain(within: .seconds(20))
    #expect(server.connectionCount == 0)
  }
}
