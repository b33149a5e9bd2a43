// Requests of many connections that a thread of the server finds at once.

import Dispatch
import Testing

@testable import HTTPServer

struct BurstTests {
  private static let get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

  /// The library reads 128 events at a time.
  @Test(arguments: [126, 127, 128, 129, 254, 256])
  func `requests that come together while the thread is busy are answered, however many they are`(count: Int)
    async throws
  {
    let (started, end) = (Counter(), DispatchSemaphore(value: 0))
    var configuration = HTTPServer.Configuration.patient
    configuration.threadCount = 1
    configuration.connectionsPerClient = 0
    let server = try HTTPServer(
      configuration: configuration,
      handler: ClosureHandler(executor: globalConcurrentExecutor) { request in
        if request.target == "/busy" {
          started.increment()
          end.wait()
        }
        return HTTPResponse(status: 204)
      })
    let clients = try (0..<count).map { _ in try RawConnection(port: server.port) }
    for client in clients {
      try await client.send(Self.get)
      #expect(try await client.readAnswer().status == 204)
    }
    let busy = try RawConnection(port: server.port)
    try await busy.send("GET /busy HTTP/1.1\r\nHost: h\r\n\r\n")
    await started.reaches(1)
    for client in clients { try await client.send(Self.get) }
    end.signal()
    for client in [busy] + clients { #expect(try await client.readAnswer().status == 204) }
    server.stop()
  }

  @Test func `however many connections end, the server looks for late ones once a tick`() async throws {
    let start = ContinuousClock.now
    let server = try HTTPServer(configuration: .patient, handler: echo)
    let stays = try RawConnection(port: server.port)
    for _ in 0..<300 {
      let client = try RawConnection(port: server.port)
      try await client.send(Self.get)
      #expect(try await client.readAnswer().status == 200)
      client.close()
    }
    while server.connectionCount > 1 { try await Task.sleep(for: .milliseconds(2)) }
    // A tick is half a second where headers have as long as here.
    #expect(Double(server.passCount) <= (ContinuousClock.now - start) / .milliseconds(500) + 1)
    withExtendedLifetime(stays) {}
    server.stop()
  }
}
