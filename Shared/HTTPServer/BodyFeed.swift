// Open-ended bodies. The library asks for bytes; its connection sleeps, suspended, while the source has none.

internal import CMicroHTTPD
internal import Synchronization

/// Connects a body's source to the library's content reader.
final class BodyFeed: Sendable {
  private enum Phase {
    case active
    /// The connection is suspended until `wake`.
    case parked
    /// The source was detached.
    case closed
  }

  private struct State {
    var phase = Phase.active
    var piece: [UInt8] = []
    var sentOfPiece = 0
    /// `wake` was called after the last attempt to take bytes.
    var isSignalled = false
    var isAttached = false
    var endsWhenQuiet = false
    var isAborted = false
    var hasEnded = false
  }

  private let source: any HTTPBodySource
  private let connection: ConnectionHandle
  private let core: ServerCore
  private let room: AnswerRoom?
  private let state = Mutex(State())

  /// The most bytes that the library asks for at a time.
  private static let blockByteCount = 4096

  /// - Parameter room: given back with the feed.
  init(
    _ source: any HTTPBodySource, _ connection: ConnectionHandle, _ core: ServerCore, _ room: AnswerRoom? = nil
  ) {
    self.room = room
    self.source = source
    self.connection = connection
    self.core = core
  }

  /// The library's response, which reads from this feed and retains it; nil when the library has no memory.
  /// - Parameter byteCount: the length of the body; nil when nobody knows it yet.
  func response(byteCount: UInt64? = nil) -> OpaquePointer? {
    let retained = Unmanaged.passRetained(self)
    let response = MHD_create_response_from_callback(
      byteCount ?? UInt64.max, Self.blockByteCount, readFeed, retained.toOpaque(), releaseFeed)
    if response == nil {
      retained.release()
      close()
    }
    return response
  }

  /// Detaches the source. Called at the end of the request, and again when the library releases the response.
  func close() {
    let wasClosed = state.withLock { state in
      defer { state.phase = .closed }
      if case .closed = state.phase { return true }
      return false
    }
    if !wasClosed { source.detach() }
  }

  /// Ends the body in the middle if need be, because the peer is gone or the server stops.
  func abort() { resume { $0.isAborted = true } }

  /// Ends an open-ended body as soon as its source has nothing to send. A finite stream goes on to its end.
  func endWhenQuiet() {
    guard !(source is StreamPump) else { return }
    resume { $0.endsWhenQuiet = true }
  }

  private func wake() { resume { $0.isSignalled = true } }

  private func resume(_ change: (inout State) -> Void) {
    state.withLock { state in
      change(&state)
      guard case .parked = state.phase else { return }
      state.phase = .active
      MHD_resume_connection(connection.pointer)
    }
  }

  // MARK: On the library's thread

  /// - Returns: the number of bytes written, 0 when the connection was suspended, or one of the library's end marks.
  fileprivate func read(into buffer: UnsafeMutableRawBufferPointer) -> Int {
    attach()
    while true {
      if let result = state.withLock({ Self.take(&$0, into: buffer) }) {
        core.sentByteCount.add(max(result, 0), ordering: .relaxed)
        return result
      }
      switch source.next() {
      case .bytes(let piece):
        state.withLock { state in
          state.piece = piece
          state.sentOfPiece = 0
        }
      case .end: state.withLock { $0.hasEnded = true }
      case .nothingYet:
        if let result = state.withLock({ park(&$0) }) { return result }
      }
    }
  }

  private func attach() {
    let isFirst = state.withLock { state in
      defer { state.isAttached = true }
      return !state.isAttached
    }
    if isFirst { source.attach { [weak self] in self?.wake() } }
  }

  /// Copies the rest of the piece, or returns an end mark; nil when the source has to be asked.
  private static func take(_ state: inout State, into buffer: UnsafeMutableRawBufferPointer) -> Int? {
    if state.isAborted { return endWithError }
    state.isSignalled = false
    let count = min(state.piece.count - state.sentOfPiece, buffer.count)
    guard count > 0 else { return state.hasEnded ? endOfStream : nil }
    state.piece.withUnsafeBytes {
      buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[state.sentOfPiece..<state.sentOfPiece + count]))
    }
    state.sentOfPiece += count
    if state.sentOfPiece == state.piece.count {
      state.piece = []
      state.sentOfPiece = 0
    }
    return count
  }

  /// Suspends the connection; nil when `wake` was called since the source was asked.
  private func park(_ state: inout State) -> Int? {
    if state.isAborted { return Self.endWithError }
    if state.isSignalled { return nil }
    if state.endsWhenQuiet { return Self.endOfStream }
    if core.isStopped.load(ordering: .sequentiallyConsistent) { return Self.endWithError }
    state.phase = .parked
    MHD_suspend_connection(connection.pointer)
    return 0
  }

  // The library's MHD_CONTENT_READER_END_OF_STREAM and …_WITH_ERROR. Swift does not import these macros.
  private static let endOfStream = -1
  static let endWithError = -2
}

private func readFeed(
  _ context: UnsafeMutableRawPointer?, _ position: UInt64, _ buffer: UnsafeMutablePointer<CChar>?, _ byteCount: Int
) -> Int {
  guard let context else { return BodyFeed.endWithError }
  return Unmanaged<BodyFeed>.fromOpaque(context).takeUnretainedValue().read(
    into: UnsafeMutableRawBufferPointer(start: buffer, count: byteCount))
}

private func releaseFeed(_ context: UnsafeMutableRawPointer?) {
  guard let context else { return }
  Unmanaged<BodyFeed>.fromOpaque(context).takeRetainedValue().close()
}
