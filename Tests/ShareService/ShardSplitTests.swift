// Divisions of shards in the directory, and the operator's call for one.

import JSON
import Records
import ServiceBus
import Testing

@testable import ShareService

@Suite(.eachEngine) struct ShardSplitTests {
  private static let part = ShardPart(modulus: 4, remainder: 0)

  private func opened(_ shard: Int, _ epoch: Int64, _ part: ShardPart?, in world: World) async throws -> Bool {
    try await world.service.directory.note(
      NoteShardEpochs(epochs: [.init(shard: shard, epoch: epoch, cluster: "main", part: part)]))
  }

  /// Databases of both shards, and of both halves of shard 0.
  private static let databases = (0..<40).map {
    DatabaseID(container: World.container, environment: .development, owner: "_\($0)")
  }

  private static func zone(of database: DatabaseID) -> SharedZone {
    SharedZone(
      key: SharedZone.Key(database: database, zoneName: "Trip", userRecordName: "_guest"), isActive: true, sequence: 3)
  }

  @Test func `a division that a worker reports makes the next shard, once, and outlives a restart`() async throws {
    var world = try World(shardCount: 2)
    _ = try await opened(0, 1, nil, in: world)
    try await world.service.directory.split(0, to: "west")
    #expect(try await world.service.directory.places(known: ["main", "west"]).clusters?[0].split == "west")
    // The shard was opened before its division.
    _ = try await opened(0, 2, nil, in: world)
    #expect(world.service.directory.layout.splits == [])
    #expect(try await opened(0, 3, Self.part, in: world))
    #expect(try await opened(0, 3, Self.part, in: world) == false)
    #expect(world.service.directory.layout == ShardLayout(createdCount: 2, splits: [0]))
    world = try await world.restarted()
    let directory = world.service.directory
    #expect(directory.layout == ShardLayout(createdCount: 2, splits: [0]) && directory.shardCount == 3)
    let places = try await directory.places(known: ["main", "west"])
    #expect(places.splits == [0])
    #expect(places.clusters == [ShardCluster(), ShardCluster(name: "west"), ShardCluster(name: "west")])
    // Nobody makes the new shard.
    #expect(try await directory.shardEpochs(FetchShardEpochs()).epochs == [3, 0, 1])
    // The next one, of the new shard, whose wish was taken back too late.
    #expect(try await opened(2, 2, ShardPart(modulus: 8, remainder: 2), in: world))
    #expect(directory.layout.splits == [0, 2])
    #expect(try await directory.places(known: []).clusters?.last == ShardCluster(name: "main"))
    // No division of this shard has such a part.
    _ = try await opened(1, 1, ShardPart(modulus: 64, remainder: 1), in: world)
    #expect(directory.layout.splits == [0, 2])
    await world.service.close()
  }

  @Test func `the index of shares follows a division, and no list of before or after it is compared meanwhile`()
    async throws
  {
    let world = try await World.withContainer(shardCount: 2)
    let directory = world.service.directory
    let zones = Self.databases.map(Self.zone)
    try await directory.note(zones)
    func page(_ shard: Int, _ part: ShardPart?, of zones: [SharedZone]) async throws -> Int {
      try await directory.compare(
        CompareSharedZones(
          number: directory.beginComparison(), shard: shard, after: nil, through: nil,
          zones: zones.sorted { $0.key < $1.key }, part: part))
    }
    func own(_ shard: Int, _ layout: ShardLayout) -> [SharedZone] {
      zones.filter { layout.shard(of: $0.key.database) == shard }
    }
    let (before, after) = (
      try #require(ShardLayout(createdCount: 2)), try #require(ShardLayout(createdCount: 2, splits: [0]))
    )
    #expect(try await page(0, nil, of: own(0, before)) == 0)
    // The shard is divided, and the directory has not heard of it: its list lacks the half that left.
    await #expect(throws: RecordError.self) { try await page(0, Self.part, of: own(0, after)) }
    _ = try await opened(0, 2, Self.part, in: world)
    await #expect(throws: RecordError.self) { try await page(0, nil, of: own(0, before)) }
    await #expect(throws: RecordError.self) {
      try await directory.note(
        NoteInvitations(shard: 0, shares: [], comparison: .init(number: 99, isLast: true)))
    }
    for shard in 0..<3 {
      #expect(try await page(shard, after.dividedPart(of: shard), of: own(shard, after)) == 0)
      #expect(!own(shard, after).isEmpty)
    }
    #expect(try await directory.sharedZoneCounts().active == Int64(zones.count))
    await world.service.close()
  }

  @Test func `a division that processes or the shard can't carry out is refused with the reason`() async throws {
    let world = try World(shardCount: 2)
    var operators = world.operators
    func answer(_ shard: String = "0", _ body: String = "{}") async throws -> String {
      let request = OperatorRequest(method: "POST", path: ["admin", "1", "shards", shard, "split"], query: [:])
      let answer = await operators.answer(request, body: Array(body.utf8))
      return "\(answer.status) \(String(decoding: answer.body, as: UTF8.self))"
    }
    func see(_ clusters: [String]?, knowsSplits: Bool? = true) {
      let worker = Peer(
        name: "worker-1", role: .worker, incarnation: 1, endpoint: "memory://worker", isReady: true,
        clusters: clusters, knowsSplits: knowsSplits)
      operators.map = { ClusterMap(version: 1, members: [worker], holders: ["worker-1", "worker-1"]) }
    }
    operators.map = { nil }
    #expect(try await answer().hasPrefix("503"))
    see(nil)
    #expect(try await answer().contains("only shards in PostgreSQL can be divided"))
    see(["main"], knowsSplits: nil)
    #expect(try await answer().contains("earlier release, which would look for databases in the wrong shard: worker-1"))
    see(["main"])
    #expect(try await answer("0", #"{"to":"west"}"#).contains("No ready worker reaches the cluster 'west'"))
    #expect(try await answer("x").contains("is no shard's number"))
    #expect(try await answer("2").contains("there is no shard 2"))
    let asked = try await answer()
    #expect(asked.hasPrefix("202") && asked.contains(#""newShard":2"#))
    #expect(try await answer("1").contains("shard 0 is being divided"))
    #expect(await world.call("POST", "/admin/1/shards/0/move", #"{"to":"main"}"#).status == 409)
    #expect(try await answer("0", #"{"cancel":true}"#).hasPrefix("202"))
    #expect(try await world.service.directory.shardClusters().splitting == nil)
    see(["main", "west"])
    try await world.service.directory.move(1, to: "west")
    #expect(try await answer("1").contains("shard 1 moves to the cluster west"))
    await world.service.close()
  }
}
