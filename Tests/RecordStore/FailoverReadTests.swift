// Reads of shards in PostgreSQL around a failover: they ask the server that the writer writes to, and show no commit
// that can still be undone.

import CuttingProxy
import Foundation
import PostgreSQL
import PrivateCluster
import Records
import Synchronization
import Testing

@testable import RecordStore

struct FailoverReadTests {
  /// libpq's address of several servers of this machine, in the order in which they are tried.
  private static func address(_ ports: [UInt16]) -> String {
    let hosts = ports.map { _ in "127.0.0.1" }.joined(separator: ",")
    return "host=\(hosts) port=\(ports.map(String.init).joined(separator: ",")) user=aquifer dbname=postgres "
      + "sslmode=disable"
  }

  /// A session beside those of the store.
  private static func session(_ configuration: PostgreSQLConfiguration, _ address: String, shard: Int = 0) throws
    -> Session
  {
    var configuration = configuration
    configuration.address = address
    return try Session(configuration.session(ofShard: shard))
  }

  private final class Begun: Sendable {
    let count = Mutex(0)
  }

  /// Makes two sessions idle, which needs two reads at a time.
  private static func idleSessions(of shard: any ShardStore) async throws {
    let begun = Begun()
    let body: @Sendable (any ShardSnapshot) throws -> Int = { snapshot in
      begun.count.withLock { $0 += 1 }
      while begun.count.withLock({ $0 < 2 }) { usleep(500) }
      return try snapshot.counts().zones
    }
    async let first = shard.read(body)
    async let second = shard.read(body)
    let counts = try await [first, second]
    #expect(counts == [1, 1])
  }

  @Test func `once the writer has another session, no read waits for the server of the former one`() async throws {
    let port = try PrivateCluster.shared.get().port
    let (former, next) = (try CuttingProxy(to: ":\(port)"), try CuttingProxy(to: ":\(port)"))
    defer { next.close() }
    var configuration = try World.postgreSQL()
    let direct = configuration.address
    configuration.address = Self.address([former.port, next.port])
    let shard = try await PostgreSQLRecordStore(configuration, shardCount: 1).open(shard: 0)
    let place = try await Place(in: shard)
    try await Self.idleSessions(of: shard)
    // The former server accepts nobody, and does not answer those that it has.
    former.setWithinConnections(.init(requestByteCount: 0, isSilent: true))
    former.close()
    try Self.session(configuration, direct).endLockHolder(of: configuration.schema(ofShard: 0))
    _ = try await shard.write { try $0.save(Sample.note("behind"), in: place) }
    #expect(try await shard.read { try $0.counts().records } == 1)
    former.set(.init())
    await shard.close()
  }

  @Test func `a read behind a save sees it, even if the former primary still answers`() async throws {
    let former = try PrivateCluster()
    let next = try PrivateCluster(following: former)
    var configuration = try World.postgreSQL()
    configuration.address = Self.address([next.port, former.port])
    let shard = try await PostgreSQLRecordStore(configuration, shardCount: 1).open(shard: 0)
    let place = try await Place(in: shard)
    try await Self.idleSessions(of: shard)
    // The standby has all of that once it has confirmed a commit behind.
    let beside = try Self.session(configuration, former.address)
    try beside.transaction {
      try beside.queue(Command("confirm", "SET LOCAL synchronous_commit = 'on'"))
      try beside.queue(Command("change", "UPDATE tenure SET commits = commits"))
    }
    try next.promote()
    try beside.endLockHolder(of: configuration.schema(ofShard: 0))
    let saved = try await shard.write { try $0.save(Sample.note("at the next one"), in: place) }
    let found = try await shard.read { try $0.record(named: "at the next one", in: place.zone) }
    #expect(found?.sequence == saved.sequence)
    await shard.close()
  }

  @Test func `a read that finds its session lost makes the reads of all shards connect anew`() async throws {
    var options = StoreOptions()
    // Each read finds the session of the one before.
    options.readerThreadCount = 1
    let configuration = try World.postgreSQL(options: options)
    let store = try PostgreSQLRecordStore(configuration, shardCount: 2)
    let (first, second) = (try await store.open(shard: 0), try await store.open(shard: 1))
    let (lost, other) = (try await Self.process(of: first), try await Self.process(of: second))
    #expect(try await Self.process(of: second) == other)
    _ = try Self.session(configuration, configuration.address).rows(
      Command("end", "SELECT pg_terminate_backend($1::integer, 10000)"), [.integer(lost)])
    #expect(try await Self.process(of: first) != lost)
    #expect(try await Self.process(of: second) != other)
    for shard in [first, second] { await shard.close() }
  }

  /// The server's process behind a read.
  private static func process(of shard: any ShardStore) async throws -> Int64 {
    try await shard.read { snapshot in
      guard case .postgreSQL(let session) = (snapshot as? SQLiteSnapshot)?.session.connection else { return 0 }
      return try session.rows(Command("process", "SELECT pg_backend_pid()::bigint"))[0].integer(0)
    }
  }

  @Test func `no read shows a save before it is known to be stored`() async throws {
    let port = try PrivateCluster.shared.get().port
    let (former, next) = (try CuttingProxy(to: ":\(port)"), try CuttingProxy(to: ":\(port)"))
    defer { next.close() }
    next.set(.init(answerByteCount: 0))
    var configuration = try World.postgreSQL()
    let direct = configuration.address
    configuration.address = Self.address([former.port, next.port])
    let shard = try await PostgreSQLRecordStore(configuration, shardCount: 1).open(shard: 0)
    let store = try #require(shard as? SQLiteShardStore)
    let place = try await Place(in: shard)
    #expect(try await shard.read { try $0.counts().records } == 0)
    let save = shard.enqueue { transaction in
      // No standby ever confirms it.
      guard case .postgreSQL(let session) = (transaction as? SQLiteTransaction)?.session.connection else { return }
      try session.queue(Command("confirm", "SET LOCAL synchronous_commit = 'on'"))
      _ = try transaction.save(Sample.note("unconfirmed"), in: place)
    }
    try await WorkerThread.value("gives up") { [configuration] in
      let beside = try Self.session(configuration, direct)
      let schema = configuration.schema(ofShard: 0)
      let count = Command("count", "SELECT count(*) FROM record")
      let writer = try #require(try beside.lockHolder(of: schema))
      let waits = Command(
        "waits", "SELECT count(*) FROM pg_stat_activity WHERE pid = $1::bigint AND wait_event = 'SyncRep'")
      while try beside.rows(waits, [.integer(Int64(writer))])[0].integer(0) == 0 {}
      // The writer can't ask for the outcome, and reads have their sessions.
      former.close()
      _ = try beside.rows(Command("cancel", "SELECT pg_cancel_backend($1::integer)"), [.integer(Int64(writer))])
      while try beside.rows(count)[0].integer(0) == 0 {}
    }
    await Self.expectUnreachable { try await shard.read { try $0.counts().records } }
    next.set(.init())
    try await save.value
    #expect(try await shard.read { try $0.counts().records } == 1)

    // The same for a read of the whole shard, which has a session of its own.
    let beside = try Self.session(configuration, direct)
    _ = try beside.rows(Command("commit", "UPDATE tenure SET commits = commits + 1"))
    store.core.confirmed?.doubt()
    await Self.expectUnreachable { try await store.readWhole { snapshot, _ in try snapshot.counts().records } }
    try await shard.write { _ in }
    #expect(try await store.readWhole { snapshot, _ in try snapshot.counts().records } == 1)
    await shard.close()
  }

  private static func expectUnreachable(_ read: () async throws -> Int) async {
    await #expect {
      _ = try await read()
    } throws: { error in
      if case StoreError.unreachable(let reason) = error { reason.contains("not known yet") } else { false }
    }
  }
}
