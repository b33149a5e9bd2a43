// Subscribers of peers or maps may be cancelled at the very moment of an update.

import Foundation
import Synchronization
import Testing

@testable import ServiceBus

@Suite struct SubscriberTests {
  private final class Progress: Sendable {
    let rounds = Atomic(0)
    let isOver = Atomic(false)
  }

  private static let roundCount = 2000

  /// Cancels a reader repeatedly while another thread publishes. Both have threads of their own, so that a deadlock
  /// affects no other test.
  private func cancel<Value: Sendable>(
    readersOf changes: @escaping @Sendable () -> AsyncStream<Value>, while tell: @escaping @Sendable (Int) -> Void
  ) async throws {
    let progress = Progress()
    let teller = Thread {
      var version = 0
      while !progress.isOver.load(ordering: .relaxed) {
        version += 1
        tell(version)
      }
    }
    let canceller = Thread {
      for _ in 0..<Self.roundCount {
        let stream = changes()
        let task = Task { for await _ in stream {} }
        for _ in 0..<progress.rounds.load(ordering: .relaxed) % 50 { sched_yield() }
        task.cancel()
        progress.rounds.add(1, ordering: .relaxed)
      }
      progress.isOver.store(true, ordering: .relaxed)
    }
    teller.start()
    canceller.start()
    var seen = -1
    // As long as there is progress, there is no time limit.
    while !progress.isOver.load(ordering: .relaxed) {
      let rounds = progress.rounds.load(ordering: .relaxed)
      guard rounds != seen else {
        Issue.record("after \(rounds) readers the one who tells and the one who cancels wait for each other")
        return
      }
      seen = rounds
      for _ in 0..<200 where !progress.isOver.load(ordering: .relaxed) { try await Task.sleep(for: .milliseconds(50)) }
    }
  }

  @Test func `a reader of peers is cancelled while peers change`() async throws {
    let board = PeerBoard()
    try await cancel(readersOf: { board.changes() }) {
      board.publish([], version: UInt64($0))
    }
  }

  @Test func `a reader of maps is cancelled while maps arrive`() async throws {
    let cluster = Cluster(name: "worker-1", role: .worker)
    try await cancel(readersOf: { cluster.updates() }) {
      cluster.accept(ClusterMap(version: Int64($0), members: [], holders: []))
    }
  }

  @Test func `streams that nobody reads any more are forgotten with the next value`() async {
    var subscribers = Subscribers<Int>()
    let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
    subscribers.add(continuation)
    do {
      let (_, unread) = AsyncStream.makeStream(of: Int.self)
      subscribers.add(unread)
    }
    subscribers.yield(1)
    #expect(subscribers.count == 1)
    subscribers.finish()
    #expect(await stream.reduce(into: []) { $0.append($1) } == [1])
  }
}
