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
    var readers: [RawConnection] = []
    for party in ["a", "b"] {
      for _ in 0..<3 { readers.append(try await server.slowReader(of: party)) }
      try await server.holdsAnswers(of: readers.count * 65_536)
      #expect(try await server.slowReader(of: party).readAnswer().status == 429)
    }
    #expect(try await server.slowReader(of: "c").readAnswer().status == 503)
    #expect(server.refusals == [.clientAnswers: 2, .allAnswers: 1])
    readers = []
    try await server.holdsAnswers(of: 0)
    readers.append(try await server.slowReader(of: "c"))
    try await server.holdsAnswers(of: 65_536)
  }
}
