// Runs calls to stores of assets on threads of their own, because such calls block.

import Dispatch
import Queues
import Synchronization

/// A few threads for calls that block. A store that hangs so holds those threads, and none on which tasks run.
private final class BlockingThreads: Sendable {
  private struct State {
    /// Serial queues, because the system gives each of them a thread at once, however many others block.
    var idle: [DispatchQueue]
    /// In the order in which they came. Their number is bounded by that of the requests under way.
    var waiting = FIFO<@Sendable () -> Void>()
  }

  private let state: Mutex<State>

  init(count: Int) {
    state = Mutex(State(idle: (0..<count).map { DispatchQueue(label: "aquifer.assets.apart.\($0)") }))
  }

  func run(_ call: @escaping @Sendable () -> Void) {
    let queue = state.withLock { state -> DispatchQueue? in
      guard let queue = state.idle.popLast() else {
        state.waiting.append(call)
        return nil
      }
      return queue
    }
    if let queue { queue.async { self.run(call, on: queue) } }
  }

  /// Runs a call and then those that wait.
  private func run(_ first: @escaping @Sendable () -> Void, on queue: DispatchQueue) {
    var next: (@Sendable () -> Void)? = first
    while let call = next {
      call()
      next = state.withLock { state in
        if let next = state.waiting.popFirst() { return next }
        state.idle.append(queue)
        return nil
      }
    }
  }
}

private let blockingThreads = BlockingThreads(count: 32)

extension AssetStore {
  /// Makes calls on a thread that may block, so that tasks go on meanwhile.
  public func apart<Value: Sendable>(
    _ calls: @escaping @Sendable (any AssetStore) throws(AssetError) -> Value
  ) async throws(AssetError) -> Value {
    let result: Result<Value, AssetError> = await withCheckedContinuation { continuation in
      blockingThreads.run {
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
  /// True when the shard must not be given up meanwhile.
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
  ///   - mayBegin: asked there before.
  ///   - done: called there with the result; nil when the calls were not to begin.
  public func make(
    if mayBegin: @escaping @Sendable () -> Bool = { true },
    _ done: @escaping @Sendable (Result<Void, AssetError>?) -> Void
  ) {
    blockingThreads.run { done(mayBegin() ? Result { () throws(AssetError) in try calls() } : nil) }
  }

  /// Makes the calls on a thread that may block, so that tasks go on meanwhile.
  public func make() async throws(AssetError) {
    let result: Result<Void, AssetError> = await withCheckedContinuation { continuation in
      make { continuation.resume(returning: $0 ?? .success(())) }
    }
    try result.get()
  }
}
