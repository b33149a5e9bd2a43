import InMemoryRecordStore
import InMemoryServiceBus
import RecordStore
import ServiceBus
import ServiceKit
import Synchronization
import Testing

@testable import WorkerHost

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
}
