// Between commits that change who has access to what, and the task that tells the share service of it.

import RecordStore
import Synchronization

/// Wakes the delivery of a shard's news, and tells when it has caught up. One for all planes of a worker.
final class ShareNewsSignals: Sendable {
  private struct Line {
    /// Of the task that delivers; nil: none runs.
    var wake: AsyncStream<Void>.Continuation?
    /// Who waits until everything that was committed before is told.
    var waiters: [Int: CheckedContinuation<Bool, Never>] = [:]
  }

  private struct State {
    var lines: [Int: Line] = [:]
    var nextNumber = 0
    var waitingCount: [Int: Int] = [:]
    var memberCounts: [Int: (shares: Int, members: Int)] = [:]
  }

  private let state = Mutex(State())

  /// A commit may have written news. Called for nothing it costs a look at an empty table.
  func note(_ shard: Int) { state.withLock { _ = $0.lines[shard]?.wake?.yield() } }

  /// Returns when what was committed before the call is told.
  /// - Returns: false when that did not come about: the shard is being let go of, or the task was cancelled.
  func delivered(_ shard: Int) async -> Bool {
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

  /// How many news wait to be told, by shard.
  var waitingCounts: [Int: Int] { state.withLock(\.waitingCount) }

  /// Of each shard, as the last compare found them.
  var memberCounts: [Int: (shares: Int, members: Int)] { state.withLock(\.memberCounts) }

  // MARK: The delivering task's part

  func begin(_ shard: Int) -> AsyncStream<Void> {
    let (wakes, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    state.withLock { $0.lines[shard, default: Line()].wake = wake }
    return wakes
  }

  /// Those who wait now; whoever comes later waits for another look.
  func waiters(_ shard: Int) -> [Int] { state.withLock { $0.lines[shard]?.waiters.keys.sorted() ?? [] } }

  func finish(_ waiters: [Int], of shard: Int) {
    let continuations = state.withLock { state in waiters.compactMap { state.lines[shard]?.waiters.removeValue(forKey: $0) } }
    for continuation in continuations { continuation.resume(returning: true) }
  }

  func counted(shares: Int, members: Int, in shard: Int) { state.withLock { $0.memberCounts[shard] = (shares, members) } }

  func waits(_ count: Int, in shard: Int) { state.withLock { $0.waitingCount[shard] = count } }

  func end(_ shard: Int) {
    let line = state.withLock { state in
      state.waitingCount[shard] = nil
      state.memberCounts[shard] = nil
      return state.lines.removeValue(forKey: shard)
    }
    line?.wake?.finish()
    for continuation in line?.waiters.values.map(\.self) ?? [] { continuation.resume(returning: false) }
  }
}
