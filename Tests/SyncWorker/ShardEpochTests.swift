import InMemoryRecordStore
import InMemoryServiceBus
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing

@testable import WorkerHost

/// A directory that knows of no shard, and a worker's connection with it.
final class ToldDirectory: Sendable {
  let bus: InMemoryBus
  private let share: InMemoryBus
  private let openings: Openings

  private final class Openings: Sendable {
    let told = Mutex<[NoteShardEpochs.Opened]>([])
  }

  /// The openings that it was told of.
  var told: [NoteShardEpochs.Opened] { openings.told.withLock(\.self) }

  init(worker: String) async {
    let network = InMemoryNetwork(time: .stepped)
    let openings = Openings()
    var handlers = BusHandlers()
    handlers.on(FetchShardEpochs.self) { _, _, _ in Answer(FetchShardEpochs.Reply(epochs: [0])) }
    handlers.on(NoteShardEpochs.self) { message, _, _ in
      openings.told.withLock { $0 += message.epochs }
      return Answer(Acknowledgement())
    }
    self.openings = openings
    share = InMemoryBus(name: "share-1", role: .share, network: network, handlers: handlers, isReady: true)
    bus = InMemoryBus(name: worker, role: .worker, network: network, handlers: BusHandlers(), isReady: true)
    bus.connect(to: share.own.endpoint, of: .peer("share-1"))
    _ = await bus.waitForPeers { !$0.isEmpty }
  }
}

/// An opened shard whose tables may have the note of a division.
private struct SplitShard: ShardStore {
  let base: any ShardStore
  let part: ShardPart?
  let note: @Sendable () -> PendingSplit?

  var shard: Int { base.shard }
  var epoch: Int64 { base.epoch }
  var pendingSplit: PendingSplit? { note() }
  var statistics: [StoreStatistic] { base.statistics }
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
  func close() async { await base.close() }
}

/// What a worker asks the directory before it opens a shard, and tells it afterwards.
struct ShardEpochTests {
  @Test func `an accepted shard is served only after the directory knows that it was renewed`() async throws {
    let network = InMemoryNetwork(time: .stepped)
    let noted = Mutex<[Int64]>([])
    var handlers = BusHandlers()
    handlers.on(FetchShardEpochs.self) { _, _, _ in Answer(FetchShardEpochs.Reply(epochs: [0], accepted: [4])) }
    handlers.on(NoteShardEpochs.self) { message, _, _ in
      noted.withLock { $0 += message.epochs.map(\.epoch) }
      return Answer(Acknowledgement())
    }
    let share = InMemoryBus(name: "share-1", role: .share, network: network, handlers: handlers, isReady: true)
    let worker = InMemoryBus(name: "worker-1", role: .worker, network: network, handlers: BusHandlers(), isReady: true)
    worker.connect(to: share.own.endpoint, of: .peer("share-1"))
    _ = await worker.waitForPeers { !$0.isEmpty }
    let epochs = ShardEpochs(bus: worker, log: .silent, pause: { _ in })
    #expect(await epochs.known(ofShard: 0) == ShardEpochs.Known(least: 0, accepted: 4))
    let store = InMemoryRecordStore(shardCount: 1)
    for _ in 0..<6 { await (try await store.open(shard: 0)).close() }
    let shard = try await store.open(shard: 0)
    await epochs.noteFirst(shard)
    #expect(noted.withLock { $0 } == [7])
    // Without an answer the last one counts, and that is the opening.
    share.close()
    #expect(await epochs.known(ofShard: 0) == ShardEpochs.Known(least: 7))
    // An opening without an acceptance is told in the background.
    await epochs.noteFirst(shard)
    #expect(noted.withLock { $0 } == [7])
    await shard.close()
  }

  @Test func `a division is told with the opening, and its end once the tables have no note of it`() async throws {
    let directory = await ToldDirectory(worker: "worker-1")
    let pending = PendingSplit(shard: 1, number: 9, cluster: "west")
    let part = ShardPart(modulus: 2, remainder: 0)
    let note = Mutex<PendingSplit?>(pending)
    let epochs = ShardEpochs(bus: directory.bus, log: .silent, pause: { _ in note.withLock { $0 = nil } })
    let store = InMemoryRecordStore(shardCount: 1)
    await (try await store.open(shard: 0)).close()
    func open() async throws -> SplitShard {
      SplitShard(base: try await store.open(shard: 0), part: part) { note.withLock(\.self) }
    }
    func told(_ epoch: Int64, _ pending: PendingSplit?, _ takenBack: Int64? = nil) -> NoteShardEpochs.Opened {
      NoteShardEpochs.Opened(shard: 0, epoch: epoch, part: part, pending: pending, takenBack: takenBack)
    }
    let first = try await open()
    await epochs.noteFirst(first, knowing: 3)
    // The note of it goes before the directory hears of it.
    note.withLock { $0 = nil }
    await epochs.run(on: first)
    #expect(directory.told == [told(2, pending, 3), told(2, nil, 3)])
    await epochs.noteAgain(first)
    #expect(directory.told.dropFirst(2) == [told(2, pending, 3), told(2, nil, 3)])
    await first.close()
    let second = try await open()
    await epochs.noteFirst(second)
    await epochs.run(on: second)
    #expect(directory.told.dropFirst(4) == [told(3, pending), told(3, nil)])
    // An end that is waited for.
    note.withLock { $0 = pending }
    await epochs.noteAgain(second)
    #expect(directory.told.dropFirst(6) == [told(3, pending)])
    await epochs.run(on: second)
    #expect(directory.told.dropFirst(7) == [told(3, pending), told(3, nil)])
    await second.close()
  }
}
