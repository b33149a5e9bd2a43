import Foundation
@testable import RecordStore
import Synchronization
import Testing

/// A file of four stretches whose writeback waits for the test.
struct WritebackTests {
  private final class SlowDisk: Sendable {
    let starts = Mutex<[Int]>([])
    let isFree = SQLiteStoreTests.Latch()

    func write(_ start: Int) {
      starts.withLock { $0.append(start) }
      isFree.wait()
      // Stays open for the next one.
      isFree.open()
    }
  }

  private static let stretch = 256 * 1024
  private let folder: TemporaryFolder
  private let disk = SlowDisk()
  private let writeback: Writeback

  init() throws {
    folder = try TemporaryFolder()
    try Data(count: 4 * Self.stretch).write(to: URL(filePath: folder.path + "/file"))
    writeback = try Writeback(folder.path + "/file", on: WritebackThread(shardCount: 1)) { [disk] _, start, _ in
      disk.write(start)
    }
  }

  private var starts: [Int] { disk.starts.withLock { $0.map { $0 / Self.stretch } } }

  private func waitUntil(_ isSo: () -> Bool) async throws {
    for _ in 0..<5000 where !isSo() { try await Task.sleep(for: .milliseconds(1)) }
  }

  @Test func `a write during the writing back of a file is written back after it, once`() async throws {
    writeback.start()
    try await waitUntil { starts == [0] }
    writeback.start()
    writeback.start()
    #expect(writeback.isUnderWay)
    disk.isFree.open()
    try await waitUntil { !writeback.isUnderWay }
    #expect(starts == [0, 1, 2, 3, 0, 1, 2, 3])
    writeback.close()
  }

  @Test func `closing waits for the stretch that is being written, and for no other`() async throws {
    writeback.start()
    try await waitUntil { starts == [0] }
    writeback.start()
    let closing = Task.detached { [writeback] in writeback.close() }
    try await waitUntil { writeback.isClosing }
    #expect(writeback.isUnderWay)
    disk.isFree.open()
    await closing.value
    #expect(starts == [0] && !writeback.isUnderWay)
  }
}
