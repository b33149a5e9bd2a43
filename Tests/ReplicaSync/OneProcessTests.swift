// Stories over the services in one process: they are the real ones, and requests end as on a network.

import Gates
import HTTPServer
import OneProcessServer
import ReplicaSync
import ReplicaWorld
import Synchronization
import Testing

@Suite struct OneProcessTests {
  @Test func `devices are equal over the services in one process`() async throws {
    let counts = Mutex(StoryCounts())
    try await OneProcessServer.run(in: Server.memory) { server in
      _ = await ConvergenceStories(server, seeds: 1..<4).tell(ended: { one in counts.withLock { $0.add(one) } }) {
        story, ending in
        Issue.record("seed \(story.seed): \(ending)")
      }
    }
    let kinds = counts.withLock { Set($0.counts.keys) }
    #expect(kinds.isSuperset(of: ["saves", "devices go online", "requests: export", "page: with changes"]))
  }

  @Test func `a request goes on at the server after its client has given it up`() async throws {
    let handler = SlowHandler()
    let transport = HandlerTransport(handler)
    let request = Task { () -> TransportError? in
      do throws(TransportError) {
        _ = try await transport.send(TransportRequest("GET", "\(HandlerTransport.origin)/slow"))
        return nil
      } catch {
        return error
      }
    }
    await handler.begun.wait()
    request.cancel()
    #expect(await request.value?.kind == .cancelled)
    #expect(!handler.ended.isOpen)
    handler.mayEnd.open()
    await handler.ended.wait()
  }
}

/// Answers when it may, also to a client that is gone.
private final class SlowHandler: HTTPHandler {
  let (begun, mayEnd, ended) = (Gate(), Gate(), Gate())

  func respond(to request: HTTPRequest) async -> HTTPResponse {
    begun.open()
    await mayEnd.wait()
    ended.open()
    return HTTPResponse(status: 200)
  }

  func refusal(status: Int, reason: String) -> HTTPResponse { HTTPResponse(status: status) }
}
