// A transport that loses and delays requests and answers when a test says so.

package import ReplicaSync
import Synchronization

package struct FaultyTransport: Transport {
  package enum Fault: Hashable, Sendable {
    case none, losesRequest, losesAnswer
    /// A proxy answers with a page of its own, and the server is not asked.
    case page(status: Int)
  }

  package let inner: any Transport
  /// What happens to the next request.
  package let next: @Sendable (TransportRequest) -> Fault
  /// What happens at the device after the server answered, before the answer arrives.
  package var meanwhile: @Sendable () async -> Void = {}
  package let watch = RequestWatch()
  /// The device's name, and where its requests are told.
  package var trace: (device: String, trace: Trace)?

  package init(inner: any Transport, next: @escaping @Sendable (TransportRequest) -> Fault) {
    self.inner = inner
    self.next = next
  }

  package func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
    watch.enter()
    defer { watch.leave() }
    let fault = next(request)
    if let trace { trace.trace.asks(trace.device, request, fault) }
    if fault == .losesRequest { throw TransportError(.unreachable, "a test lost the request") }
    if case .page(let status) = fault {
      return TransportResponse(
        status: status, headers: [("Content-Type", "text/html")], body: Array("<html>\(status)</html>".utf8))
    }
    let answer = try await inner.send(request)
    if let trace { trace.trace.answers(trace.device, request, answer) }
    if fault == .losesAnswer { throw TransportError(.lost, "a test lost the answer") }
    await meanwhile()
    return answer
  }

  package func stream(_ request: TransportRequest, silence: Duration) async throws(TransportError) -> TransportStream {
    try await inner.stream(request, silence: silence)
  }
}

/// Counts the requests of one transport that are under way: a store has one at a time (K2).
package final class RequestWatch: Sendable {
  private let counts = Mutex((now: 0, most: 0))

  /// The most requests at a time.
  package var most: Int { counts.withLock { $0.most } }

  func enter() {
    counts.withLock { counts in
      counts.now += 1
      counts.most = max(counts.most, counts.now)
    }
  }

  func leave() { counts.withLock { $0.now -= 1 } }
}
