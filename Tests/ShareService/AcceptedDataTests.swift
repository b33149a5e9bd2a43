// Data that an operator accepts as they are found.

import InMemoryServiceBus
import JSON
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
    #expect(try await world.service.directory.acceptData("0", known: []).accepted == ["shard-0"])
    #expect(try await told() == [[0, 0, 6], [4, 0, 0]])
    #expect(try await world.service.directory.acceptedShards() == [0])
    world = try await world.restarted()
    // Nothing else is accepted by a second call.
    #expect(try await world.service.directory.acceptData("all", known: []).accepted == ["shard-2"])
    #expect(try await told() == [[0, 0, 0], [4, 0, 6]])
    #expect(try await world.service.directory.acceptedShards() == [0, 2])
    let claim = ClaimFolder(folder: "data", epoch: 0, nonce: "", next: nil)
    #expect(try await world.service.directory.claim(claim).hasShards == false)
    let reply = try await world.service.directory.shardEpochs(FetchShardEpochs(shard: 2))
    #expect(reply.epochs == [0] && reply.accepted == [6])
    // Any opening counts: its worker was told.
    try await note(0, 3)
    try await note(2, 1_900_000_000_000)
    #expect(try await told() == [[3, 0, 1_900_000_000_000], [0, 0, 0]])
    #expect(try await world.service.directory.acceptedShards().isEmpty)
    #expect(try await world.service.directory.claim(claim).hasShards)
    await world.service.close()
  }

  @Test func `an acceptance leaves out the shards that are open, and with all of them the folders in use`()
    async throws
  {
    let world = try World(shardCount: 3)
    let directory = world.service.directory
    for folder in ["data", "assets"] {
      _ = try await directory.claim(ClaimFolder(folder: folder, epoch: 0, nonce: "", next: "aa"))
    }
    for shard in 0..<3 {
      _ = try await directory.note(NoteShardEpochs(epochs: [.init(shard: shard, epoch: 4)]))
    }
    let claim = ClaimFolder(folder: "data", epoch: 0, nonce: "", next: nil)
    #expect(
      try await directory.acceptData("all", known: [], open: [0, 1, 2])
        == Acceptance(accepted: [], inUse: ["assets", "data", "shard-0", "shard-1", "shard-2"]))
    #expect(try await directory.shardEpochs(FetchShardEpochs()).epochs == [4, 4, 4])
    let reply = try await directory.claim(claim)
    #expect(reply.hasShards && reply.knownEpoch == 1)
    // The shard that is refused is accepted beside open ones.
    #expect(
      try await directory.acceptData("all", known: [], open: [0, 2])
        == Acceptance(accepted: ["shard-1"], inUse: ["assets", "data", "shard-0", "shard-2"]))
    #expect(try await directory.acceptData("0", known: [], open: [0, 2]).inUse == ["shard-0"])
    #expect(try await directory.shardEpochs(FetchShardEpochs()).epochs == [4, 0, 4])
    // A folder that is named is accepted all the same.
    #expect(try await directory.acceptData("data", known: [], open: [0]).accepted == ["data"])
    #expect(try await directory.claim(claim).knownEpoch == nil)
    await world.service.close()
  }

  @Test func `status and the list of shards name those that were accepted and not opened since`() async throws {
    let bus = InMemoryBus(name: "share", role: .share, network: InMemoryNetwork(), handlers: BusHandlers())
    func answers(accepted: [Int]) async throws -> (status: JSONValue, shards: [JSONValue]) {
      let reports = ClusterReports(
        bus: bus, shardCount: { 4 }, now: { 0 }, map: { nil }, acceptedShards: { accepted })
      let status = try #require(await reports.answer("status", [:]))
      let shards = try #require(await reports.answer("shards", [:]))
      return (
        try JSONValue(parsing: status.body), try JSONValue(parsing: shards.body)["shards"]?.elements ?? []
      )
    }
    let some = try await answers(accepted: [1, 2])
    #expect(some.status["shards"]?["accepted"]?.elements.map(\.int64) == [1, 2])
    let notes = some.status["verdict"]?["notes"]?.elements.compactMap(\.string) ?? []
    #expect(
      notes == [
        "shards 1-2 will be served as a worker finds them: accepted, and not opened since (`aquifer shards`)"
      ])
    #expect(some.shards.map { $0["accepted"]?.bool } == [nil, true, true, nil])
    let none = try await answers(accepted: [])
    #expect(none.status["shards"]?["accepted"] == nil && none.status["verdict"]?["notes"]?.elements.isEmpty == true)
    #expect(none.shards.allSatisfy { $0["accepted"] == nil })
  }

  @Test func `shards that their workers have open are not accepted by a call`() async throws {
    let world = try World(shardCount: 2)
    _ = try await world.service.directory.note(
      NoteShardEpochs(epochs: [.init(shard: 0, epoch: 4), .init(shard: 1, epoch: 4)]))
    var operators = world.operators
    operators.openShards = { [0] }
    let request = OperatorRequest(
      method: "POST", path: ["admin", "1", "shards", "accept"], query: [:], member: nil)
    let answer = await operators.answer(request, body: Array(#"{"what":"all"}"#.utf8))
    #expect(answer.status == 200)
    #expect(try await world.service.directory.shardEpochs(FetchShardEpochs()).epochs == [4, 0])
    await world.service.close()
  }
}
