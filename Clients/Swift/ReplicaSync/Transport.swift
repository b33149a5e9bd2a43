// The seam to HTTP: one request and its answer, and answers that go on for as long as the server sends.

/// A request as it goes out.
package struct TransportRequest: Sendable {
  package var method: String
  /// Absolute and percent-encoded.
  package var url: String
  package var headers: [(name: String, value: String)]
  package var body: [UInt8]?
  /// From the call to the last byte of the answer; of a stream, to its head.
  package var timeout: Duration

  package init(
    _ method: String, _ url: String, headers: [(name: String, value: String)] = [], body: [UInt8]? = nil,
    timeout: Duration = .seconds(30)
  ) {
    self.method = method
    self.url = url
    self.headers = headers
    self.body = body
    self.timeout = timeout
  }
}

/// A whole answer, whatever its status.
package struct TransportResponse: Sendable {
  package let status: Int
  package let headers: [(name: String, value: String)]
  /// Without its content coding.
  package let body: [UInt8]

  package init(status: Int, headers: [(name: String, value: String)], body: [UInt8]) {
    self.status = status
    self.headers = headers
    self.body = body
  }

  /// The first header of that name, regardless of case.
  package subscript(name: String) -> String? {
    let name = name.lowercased()
    return headers.first { $0.name.lowercased() == name }?.value
  }
}

/// A body that is still arriving.
package struct TransportStream: Sendable {
  package let status: Int
  /// The address that a redirect names.
  package let location: String?
  /// Pieces of any size. Throws when the connection breaks or is silent for too long; dropping it ends the transfer.
  package let chunks: AsyncThrowingStream<[UInt8], any Error>

  package init(status: Int, location: String? = nil, chunks: AsyncThrowingStream<[UInt8], any Error>) {
    self.status = status
    self.location = location
    self.chunks = chunks
  }
}

/// No whole answer came.
package struct TransportError: Error, Hashable, Sendable {
  package enum Kind: Hashable, Sendable {
    /// Nothing was sent.
    case unreachable
    /// The server may have acted.
    case lost
    case timedOut
    case cancelled
  }

  package let kind: Kind
  package let reason: String

  package init(_ kind: Kind, _ reason: String) {
    self.kind = kind
    self.reason = reason
  }
}

/// Sends exactly the requests that it is given: it retries nothing, follows no redirects and keeps no cookies.
package protocol Transport: Sendable {
  func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse

  /// - Parameter silence: the longest time without a byte.
  func stream(_ request: TransportRequest, silence: Duration) async throws(TransportError) -> TransportStream
}
