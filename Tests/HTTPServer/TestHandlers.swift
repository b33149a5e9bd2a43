// Handlers for tests, and the signals that control them.

import HTTPServer
import Synchronization

struct ClosureHandler: HTTPHandler {
  var release: @Sendable () -> Void = {}
  var executor: (any TaskExecutor)?
  var respond: @Sendable (HTTPRequest) async -> HTTPResponse

  func respond(to request: HTTPRequest) async -> HTTPResponse { await respond(request) }
  func refusal(status: Int, reason: String) -> HTTPResponse {
    HTTPResponse(
      status: status, headers: [("Content-Type", "application/json")],
      body: .bytes(Array("{\"refused\":\"\(reason)\"}".utf8)))
  }
  func releaseHeldRequests() { release() }
  func executor(for request: HTTPRequest) -> (any TaskExecutor)? { executor }
}

extension HTTPServer.Configuration {
  /// For tests that open many connections before they use them, which takes long on a busy machine.
  static var patient: Self {
    var configuration = Self()
    configuration.headerDeadline = .seconds(600)
    configuration.idleLimit = .seconds(600)
    return configuration
  }
}

extension HTTPServer {
  /// Asks for the path of a party, and leaves most of the answer to wait for its reader.
  func slowReader(of party: String) async throws -> RawConnection {
    let connection = try RawConnection(port: port)
    connection.shrinkReceiveBuffer()
    try await connection.send("GET /\(party) HTTP/1.1\r\nHost: h\r\n\r\n")
    return connection
  }

  /// Returns once answers that wait for their readers take this many bytes.
  func holdsAnswers(of byteCount: Int) async throws {
    while heldByteCounts.answers != byteCount { try await Task.sleep(for: .milliseconds(2)) }
  }
}

/// Answers with the parsed request, one item a line.
let echo = ClosureHandler { request in
  var lines = ["\(request.method.rawValue) \(request.pathSegments)"]
  lines += request.query.map { "\($0.name)=\($0.value)" }
  lines += request.headers.filter { $0.name.hasPrefix("x-") }.map { "\($0.name): \($0.value)" }
  lines.append(String(decoding: request.body, as: UTF8.self))
  return HTTPResponse(status: 200, body: .bytes(Array(lines.joined(separator: "\n").utf8)))
}

/// A counter on which tests can wait.
final class Counter: Sendable {
  private struct State {
    var count = 0
    var waiting: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []
  }
  private let state = Mutex(State())

  var count: Int { state.withLock { $0.count } }

  func increment() {
    let reached = state.withLock { state in
      state.count += 1
      let reached = state.waiting.filter { $0.count <= state.count }
      state.waiting.removeAll { $0.count <= state.count }
      return reached
    }
    for waiter in reached { waiter.continuation.resume() }
  }

  func reaches(_ count: Int) async {
    await withCheckedContinuation { continuation in
      let isReached = state.withLock { state in
        if state.count >= count { return true }
        state.waiting.append((count, continuation))
        return false
      }
      if isReached { continuation.resume() }
    }
  }
}
