import InMemoryRecordStore
import InMemoryServiceBus
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing

@testable import WorkerHost

/// A directory that has not heard of shard 0, or not since an operator accepted it, and a worker's connection with it.
final class ToldDirectory: Sendable {
  let bus: InMemoryBus
  private let share: InMemoryBus
  private let openings: Openings

  private final class Openings: Sendable {
    let told = Mutex<[NoteShardEpochs.Opened]>([])
  }

  /// The openings that it was told of.
  var told: [NoteShardEpochs.Opened] { openings.told.withLock(\.self) }
  var epochs: [Int64] { told.map(\.epoch) }

  /// Answers nothing from now on.
  func close() { share.close() }

  /// - Parameter accepted: the epoch that the shard had before it was accepted.
  init(worker: String, accepted: Int64 = 0) async {
    let network = InMemoryNetwork(time: .stepped)
    let openings = Openings()
    var handlers = BusHandlers()
    handlers.on(FetchShardEpochs.self) { _, _, _ in
      Answer(FetchShardEpochs.Reply(epochs: [0], accepted: [accepted]))
    }
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

/// A shard as it is found at an opening.
private struct FoundShard: ShardStore {
  let base: any ShardStore
  let epoch: Int64
  var isEpochStored = true
  var part: ShardPart?
  var note: @Sendable () -> PendingSplit? = { nil }

  var shard: Int { base.shard }
  var pendingSplit: PendingSplit? { note() }
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

/// What a worker asks the directory before it opens a shard, and tells it afterwards.
struct ShardEpochTests {
  @Test func `an accepted shard that was renewed is served only after the directory knows it`() async throws {
    let directory = await ToldDirectory(worker: "worker-1", accepted: 4)
    let epochs = ShardEpochs(bus: directory.bus, log: .silent, pause: { _ in })
    #expect(await epochs.known(ofShard: 0) == ShardEpochs.Known(least: 0, accepted: 4))
    let shard = FoundShard(
      base: try await InMemoryRecordStore(shardCount: 1).open(shard: 0), epoch: 1_900_000_000_000)
    await epochs.noteFirst(shard)
    #expect(directory.epochs == [1_900_000_000_000])
    // Without an answer the last one counts, and that is the opening.
    directory.close()
    #expect(await epochs.known(ofShard: 0) == ShardEpochs.Known(least: 1_900_000_000_000))
    // An opening without an acceptance is told in the background.
    await epochs.noteFirst(shard)
    #expect(directory.epochs == [1_900_000_000_000])
    await shard.close()
  }

  @Test(arguments: [true, false])
  func `an accepted shard that is no older than the directory knows is served at once, on a full disk too`(
    _ isEpochStored: Bool
  ) async throws {
    let directory = await ToldDirectory(worker: "worker-1", accepted: 4)
    let waited = Mutex(false)
    let epochs = ShardEpochs(
      bus: directory.bus, log: .silent,
      pause: { _ in
        waited.withLock { $0 = true }
        withUnsafeCurrentTask { $0?.cancel() }
      })
    #expect(await epochs.known(ofShard: 0).accepted == 4)
    let shard = FoundShard(
      base: try await InMemoryRecordStore(shardCount: 1).open(shard: 0), epoch: 5, isEpochStored: isEpochStored)
    await Task { await epochs.noteFirst(shard) }.value
    #expect(!waited.withLock { $0 } && directory.epochs == [])
    await Task { await epochs.run(on: shard) }.value
    #expect(directory.epochs == (isEpochStored ? [5] : []))
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
    func open() async throws -> FoundShard {
      let base = try await store.open(shard: 0)
      return FoundShard(base: base, epoch: base.epoch, part: part) { note.withLock(\.self) }
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
