import HTTPServer
import Testing

/// The memory of bodies that are read while they are sent.
struct HeldContentTests {
  private final class Endless: HTTPContent {
    func read(at offset: UInt64, limit: Int) -> [UInt8]? { [UInt8](repeating: 65, count: limit) }
  }

  @Test(arguments: [true, false])
  func `a body that is read while it is sent is charged for the memory that it holds until it is over`(
    isContent: Bool
  ) async throws {
    var configuration = HTTPServer.Configuration()
    (configuration.answerByteLimit, configuration.totalAnswerByteLimit) = (200_000, 400_000)
    let server = try HTTPServer(
      configuration: configuration,
      handler: ClosureHandler { request in
        let pieces = AsyncStream<[UInt8]> { Task.isCancelled ? nil : [UInt8](repeating: 65, count: 32_768) }
        var response = HTTPResponse(
          status: 200,
          body: isContent
            ? .content(Endless(), offset: 0, byteCount: 500_000_000) : .pieces(pieces, byteCount: 500_000_000))
        response.heldByteCount = isContent ? 0 : 65_536
        response.party = request.pathSegments.first
        return response
      })
    func ask(_ party: String) async throws -> RawConnection {
      let connection = try RawConnection(port: server.port)
      connection.shrinkReceiveBuffer()
      try await connection.send("GET /\(party) HTTP/1.1\r\nHost: h\r\n\r\n")
      return connection
    }
    func holds(_ count: Int) async throws {
      while server.heldByteCounts.answers != count * 65_536 { try await Task.sleep(for: .milliseconds(2)) }
    }
    var readers: [RawConnection] = []
    for party in ["a", "b"] {
      for _ in 0..<3 { readers.append(try await ask(party)) }
      try await holds(readers.count)
      #expect(try await ask(party).readAnswer().status == 429)
    }
    #expect(try await ask("c").readAnswer().status == 503)
    #expect(server.refusals == [.clientAnswers: 2, .allAnswers: 1])
    readers = []
    try await holds(0)
    readers.append(try await ask("c"))
    try await holds(1)
  }
}
