// The state that an open shard's owner shares with the shard's threads.

import Assets
import Synchronization

/// The state that a shard's owner, its writer and its readers share.
final class ShardCore: Sendable {
  private struct State {
    var failure: StoreError?
    var outage: StoreError?
    var isFinished = false
    var closers: [CheckedContinuation<Void, Never>] = []
    /// Calls to the store of assets under way, and those among them that must end before the shard is given up.
    var callCount = 0
    var holdingCallCount = 0
    /// No further calls begin.
    var isEnding = false
    var enders: [CheckedContinuation<Void, Never>] = []
  }

  let shard: Int
  let epoch: Int64
  let extent: ShardExtent
  /// True when the file has the raised epoch.
  let isRaised: Atomic<Bool>
  let options: StoreOptions
  let queue: BlockingQueue<any QueuedBody>
  let readers: ShardReaders
  /// nil when every visible commit is stored.
  let confirmed: ConfirmedCommits?
  let statistics = SharedStatistics()
  let committedMirrors = CommittedMirrors()
  /// The number of copies in progress.
  let copyCount = Atomic(0)
  let failures: AsyncStream<StoreError>
  private let tellFailure: AsyncStream<StoreError>.Continuation
  private let state = Mutex(State())

  /// The length of the shard's storage in bytes, without its log.
  let databaseByteCount: @Sendable () -> Int64

  init(
    shard: Int, epoch: Int64, extent: ShardExtent, isRaised: Bool = true, options: StoreOptions, readers: ShardReaders,
    confirmed: ConfirmedCommits? = nil, databaseByteCount: @escaping @Sendable () -> Int64
  ) throws(StoreError) {
    self.shard = shard
    self.databaseByteCount = databaseByteCount
    self.epoch = epoch
    self.extent = extent
    self.isRaised = Atomic(isRaised)
    self.options = options
    self.readers = readers
    self.confirmed = confirmed
    (failures, tellFailure) = AsyncStream.makeStream(of: StoreError.self, bufferingPolicy: .bufferingOldest(1))
    queue = try BlockingQueue(limit: options.queueLimit, partyLimit: options.partyQueueLimit)
  }

  /// The reason why the shard accepts no more writes; nil while it does.
  var failure: StoreError? { state.withLock { $0.failure } }

  /// The reason why the last write or read could not reach the shard's storage.
  var outage: StoreError? { state.withLock { $0.outage } }

  private let isCutOff = Atomic(false)

  /// Notes the error of a write or a read.
  func note(_ error: StoreError) {
    guard case .unreachable = error else { return }
    state.withLock { $0.outage = error }
    isCutOff.store(true, ordering: .relaxed)
  }

  /// Notes that the storage was reached.
  func noteReach() {
    guard isCutOff.load(ordering: .relaxed) else { return }
    isCutOff.store(false, ordering: .relaxed)
    state.withLock { $0.outage = nil }
  }

  func fail(_ failure: StoreError) {
    let isFirst = state.withLock { state in
      if state.failure != nil { return false }
      state.failure = failure
      return true
    }
    if isFirst { tellFailure.yield(failure) }
  }

  /// The error for every call after a failure; nil when there was none.
  var refusal: StoreError? {
    switch failure {
    case nil: nil
    case .fenced(let shard, let epoch): .fenced(shard: shard, epoch: epoch)
    default: .outOfService(shard: shard)
    }
  }

  // MARK: Bodies

  /// Queues a body, or settles it with the reason why that is not possible.
  func push(_ body: any QueuedBody) { note(queue.push(body, of: body.party), of: body) }

  /// Queues two bodies of a party so that the writer never finds the first without the second.
  func push(_ first: any QueuedBody, followedBy second: any QueuedBody) {
    let results = queue.push(first, followedBy: second, of: first.party)
    note(results.0, of: first)
    note(results.1, of: second)
  }

  private func note(_ result: BlockingQueue<any QueuedBody>.PushResult, of body: any QueuedBody) {
    switch result {
    case .pushed: break
    case .full:
      statistics.update { $0.overloads += 1 }
      body.settle(StoreError.overloaded(shard: shard))
    case .closed: body.settle(StoreError.closed(shard: shard))
    }
  }

  /// Makes the calls that a body needs, and queues the body again.
  func make(_ calls: AssetCalls, for body: any QueuedBody) {
    let refusal = state.withLock { state -> StoreError? in
      if state.isEnding { return .closed(shard: shard) }
      if state.callCount >= options.queueLimit { return .overloaded(shard: shard) }
      state.callCount += 1
      return nil
    }
    if let refusal { return body.settle(refusal) }
    calls.make(of: body.party, if: { self.begins(calls) }) { [self] result in
      switch result {
      case .success: push(body)
      case .failure(let error): body.settle(StoreError(error))
      case nil: body.settle(StoreError.closed(shard: shard))
      }
      ended(calls, hadBegun: result != nil)
    }
  }

  private func begins(_ calls: AssetCalls) -> Bool {
    state.withLock { state in
      if !state.isEnding, calls.holdsShard { state.holdingCallCount += 1 }
      return !state.isEnding
    }
  }

  private func ended(_ calls: AssetCalls, hadBegun: Bool) {
    let enders = state.withLock { state -> [CheckedContinuation<Void, Never>] in
      state.callCount -= 1
      if calls.holdsShard, hadBegun { state.holdingCallCount -= 1 }
      if state.holdingCallCount > 0 { return [] }
      defer { state.enders = [] }
      return state.enders
    }
    for ender in enders { ender.resume() }
  }

  /// Begins no further calls, and waits for those under way that hold the shard.
  func endCalls() async {
    await withCheckedContinuation { continuation in
      let isOver = state.withLock { state in
        state.isEnding = true
        if state.holdingCallCount > 0 { state.enders.append(continuation) }
        return state.holdingCallCount == 0
      }
      if isOver { continuation.resume() }
    }
  }

  /// Handles a failed statement of a read.
  /// - Returns: the error for the caller of the read.
  func readFailed(_ error: any EngineError) -> StoreError {
    let failure = error.storeError(shard: shard)
    if error.showsDamage { fail(failure) }
    note(failure)
    return failure
  }

  /// Notes that the writer has ended and the file is closed.
  func finish() {
    let closers = state.withLock { state in
      state.isFinished = true
      defer { state.closers = [] }
      return state.closers
    }
    tellFailure.finish()
    for closer in closers { closer.resume() }
  }

  func waitUntilFinished() async {
    await withCheckedContinuation { continuation in
      let isFinished = state.withLock { state in
        if !state.isFinished { state.closers.append(continuation) }
        return state.isFinished
      }
      if isFinished { continuation.resume() }
    }
  }
}
