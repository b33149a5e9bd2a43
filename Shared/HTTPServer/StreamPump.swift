// Turns an asynchronous sequence into a body, with one task and one piece at a time.

internal import Synchronization

final class StreamPump: HTTPBodySource {
  private struct State {
    var wake: (@Sendable () -> Void)?
    var task: Task<Void, Never>?
    var piece: [UInt8]?
    /// Resumed when the piece has been taken.
    var taken: CheckedContinuation<Void, Never>?
    var hasEnded = false
    var isDetached = false
  }

  private let stream: AsyncStream<[UInt8]>
  private let state = Mutex(State())

  init(_ stream: AsyncStream<[UInt8]>) { self.stream = stream }

  func attach(wake: @escaping @Sendable () -> Void) {
    state.withLock { state in
      guard !state.isDetached else { return }
      state.wake = wake
      state.task = Task { await self.pump() }
    }
  }

  func next() -> HTTPBodyPiece {
    let (piece, taken, hasEnded) = state.withLock { state in
      defer {
        state.piece = nil
        state.taken = nil
      }
      return (state.piece, state.taken, state.hasEnded)
    }
    taken?.resume()
    if let piece { return .bytes(piece) }
    return hasEnded ? .end : .nothingYet
  }

  func detach() {
    let (task, taken) = state.withLock { state in
      defer {
        state.isDetached = true
        state.wake = nil
        state.task = nil
        state.taken = nil
      }
      return (state.task, state.taken)
    }
    task?.cancel()
    taken?.resume()
  }

  private func pump() async {
    for await piece in stream {
      guard !piece.isEmpty else { continue }
      // A cancelled task goes on to the sequence, which notices the cancellation and ends.
      await offer(piece)
    }
    let wake = state.withLock { state in
      state.hasEnded = true
      return state.wake
    }
    wake?()
  }

  private func offer(_ piece: [UInt8]) async {
    await withCheckedContinuation { continuation in
      let wake: (@Sendable () -> Void)? = state.withLock { state in
        if state.isDetached { return nil }
        state.piece = piece
        state.taken = continuation
        return state.wake
      }
      if let wake { wake() } else { continuation.resume() }
    }
  }
}
