import Assets
import CuttingProxy
import PostgreSQL
import Records
import Testing

@testable import RecordStore

/// Shards in several clusters when one is away, is full, or is another installation's, and moves that are given up.
struct ClusterFaultTests {
  /// Moves shard 0 from `main` to `west` up to the last step.
  /// - Returns: the last epoch of its owner.
  private static func leaveBetween(_ clusters: Clusters) async throws -> Int64 {
    let store = try ClusteredRecordStore(
      clusters.all, shardCount: 2, willTake: { _, step in if step == 5 { throw StoreError.closed(shard: 0) } })
    store.follow(Clusters.told(target: "west"))
    let shard = try await store.open(shard: 0)
    _ = try await Place(in: shard)
    await store.whenTidy()
    await #expect(throws: StoreError.fenced(shard: 0, epoch: shard.epoch + 1)) { try await shard.write { _ in } }
    await shard.close()
    return shard.epoch
  }

  @Test func `the loss of a cluster stops no shard of another one, even if the directory is behind`() async throws {
    let clusters = try Clusters()
    let epoch = try await Self.leaveBetween(clusters)
    for away in ["east", "main"] {
      let store = try ClusteredRecordStore(clusters.without(away), shardCount: 2)
      store.follow(Clusters.told(target: "west"))
      let shard = try await store.open(shard: 0, knownEpoch: epoch)
      #expect(store.placement(ofShard: 0)?.cluster == "west")
      #expect(try await shard.read { try $0.counts().zones } == 1)
      await store.whenTidy()
      await shard.close()
    }
    // Nobody knows of a shard: it could be in the cluster that is away.
    let blind = try ClusteredRecordStore(clusters.without("west"), shardCount: 2)
    await #expect(throws: StoreError.self) { try await blind.open(shard: 0) }
    #expect(try clusters.places() == ["west"])
  }

  /// Brings a cluster back to a state in which it has shard 0 for its own.
  /// - Parameter renews: whether `aquifer renew` follows.
  private static func bringBack(_ cluster: PostgreSQLConfiguration, renews: Bool = true) throws {
    let arriving = ShardStanding(shardCount: 2, epoch: 1, installation: nil, move: 4711)
    try cluster.receive(MovingShard(shard: 0, standing: arriving, counters: [], lastConflict: 0)) { _ in }
    try cluster.admit(shard: 0, move: 4711)
    if renews { #expect(try cluster.renewRestored() == 1) }
  }

  /// Makes shard 0 in `west` with one record.
  /// - Returns: its epoch.
  private static func fillWest(_ clusters: Clusters) async throws -> Int64 {
    let store = try ClusteredRecordStore(clusters.all, shardCount: 2)
    store.follow(Clusters.told("west"))
    let shard = try await store.open(shard: 0)
    let place = try await Place(in: shard)
    _ = try await shard.write { try $0.save(Sample.note("late"), in: place) }
    await store.whenTidy()
    await shard.close()
    return shard.epoch
  }

  private static let refusal = StoreError.foreign(
    "shard 0 is in several clusters, main, west: remove what is not in use")

  @Test func `a renewed shard that two clusters have for their own is handed out by neither, and the newer one later`()
    async throws
  {
    var clusters = try Clusters()
    let epoch = try await Self.fillWest(clusters)
    // The main cluster and the directory are as they were before the shard left.
    let main = try #require(clusters.all["main"])
    try Self.bringBack(main)
    let proxy = try clusters.proxy(to: "west")
    defer { proxy.close() }
    let later = try ClusteredRecordStore(clusters.all, shardCount: 2)
    later.follow(Clusters.told("main"))
    for _ in 0..<2 {
      await #expect(throws: Self.refusal) { try await later.open(shard: 0, knownEpoch: epoch) }
    }
    // Neither when the other cluster is away meanwhile.
    proxy.set(.init(answerByteCount: 0))
    await #expect(throws: StoreError.self) { try await later.open(shard: 0, knownEpoch: epoch) }
    proxy.set(.init())
    #expect(try clusters.places() == ["main", "west"])

    try clusters.run(["DROP SCHEMA \(main.schema(ofShard: 0)) CASCADE"], in: "main")
    let found = try await later.open(shard: 0, knownEpoch: epoch)
    #expect(try await found.read { try $0.counts().records } == 1)
    await later.whenTidy()
    #expect(found.failure == nil)
    await found.close()
  }

  @Test func `a shard that was renewed is handed out when no other cluster has it, or when its losses are accepted`()
    async throws
  {
    let clusters = try Clusters()
    try Self.bringBack(try #require(clusters.all["main"]))
    let lonely = try ClusteredRecordStore(clusters.without("west"), shardCount: 2)
    lonely.follow(Clusters.told("main"))
    await #expect {
      try await lonely.open(shard: 0, knownEpoch: 3)
    } throws: {
      if case StoreError.unreachable = $0 { true } else { false }
    }
    let accepted = try await lonely.open(shard: 0, knownEpoch: 3, renewingBelow: 3)
    await accepted.close()
    let store = try ClusteredRecordStore(clusters.all, shardCount: 2)
    store.follow(Clusters.told("main"))
    let shard = try await store.open(shard: 0, knownEpoch: 3)
    await shard.close()
  }

  @Test func `a shard that two clusters have for their own is served until that is noticed, and then by neither`()
    async throws
  {
    var clusters = try Clusters()
    let epoch = try await Self.fillWest(clusters)
    // The main cluster and the directory are as they were before the shard left.
    let main = try #require(clusters.all["main"])
    try Self.bringBack(main, renews: false)
    let proxy = try clusters.proxy(to: "west")
    defer { proxy.close() }
    let (news, told) = AsyncStream.makeStream(of: String.self)
    let later = try ClusteredRecordStore(clusters.all, shardCount: 2, report: { told.yield($0) })
    later.follow(Clusters.told("main"))
    let stale = try #require(try await later.open(shard: 0, knownEpoch: 1) as? SQLiteShardStore)
    await later.whenTidy()
    #expect(stale.failure == Self.refusal)
    await stale.close()
    await #expect(throws: Self.refusal) { try await later.open(shard: 0, knownEpoch: stale.epoch) }
    // The other cluster can't be asked, and has the later saves all the same.
    proxy.set(.init(answerByteCount: 0))
    await #expect(throws: StoreError.self) { try await later.open(shard: 0, knownEpoch: stale.epoch) }
    proxy.set(.init())
    told.finish()
    for await line in news { #expect(!line.contains("no copy")) }
    #expect(try clusters.places() == ["main", "west"])

    try clusters.run(["DROP SCHEMA \(main.schema(ofShard: 0)) CASCADE"], in: "main")
    let found = try await later.open(shard: 0, knownEpoch: epoch)
    #expect(try await found.read { try $0.counts().records } == 1)
    await later.whenTidy()
    #expect(found.failure == nil)
    await found.close()
  }

  @Test func `the copy of a cluster that was brought back is not taken for a shard that has arrived`() async throws {
    let clusters = try Clusters()
    let store = try ClusteredRecordStore(clusters.all, shardCount: 2)
    store.follow(Clusters.told())
    let shard = try await store.open(shard: 0)
    _ = try await Place(in: shard)
    await store.whenTidy()
    await shard.close()
    try Self.bringBack(try #require(clusters.all["west"]))
    let later = try ClusteredRecordStore(clusters.without("main"), shardCount: 2)
    later.follow(Clusters.told(target: "west"))
    await #expect {
      try await later.open(shard: 0, knownEpoch: shard.epoch)
    } throws: {
      if case StoreError.unreachable = $0 { true } else { false }
    }
  }

  @Test func `a copy of another installation stays, and keeps its cluster from taking the shard`() async throws {
    let clusters = try Clusters(installation: InstallationID(text: "00000000000000aa"))
    var other = try #require(clusters.all["west"])
    other.installation = InstallationID(text: "00000000000000bb")
    let arriving = ShardStanding(shardCount: 2, epoch: 1, installation: other.installation?.text, move: 4711)
    try other.receive(MovingShard(shard: 0, standing: arriving, counters: [], lastConflict: 0)) { _ in }

    let store = try ClusteredRecordStore(clusters.all, shardCount: 2)
    store.follow(Clusters.told())
    let shard = try await store.open(shard: 0)
    await store.whenTidy()
    store.follow(Clusters.told(target: "west"))
    await store.whenTidy()
    #expect(store.placement(ofShard: 0)?.problem?.contains("of another installation is in the database") == true)
    _ = try await Place(in: shard)
    await shard.close()
    #expect(try other.look(atShard: 0)?.move == 4711)
  }

  @Test func `an opening commits nothing, unless a move has left its log`() async throws {
    let clusters = try Clusters()
    for names in [["main"], ["main", "east", "west"]] {
      let store = try ClusteredRecordStore(clusters.all.filter { names.contains($0.key) }, shardCount: 2)
      let shard = try await store.open(shard: 0)
      await store.whenTidy()
      #expect(shard.statistic("commits_total") == 0)
      await shard.close()
    }
    let main = try #require(clusters.all["main"])
    try main.withSession(ofShard: 0) { session in
      try session.transaction { try MoveLog(main, shard: 0, tables: StoredTable.all()).begin(session, notes: true) }
    }
    #expect(try clusters.logs() == ["main"])
    let store = try ClusteredRecordStore(clusters.all, shardCount: 2)
    let shard = try await store.open(shard: 0, knownEpoch: 1)
    await store.whenTidy()
    #expect(try clusters.logs() == [])
    await shard.close()
  }

  @Test func `a move that is taken back during its second try leaves nothing`() async throws {
    let clusters = try Clusters()
    let (box, tries) = (StoreBox(), Counter(0))
    let (ends, ended) = AsyncStream.makeStream(of: Void.self)
    let store = try ClusteredRecordStore(
      clusters.all, shardCount: 2, pause: .milliseconds(1),
      willTake: { _, step in
        if step == 2, tries.next() == 1 { throw StoreError.io("no luck") }
        guard step == 3 else { return }
        box.store?.follow(Clusters.told())
        ended.yield()
      })
    let shard = try await store.open(shard: 0)
    box.fill(store, shard)
    store.follow(Clusters.told(target: "west"))
    _ = await ends.first { _ in true }
    await store.whenTidy()
    #expect(try clusters.places() == ["main"])
    #expect(try clusters.logs() == [])
    #expect(store.placement(ofShard: 0) == ShardPlacement(cluster: "main"))
    _ = try await Place(in: shard)
    await shard.close()
  }

  @Test func `a cluster that gets full in the last step leaves the shard in service, and gets it later`() async throws {
    let clusters = try Clusters()
    let move = try await DisturbedMove(clusters) { shard in
      try clusters.run(
        [
          """
          CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
          $$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END $$
          """,
          "CREATE TRIGGER refuse BEFORE INSERT ON record FOR EACH ROW EXECUTE FUNCTION refuse()",
        ], in: "west")
      let place = try await Place(in: shard)
      _ = try await shard.write { try $0.save(Sample.note("late"), in: place) }
    }
    let refusal = await move.refusal()
    #expect(refusal.contains("could not move") && refusal.contains("no space"))
    let moved = try await move.arrive()
    #expect(try await moved.read { try $0.counts().records } == 1)
    await moved.close()
  }

  @Test func `a writer that hangs during the last step keeps the shard for a minute at most`() async throws {
    let world = try World(.postgreSQL)
    let shard = try #require(try await world.store.open(shard: 0) as? SQLiteShardStore)
    let standing = ShardStanding(shardCount: 2, epoch: 3, installation: nil, move: 1)
    let limit = try await shard.enqueue(of: "", runsAlone: true) { transaction -> String? in
      guard case .postgreSQL(let session) = transaction.session.connection else { return nil }
      _ = try MovingShard(from: transaction.session, standing: standing, idle: ShardMove.idleLimit)
      return try session.rows(Command("limit", "SHOW idle_in_transaction_session_timeout")).first?.text(0)
    }.value
    #expect(limit == "1min")
    await shard.close()
  }
}
