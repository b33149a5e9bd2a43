// Brings to the disk what was written to shards' files, beside their writers.

import CLinux
import Glibc
import Synchronization

/// The thread that does: one for all shards of a store, so that one file's pages wait in the disk's queue at a time.
final class WritebackThread: Sendable {
  private let files: BlockingQueue<Writeback>

  /// - Parameters:
  ///   - shardCount: each waits once at most.
  ///   - isStuck: for tests of a disk that never has done: nothing is ever written back.
  init(shardCount: Int, isStuck: Bool = false) throws(StoreError) {
    let files = try BlockingQueue<Writeback>(limit: shardCount)
    self.files = files
    if isStuck { return }
    try WorkerThread.start("writeback") { while let taken = files.take(atMost: 1) { for file in taken { file.bringToDisk() } } }
  }

  deinit { files.close() }

  fileprivate func submit(_ file: Writeback) -> Bool { files.push(file) == .pushed }
}

/// One shard's file. What was written to it goes to the disk a stretch at a time, and the next when that is there: a thousand pages in the disk's
/// queue at once are what syncs of all logs, which somebody's save waits for, would have to wait behind.
///
/// Nothing depends on it but how long the sync of the file takes that comes afterwards. That one is SQLite's, on a descriptor of its own, and the kernel
/// tells each descriptor of a file what failed.
final class Writeback: Sendable {
  private enum Phase {
    case idle
    /// The thread has not taken it yet.
    case queued
    case running
    /// More was written since it began to run.
    case runningOnceMore
  }

  private struct State {
    var phase = Phase.idle
    var isClosing = false
  }

  /// Has a stretch of a file written to the disk, and waits for that.
  typealias WriteStretch = @Sendable (_ descriptor: Int32, _ start: Int, _ byteCount: Int) -> Void

  private let descriptor: Int32
  private let thread: WritebackThread
  private let writeStretch: WriteStretch
  private let state = Mutex(State())
  /// Tells the writer that waits in `close`.
  private let ended: BlockingQueue<Bool>

  /// A file has so many, unless they were shorter than this: a checkpoint's three thousand pages, spread evenly, are twelve a stretch. Many more
  /// stretches, and a large file would be waited for page by page.
  private static let stretchCount = 256
  private static let shortestStretch = 256 * 1024

  /// - Parameter path: of a file that exists.
  init(_ path: String, on thread: WritebackThread, writeStretch: @escaping WriteStretch = { _ = sync_stretch($0, $1, $2) }) throws(StoreError) {
    self.thread = thread
    self.writeStretch = writeStretch
    ended = try BlockingQueue(limit: 1)
    descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw .io("\(path) can't be opened for writing back: \(String(cString: strerror(errno)))") }
  }

  /// Whether what was written before `start` may still be on its way.
  var isUnderWay: Bool { state.withLock { $0.phase != .idle } }

  /// Whether `close` waits for what is under way.
  var isClosing: Bool { state.withLock { $0.isClosing } }

  /// Begins to bring to the disk what was written so far.
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

  /// Lets what is under way end early, and waits for that. The kernel gives up the process's locks of the file with this: the connection must be closed.
  func close() {
    state.withLock { state in
      state.isClosing = true
      if state.phase == .queued { state.phase = .idle }
    }
    // A token may be from an earlier time that nobody waited for.
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
    // Dropped because the sync comes in any case; so where a stretch fails, or a file system can't do this.
    guard fstat(descriptor, &status) == 0 else { return }
    let byteCount = Int(status.st_size)
    let stretch = max(Self.shortestStretch, byteCount / Self.stretchCount)
    for start in stride(from: 0, to: byteCount, by: stretch) {
      if isClosing { return }
      writeStretch(descriptor, start, stretch)
    }
  }
}
