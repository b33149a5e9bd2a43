// A transport that remembers what was sent with whose token, and keeps an answer back when a test says so.

import Foundation
import ReplicaSync
import Synchronization

final class WatchedTransport: Transport {
  struct Sent: Sendable {
    /// nil: the request's address carries its own authority.
    let token: String?
    let method: String
    let url: String
    let body: String
  }

  private struct State {
    var sent: [Sent] = []
    /// A part of the address of requests whose answers are kept back.
    var kept: String?
    var isKeeping = false
    /// A part of the address of requests that do not leave.
    var refused: String?
  }

  private let inner = CurlTransport()
  private let state = Mutex(State())

  var sent: [Sent] { state.withLock { $0.sent } }
  /// The server has answered a request, and the device does not know.
  var isKeeping: Bool { state.withLock { $0.isKeeping } }

  /// - Parameter part: of an address; nil: answers arrive.
  func keepAnswers(to part: String?) { state.withLock { ($0.kept, $0.isKeeping) = (part, false) } }
  /// - Parameter part: of an address; nil: requests leave.
  func loseRequests(to part: String?) { state.withLock { $0.refused = part } }

  func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
    let (isKept, isRefused) = state.withLock { state in
      state.sent.append(Sent(request))
      let contains = { (part: String?) in part.map { request.url.contains($0) } ?? false }
      return (contains(state.kept), contains(state.refused))
    }
    if isRefused { throw TransportError(.unreachable, "a test lost the request") }
    let answer = try await inner.send(request)
    guard isKept else { return answer }
    state.withLock { $0.isKeeping = true }
    while !Task.isCancelled, isKeeping { try? await Task.sleep(for: .milliseconds(2)) }
    throw TransportError(.cancelled, "a test kept the answer back")
  }

  func stream(_ request: TransportRequest, silence: Duration) async throws(TransportError) -> TransportStream {
    state.withLock { $0.sent.append(Sent(request)) }
    return try await inner.stream(request, silence: silence)
  }
}

extension WatchedTransport.Sent {
  fileprivate init(_ request: TransportRequest) {
    token = request.headers.first { $0.name == "Authorization" }?.value.replacing("Bearer ", with: "")
    (method, url) = (request.method, request.url)
    body = String(decoding: request.body ?? [], as: UTF8.self)
  }
}
