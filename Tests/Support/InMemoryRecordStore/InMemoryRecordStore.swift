// The oracle: the store protocol over plain dictionaries, simple enough to be trusted. For tests; nothing is durable.

public import RecordStore
public import Records
import Synchronization

/// A store in memory. Each body runs at once when it is enqueued, one at a time, on a copy that is dropped when it
/// throws.
///
/// Shards outlive their owners, so that a test can close one and open it again.
public final class InMemoryRecordStore: RecordStore {
  /// The inputs that a real store takes from the machine.
  struct World: Sendable {
    let makeIncarnation: @Sendable () -> UInt64
    let now: @Sendable () -> Int64
    let hasUpload: @Sendable (Asset) -> Bool
    let keepsPastStates: Bool
  }

  public let shardCount: Int
  private let shards: [InMemoryShard]

  /// - Parameters:
  ///   - makeIncarnation: draws the incarnations of databases, zones and mirrors.
  ///   - now: the time at which assets become unused, in milliseconds since 1970.
  ///   - hasUpload: whether an asset's content was uploaded and still exists.
  ///   - keepsPastStates: whether replaced states of records are kept.
  ///   - commitFailure: called at each commit of a shard. An error that it returns fails the commit, and nothing is
  ///     stored.
  public init(
    shardCount: Int, makeIncarnation: @escaping @Sendable () -> UInt64 = { .random(in: 1...UInt64.max) },
    now: @escaping @Sendable () -> Int64 = { 0 },
    hasUpload: @escaping @Sendable (Asset) -> Bool = { _ in true }, keepsPastStates: Bool = false,
    commitFailure: @escaping @Sendable (_ shard: Int) -> StoreError? = { _ in nil }
  ) {
    precondition(shardCount > 0, "an installation has at least one shard, not \(shardCount)")
    self.shardCount = shardCount
    let world = World(
      makeIncarnation: makeIncarnation, now: now, hasUpload: hasUpload, keepsPastStates: keepsPastStates)
    shards = (0..<shardCount).map { InMemoryShard(number: $0, world, commitFailure: commitFailure) }
  }

  /// Renews nothing, because there are no copies of a shard.
  public func open(shard: Int, knownEpoch: Int64, renewingBelow bound: Int64) async throws -> any ShardStore {
    guard shards.indices.contains(shard) else { throw StoreError.io("there is no shard \(shard) of \(shardCount)") }
    let epoch = try await shards[shard].waitForOwnership()
    guard epoch > knownEpoch else {
      shards[shard].release(epoch: epoch)
      throw StoreError.foreign("shard \(shard): its epoch is less than \(knownEpoch)")
    }
    return InMemoryShardStore(shards[shard], epoch: epoch)
  }

  /// Takes a shard over without waiting for its owner, as after a SIGKILL. The old owner's commits fail as fenced.
  public func takeOver(shard: Int) -> any ShardStore {
    InMemoryShardStore(shards[shard], epoch: shards[shard].seize())
  }
}

/// One owner's handle on a shard.
private final class InMemoryShardStore: ShardStore {
  let shard: Int
  let epoch: Int64
  private let core: InMemoryShard
  private let isClosed = Atomic(false)

  init(_ core: InMemoryShard, epoch: Int64) {
    self.core = core
    self.shard = core.number
    self.epoch = epoch
  }

  func enqueue<Value: Sendable>(
    expecting lookups: @escaping @Sendable () -> [ExpectedLookup],
    _ body: @escaping @Sendable (any ShardTransaction) throws -> Value
  ) -> PendingCommit<Value> {
    guard !isClosed.load(ordering: .acquiring) else {
      return SettledCommit<Value>(result: .failure(StoreError.closed(shard: shard)))
    }
    return SettledCommit(result: Result { try core.commit(epoch: epoch, body) })
  }

  func collectAssets(orphanedBefore cutoff: Int64, limit: Int) -> PendingCommit<Int> {
    enqueue { transaction in
      (transaction as? InMemoryTransaction)?.collectAssets(orphanedBefore: cutoff, limit: limit) ?? 0
    }
  }

  func read<Value: Sendable>(_ body: @escaping @Sendable (any ShardSnapshot) throws -> Value) async throws -> Value {
    guard !isClosed.load(ordering: .acquiring) else { throw StoreError.closed(shard: shard) }
    return try body(core.snapshot())
  }

  func close() async {
    if !isClosed.exchange(true, ordering: .acquiringAndReleasing) { core.release(epoch: epoch) }
  }

  var statistics: [StoreStatistic] { core.statistics }
}

struct SettledCommit<Value: Sendable>: CommitOutcome {
  let result: Result<Value, any Error>

  var value: Value {
    get async throws { try result.get() }
  }
}

/// A shard's state, its epoch, and the callers that wait to own it.
private final class InMemoryShard: Sendable {
  private struct Waiter {
    let number: Int
    let continuation: CheckedContinuation<Int64, any Error>
  }

  private struct State {
    var rows = InMemoryRows()
    var epoch: Int64 = 0
    var isOwned = false
    var waiters: [Waiter] = []
    var lastWaiter = 0
    var cancelledWaiters: Set<Int> = []
    var commits = 0
  }

  let number: Int
  private let world: InMemoryRecordStore.World
  private let commitFailure: @Sendable (Int) -> StoreError?
  private let state = Mutex(State())

  init(number: Int, _ world: InMemoryRecordStore.World, commitFailure: @escaping @Sendable (Int) -> StoreError?) {
    self.number = number
    self.world = world
    self.commitFailure = commitFailure
  }

  // MARK: Ownership

  func waitForOwnership() async throws -> Int64 {
    let waiter = state.withLock { state in
      state.lastWaiter += 1
      return state.lastWaiter
    }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let outcome: Result<Int64, any Error>? = state.withLock { state in
          if state.cancelledWaiters.remove(waiter) != nil { return .failure(CancellationError()) }
          if !state.isOwned { return .success(Self.own(&state)) }
          state.waiters.append(Waiter(number: waiter, continuation: continuation))
          return nil
        }
        if let outcome { continuation.resume(with: outcome) }
      }
    } onCancel: {
      let waiting = state.withLock { state in
        if let index = state.waiters.firstIndex(where: { $0.number == waiter }) {
          return Optional(state.waiters.remove(at: index))
        }
        state.cancelledWaiters.insert(waiter)
        return nil
      }
      waiting?.continuation.resume(throwing: CancellationError())
    }
  }

  func seize() -> Int64 { state.withLock { Self.own(&$0) } }

  func release(epoch: Int64) {
    let next = state.withLock { state -> (Waiter, Int64)? in
      guard state.epoch == epoch else { return nil }
      state.isOwned = false
      if state.waiters.isEmpty { return nil }
      return (state.waiters.removeFirst(), Self.own(&state))
    }
    next?.0.continuation.resume(returning: next?.1 ?? 0)
  }

  private static func own(_ state: inout State) -> Int64 {
    state.isOwned = true
    state.epoch += 1
    state.rows.inheritedEventOrder = state.rows.lastEventOrder
    return state.epoch
  }

  // MARK: Transactions

  func commit<Value: Sendable>(epoch: Int64, _ body: (any ShardTransaction) throws -> Value) throws -> Value {
    try state.withLock { state in
      guard state.epoch == epoch else { throw StoreError.fenced(shard: number, epoch: state.epoch) }
      let transaction = InMemoryTransaction(state.rows, world)
      let value = try body(transaction)
      if let refusal = transaction.refusal { throw refusal }
      if let failure = commitFailure(number) { throw failure }
      state.rows = transaction.rows
      state.commits += 1
      return value
    }
  }

  func snapshot() -> any ShardSnapshot {
    InMemoryTransaction(state.withLock { $0.rows }, world)
  }

  var statistics: [StoreStatistic] {
    [StoreStatistic(name: "commits_total", value: Double(state.withLock { $0.commits }))]
  }
}
