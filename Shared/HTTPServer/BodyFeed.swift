// Open-ended bodies: the library asks for bytes, and its connection sleeps, suspended, while the source has none.

internal import CMicroHTTPD
internal import Synchronization

/// Stands between a body's source and the library's content reader.
final class BodyFeed: Sendable {
  private enum Phase {
    case active
    /// Suspended until `wake`.
    case parked
    /// The source was detached.
    case closed
  }

  private struct State {
    var phase = Phase.active
    var piece: [UInt8] = []
    var sentOfPiece = 0
    /// `wake` was called while the source was being asked.
    var isSignalled = false
    var isAttached = false
    var endsWhenQuiet = false
    var isAborted = false
    var hasEnded = false
  }

  private let source: any HTTPBodySource
  private let connection: ConnectionHandle
  private let core: ServerCore
  private let state = Mutex(State())

  /// What the library asks for at a time.
  private static let blockByteCount = 4096

  init(_ source: any HTTPBodySource, _ connection: ConnectionHandle, _ core: ServerCore) {
    self.source = source
    self.connection = connection
    self.core = core
  }

  /// The library's response that reads from this feed, and keeps it alive.
  func response() -> OpaquePointer? {
    let retained = Unmanaged.passRetained(self)
    let response = MHD_create_response_from_callback(UInt64.max, Self.blockByteCount, readFeed, retained.toOpaque(), releaseFeed)
    if response == nil {
      retained.release()
      close()
    }
    return response
  }

  /// Gives up the source; called at the request's end, and once more when the library lets go of the response.
  func close() {
    let wasClosed = state.withLock { state in
      defer { state.phase = .closed }
      if case .closed = state.phase { return true }
      return false
    }
    if !wasClosed { source.detach() }
  }

  /// The peer is gone, or the server stops: ends in the middle if need be.
  func abort() { resume { $0.isAborted = true } }

  /// Ends the next time the source has nothing to say, if it is one without an end.
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

  /// - Returns: how many bytes were written, 0 when the connection sleeps, or one of the library's end marks.
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

  /// What is left of the piece, or the end; nil when the source has to be asked.
  private static func take(_ state: inout State, into buffer: UnsafeMutableRawBufferPointer) -> Int? {
    if state.isAborted { return endWithError }
    state.isSignalled = false
    let count = min(state.piece.count - state.sentOfPiece, buffer.count)
    guard count > 0 else { return state.hasEnded ? endOfStream : nil }
    state.piece.withUnsafeBytes { buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[state.sentOfPiece..<state.sentOfPiece + count])) }
    state.sentOfPiece += count
    if state.sentOfPiece == state.piece.count {
      state.piece = []
      state.sentOfPiece = 0
    }
    return count
  }

  /// nil when something happened since the source was asked.
  private func park(_ state: inout State) -> Int? {
    if state.isAborted { return Self.endWithError }
    if state.isSignalled { return nil }
    if state.endsWhenQuiet { return Self.endOfStream }
    if core.isStopped.load(ordering: .sequentiallyConsistent) { return Self.endWithError }
    state.phase = .parked
    MHD_suspend_connection(connection.pointer)
    return 0
  }

  // The library's MHD_CONTENT_READER_END_OF_STREAM and …_WITH_ERROR, whose macros don't import.
  private static let endOfStream = -1
  static let endWithError = -2
}

private func readFeed(_ context: UnsafeMutableRawPointer?, _ position: UInt64, _ buffer: UnsafeMutablePointer<CChar>?, _ byteCount: Int) -> Int {
  guard let context else { return BodyFeed.endWithError }
  return Unmanaged<BodyFeed>.fromOpaque(context).takeUnretainedValue().read(into: UnsafeMutableRawBufferPointer(start: buffer, count: byteCount))
}

private func releaseFeed(_ context: UnsafeMutableRawPointer?) {
  guard let context else { return }
  Unmanaged<BodyFeed>.fromOpaque(context).takeRetainedValue().close()
}
