// The clusters of shards in the directory, and the operator's call for a move.

import JSON
import Records
import ServiceBus
import Testing

@testable import ShareService

@Suite(.eachEngine) struct ShardClusterTests {
  @discardableResult
  private func note(_ shard: Int, _ epoch: Int64, _ cluster: String?, in world: World) async throws -> Bool {
    try await world.service.directory.note(
      NoteShardEpochs(epochs: [.init(shard: shard, epoch: epoch, cluster: cluster)])
    ).isNews
  }

  @Test func `clusters and requests to move outlive a restart, and only a later opening changes them`() async throws {
    var world = try World(shardCount: 3)
    try await note(0, 4, nil, in: world)
    #expect(try await world.service.directory.places(known: []).clusters == nil)
    let first = [ShardCluster(), ShardCluster(name: "east"), ShardCluster(name: "west")]
    #expect(try await world.service.directory.places(known: ["main", "east", "west"]).clusters == first)
    try await world.service.directory.move(0, to: "west")
    world = try await world.restarted()
    #expect(try await world.service.directory.places(known: ["main"]).clusters?.first == ShardCluster(target: "west"))
    #expect(try await note(0, 4, "west", in: world) == false)
    #expect(try await world.service.directory.places(known: ["main"]).clusters?.first == ShardCluster(target: "west"))
    #expect(try await note(0, 6, "west", in: world))
    #expect(try await world.service.directory.places(known: ["main"]).clusters?.first == ShardCluster(name: "west"))
    _ = try await world.service.directory.acceptData("0", known: ["main", "west"])
    #expect(try await world.service.directory.places(known: ["main"]).clusters?.first == ShardCluster(name: "west"))
    _ = try await world.service.directory.acceptData("0", known: ["main"])
    #expect(try await world.service.directory.places(known: ["main"]).clusters?.first == ShardCluster())
    await world.service.close()
  }

  @Test func `64 shards of two clusters spread over a third in turns, and a second plan leaves what moves`()
    async throws
  {
    let world = try World(shardCount: 64)
    let directory = world.service.directory
    _ = try await directory.places(known: ["main", "west"]).clusters
    let names: Set<String> = ["main", "west", "north"]
    let worker = Peer(
      name: "worker", role: .worker, incarnation: 1, endpoint: "memory://worker", isReady: true,
      clusters: names.sorted())
    var operators = world.operators
    operators.map = {
      // Dropped because the call tells what a missing map means.
      let clusters = try? await directory.places(known: names).clusters
      return ClusterMap(
        version: 1, members: [worker], holders: Array(repeating: "worker", count: 64), clusters: clusters)
    }
    func balance(_ query: [String: String] = [:]) async throws -> (status: Int, answer: JSONValue) {
      let request = OperatorRequest(method: "POST", path: ["admin", "1", "shards", "balance"], query: query)
      let answer = await operators.answer(request, body: [])
      return (answer.status, try JSONValue(parsing: answer.body))
    }
    let early = try await balance()
    #expect(early.status == 503 && early.answer["reason"]?.string?.contains("shards 0-63 are not known") == true)
    operators.shardFigures = {
      Dictionary(uniqueKeysWithValues: (0..<64).map { ($0, .init(byteCount: Int64(90 + $0 % 9) << 20, load: 20)) })
    }
    func moving() async throws -> [Int] {
      let clusters = try await directory.shardClusters()
      return clusters.shards.indices.filter { clusters.shards[$0]?.target != nil }
    }
    #expect(try await balance(["limit": "0"]).status == 400)
    let trial = try await balance(["dryRun": "true"])
    let counts = trial.answer["clusters"]?.elements.map { $0["shardsAfter"]?.int64 ?? 0 } ?? []
    #expect(trial.status == 200 && counts.reduce(0, +) == 64 && counts.allSatisfy { (20...23).contains($0) })
    #expect(try await moving() == [])

    let plan = try await balance(["limit": "3"])
    let moves = plan.answer["moves"]?.elements ?? []
    #expect(plan.status == 202 && moves.count == trial.answer["moves"]?.count && (18...22).contains(moves.count))
    #expect(moves.allSatisfy { $0["to"]?.string == "north" } && moves.count { $0["waits"]?.bool == false } == 3)
    let first = try await moving()
    #expect(first.count == 3)
    let second = try await balance(["limit": "1"])
    #expect(try await moving() == first && second.answer["moves"]?.count == moves.count - 3)
    // The moves end one after the other; with the second limit they run alone.
    var (epoch, ended) = (Int64(1), 0)
    while let shard = try await moving().first {
      epoch += 1
      ended += 1
      try #require(ended <= moves.count)
      #expect(try await note(shard, epoch, "north", in: world))
      let left = try await moving().count
      #expect(left == max(first.count - ended, ended < moves.count ? 1 : 0))
    }
    #expect(ended == moves.count)
    let done = try await balance()
    #expect(done.answer["moves"]?.count == 0 && done.answer["movedBytes"]?.int64 == 0)
    await world.service.close()
  }

  @Test func `a move to a cluster that no worker reaches, or of no shard, is refused`() async throws {
    let world = try World(shardCount: 2)
    func refusal(_ path: String, _ to: String) async -> String {
      let answer = await world.call("POST", path, #"{"to":"\#(to)"}"#)
      return "\(answer.status) \(String(decoding: answer.body, as: UTF8.self))"
    }
    #expect(await refusal("/admin/1/shards/0/move", "west").contains("No ready worker reaches the cluster 'west'"))
    #expect(await refusal("/admin/1/shards/x/move", "west").contains("is no shard's number"))
    #expect(await refusal("/admin/1/shards/2/move", "main").hasPrefix("400"))
    let answer = await world.call("POST", "/admin/1/shards/1/move", #"{"to":"main"}"#)
    #expect(answer.status == 202)
    #expect(try JSONValue(parsing: answer.body)["cluster"]?.string == "main")
    await world.service.close()
  }
}
