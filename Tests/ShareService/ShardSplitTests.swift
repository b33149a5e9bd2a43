// Divisions of shards in the directory, and the operator's call for one.

import JSON
import Records
import ServiceBus
import Testing

@testable import ShareService

@Suite(.eachEngine) struct ShardSplitTests {
  private static let part = ShardPart(modulus: 4, remainder: 0)

  @discardableResult
  private func opened(
    _ shard: Int, _ epoch: Int64, _ part: ShardPart?, _ pending: PendingSplit? = nil, knowing takenBack: Int64? = nil,
    in world: World
  ) async throws -> NotedOpenings {
    try await world.service.directory.note(
      NoteShardEpochs(
        epochs: [
          .init(shard: shard, epoch: epoch, cluster: "main", part: part, pending: pending, takenBack: takenBack)
        ]))
  }

  /// Databases of both shards, and of both halves of shard 0.
  private static let databases = (0..<1000).map {
    DatabaseID(container: World.container, environment: .development, owner: "_\($0)")
  }

  private static func zone(of database: DatabaseID) -> SharedZone {
    SharedZone(
      key: SharedZone.Key(database: database, zoneName: "Trip", userRecordName: "_guest"), isActive: true, sequence: 3)
  }

  @Test func `a division that a worker reports makes the next shard, once, and outlives a restart`() async throws {
    var world = try World(shardCount: 2)
    try await opened(0, 1, nil, in: world)
    try await world.service.directory.split(0, to: "west")
    #expect(try await world.service.directory.places(known: ["main", "west"]).clusters?[0].split == "west")
    // The shard was opened before its division.
    try await opened(0, 2, nil, in: world)
    #expect(world.service.directory.layout.splits == [])
    let pending = PendingSplit(shard: 2, number: 71, cluster: "west")
    #expect(try await opened(0, 3, Self.part, pending, in: world).isNews)
    // The first message may have been stored without a map.
    #expect(try await opened(0, 3, Self.part, pending, in: world).isNews)
    #expect(world.service.directory.layout == ShardLayout(createdCount: 2, splits: [0]))
    world = try await world.restarted()
    let directory = world.service.directory
    #expect(directory.layout == ShardLayout(createdCount: 2, splits: [0]) && directory.shardCount == 3)
    let places = try await directory.places(known: ["main", "west"])
    #expect(places.splits == [0])
    #expect(
      places.clusters == [
        ShardCluster(), ShardCluster(name: "west"), ShardCluster(name: "west", arrival: 71),
      ])
    // Nobody makes the new shard.
    #expect(try await directory.shardEpochs(FetchShardEpochs()).epochs == [3, 0, 1])
    try await opened(2, 2, ShardPart(modulus: 4, remainder: 2), in: world)
    #expect(try await directory.places(known: []).clusters?.last == ShardCluster(name: "main", arrival: 71))
    // A former owner tells late that nothing was pending.
    try await opened(0, 2, Self.part, in: world)
    #expect(try await directory.places(known: []).clusters?.last?.arrival == 71)
    try await opened(0, 3, Self.part, in: world)
    #expect(try await directory.places(known: []).clusters?.last == ShardCluster(name: "main"))
    // The next one, of the new shard. Its cluster is the one that the tables tell.
    try await directory.split(2, to: "west")
    let second = PendingSplit(shard: 3, number: 72, cluster: "north")
    #expect(try await opened(2, 4, ShardPart(modulus: 8, remainder: 2), second, in: world).isNews)
    #expect(directory.layout.splits == [0, 2])
    #expect(try await directory.places(known: []).clusters?.last == ShardCluster(name: "north", arrival: 72))
    await world.service.close()
  }

  @Test func `a division whose new shard is not certain is noted by nobody's guess, and an operator is told once`()
    async throws
  {
    let world = try World(shardCount: 2)
    let directory = world.service.directory
    func problem(_ shard: Int, _ part: ShardPart?, _ pending: PendingSplit?) async throws -> String? {
      let problems = try await opened(shard, 9, part, pending, in: world).problems
      #expect(problems.count < 2)
      return problems.first
    }
    func split(_ shard: Int) -> PendingSplit { PendingSplit(shard: shard, number: 5, cluster: "main") }
    // The directory comes from a backup of before: shard 1 was divided first.
    let lost = try await problem(0, Self.part, nil)
    #expect(lost?.contains("shard 0 was divided") == true && lost?.contains("later backup") == true)
    #expect(try await problem(0, Self.part, nil) == nil)
    #expect(try await directory.splitStandings()[0]?.problem == lost)
    #expect(try await problem(0, Self.part, split(3))?.contains("have to be opened first") == true)
    #expect(try await problem(0, ShardPart(modulus: 64, remainder: 0), nil)?.contains("part 0 of 64") == true)
    #expect(directory.layout.splits == [])
    #expect(try await problem(1, ShardPart(modulus: 4, remainder: 1), split(2)) == nil)
    #expect(try await problem(0, Self.part, split(3)) == nil)
    #expect(directory.layout.splits == [1, 0])
    #expect(try await directory.splitStandings()[0]?.problem == nil)
    #expect(try await problem(2, ShardPart(modulus: 8, remainder: 3), split(3))?.contains("as another one") == true)
    #expect(try await problem(0, Self.part, split(4))?.contains("as another one") == true)
    // A shard that was brought back to before its division is refused where it is opened.
    #expect(try await problem(1, nil, nil) == nil)
    #expect(directory.layout.splits == [1, 0])
    await world.service.close()
  }

  @Test(arguments: [false, true])
  func `a division of which the tables have no note any more is that of the request that the directory remembers`(
    isTakenBack: Bool
  ) async throws {
    let world = try World(shardCount: 2)
    try await opened(0, 1, nil, in: world)
    try await world.service.directory.split(0, to: "west")
    if isTakenBack { try await world.service.directory.takeSplitBack(0) }
    let problems = try await opened(0, 3, Self.part, in: world).problems
    #expect(problems.contains { $0.contains("taken back too late") } == isTakenBack)
    let places = try await world.service.directory.places(known: [])
    #expect(places.splits == [0] && places.clusters?.last == ShardCluster(name: "west"))
    await world.service.close()
  }

  @Test func `no other division begins until one that was taken back is known not to have been carried out`()
    async throws
  {
    var world = try World(shardCount: 2)
    for shard in 0..<2 { try await opened(shard, 1, nil, in: world) }
    func isRefused(_ shard: Int, because part: String) async -> Bool {
      let error = await #expect(throws: RecordError.self) { try await world.service.directory.split(shard, to: "main") }
      return error?.status == 409 && error?.reason.contains(part) == true
    }
    try await world.service.directory.split(0, to: "west")
    try await world.service.directory.takeSplitBack(0)
    #expect(await isRefused(1, because: "shard 0 was taken back and may have been carried out"))
    world = try await world.restarted()
    let directory = world.service.directory
    #expect(try await directory.places(known: []).clusters?.first == ShardCluster(takenBack: 1))
    #expect(try await directory.splitStandings() == [0: SplitStanding(step: .takenBack, cluster: "west")])
    // Nor does an opening tell, if its worker had not heard of it.
    try await opened(0, 2, nil, in: world)
    #expect(await isRefused(1, because: "shard 0 was taken back"))
    // The same shard may be asked again, and that be taken back as well.
    try await directory.split(0, to: "north")
    try await directory.takeSplitBack(0)
    try await directory.takeSplitBack(0)
    #expect(try await opened(0, 3, nil, knowing: 1, in: world).isNews == false)
    #expect(await isRefused(1, because: "shard 0 was taken back"))
    #expect(try await opened(0, 4, nil, knowing: 2, in: world).isNews)
    #expect(try await directory.splitStandings() == [:])
    try await directory.split(1, to: "main")
    await world.service.close()
  }

  @Test func `no division and no move of a divided shard begin before the new shard may be opened`() async throws {
    let world = try World(shardCount: 2)
    let directory = world.service.directory
    try await directory.split(0, to: "west")
    try await opened(0, 3, Self.part, PendingSplit(shard: 2, number: 7, cluster: nil), in: world)
    #expect(try await directory.splitStandings() == [0: SplitStanding(step: .lastStep, cluster: "west")])
    for shard in 0..<3 {
      let error = await #expect(throws: RecordError.self) { try await directory.split(shard, to: "main") }
      #expect(error?.status == 409 && error?.reason.contains("shard 0 waits for its last step") == true)
    }
    for shard in [0, 2] {
      let error = await #expect(throws: RecordError.self) { try await directory.move(shard, to: "north") }
      #expect(error?.status == 409)
    }
    try await directory.move(1, to: "north")
    try await opened(0, 4, Self.part, in: world)
    #expect(try await directory.splitStandings() == [:])
    try await directory.split(2, to: "main")
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
    try await opened(0, 2, Self.part, PendingSplit(shard: 2, number: 7, cluster: "main"), in: world)
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
    let early = try await answer("1", #"{"cancel":true}"#)
    #expect(early.hasPrefix("409") && early.contains("shard 1 is not asked to be divided"))
    #expect(try await answer("0", #"{"cancel":true}"#).hasPrefix("202"))
    #expect(try await world.service.directory.shardClusters().splitting == nil)
    #expect(try await answer("1").contains("may have been carried out"))
    try await opened(0, 2, Self.part, PendingSplit(shard: 2, number: 7, cluster: "main"), in: world)
    let late = try await answer("0", #"{"cancel":true}"#)
    #expect(late.hasPrefix("409") && late.contains("divided already: shard 2 has half of its databases"))
    try await opened(0, 2, Self.part, in: world)
    see(["main", "west"])
    try await world.service.directory.move(1, to: "west")
    #expect(try await answer("1").contains("shard 1 moves to the cluster west"))
    await world.service.close()
  }
}
