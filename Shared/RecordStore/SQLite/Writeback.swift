// Brings to the disk what was written to shards' files, beside their writers.

import CLinux
import Glibc
import Synchronization

/// The thread that does: one for all shards of a store, so that one file's pages wait in the disk's queue at a time.
final class WritebackThread: Sendable {
  private let files: BlockingQueue<Writeback>

  /// - Parameter shardCount: each waits once at most.
  init(shardCount: Int) throws(StoreError) {
    let files = try BlockingQueue<Writeback>(limit: shardCount)
    self.files = files
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
  private let descriptor: Int32
  private let thread: WritebackThread
  private let isWaiting = Atomic(false)
  /// Tells the writer that waits in `close`.
  private let ended: BlockingQueue<Bool>

  /// So many make a file: a checkpoint's three thousand pages are some sixty a stretch. Few, or a large file would be waited for page by page.
  private static let stretchCount = 48
  private static let shortestStretch: Int64 = 256 * 1024

  /// - Parameter path: of a file that exists.
  init(_ path: String, on thread: WritebackThread) throws(StoreError) {
    self.thread = thread
    ended = try BlockingQueue(limit: 1)
    descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw .io("\(path) can't be opened for writing back: \(String(cString: strerror(errno)))") }
  }

  /// Whether what was written before `start` may still be on its way.
  var isUnderWay: Bool { isWaiting.load(ordering: .acquiring) }

  /// Begins to bring to the disk what was written so far.
  func start() {
    if isUnderWay { return }
    isWaiting.store(true, ordering: .relaxed)
    if !thread.submit(self) { isWaiting.store(false, ordering: .relaxed) }
  }

  /// Waits until nothing is under way. The kernel gives up the process's locks of the file with this: the connection must be closed.
  func close() {
    // A token may be from an earlier time that nobody waited for.
    while isUnderWay { _ = ended.take(atMost: 1) }
    _ = Glibc.close(descriptor)
  }

  fileprivate func bringToDisk() {
    var status = stat()
    if fstat(descriptor, &status) == 0 {
      let byteCount = Int64(status.st_size)
      let stretch = max(Self.shortestStretch, byteCount / Int64(Self.stretchCount))
      for start in stride(from: 0, to: byteCount, by: Int(stretch)) {
        // Dropped because a stretch that failed, or a file system that can't do this, leaves it to the sync.
        _ = sync_stretch(descriptor, start, stretch)
      }
    }
    isWaiting.store(false, ordering: .releasing)
    _ = ended.push(true)
  }
}
