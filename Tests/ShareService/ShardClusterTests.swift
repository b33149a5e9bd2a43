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
      NoteShardEpochs(epochs: [.init(shard: shard, epoch: epoch, cluster: cluster)]))
  }

  @Test func `clusters and requests to move outlive a restart, and only a later opening changes them`() async throws {
    var world = try World(shardCount: 3)
    try await note(0, 4, nil, in: world)
    #expect(try await world.service.directory.clusters(known: []) == nil)
    let first = [ShardCluster(), ShardCluster(name: "east"), ShardCluster(name: "west")]
    #expect(try await world.service.directory.clusters(known: ["main", "east", "west"]) == first)
    try await world.service.directory.move(0, to: "west")
    world = try await world.restarted()
    #expect(try await world.service.directory.clusters(known: ["main"])?.first == ShardCluster(target: "west"))
    #expect(try await note(0, 4, "west", in: world) == false)
    #expect(try await world.service.directory.clusters(known: ["main"])?.first == ShardCluster(target: "west"))
    #expect(try await note(0, 6, "west", in: world))
    #expect(try await world.service.directory.clusters(known: ["main"])?.first == ShardCluster(name: "west"))
    _ = try await world.service.directory.acceptData("0", known: ["main", "west"])
    #expect(try await world.service.directory.clusters(known: ["main"])?.first == ShardCluster(name: "west"))
    _ = try await world.service.directory.acceptData("0", known: ["main"])
    #expect(try await world.service.directory.clusters(known: ["main"])?.first == ShardCluster())
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
