import Gates
import HTTPServer
import Synchronization
import Testing

/// Limits for one client's share of a server, and for slow clients.
struct FairnessTests {
  private static let request = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

  private func server(_ handler: any HTTPHandler = echo, _ configure: (inout HTTPServer.Configuration) -> Void) throws
    -> HTTPServer
  {
    var configuration = HTTPServer.Configuration()
    configure(&configuration)
    return try HTTPServer(configuration: configuration, handler: handler)
  }

  // MARK: Connections

  @Test func `an address has its connections to the last, one more is answered 429 at once, and others come in`()
    async throws
  {
    let told = Mutex<[String]>([])
    let server = try server { configuration in
      configuration.connectionsPerClient = 3
      configuration.observe = { refusal, address in told.withLock { $0.append("\(refusal.rawValue) \(address)") } }
    }
    var own = try (0..<3).map { _ in try RawConnection(port: server.port) }
    for connection in own {
      try await connection.send(Self.request)
      #expect(try await connection.readAnswer().status == 200)
    }
    for _ in 0..<20 {
      // Nothing is sent: a client that only connects gets an answer, too.
      let surplus = try RawConnection(port: server.port)
      let answer = try await surplus.readAnswer()
      #expect(
        answer.status == 429 && answer.header("connection") == "close" && answer.text.contains("too many connections"))
    }
    #expect(server.refusals == [.connections: 20])
    #expect(told.withLock { $0 } == Array(repeating: "connections 127.0.0.1", count: 20))
    let other = try RawConnection(port: server.port, from: 0x7f00_0002)
    try await other.send(Self.request)
    #expect(try await other.readAnswer().status == 200)
    own.removeLast()
    while server.connectionCount > 3 { try await Task.sleep(for: .milliseconds(5)) }
    let next = try RawConnection(port: server.port)
    try await next.send(Self.request)
    #expect(try await next.readAnswer().status == 200)
  }

  @Test func `a flood of one address leaves all places but an eighth to others`() async throws {
    let server = try server { $0.connectionLimit = 160 }
    var flood: [RawConnection] = []
    for _ in 0..<400 { flood.append(try RawConnection(port: server.port)) }
    let other = try RawConnection(port: server.port, from: 0x7f00_0002)
    try await other.send(Self.request)
    #expect(try await other.readAnswer().status == 200)
    while server.refusals[.connections] ?? 0 < 380 { try await Task.sleep(for: .milliseconds(5)) }
    #expect(server.refusals == [.connections: 380])
    #expect(server.connectionCount <= 21 + 128)
  }

  @Test
  func
    `an address that goes on connecting is answered 256 times a second, then closed at once, and others come in`()
    async throws
  {
    let server = try server { configuration in configuration.connectionsPerClient = 1 }
    let own = try RawConnection(port: server.port)
    try await own.send(Self.request)
    #expect(try await own.readAnswer().status == 200)
    var (answeredCount, cutCount) = (0, 0)
    let start = ContinuousClock.now
    // Opens more connections than the server refuses with an answer in a second, even on a slow machine.
    while cutCount == 0, ContinuousClock.now - start < .seconds(30) {
      let surplus = try (0..<600).map { _ in try RawConnection(port: server.port) }
      for connection in surplus {
        // Dropped because a connection that is closed has no answer.
        if let answer = try? await connection.readAnswer() {
          #expect(answer.status == 429)
          answeredCount += 1
        } else {
          cutCount += 1
        }
      }
    }
    #expect(answeredCount >= 256 && cutCount > 0)
    #expect(server.refusals == [.connections: answeredCount + cutCount])
    let other = try RawConnection(port: server.port, from: 0x7f00_0002)
    try await other.send(Self.request)
    #expect(try await other.readAnswer().status == 200)
  }

  @Test func `a trusted proxy has any number of connections, and each of its clients so many requests`() async throws {
    let gate = Gate()
    let handler = ClosureHandler { _ in
      _ = await gate.pass()
      return HTTPResponse(status: 200)
    }
    let server = try server(handler) { configuration in
      configuration.connectionsPerClient = 2
      configuration.trustedProxies = NetworkList("127.0.0.1") ?? NetworkList()
    }
    func send(_ client: String) async throws -> RawConnection {
      let connection = try RawConnection(port: server.port)
      try await connection.send("GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: \(client)\r\n\r\n")
      return connection
    }
    let held = [try await send("198.51.100.1"), try await send("198.51.100.1"), try await send("198.51.100.2")]
    while gate.waitingCount < 3 { try await Task.sleep(for: .milliseconds(2)) }
    #expect(try await send("198.51.100.1").readAnswer().status == 429)
    // A client of IPv6 can choose among 64 bits of addresses.
    let six = [try await send("2001:db8::1"), try await send("2001:db8::2")]
    while gate.waitingCount < 5 { try await Task.sleep(for: .milliseconds(2)) }
    #expect(try await send("2001:db8::ffff").readAnswer().status == 429)
    gate.open()
    for connection in held + six { #expect(try await connection.readAnswer().status == 200) }
    #expect(try await send("198.51.100.1").readAnswer().status == 200)
    #expect(server.refusals == [.connections: 2])
  }

  @Test func `idle connections make room when nearly all places are taken, those first that are idle longest`()
    async throws
  {
    let server = try server { configuration in
      configuration.connectionLimit = 16
      configuration.headerDeadline = .seconds(2)
      configuration.pressureIdleLimit = .milliseconds(1)
    }
    var idle: [RawConnection] = []
    for _ in 0..<14 {
      let connection = try RawConnection(port: server.port)
      try await connection.send(Self.request)
      #expect(try await connection.readAnswer().status == 200)
      idle.append(connection)
    }
    let last = try RawConnection(port: server.port)
    try await last.send(Self.request)
    #expect(try await last.readAnswer().status == 200)
    #expect(try await idle[0].readToEnd().isEmpty)
    #expect(server.pressedOutCount == 1)
  }

  // MARK: Bodies

  @Test func `bodies of one client leave room for others, wherever its user's devices are`() async throws {
    let gate = Gate()
    let handler = PartyHandler(gate: gate)
    let server = try server(handler) { configuration in
      configuration.bodyByteLimit = 1000
      configuration.totalBodyByteLimit = 4500
    }
    func send(_ party: String, from address: UInt32, _ count: Int = 1000) async throws -> RawConnection {
      let connection = try RawConnection(port: server.port, from: address)
      try await connection.send(
        "POST /\(party) HTTP/1.1\r\nHost: h\r\nContent-Length: \(count)\r\n\r\n" + String(repeating: "x", count: count))
      return connection
    }
    var held = [try await send("a", from: 0x7f00_0001), try await send("a", from: 0x7f00_0002)]
    while gate.waitingCount < 2 { try await Task.sleep(for: .milliseconds(2)) }
    #expect(server.heldByteCounts.bodies == 2000)
    #expect(try await send("a", from: 0x7f00_0003).readAnswer().status == 429)
    held += [try await send("b", from: 0x7f00_0003), try await send("c", from: 0x7f00_0003)]
    while gate.waitingCount < 4 { try await Task.sleep(for: .milliseconds(2)) }
    #expect(try await send("d", from: 0x7f00_0003, 1).readAnswer().status == 429, "the address has its share")
    #expect(try await send("d", from: 0x7f00_0004).readAnswer().status == 503)
    #expect(server.refusals == [.clientBodies: 2, .allBodies: 1])
    gate.open()
    for connection in held { #expect(try await connection.readAnswer().status == 200) }
    #expect(try await send("a", from: 0x7f00_0003).readAnswer().status == 200)
    #expect(server.heldByteCounts.bodies == 0)
  }

  @Test func `a body that begins fast and then stands still is cut off`() async throws {
    let aborted = Counter()
    let server = try server { configuration in
      configuration.headerDeadline = .seconds(2)
      configuration.paceStretch = .milliseconds(300)
      configuration.slowestBodyBytesPerSecond = 10_000
    }
    let client = try RawConnection(port: server.port)
    // First the bytes that are due within 30 s, then single bytes now and then.
    try await client.send(
      "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 600000\r\n\r\n" + String(repeating: "x", count: 300_000))
    await #expect(throws: RawConnection.Failure.self) {
      for _ in 0..<400 {
        try await client.send("x")
        try await Task.sleep(for: .milliseconds(25))
      }
      aborted.increment()
    }
    #expect(aborted.count == 0)
    while server.heldByteCounts.bodies > 0 { try await Task.sleep(for: .milliseconds(5)) }
  }

  @Test func `a body that keeps the pace arrives, however long it is`() async throws {
    let server = try server { configuration in
      configuration.headerDeadline = .seconds(30)
      configuration.paceStretch = .seconds(6)
      configuration.slowestBodyBytesPerSecond = 160
    }
    let client = try RawConnection(port: server.port)
    try await client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 14000\r\n\r\n")
    // Longer than one stretch. Far more bytes than the pace asks for, because a busy machine delays some of them.
    try await client.sendSteadily(count: 14, of: 1000, pause: 500)
    #expect(try await client.readAnswer().status == 200)
  }

  // MARK: Asking first

  @Test(arguments: [true, false]) func `a body waits unread until its handler knows whose it is`(isKnown: Bool)
    async throws
  {
    let gate = Gate()
    let handler = AskingHandler(
      gate: gate,
      intake: isKnown
        ? .collect(byteLimit: 200_000) : .refuse(HTTPResponse(status: 401, body: .bytes(Array("who".utf8)))))
    let server = try server(handler) { _ in }
    let client = try RawConnection(port: server.port)
    try await client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n")
    while gate.waitingCount < 1 { try await Task.sleep(for: .milliseconds(2)) }
    try await client.send(String(repeating: "x", count: 100_000))
    #expect(server.heldByteCounts.bodies == 0 && server.traffic.received == 0)
    gate.open()
    let answer = try await client.readAnswer()
    #expect(answer.status == (isKnown ? 200 : 401) && answer.text == (isKnown ? "100000" : "who"))
    #expect(answer.header("connection") == (isKnown ? nil : "close"))
    let chunked = try RawConnection(port: server.port)
    try await chunked.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    #expect(try await chunked.readAnswer().text == (isKnown ? "3" : "who"))
    for body in ["Content-Length: 0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"] {
      let empty = try RawConnection(port: server.port)
      try await empty.send("POST / HTTP/1.1\r\nHost: h\r\n\(body)")
      #expect(try await empty.readAnswer().text == (isKnown ? "0" : "who"))
    }
    let large = try RawConnection(port: server.port)
    try await large.send(
      "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 200001\r\n\r\n" + String(repeating: "x", count: 200_001))
    #expect(try await large.readAnswer().status == (isKnown ? 413 : 401))
  }

  @Test func `a client that hangs up while it is asked about, and a server that stops, leave nothing behind`()
    async throws
  {
    let gate = Gate()
    let server = try server(AskingHandler(gate: gate, intake: .collect())) { _ in }
    let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n"
    var gone: RawConnection? = try RawConnection(port: server.port)
    try await gone?.send(head)
    while gate.waitingCount < 1 { try await Task.sleep(for: .milliseconds(2)) }
    gone?.close()
    gone = nil
    while server.connectionCount > 0 || gate.waitingCount > 0 { try await Task.sleep(for: .milliseconds(5)) }
    let stays = try RawConnection(port: server.port)
    try await stays.send(head)
    while gate.waitingCount < 1 { try await Task.sleep(for: .milliseconds(2)) }
    server.stop()
    #expect(try await stays.readToEnd().isEmpty)
  }

  // MARK: Answers

  @Test
  func
    `answers that are not taken are bounded for each client and together, and given up after a while`()
    async throws
  {
    let server = try server(
      ClosureHandler { request in
        var response = HTTPResponse(status: 200, body: .bytes([UInt8](repeating: 65, count: 12_000_000)))
        response.party = request.pathSegments.first
        return response
      }
    ) { configuration in
      configuration.answerByteLimit = 25_000_000
      configuration.totalAnswerByteLimit = 40_000_000
      configuration.headerDeadline = .seconds(2)
      configuration.paceStretch = .seconds(7)
      configuration.slowestAnswerBytesPerSecond = 1_000_000_000
    }
    let slow = [try await server.slowReader(of: "a"), try await server.slowReader(of: "a")]
    try await server.holdsAnswers(of: 24_000_000)
    #expect(try await server.slowReader(of: "a").readAnswer().status == 429)
    let other = try await server.slowReader(of: "b")
    try await server.holdsAnswers(of: 36_000_000)
    #expect(try await server.slowReader(of: "c").readAnswer().status == 503)
    #expect(server.refusals == [.clientAnswers: 1, .allAnswers: 1])
    // Answers that nobody reads are given up: their memory is released and their connections are cut.
    try await server.holdsAnswers(of: 0)
    for connection in slow + [other] {
      await #expect(throws: RawConnection.Failure.self) { _ = try await connection.readAnswer() }
    }
    #expect(try await server.slowReader(of: "c").readAnswer().body.count == 12_000_000)
  }

  @Test func `a stream that nobody reads ends, and costs no more than a piece`() async throws {
    let source = EndlessSource()
    let server = try server(ClosureHandler { _ in HTTPResponse(status: 200, body: .source(source)) }) {
      $0.idleLimit = .seconds(1)
    }
    let client = try RawConnection(port: server.port)
    client.shrinkReceiveBuffer()
    try await client.send(Self.request)
    await source.detached.reaches(1)
    while server.connectionCount > 0 { try await Task.sleep(for: .milliseconds(5)) }
  }

  // MARK: Headers

  @Test func `headers and parameters that are as many as may be are read at once, one more is refused`() async throws {
    let server = try server { _ in }
    let names = (0..<60).map { "x-\($0): 1\r\n" }.joined()
    let client = try RawConnection(port: server.port)
    try await client.send(
      "GET /?\((0..<60).map { "q\($0)=1" }.joined(separator: "&")) HTTP/1.1\r\nHost: h\r\n\(names)\r\n")
    #expect(try await client.readAnswer().text.split(separator: "\n").count == 121)
    let flood = try RawConnection(port: server.port)
    try await flood.send("GET / HTTP/1.1\r\nHost: h\r\n\((0..<3000).map { "x\($0):\r\n" }.joined())\r\n")
    #expect(try await flood.readAnswer().status == 431)
  }

  @Test func `headers of a later request have a deadline, too`() async throws {
    let server = try server { configuration in
      configuration.headerDeadline = .milliseconds(300)
      configuration.idleLimit = .seconds(1)
    }
    let client = try RawConnection(port: server.port)
    try await client.send(Self.request)
    #expect(try await client.readAnswer().status == 200)
    await #expect(throws: RawConnection.Failure.self) {
      try await client.send("GET / HTTP/1.1\r\n")
      for index in 0..<400 {
        try await client.send("x-\(index): 1\r\n")
        try await Task.sleep(for: .milliseconds(25))
      }
      _ = try await client.readAnswer()
    }
  }
}

/// Uses the first path segment as the party, and waits at a gate.
private struct PartyHandler: HTTPHandler {
  let gate: Gate

  func respond(to request: HTTPRequest) async -> HTTPResponse {
    _ = await gate.pass()
    return HTTPResponse(status: 200)
  }
  func intake(of request: HTTPRequest) -> HTTPBodyIntake { .collect(party: request.pathSegments.first) }
  func refusal(status: Int, reason: String) -> HTTPResponse {
    HTTPResponse(status: status, body: .bytes(Array(reason.utf8)))
  }
}

/// Decides about a body when its gate opens.
private struct AskingHandler: HTTPHandler {
  let gate: Gate
  let intake: HTTPBodyIntake

  func respond(to request: HTTPRequest) async -> HTTPResponse {
    HTTPResponse(status: 200, body: .bytes(Array("\(request.body.count)".utf8)))
  }
  func intake(of request: HTTPRequest) -> HTTPBodyIntake {
    .ask {
      _ = await gate.pass()
      return intake
    }
  }
  func refusal(status: Int, reason: String) -> HTTPResponse {
    HTTPResponse(status: status, body: .bytes(Array(reason.utf8)))
  }
}

/// A source without an end.
private final class EndlessSource: HTTPBodySource {
  let detached = Counter()
  func attach(wake: @escaping @Sendable () -> Void) {}
  func next() -> HTTPBodyPiece { .bytes([UInt8](repeating: 65, count: 65_536)) }
  func detach() { detached.increment() }
}
