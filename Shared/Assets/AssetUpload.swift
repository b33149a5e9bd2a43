// Writes uploads for threads that must not block, and holds back a sender that is faster than the disk.

import Dispatch
public import Records
import Synchronization

/// A few threads that write all uploads.
///
/// An upload stays on one thread, so that its pieces keep their order. A slow sync delays the uploads on its thread,
/// but never the threads that read sockets.
public final class AssetWriters: Sendable {
  private let queues: [DispatchQueue]
  private let next = Atomic<UInt32>(0)

  public init(count: Int) {
    precondition(count > 0, "somebody has to write")
    queues = (0..<count).map { DispatchQueue(label: "aquifer.assets.\($0)") }
  }

  /// The queues in turn.
  fileprivate var queue: DispatchQueue { queues[Int(next.wrappingAdd(1, ordering: .relaxed).oldValue) % queues.count] }

  /// Uploads that are neither finished nor aborted.
  public var uploadCount: Int { count.load(ordering: .relaxed) }
  fileprivate let count = Atomic(0)
}

/// One upload into the spool.
public final class AssetUpload: Sendable {
  private struct State {
    var waiting: [UInt8] = []
    var isWriting = false
    var resume: (@Sendable () -> Void)?
    var failure: AssetError?
    var isOver = false
  }

  /// The number of waiting bytes that starts a write.
  private static let pieceByteCount = 64 * 1024
  /// The number of waiting bytes that holds back the sender.
  private static let waitingByteLimit = 128 * 1024

  private let store: any AssetStore
  private let expiry: Int64
  private let writers: AssetWriters
  private let queue: DispatchQueue
  /// nil for a store that needs no memory for parts. Used on the queue.
  private let room: PartRoom?
  private let state = Mutex(State())
  /// Created and used on the queue.
  private let file = Mutex<SpooledContent?>(nil)

  /// - Parameters:
  ///   - expiry: the end of the time in which shards can adopt the content, seconds since 1970.
  ///   - room: for the parts that the store collects.
  public init(into store: any AssetStore, until expiry: Int64, writers: AssetWriters, room: PartRoom? = nil) {
    self.store = store
    self.expiry = expiry
    self.writers = writers
    self.room = room
    queue = writers.queue
    writers.count.add(1, ordering: .relaxed)
  }

  /// Discards the content of an upload that nobody finished or aborted.
  deinit {
    end()
    if let file = file.withLock({ $0 }) { queue.async { file.discard() } }
  }

  /// Takes the next piece without blocking. After a failure, which `finish` reports, it discards the piece.
  /// - Returns: whether the caller may send the next piece at once. If not, `resume` is called when it may.
  public func take(_ piece: UnsafeRawBufferPointer, resume: @escaping @Sendable () -> Void) -> Bool {
    let (starts, goesOn) = state.withLock { state in
      if state.failure != nil || state.isOver { return (false, true) }
      state.waiting.append(contentsOf: piece)
      let starts = !state.isWriting && state.waiting.count >= Self.pieceByteCount
      if starts { state.isWriting = true }
      guard state.isWriting, state.waiting.count >= Self.waitingByteLimit else { return (starts, true) }
      state.resume = resume
      return (starts, false)
    }
    if starts { goOn() }
    return goesOn
  }

  private func goOn() { queue.async { self.drain(below: Self.pieceByteCount) } }

  /// Writes the remaining pieces and makes the file durable.
  /// - Throws: the disk's error; no file is left behind then.
  public func finish() async throws(AssetError) -> Asset {
    let result: Result<Asset, AssetError> = await withCheckedContinuation { continuation in
      queue.async { continuation.resume(returning: self.finished()) }
    }
    return try result.get()
  }

  /// Discards the upload and its file.
  public func abort() {
    end()
    queue.async {
      self.file.withLock { $0 }?.discard()
      self.room?.giveBack()
    }
  }

  // MARK: On the queue

  /// Writes until less than `rest` bytes wait, or until the next part has no room. It goes on then once there is some,
  /// and the sender is held back meanwhile.
  /// - Parameter isLast: true for the last pieces, which are few and need no room.
  private func drain(below rest: Int, isLast: Bool = false) {
    while mayWrite(atLeast: max(rest, 1)) {
      if !isLast, let room, !room.take({ [weak self] in self?.goOn() }) { return }
      let (piece, resume) = state.withLock { state in
        defer {
          state.waiting = []
          state.resume = nil
        }
        return (state.waiting, state.resume)
      }
      if piece.isEmpty { continue }
      resume?()
      do throws(AssetError) {
        let file = try opened()
        let count = file.partCount
        try file.write(piece)
        if file.partCount > count { room?.giveBack() }
      } catch {
        fail(error)
      }
    }
  }

  private func mayWrite(atLeast count: Int) -> Bool {
    state.withLock { state in
      let mayWrite = state.waiting.count >= count && !state.isOver
      if !mayWrite { state.isWriting = false }
      return mayWrite
    }
  }

  private func opened() throws(AssetError) -> SpooledContent {
    if let file = file.withLock({ $0 }) { return file }
    let made = try store.spool(until: expiry)
    file.withLock { $0 = made }
    return made
  }

  private func fail(_ error: AssetError) {
    let resume = state.withLock { state in
      if state.failure == nil { state.failure = error }
      state.waiting = []
      defer { state.resume = nil }
      return state.resume
    }
    // Frees the space at once, because the disk may be full.
    file.withLock { $0 }?.discard()
    room?.giveBack()
    resume?()
  }

  private func finished() -> Result<Asset, AssetError> {
    drain(below: 1, isLast: true)
    defer {
      end()
      room?.giveBack()
    }
    if let failure = state.withLock({ $0.failure }) { return .failure(failure) }
    do throws(AssetError) {
      return .success(try opened().finish())
    } catch {
      file.withLock { $0 }?.discard()
      return .failure(error)
    }
  }

  private func end() {
    let wasOver = state.withLock { state in
      defer {
        state.isOver = true
        state.waiting = []
        state.resume = nil
      }
      return state.isOver
    }
    if !wasOver { writers.count.subtract(1, ordering: .relaxed) }
  }
}
