// Writes the changed pages of shards' files to the disk, on a thread apart from their writers.

import CLinux
import Glibc
import Synchronization

/// One thread for all shards of a store, so that only one file's pages wait in the disk's queue at a time.
final class WritebackThread: Sendable {
  private let files: BlockingQueue<Writeback>

  /// - Parameters:
  ///   - shardCount: the capacity of the queue, because each shard waits in it at most once.
  ///   - isStuck: whether nothing is ever written back, for tests of a disk that never finishes.
  init(shardCount: Int, isStuck: Bool = false) throws(StoreError) {
    let files = try BlockingQueue<Writeback>(limit: shardCount)
    self.files = files
    if isStuck { return }
    try WorkerThread.start("writeback") {
      while let taken = files.take(atMost: 1) { for file in taken { file.bringToDisk() } }
    }
  }

  deinit { files.close() }

  fileprivate func submit(_ file: Writeback) -> Bool { files.push(file) == .pushed }
}

/// Writes the changes of one shard's file to the disk, one stretch after the other. A thousand pages in the disk's
/// queue at once would delay the log syncs that saves wait for.
///
/// It only shortens the later sync of the file, and nothing else depends on it. That sync is SQLite's, on a descriptor
/// of its own, and the kernel reports write errors to each descriptor.
final class Writeback: Sendable {
  private enum Phase {
    case idle
    /// Waits for the thread.
    case queued
    case running
    /// More was written since the run began.
    case runningOnceMore
  }

  private struct State {
    var phase = Phase.idle
    var isClosing = false
  }

  /// Writes a stretch of a file to the disk and waits for it.
  typealias WriteStretch = @Sendable (_ descriptor: Int32, _ start: Int, _ byteCount: Int) -> Void

  private let descriptor: Int32
  private let thread: WritebackThread
  private let writeStretch: WriteStretch
  private let state = Mutex(State())
  /// Wakes the writer that waits in `close`.
  private let ended: BlockingQueue<Bool>

  /// The number of stretches in a file, unless they would be shorter than `shortestStretch`. A checkpoint's three
  /// thousand pages, spread evenly, are twelve a stretch. With far more stretches, the thread would wait for a large
  /// file page by page.
  private static let stretchCount = 256
  private static let shortestStretch = 256 * 1024

  /// - Parameter path: an existing file.
  init(
    _ path: String, on thread: WritebackThread, writeStretch: @escaping WriteStretch = { _ = sync_stretch($0, $1, $2) }
  ) throws(StoreError) {
    self.thread = thread
    self.writeStretch = writeStretch
    ended = try BlockingQueue(limit: 1)
    descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else {
      throw .io("\(path) can't be opened for writing back: \(String(cString: strerror(errno)))")
    }
  }

  /// True when changes from before the latest `start` may not be on the disk yet.
  var isUnderWay: Bool { state.withLock { $0.phase != .idle } }

  /// True when `close` waits for the run to end.
  var isClosing: Bool { state.withLock { $0.isClosing } }

  /// Begins to write all changes so far to the disk.
  func start() {
    let isNew = state.withLock { state in
      switch state.phase {
      case .idle:
        state.phase = .queued
        return true
      case .running: state.phase = .runningOnceMore
      case .queued, .runningOnceMore: break
      }
      return false
    }
    if isNew, !thread.submit(self) { state.withLock { $0.phase = .idle } }
  }

  /// Makes a run end early and waits for it. Closing the descriptor drops the process's locks of the file, so the
  /// connection must be closed before.
  func close() {
    state.withLock { state in
      state.isClosing = true
      if state.phase == .queued { state.phase = .idle }
    }
    // A token may stem from an earlier run that no call waited for.
    while isUnderWay { _ = ended.take(atMost: 1) }
    _ = Glibc.close(descriptor)
  }

  fileprivate func bringToDisk() {
    let isWanted = state.withLock { state in
      if state.phase == .queued { state.phase = .running }
      return state.phase == .running
    }
    guard isWanted else { return }
    repeat { writeStretches() } while mustRunOnceMore()
    _ = ended.push(true)
  }

  private func mustRunOnceMore() -> Bool {
    state.withLock { state in
      state.phase = state.phase == .runningOnceMore && !state.isClosing ? .running : .idle
      return state.phase == .running
    }
  }

  private func writeStretches() {
    var status = stat()
    // Dropped because the sync of the file follows anyway. The same holds for a stretch that fails or is unsupported.
    guard fstat(descriptor, &status) == 0 else { return }
    let byteCount = Int(status.st_size)
    let stretch = max(Self.shortestStretch, byteCount / Self.stretchCount)
    for start in stride(from: 0, to: byteCount, by: stretch) {
      if isClosing { return }
      writeStretch(descriptor, start, stretch)
    }
  }
}
