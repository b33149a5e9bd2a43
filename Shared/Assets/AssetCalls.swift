// Runs calls to stores of assets on threads of their own, because such calls block.

import Dispatch
import Queues
import Synchronization

/// A few threads for calls that block. A store that hangs so holds those threads, and none on which tasks run.
///
/// Parties take turns, and one of them has at most half of the threads. The server's own calls, whose party is empty,
/// take turns without a share.
final class BlockingThreads: Sendable {
  typealias Call = @Sendable () -> Void

  private struct State {
    /// Serial queues, because the system gives each of them a thread at once, however many others block.
    var idle: [DispatchQueue]
    /// The number of calls that wait is bounded by that of the requests under way.
    var calls: Lanes<Call>
  }

  private let state: Mutex<State>

  init(count: Int) {
    state = Mutex(
      State(
        idle: (0..<count).map { DispatchQueue(label: "aquifer.assets.apart.\($0)") },
        calls: Lanes(count, share: max(count / 2, 1))))
  }

  /// - Parameter party: whose turn the call takes.
  func run(of party: String, _ call: @escaping Call) {
    let start = state.withLock { state -> (queue: DispatchQueue, call: Call, party: String)? in
      state.calls.append(call, of: party)
      // As many threads are idle as lanes.
      guard let next = state.calls.next(), let queue = state.idle.popLast() else { return nil }
      return (queue, next.element, next.party)
    }
    if let start { start.queue.async { self.run(start.call, of: start.party, on: start.queue) } }
  }

  /// Runs a call and then those that wait.
  private func run(_ first: @escaping Call, of firstParty: String, on queue: DispatchQueue) {
    var next: (element: Call, party: String)? = (first, firstParty)
    while let (call, party) = next {
      call()
      next = state.withLock { state in
        state.calls.end(party)
        if let next = state.calls.next() { return next }
        state.idle.append(queue)
        return nil
      }
    }
  }
}

private let blockingThreads = BlockingThreads(count: 32)
/// Removals have a time in which they must begin, so they wait for no other call.
private let removalThreads = BlockingThreads(count: 8)

extension AssetStore {
  /// Makes calls on a thread that may block, so that tasks go on meanwhile.
  /// - Parameter party: whose turn the calls take; empty for the server itself.
  public func apart<Value: Sendable>(
    of party: String = "", _ calls: @escaping @Sendable (any AssetStore) throws(AssetError) -> Value
  ) async throws(AssetError) -> Value {
    let result: Result<Value, AssetError> = await withCheckedContinuation { continuation in
      blockingThreads.run(of: party) {
        continuation.resume(returning: Result { () throws(AssetError) in try calls(self) })
      }
    }
    return try result.get()
  }
}

/// A body of a shard needs calls to the store of assets before it can go on. The shard undoes the body, makes the calls
/// away from its own threads, and runs the body again.
public struct AssetCalls: Error {
  /// What the body lacks, for operators.
  public let purpose: String
  /// True for a removal: the shard must not be given up meanwhile.
  public let holdsShard: Bool
  private let calls: @Sendable () throws(AssetError) -> Void

  /// - Parameter calls: blocks; after it, the body finds what it lacked.
  public init(_ purpose: String, holdsShard: Bool = false, _ calls: @escaping @Sendable () throws(AssetError) -> Void) {
    self.purpose = purpose
    self.holdsShard = holdsShard
    self.calls = calls
  }

  /// The most often that one body is run.
  public static let runLimit = 5

  /// Makes the calls on a thread that may block.
  /// - Parameters:
  ///   - party: whose turn the calls take; empty for the server itself.
  ///   - mayBegin: asked there before.
  ///   - done: called there with the result; nil when the calls were not to begin.
  public func make(
    of party: String, if mayBegin: @escaping @Sendable () -> Bool = { true },
    _ done: @escaping @Sendable (Result<Void, AssetError>?) -> Void
  ) {
    let threads = holdsShard ? removalThreads : blockingThreads
    threads.run(of: party) { done(mayBegin() ? Result { () throws(AssetError) in try calls() } : nil) }
  }

  /// Makes the calls on a thread that may block, so that tasks go on meanwhile.
  /// - Parameter party: see above.
  public func make(of party: String = "") async throws(AssetError) {
    let result: Result<Void, AssetError> = await withCheckedContinuation { continuation in
      make(of: party) { continuation.resume(returning: $0 ?? .success(())) }
    }
    try result.get()
  }
}
