// Signals between commits that change access to zones and the task that tells the share service.

import RecordStore
import Synchronization

/// Wakes the delivery of a shard's news and reports when it has caught up. All planes of a worker share one.
package final class ShareNewsSignals: Sendable {
  private struct Line {
    /// Wakes the delivering task; nil: none runs.
    var wake: AsyncStream<Void>.Continuation?
    /// Callers that wait until all earlier commits are told.
    var waiters: [Int: CheckedContinuation<Bool, Never>] = [:]
  }

  private struct State {
    var lines: [Int: Line] = [:]
    var nextNumber = 0
    var waitingCount: [Int: Int] = [:]
    var memberCounts: [Int: (shares: Int, members: Int)] = [:]
  }

  private let state = Mutex(State())

  package init() {
  }

  /// A commit may have written news. A call without need costs one read of an empty table.
  package func note(_ shard: Int) { state.withLock { _ = $0.lines[shard]?.wake?.yield() } }

  /// Returns when all commits before the call are told.
  /// - Returns: false when the shard is let go of or the task is cancelled first.
  package func delivered(_ shard: Int) async -> Bool {
    let number = state.withLock { state in
      state.nextNumber += 1
      return state.nextNumber
    }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isOver = state.withLock { state in
          guard !Task.isCancelled, let wake = state.lines[shard]?.wake else { return true }
          state.lines[shard]?.waiters[number] = continuation
          wake.yield()
          return false
        }
        if isOver { continuation.resume(returning: false) }
      }
    } onCancel: {
      state.withLock { $0.lines[shard]?.waiters.removeValue(forKey: number) }?.resume(returning: false)
    }
  }

  /// The number of untold news by shard.
  package var waitingCounts: [Int: Int] { state.withLock(\.waitingCount) }

  /// The figures of the last compare, by shard.
  package var memberCounts: [Int: (shares: Int, members: Int)] { state.withLock(\.memberCounts) }

  // MARK: The delivering task's part

  package func begin(_ shard: Int) -> AsyncStream<Void> {
    let (wakes, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    state.withLock { $0.lines[shard, default: Line()].wake = wake }
    return wakes
  }

  /// The waiters at this moment; later ones wait for another look.
  package func waiters(_ shard: Int) -> [Int] { state.withLock { $0.lines[shard]?.waiters.keys.sorted() ?? [] } }

  package func finish(_ waiters: [Int], of shard: Int) {
    let continuations = state.withLock { state in
      waiters.compactMap { state.lines[shard]?.waiters.removeValue(forKey: $0) }
    }
    for continuation in continuations { continuation.resume(returning: true) }
  }

  package func counted(shares: Int, members: Int, in shard: Int) {
    state.withLock { $0.memberCounts[shard] = (shares, members) }
  }

  package func waits(_ count: Int, in shard: Int) { state.withLock { $0.waitingCount[shard] = count } }

  package func end(_ shard: Int) {
    let line = state.withLock { state in
      state.waitingCount[shard] = nil
      state.memberCounts[shard] = nil
      return state.lines.removeValue(forKey: shard)
    }
    line?.wake?.finish()
    for continuation in line?.waiters.values.map(\.self) ?? [] { continuation.resume(returning: false) }
  }
}
