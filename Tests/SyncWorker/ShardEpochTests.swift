import InMemoryRecordStore
import InMemoryServiceBus
import RecordStore
import ServiceBus
import ServiceKit
import Synchronization
import Testing

@testable import WorkerHost

/// A shard as it is found at an opening.
private struct FoundShard: ShardStore {
  let base: any ShardStore
  let epoch: Int64
  var isEpochStored = true

  var shard: Int { base.shard }
  var statistics: [StoreStatistic] { base.statistics }
  func turns(of party: String) -> any ShardStore { self }
  func enqueue<Value: Sendable>(
    expecting lookups: @escaping @Sendable () -> [ExpectedLookup],
    _ body: @escaping @Sendable (any ShardTransaction) throws -> Value
  ) -> PendingCommit<Value> { base.enqueue(expecting: lookups, body) }
  func read<Value: Sendable>(_ body: @escaping @Sendable (any ShardSnapshot) throws -> Value) async throws -> Value {
    try await base.read(body)
  }
  func collectAssets(orphanedBefore cutoff: Int64, limit: Int) -> PendingCommit<Int> {
    base.collectAssets(orphanedBefore: cutoff, limit: limit)
  }
  func removeUnknownContent(after part: Int?) async throws -> RemovedContent? {
    try await base.removeUnknownContent(after: part)
  }
  func close() async { await base.close() }
}

/// A worker, and a directory whose only shard was accepted when its epoch was 4.
private struct AcceptingWorld: Sendable {
  let share: InMemoryBus
  let worker: InMemoryBus
  private let noted: Notes

  private final class Notes: Sendable {
    let epochs = Mutex<[Int64]>([])
  }

  var epochs: [Int64] { noted.epochs.withLock { $0 } }

  init() async {
    let network = InMemoryNetwork(time: .stepped)
    let noted = Notes()
    var handlers = BusHandlers()
    handlers.on(FetchShardEpochs.self) { _, _, _ in Answer(FetchShardEpochs.Reply(epochs: [0], accepted: [4])) }
    handlers.on(NoteShardEpochs.self) { message, _, _ in
      noted.epochs.withLock { $0 += message.epochs.map(\.epoch) }
      return Answer(Acknowledgement())
    }
    share = InMemoryBus(name: "share-1", role: .share, network: network, handlers: handlers, isReady: true)
    worker = InMemoryBus(name: "worker-1", role: .worker, network: network, handlers: BusHandlers(), isReady: true)
    worker.connect(to: share.own.endpoint, of: .peer("share-1"))
    _ = await worker.waitForPeers { !$0.isEmpty }
    self.noted = noted
  }
}

/// What a worker asks the directory before it opens a shard, and tells it afterwards.
struct ShardEpochTests {
  @Test func `an accepted shard that was renewed is served only after the directory knows it`() async throws {
    let world = await AcceptingWorld()
    let epochs = ShardEpochs(bus: world.worker, log: .silent, pause: { _ in })
    #expect(await epochs.known(ofShard: 0) == ShardEpochs.Known(least: 0, accepted: 4))
    let shard = FoundShard(
      base: try await InMemoryRecordStore(shardCount: 1).open(shard: 0), epoch: 1_900_000_000_000)
    await epochs.noteFirst(shard)
    #expect(world.epochs == [1_900_000_000_000])
    // Without an answer the last one counts, and that is the opening.
    world.share.close()
    #expect(await epochs.known(ofShard: 0) == ShardEpochs.Known(least: 1_900_000_000_000))
    // An opening without an acceptance is told in the background.
    await epochs.noteFirst(shard)
    #expect(world.epochs == [1_900_000_000_000])
    await shard.close()
  }

  @Test(arguments: [true, false])
  func `an accepted shard that is no older than the directory knows is served at once, on a full disk too`(
    _ isEpochStored: Bool
  ) async throws {
    let world = await AcceptingWorld()
    let waited = Mutex(false)
    let epochs = ShardEpochs(
      bus: world.worker, log: .silent,
      pause: { _ in
        waited.withLock { $0 = true }
        withUnsafeCurrentTask { $0?.cancel() }
      })
    #expect(await epochs.known(ofShard: 0).accepted == 4)
    let shard = FoundShard(
      base: try await InMemoryRecordStore(shardCount: 1).open(shard: 0), epoch: 5, isEpochStored: isEpochStored)
    await Task { await epochs.noteFirst(shard) }.value
    #expect(!waited.withLock { $0 } && world.epochs == [])
    await Task { await epochs.run(on: shard) }.value
    #expect(world.epochs == (isEpochStored ? [5] : []))
    await shard.close()
  }
}
