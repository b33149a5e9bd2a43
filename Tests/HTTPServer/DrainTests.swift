import Gates
import HTTPServer
import Synchronization
import Testing

/// The orderly end of a server.
struct DrainTests {
  private static let get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

  @Test func `drain releases 200 held requests, closes idle connections and ends streams`() async throws {
    let gate = Gate()
    let started = Counter()
    let source = TestSource()
    let server = try HTTPServer(
      configuration: .patient,
      handler: ClosureHandler(release: { gate.open() }) { request in
        if request.pathSegments == ["events"] { return HTTPResponse(status: 200, body: .source(source)) }
        if request.pathSegments == ["hold"] {
          started.increment()
          _ = await gate.pass()
        }
        return HTTPResponse(status: 200, body: .bytes(Array("done".utf8)))
      })
    let held = try (0..<200).map { _ in try RawConnection(port: server.port) }
    for client in held { try await client.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n") }
    let idle = try (0..<20).map { _ in try RawConnection(port: server.port) }
    for client in idle {
      try await client.send(Self.get)
      #expect(try await client.readAnswer().status == 200)
    }
    let silent = try (0..<20).map { _ in try RawConnection(port: server.port) }
    let listener = try RawConnection(port: server.port)
    try await listener.send("GET /events HTTP/1.1\r\nHost: h\r\n\r\n")
    source.say("first")
    #expect(try await listener.read(through: "first").hasPrefix("HTTP/1.1 200"))
    source.say("second")
    await started.reaches(200)

    await server.drain(within: .seconds(20))
    #expect(server.connectionCount == 0)
    for client in held {
      let answer = try await client.readAnswer()
      #expect(answer.text == "done")
      #expect(answer.header("connection") == "close")
      #expect(try await client.readToEnd() == [])
    }
    for client in idle + silent { #expect(try await client.readToEnd() == []) }
    #expect(String(decoding: try await listener.readToEnd(), as: UTF8.self).contains("second"))
    #expect(throws: RawConnection.Failure.self) { try RawConnection(port: server.port) }
    server.stop()
  }

  @Test func `drain lets a request finish that takes its time`() async throws {
    let gate = Gate()
    let started = Counter()
    let server = try HTTPServer(
      handler: ClosureHandler { request in
        started.increment()
        return HTTPResponse(status: await gate.pass() ? 200 : 500, body: .bytes(request.body))
      })
    let client = try RawConnection(port: server.port)
    try await client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi")
    await started.reaches(1)
    async let drained: Void = server.drain(within: .seconds(20))
    gate.open()
    let answer = try await client.readAnswer()
    await drained
    #expect(answer.status == 200)
    #expect(answer.text == "hi")
  }

  @Test func `drain gives up on what does not end and cancels it`() async throws {
    let gate = Gate()
    let started = Counter()
    let cancelled = Counter()
    let server = try HTTPServer(
      handler: ClosureHandler { _ in
        started.increment()
        if await !gate.pass() { cancelled.increment() }
        return HTTPResponse(status: 200)
      })
    let client = try RawConnection(port: server.port)
    try await client.send(Self.get)
    await started.reaches(1)
    await server.drain(within: .milliseconds(50))
    await cancelled.reaches(1)
    let answer = try await client.readAnswer()
    #expect(answer.status == 503)
    #expect(answer.header("connection") == "close")
  }

  // The clients connect before the end begins: later, the port may belong to another test's server.

  @Test func `a drain while all threads are busy leaves the process alive`() async throws {
    for _ in 0..<20 {
      let server = try HTTPServer(configuration: .patient, handler: echo)
      let answered = Counter()
      let clients = try (0..<4).map { _ in
        let connection = try RawConnection(port: server.port)
        return Task {
          // Ends by an error when the server closes the connection.
          while true {
            try await connection.send(Self.get)
            _ = try await connection.readAnswer()
            answered.increment()
          }
        }
      }
      await answered.reaches(20)
      await server.drain(within: .seconds(20))
      #expect(server.connectionCount == 0)
      for client in clients { await #expect(throws: RawConnection.Failure.self) { try await client.value } }
      server.stop()
    }
  }

  @Test func `a stop while clients send what the library refuses leaves the process alive`() async throws {
    for _ in 0..<12 {
      let server = try HTTPServer(configuration: .patient, handler: echo)
      let refused = Counter()
      let clients = try (0..<4).map { _ in
        let connections = try (0..<8).map { _ in try RawConnection(port: server.port) }
        return Task {
          for connection in connections {
            try await connection.send("GET / HTTP/1.1\r\nno header\r\n\r\n")
            #expect(try await connection.readAnswer().status == 400)
            refused.increment()
          }
        }
      }
      await refused.reaches(8)
      try await blocking { server.stop() }
      // The rest ends by an error.
      for client in clients { _ = await client.result }
      #expect(refused.count >= 8)
    }
  }
}
