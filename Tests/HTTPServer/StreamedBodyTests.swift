import HTTPServer
import Synchronization
import Testing

/// A sink that accepts as much as the test allows.
final class TestSink: HTTPBodySink {
  let byteLimit: Int
  /// Without room it asks for a pause after every piece.
  private let hasRoom: Mutex<Bool>
  private let bytes = Mutex<[UInt8]>([])
  private let resume = Mutex<(@Sendable () -> Void)?>(nil)
  let pieces = Counter()
  let aborts = Counter()

  init(byteLimit: Int = 1_000_000, hasRoom: Bool = true) {
    self.byteLimit = byteLimit
    self.hasRoom = Mutex(hasRoom)
  }

  func receive(_ piece: UnsafeRawBufferPointer, resume: @escaping @Sendable () -> Void) -> Bool {
    bytes.withLock { $0.append(contentsOf: piece) }
    defer { pieces.increment() }
    return hasRoom.withLock { hasRoom in
      if !hasRoom { self.resume.withLock { $0 = resume } }
      return hasRoom
    }
  }

  func abort() { aborts.increment() }

  /// Lets the connection continue, by one piece or for good.
  func goOn(forGood: Bool) {
    if forGood { hasRoom.withLock { $0 = true } }
    let resume = resume.withLock { resume in
      defer { resume = nil }
      return resume
    }
    resume?()
  }

  var content: [UInt8] { bytes.withLock { $0 } }
}

struct StreamingHandler: HTTPHandler {
  let sink: TestSink

  func intake(of request: HTTPRequest) -> HTTPBodyIntake {
    switch request.pathSegments.first {
    case "stream": .stream(sink)
    case "refuse": .refuse(HTTPResponse(status: 403, headers: [("X-Why", "altered")], body: .bytes(Array("no".utf8))))
    default: .collect()
    }
  }

  func respond(to request: HTTPRequest) async -> HTTPResponse {
    let sink = request.sink as? TestSink
    let text = "\(sink.map { "streamed \($0.content.count)" } ?? "collected") \(request.body.count)"
    return HTTPResponse(status: 200, body: .bytes(Array(text.utf8)))
  }

  func refusal(status: Int, reason: String) -> HTTPResponse {
    HTTPResponse(status: status, body: .bytes(Array("refused: \(reason)".utf8)))
  }
}

struct StreamedBodyTests {
  private static func server(_ sink: TestSink, _ change: (inout HTTPServer.Configuration) -> Void = { _ in }) throws
    -> HTTPServer
  {
    var configuration = HTTPServer.Configuration()
    configuration.bodyByteLimit = 1000
    configuration.totalBodyByteLimit = 1000
    change(&configuration)
    return try HTTPServer(configuration: configuration, handler: StreamingHandler(sink: sink))
  }

  private static func head(_ path: String, _ headers: String...) -> String {
    "POST \(path) HTTP/1.1\r\nHost: h\r\n" + headers.map { $0 + "\r\n" }.joined() + "\r\n"
  }

  private static func content(_ count: Int) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 / 251) }
  }

  @Test(arguments: [0, 1, 5000, 1_000_000])
  func `a body goes to its sink, byte by byte as it was sent, whatever the server would collect`(_ count: Int)
    async throws
  {
    let sink = TestSink()
    let server = try Self.server(sink)
    let client = try RawConnection(port: server.port)
    let content = Self.content(count)
    try await client.send(Array(Self.head("/stream", "Content-Length: \(count)").utf8) + content)
    #expect(try await client.readAnswer().text == "streamed \(count) 0")
    #expect(sink.content == content)
    // The connection stays usable.
    try await client.send(Self.head("/other", "Content-Length: 3") + "abc")
    #expect(try await client.readAnswer().text == "collected 3")
    #expect(sink.aborts.count == 0)
  }

  @Test func `a chunked body and one announced by Expect arrive, too`() async throws {
    let sink = TestSink()
    let server = try Self.server(sink)
    let client = try RawConnection(port: server.port)
    try await client.send(
      Self.head("/stream", "Transfer-Encoding: chunked") + "3\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n")
    #expect(try await client.readAnswer().text == "streamed 19 0")
    try await client.send(Self.head("/stream", "Content-Length: 5", "Expect: 100-continue"))
    #expect(try await client.readHead().status == 100)
    try await client.send("hello")
    #expect(try await client.readAnswer().text == "streamed 24 0")
  }

  @Test func `nothing is read while the sink has no room`() async throws {
    let sink = TestSink(hasRoom: false)
    let server = try Self.server(sink)
    let client = try RawConnection(port: server.port)
    let content = Self.content(600_000)
    let sending = Task {
      try await client.send(Array(Self.head("/stream", "Content-Length: \(content.count)").utf8) + content)
    }
    for piece in 1...20 {
      await sink.pieces.reaches(piece)
      // Exactly one piece, however long the test waits; the next comes after `goOn`.
      #expect(sink.pieces.count == piece)
      #expect(sink.content.count <= piece * 16 * 1024)
      sink.goOn(forGood: false)
    }
    sink.goOn(forGood: true)
    try await sending.value
    #expect(try await client.readAnswer().text == "streamed 600000 0")
    #expect(sink.content == content)
  }

  @Test func `room that comes while the piece is still handed over is not missed`() async throws {
    final class Eager: HTTPBodySink {
      let byteLimit = 10_000_000
      let count = Atomic(0)
      func receive(_ piece: UnsafeRawBufferPointer, resume: @escaping @Sendable () -> Void) -> Bool {
        count.add(piece.count, ordering: .relaxed)
        Task { resume() }
        return false
      }
      func abort() {}
    }
    struct Handler: HTTPHandler {
      let sink = Eager()
      func intake(of request: HTTPRequest) -> HTTPBodyIntake { .stream(sink) }
      func respond(to request: HTTPRequest) async -> HTTPResponse { HTTPResponse(status: 200) }
      func refusal(status: Int, reason: String) -> HTTPResponse { HTTPResponse(status: status) }
    }
    let handler = Handler()
    let server = try HTTPServer(handler: handler)
    let client = try RawConnection(port: server.port)
    try await client.send(
      Array(Self.head("/", "Content-Length: 3000000").utf8) + [UInt8](repeating: 1, count: 3_000_000))
    #expect(try await client.readAnswer().status == 200)
    #expect(handler.sink.count.load(ordering: .relaxed) == 3_000_000)
  }

  @Test func `a body over the sink's limit is refused before it is read when its length says so, and its sink told`()
    async throws
  {
    let sink = TestSink(byteLimit: 10)
    let server = try Self.server(sink)
    let client = try RawConnection(port: server.port)
    try await client.send(Self.head("/stream", "Content-Length: 11"))
    let answer = try await client.readAnswer()
    #expect(answer.status == 413)
    #expect(answer.text == "refused: The request body has more than 10 bytes.")
    await sink.aborts.reaches(1)
    #expect(sink.content == [])
  }

  @Test func `a chunked body over the sink's limit is answered at its end, and its sink told once`() async throws {
    let sink = TestSink(byteLimit: 10)
    let server = try Self.server(sink)
    let client = try RawConnection(port: server.port)
    try await client.send(
      Self.head("/stream", "Transfer-Encoding: chunked") + "8\r\n01234567\r\n8\r\n01234567\r\n0\r\n\r\n")
    #expect(try await client.readAnswer().status == 413)
    await sink.aborts.reaches(1)
    _ = try await client.readToEnd()
    #expect(sink.aborts.count == 1)
  }

  @Test(arguments: [true, false]) func `a client that hangs up in the middle aborts its sink`(hasRoom: Bool)
    async throws
  {
    let sink = TestSink(hasRoom: hasRoom)
    let server = try Self.server(sink)
    let client = try RawConnection(port: server.port)
    try await client.send(Array(Self.head("/stream", "Content-Length: 500000").utf8) + Self.content(1000))
    await sink.pieces.reaches(1)
    client.close()
    sink.goOn(forGood: true)
    await sink.aborts.reaches(1)
    #expect(server.connectionCount <= 1)
  }

  @Test func `a body that comes too slowly aborts its sink`() async throws {
    let sink = TestSink()
    let server = try Self.server(sink) { configuration in
      configuration.idleLimit = .seconds(1)
    }
    let client = try RawConnection(port: server.port)
    try await client.send(Self.head("/stream", "Content-Length: 500") + "0123")
    await sink.aborts.reaches(1)
    #expect(sink.content.count == 4)
  }

  @Test func `a refused intake is answered without waiting for the body`() async throws {
    let sink = TestSink()
    let server = try Self.server(sink)
    let client = try RawConnection(port: server.port)
    try await client.send(Self.head("/refuse", "Content-Length: 500", "Expect: 100-continue"))
    let answer = try await client.readAnswer()
    #expect(answer.status == 403)
    #expect(answer.header("x-why") == "altered")
    #expect(answer.header("connection") == "close")
    #expect(answer.text == "no")
  }

  @Test(.timeLimit(.minutes(1)))
  func `content of a known length that nobody reads is given up, also when its pieces come from elsewhere`()
    async throws
  {
    var configuration = HTTPServer.Configuration()
    configuration.headerDeadline = .seconds(2)
    configuration.idleLimit = .seconds(600)
    configuration.paceStretch = .seconds(1)
    configuration.slowestAnswerBytesPerSecond = 1_000_000_000
    let server = try HTTPServer(
      configuration: configuration,
      handler: ClosureHandler { _ in
        let pieces = AsyncStream { Task.isCancelled ? nil : [UInt8](repeating: 65, count: 65_536) }
        return HTTPResponse(status: 200, body: .pieces(pieces, byteCount: 50_000_000))
      })
    let client = try RawConnection(port: server.port)
    client.shrinkReceiveBuffer()
    try await client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(try await client.readHead().status == 200)
    while server.connectionCount > 0 { try await Task.sleep(for: .milliseconds(5)) }
    server.stop()
  }

  @Test func `a server stops while a sink holds a body up`() async throws {
    let sink = TestSink(hasRoom: false)
    let server = try Self.server(sink)
    let client = try RawConnection(port: server.port)
    try await client.send(Array(Self.head("/stream", "Content-Length: 500000").utf8) + Self.content(1000))
    await sink.pieces.reaches(1)
    try await blocking { server.stop() }
    await sink.aborts.reaches(1)
    // A call that comes too late has no effect.
    sink.goOn(forGood: true)
  }
}
