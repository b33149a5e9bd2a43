// Requests by URLSession: the transport of Apple's platforms. Linux compiles and tests it, and ships libcurl.

import Foundation
package import ReplicaSync

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

package final class URLSessionTransport: Transport {
  private let reader = StreamReader()
  private let session: URLSession

  package init() {
    let configuration = URLSessionConfiguration.ephemeral
    configuration.httpShouldSetCookies = false
    configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
    session = URLSession(configuration: configuration, delegate: reader, delegateQueue: nil)
  }

  deinit { session.invalidateAndCancel() }

  /// Reads a stream to its end: calls with a completion of their own follow redirects on Linux.
  package func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
    let (response, chunks) = try await answer(request, timeout: request.timeout)
    guard let response else { throw TransportError(.lost, "no HTTP") }
    var body: [UInt8] = []
    do {
      for try await chunk in chunks { body += chunk }
    } catch {
      throw TransportError(error)
    }
    // A stream that is cancelled ends as if it were whole.
    if Task.isCancelled { throw TransportError(.cancelled, "the caller was cancelled") }
    let headers = response.allHeaderFields.compactMap { field in
      (field.key as? String).flatMap { name in (field.value as? String).map { (name: name, value: $0) } }
    }
    return TransportResponse(status: response.statusCode, headers: headers, body: body)
  }

  package func stream(
    _ request: TransportRequest, silence: Duration
  ) async throws(TransportError) -> TransportStream {
    let (response, chunks) = try await answer(request, timeout: silence)
    return TransportStream(
      status: response?.statusCode ?? 0, location: response?.value(forHTTPHeaderField: "Location"), chunks: chunks)
  }

  private func answer(
    _ request: TransportRequest, timeout: Duration
  ) async throws(TransportError) -> StreamReader.Answer {
    try await reader.start(session.dataTask(with: try Self.foundation(request, timeout: timeout)))
  }

  private static func foundation(
    _ request: TransportRequest, timeout: Duration
  ) throws(TransportError) -> URLRequest {
    guard let url = URL(string: request.url) else { throw TransportError(.unreachable, "the address is malformed") }
    var foundation = URLRequest(url: url)
    foundation.httpMethod = request.method
    foundation.httpBody = request.body.map { Data($0) }
    foundation.timeoutInterval = timeout / .seconds(1)
    for header in request.headers { foundation.setValue(header.value, forHTTPHeaderField: header.name) }
    return foundation
  }
}

/// Hands the pieces of streams on: URLSession has no sequence of bytes on Linux.
private final class StreamReader: NSObject, URLSessionDataDelegate, @unchecked Sendable {
  /// The head, nil if it is not HTTP's, and the body.
  typealias Answer = (response: HTTPURLResponse?, chunks: AsyncThrowingStream<[UInt8], any Error>)
  private typealias Head = CheckedContinuation<Result<Answer, TransportError>, Never>

  private struct Reading {
    var head: Head?
    let stream: AsyncThrowingStream<[UInt8], any Error>
    let chunks: AsyncThrowingStream<[UInt8], any Error>.Continuation
  }

  private let lock = NSLock()
  private var readings: [Int: Reading] = [:]

  func start(_ task: URLSessionDataTask) async throws(TransportError) -> Answer {
    let (stream, chunks) = AsyncThrowingStream<[UInt8], any Error>.makeStream()
    chunks.onTermination = { _ in task.cancel() }
    let result: Result<Answer, TransportError> = await withTaskCancellationHandler {
      await withCheckedContinuation { head in
        lock.withLock { readings[task.taskIdentifier] = Reading(head: head, stream: stream, chunks: chunks) }
        task.resume()
      }
    } onCancel: {
      task.cancel()
    }
    return try result.get()
  }

  func urlSession(
    _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
    completionHandler: @escaping (URLSession.ResponseDisposition) -> Void
  ) {
    let reading = lock.withLock { () -> Reading? in
      defer { readings[dataTask.taskIdentifier]?.head = nil }
      return readings[dataTask.taskIdentifier]
    }
    if let reading { reading.head?.resume(returning: .success((response as? HTTPURLResponse, reading.stream))) }
    completionHandler(.allow)
  }

  func urlSession(
    _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
    newRequest request: URLRequest, completionHandler: @escaping (URLRequest?) -> Void
  ) {
    completionHandler(nil)
  }

  func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
    lock.withLock { readings[dataTask.taskIdentifier] }?.chunks.yield([UInt8](data))
  }

  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    guard let reading = lock.withLock({ readings.removeValue(forKey: task.taskIdentifier) }) else { return }
    let failure = error.map { TransportError($0) }
    reading.head?.resume(returning: .failure(failure ?? TransportError(.lost, "the stream ended before its head")))
    reading.chunks.finish(throwing: failure)
  }
}

extension TransportError {
  fileprivate init(_ error: any Error) {
    if let error = error as? TransportError {
      self = error
      return
    }
    let reason = (error as? URLError)?.localizedDescription ?? "\(error)"
    switch (error as? URLError)?.code {
    case .cancelled?: self.init(.cancelled, reason)
    case .timedOut?: self.init(.timedOut, reason)
    case .cannotConnectToHost?, .cannotFindHost?, .notConnectedToInternet?, .badURL?: self.init(.unreachable, reason)
    default: self.init(error is CancellationError ? .cancelled : .lost, reason)
    }
  }
}
