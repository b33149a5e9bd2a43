// Data that an operator accepts as they are found.

import Records
import ServiceBus
import Testing

@testable import ShareService

@Suite(.eachEngine) struct AcceptedDataTests {
  @Test func `the epoch of an accepted shard is told until a worker has opened the shard`() async throws {
    var world = try World(shardCount: 3)
    func told() async throws -> [[Int64]?] {
      let reply = try await world.service.directory.shardEpochs(FetchShardEpochs())
      return [reply.epochs, reply.accepted]
    }
    func note(_ shard: Int, _ epoch: Int64) async throws {
      _ = try await world.service.directory.note(NoteShardEpochs(epochs: [.init(shard: shard, epoch: epoch)]))
    }
    try await note(0, 4)
    try await note(2, 6)
    #expect(try await told() == [[4, 0, 6], [0, 0, 0]])
    #expect(try await world.service.directory.acceptData("0", known: []) == ["shard-0"])
    #expect(try await told() == [[0, 0, 6], [4, 0, 0]])
    world = try await world.restarted()
    // Nothing else is accepted by a second call.
    #expect(try await world.service.directory.acceptData("all", known: []) == ["shard-2"])
    #expect(try await told() == [[0, 0, 0], [4, 0, 6]])
    let claim = ClaimFolder(folder: "data", epoch: 0, nonce: "", next: nil)
    #expect(try await world.service.directory.claim(claim).hasShards == false)
    let reply = try await world.service.directory.shardEpochs(FetchShardEpochs(shard: 2))
    #expect(reply.epochs == [0] && reply.accepted == [6])
    // Any opening counts: its worker was told.
    try await note(0, 3)
    try await note(2, 1_900_000_000_000)
    #expect(try await told() == [[3, 0, 1_900_000_000_000], [0, 0, 0]])
    #expect(try await world.service.directory.claim(claim).hasShards)
    await world.service.close()
  }
}
