// An answer in libmicrohttpd's form. The handler's task prepares it, so that the library's threads only send.

internal import CMicroHTTPD
internal import Glibc

/// An answer that must be queued or discarded exactly once.
///
/// Unchecked because one owner at a time has the pointer: the task, then the exchange, then the library.
struct PreparedResponse: @unchecked Sendable {
  private let pointer: OpaquePointer?
  private let status: UInt32
  private let closes: Bool
  let feed: BodyFeed?
  /// The length of the body as its head announces it; nil for an open-ended one.
  let announcedByteCount: Int?
  /// The length of the body; 0 for a feed, which counts its bytes as it sends them.
  var byteCount: Int { feed == nil ? announcedByteCount ?? 0 : 0 }

  /// Bodies up to this size are copied, which is cheaper than retaining the array by an object.
  private static let copiedByteCount = 2048

  /// - Parameters:
  ///   - payer: the account that is charged for the body's memory until it is sent.
  ///   - isHead: whether to omit the body. The library would send the last chunk of an open-ended body, and the client
  ///     would read it as the next answer.
  ///   - closes: whether to close the connection after the answer.
  init(
    _ response: HTTPResponse, for connection: ConnectionHandle, _ core: ServerCore, payer: ClientBook.Payer,
    isHead: Bool = false, closes: Bool = false
  ) {
    var response = response
    var room: AnswerRoom?
    if !(200...599).contains(response.status) || !response.headers.allSatisfy(Self.isValid) {
      if case .source(let source) = response.body { source.detach() }
      response = core.handler.refusal(status: 500, reason: "The answer could not be sent.")
    }
    let heldByteCount = Self.heldByteCount(response)
    if heldByteCount > Self.copiedByteCount {
      switch core.clients.takeAnswer(heldByteCount, payer) {
      case .success(let taken): room = taken
      case .failure(let refusal):
        core.configuration.observe(refusal, "")
        response = core.handler.refusal(
          status: refusal == .clientAnswers ? 429 : 503, reason: "Too many answers wait for their clients.")
      }
    }
    switch response.body {
    case .bytes(let bytes):
      self.init(Self.buffer(bytes, room), response, byteCount: isHead ? 0 : bytes.count, closes: closes)
    case .source(let source) where isHead:
      source.detach()
      self.init(Self.buffer([]), response, byteCount: 0, closes: closes)
    case .stream where isHead: self.init(Self.buffer([]), response, byteCount: 0, closes: closes)
    case .source(let source):
      let feed = BodyFeed(source, connection, core)
      self.init(feed.response(), response, byteCount: nil, feed: feed, closes: closes)
    case .stream(let stream):
      let feed = BodyFeed(StreamPump(stream), connection, core)
      self.init(feed.response(), response, byteCount: nil, feed: feed, closes: closes)
    case .pieces(let pieces, let byteCount):
      // The library sends no body of known length to HEAD.
      let feed = BodyFeed(StreamPump(pieces), connection, core, room)
      self.init(
        feed.response(byteCount: byteCount), response, byteCount: isHead ? 0 : Int(clamping: byteCount), feed: feed,
        closes: closes)
    case .content(let content, let offset, let byteCount):
      self.init(
        ContentFeed.response(content, offset, byteCount, room), response,
        byteCount: isHead ? 0 : Int(clamping: byteCount),
        closes: closes)
    }
  }

  private init(
    _ pointer: OpaquePointer?, _ response: HTTPResponse, byteCount: Int?, feed: BodyFeed? = nil, closes: Bool
  ) {
    self.pointer = pointer
    announcedByteCount = byteCount
    self.status = UInt32(clamping: response.status)
    self.closes = closes
    self.feed = feed
    guard let pointer else { return }
    for header in response.headers where !Self.isOurs(header.name) {
      _ = MHD_add_response_header(pointer, header.name, header.value)
    }
  }

  /// Hands the answer to the library. Called on the connection's thread.
  /// - Returns: false to close the connection, because the library refused the answer.
  func queue(on connection: ConnectionHandle, closes drains: Bool) -> Bool {
    guard let pointer else { return false }
    if closes || drains { _ = MHD_add_response_header(pointer, "Connection", "close") }
    defer { MHD_destroy_response(pointer) }
    return MHD_queue_response(connection.pointer, status, pointer) == .YES
  }

  /// Releases an answer that no client waits for any more.
  func discard() {
    if let pointer { MHD_destroy_response(pointer) }
  }

  /// The memory that a body takes until it is sent; 0 for open-ended ones, which hold a piece.
  private static func heldByteCount(_ response: HTTPResponse) -> Int {
    switch response.body {
    case .bytes(let bytes): bytes.count
    case .pieces: response.heldByteCount
    case .content(_, _, let byteCount): ContentFeed.blockByteCount(byteCount) + response.heldByteCount
    case .source, .stream: 0
    }
  }

  private static func isValid(_ header: (name: String, value: String)) -> Bool {
    HeaderBytes.isToken(header.name) && !HeaderBytes.hasControl(header.value)
  }

  /// True when the server writes the header itself: headers of connection, framing and date.
  private static func isOurs(_ name: String) -> Bool {
    switch name.utf8.count {
    case 4, 10, 14, 17: ["content-length", "transfer-encoding", "connection", "date"].contains(name.lowercased())
    default: false
    }
  }

  private static func buffer(_ bytes: [UInt8], _ room: AnswerRoom? = nil) -> OpaquePointer? {
    if bytes.count <= copiedByteCount {
      return bytes.withUnsafeBytes {
        MHD_create_response_from_buffer($0.count, UnsafeMutableRawPointer(mutating: $0.baseAddress), .RESPMEM_MUST_COPY)
      }
    }
    // The array's storage stays in place as long as it is referenced and unchanged, so the library sends from it.
    let retained = Unmanaged.passRetained(RetainedBytes(bytes, room))
    let address = bytes.withUnsafeBytes { UnsafeMutableRawPointer(mutating: $0.baseAddress) }
    let response = MHD_create_response_from_buffer_with_free_callback_cls(
      bytes.count, address, releaseBytes, retained.toOpaque())
    if response == nil { retained.release() }
    return response
  }
}

private final class RetainedBytes: Sendable {
  private let bytes: [UInt8]
  private let room: AnswerRoom?

  init(_ bytes: [UInt8], _ room: AnswerRoom?) {
    self.bytes = bytes
    self.room = room
  }
}

private func releaseBytes(_ context: UnsafeMutableRawPointer?) {
  guard let context else { return }
  Unmanaged<RetainedBytes>.fromOpaque(context).release()
}

extension HTTPResponse {
  /// The whole answer as bytes, for a connection that the library does not answer. Its body must be bytes; it closes
  /// the connection.
  var wire: [UInt8] {
    guard case .bytes(let body) = body else { return [] }
    var head = "HTTP/1.1 \(status) Refused\r\nConnection: close\r\nContent-Length: \(body.count)\r\n"
    for (name, value) in headers { head += "\(name): \(value)\r\n" }
    return Array((head + "\r\n").utf8) + body
  }
}
