import Dispatch
import Foundation
import Testing

@testable import Assets

/// The threads for calls that block, shared by all parties of a process.
struct BlockingThreadsTests {
  /// Returns once a call of `party` has run.
  private func call(_ threads: BlockingThreads, of party: String) async {
    await withCheckedContinuation { continuation in threads.run(of: party) { continuation.resume() } }
  }

  @Test(.timeLimit(.minutes(1)), arguments: ["another", ""])
  func `a party whose calls hang leaves threads to another one and to the server`(other: String) async {
    let threads = BlockingThreads(count: 4)
    let gate = DispatchSemaphore(value: 0)
    for _ in 0..<40 { threads.run(of: "greedy") { gate.wait() } }
    await call(threads, of: other)
    for _ in 0..<40 { gate.signal() }
  }

  @Test(.timeLimit(.minutes(1))) func `the calls of two parties run in turn`() async {
    let threads = BlockingThreads(count: 1)
    let gate = DispatchSemaphore(value: 0)
    let (order, note) = AsyncStream.makeStream(of: String.self)
    threads.run(of: "first") { gate.wait() }
    for party in ["greedy", "greedy", "greedy", "other"] { threads.run(of: party) { note.yield(party) } }
    gate.signal()
    var ran: [String] = []
    for await party in order.prefix(4) { ran.append(party) }
    #expect(ran == ["greedy", "other", "greedy", "greedy"])
  }

  @Test(.timeLimit(.minutes(1))) func `a removal waits for no other call`() async throws {
    let gate = DispatchSemaphore(value: 0)
    let folder = AssetFolder(directory: "/nonexistent")
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<64 {
        group.addTask { try await folder.apart(of: "party \(number)") { _ in gate.wait() } }
      }
      // None of them ends before the removal.
      try await AssetCalls("a removal", holdsShard: true) {}.make()
      for _ in 0..<64 { gate.signal() }
      try await group.waitForAll()
    }
  }
}
