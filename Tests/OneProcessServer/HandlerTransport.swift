// Requests that a server in the same process answers.

package import HTTPServer
package import ReplicaSync
import Synchronization

/// Calls a handler. Its bodies are not compressed.
///
/// A request goes on at the server for a while after its client has given it up, as it does on a network.
package struct HandlerTransport: Transport {
  /// Of the requests' addresses.
  package static let origin = "http://one-process"

  private let handler: any HTTPHandler

  package init(_ handler: any HTTPHandler) { self.handler = handler }

  package func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
    guard let method = HTTPMethod(rawValue: request.method), let target = try? RequestTarget(request.url) else {
      throw TransportError(.unreachable, "no request: \(request.method) \(request.url)")
    }
    var headers = request.headers.map { (name: $0.name.lowercased(), value: $0.value) }
    if let body = request.body { headers.append(("content-length", String(body.count))) }
    let received = HTTPRequest(
      method: method, target: String(request.url.dropFirst(Self.origin.count)), pathSegments: target.pathSegments,
      query: target.query, headers: headers, body: request.body ?? [], remoteAddress: "127.0.0.1")
    guard let answer = await answer(received) else { throw TransportError(.cancelled, "the task was cancelled") }
    guard case .bytes(let body) = answer.body else { throw TransportError(.lost, "the answer is a stream") }
    return TransportResponse(status: answer.status, headers: answer.headers, body: body)
  }

  /// - Returns: nil: the task was cancelled.
  private func answer(_ request: HTTPRequest) async -> HTTPResponse? {
    let waiting = Mutex<CheckedContinuation<HTTPResponse?, Never>?>(nil)
    let settle = { @Sendable (answer: HTTPResponse?) in
      let continuation = waiting.withLock { $0.take() }
      continuation?.resume(returning: answer)
    }
    let work = Mutex<Task<Void, Never>?>(nil)
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        waiting.withLock { $0 = continuation }
        let task = Task(executorPreference: handler.executor(for: request)) {
          settle(await handler.respond(to: request))
        }
        work.withLock { $0 = task }
        if Task.isCancelled { settle(nil) }
      }
    } onCancel: {
      settle(nil)
      work.withLock { $0 }?.cancel()
    }
  }

  package func stream(_ request: TransportRequest, silence: Duration) async throws(TransportError) -> TransportStream {
    throw TransportError(.unreachable, "there are no streams in one process")
  }
}
