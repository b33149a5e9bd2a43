import HTTPServer
import Synchronization
import Testing

@testable import aquifer_load

/// The calls by which a run makes its scenario.
struct AdminTests {
  /// Answers the first requests with a status of its own, the others with an empty object.
  private final class Reluctant: HTTPHandler {
    let refusals: [HTTPResponse]
    let requestCount = Atomic(0)

    init(_ refusals: [HTTPResponse]) { self.refusals = refusals }

    func respond(to request: HTTPRequest) async -> HTTPResponse {
      let number = requestCount.add(1, ordering: .relaxed).oldValue
      return number < refusals.count ? refusals[number] : HTTPResponse(status: 200, body: .bytes(Array("{}".utf8)))
    }

    func refusal(status: Int, reason: String) -> HTTPResponse { HTTPResponse(status: status) }
  }

  private func call(_ handler: Reluctant) async throws {
    let server = try HTTPServer(handler: handler)
    try await Admin(url: "http://127.0.0.1:\(server.port)", operatorToken: "t").call("POST", "/admin/1/users", [:])
  }

  @Test func `a call that the server puts off is repeated until it is done`() async throws {
    let later = HTTPResponse(status: 503, headers: [(name: "Retry-After", value: "0")])
    let handler = Reluctant([later, later])
    try await call(handler)
    #expect(handler.requestCount.load(ordering: .relaxed) == 3)
  }

  @Test(arguments: [403, 500, 503]) func `a call that is refused is not repeated, and the error names it`(status: Int)
    async throws
  {
    let handler = Reluctant([HTTPResponse(status: status)])
    let error = await #expect(throws: LoadError.self) { try await call(handler) }
    #expect(error?.description.hasPrefix("POST /admin/1/users was answered \(status)") == true)
    #expect(handler.requestCount.load(ordering: .relaxed) == 1)
  }
}
