// Handlers that start on the server's own thread and continue elsewhere.

import Dispatch
import Gates
import HTTPServer
import Synchronization
import Testing

/// An executor that counts its jobs.
private final class CountingExecutor: TaskExecutor {
  let steps = Counter()

  func enqueue(_ job: consuming ExecutorJob) {
    steps.increment()
    globalConcurrentExecutor.enqueue(job)
  }
}

/// Blocks a thread, which no real handler may do.
private final class Barrier: Sendable {
  private let semaphore = DispatchSemaphore(value: 0)
  func wait() { semaphore.wait() }
  func open() { semaphore.signal() }
}

struct ImmediateHandlerTests {
  private static let get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

  @Test func `a handler that does not wait answers without a step elsewhere, request after request and pipelined`()
    async throws
  {
    let executor = CountingExecutor()
    let server = try HTTPServer(
      handler: ClosureHandler(executor: executor) {
        HTTPResponse(status: 200, body: .bytes($0.body + Array($0.target.utf8)))
      })
    let client = try RawConnection(port: server.port)
    for number in 0..<3 {
      try await client.send("POST /\(number) HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab")
      #expect(try await client.readAnswer().body == Array("ab/\(number)".utf8))
    }
    try await client.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(try await client.readAnswer().body == Array("/a".utf8))
    #expect(try await client.readAnswer().body == Array("/b".utf8))
    #expect(executor.steps.count == 0)
    server.stop()
  }

  @Test func `a handler that waits goes on where it is told, and 200 of them side by side are answered`() async throws {
    let (executor, gate) = (CountingExecutor(), Gate())
    var configuration = HTTPServer.Configuration.patient
    configuration.threadCount = 1
    let server = try HTTPServer(
      configuration: configuration,
      handler: ClosureHandler(executor: executor) { request in
        if request.target == "/now" { return HTTPResponse(status: 204) }
        return HTTPResponse(status: await gate.pass() ? 200 : 500)
      })
    let clients = try (0..<200).map { _ in try RawConnection(port: server.port) }
    for client in clients { try await client.send(Self.get) }
    while gate.waitingCount < 200 { try await Task.sleep(for: .milliseconds(1)) }
    // A handler that passes the gate before its task is suspended continues on the server's thread. That thread has
    // left the last such handler once it answers this request.
    let last = try RawConnection(port: server.port)
    try await last.send("GET /now HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(try await last.readAnswer().status == 204)
    gate.open()
    for client in clients { #expect(try await client.readAnswer().status == 200) }
    #expect(executor.steps.count >= 200)
    server.stop()
  }

  @Test func `a hang-up cancels a handler that waits`() async throws {
    let (gate, cancelled) = (Gate(), Counter())
    let server = try HTTPServer(
      handler: ClosureHandler(executor: CountingExecutor()) { _ in
        if await !gate.pass() { cancelled.increment() }
        return HTTPResponse(status: 200)
      })
    for _ in 0..<20 {
      let client = try RawConnection(port: server.port)
      try await client.send(Self.get)
      client.close()
    }
    await cancelled.reaches(20)
    server.stop()
  }

  @Test func `a request given up while its handler begins is answered 503, and the handler is cancelled`() async throws
  {
    let (gate, started, cancelled, barrier) = (Gate(), Counter(), Counter(), Barrier())
    let server = try HTTPServer(
      handler: ClosureHandler(executor: CountingExecutor()) { _ in
        started.increment()
        barrier.wait()
        if await !gate.pass() { cancelled.increment() }
        return HTTPResponse(status: 200)
      })
    let client = try RawConnection(port: server.port)
    try await client.send(Self.get)
    await started.reaches(1)
    await server.drain(within: .zero)
    barrier.open()
    #expect(try await client.readAnswer().status == 503)
    await cancelled.reaches(1)
    server.stop()
  }

  @Test func `a stop ends what waits and what begins`() async throws {
    let (gate, started, cancelled, barrier) = (Gate(), Counter(), Counter(), Barrier())
    let server = try HTTPServer(
      configuration: .patient,
      handler: ClosureHandler(executor: CountingExecutor()) { request in
        started.increment()
        if request.target == "/begins" { barrier.wait() }
        if await !gate.pass() { cancelled.increment() }
        return HTTPResponse(status: 200)
      })
    let waiting = try (0..<20).map { _ in try RawConnection(port: server.port) }
    for client in waiting { try await client.send(Self.get) }
    await started.reaches(20)
    let beginning = try RawConnection(port: server.port)
    try await beginning.send("GET /begins HTTP/1.1\r\nHost: h\r\n\r\n")
    await started.reaches(21)
    async let stopped: Void = blocking { server.stop() }
    barrier.open()
    try await stopped
    await cancelled.reaches(21)
  }
}
