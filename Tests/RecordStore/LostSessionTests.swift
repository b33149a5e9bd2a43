// A shard in PostgreSQL whose writer loses its session at any point of a group: callers learn the truth, and the next
// group goes on.

import CuttingProxy
import PostgreSQL
import PrivateCluster
import Records
import Synchronization
import Testing

@testable import RecordStore

struct LostSessionTests {
  /// A write, and whether its conversation came to its end.
  private struct Attempt {
    let isStored: Bool
    let isWhole: Bool
  }

  @Test(arguments: [true, false])
  func `wherever a group's conversation is cut, its caller learns what became of it, and the next group goes on`(
    isRequest: Bool
  ) async throws {
    let proxy = try CuttingProxy(to: "127.0.0.1:\(PrivateCluster.shared.get().port)")
    defer { proxy.close() }
    var configuration = try World.postgreSQL()
    configuration.address = PrivateCluster.networkAddress(port: proxy.port) + " sslmode=disable"
    let shard = try await PostgreSQLRecordStore(configuration, shardCount: 1).open(shard: 0)
    let place = try await Place(in: shard)
    var expected: Set<String> = []
    var (byteCount, isWhole) = (0, false)
    while !isWhole {
      let name = "cut at \(byteCount)"
      let attempt = try await Self.save(name, in: place, of: shard, through: proxy, isRequest, cutAt: byteCount)
      if attempt.isStored { expected.insert(name) }
      isWhole = attempt.isWhole
      let next = "after \(byteCount)"
      try await shard.write { _ = try $0.save(Sample.note(next), in: place) }
      expected.insert(next)
      byteCount += 40
    }
    let stored = try await shard.read { try $0.changes(in: place.zone, after: 0, limit: 10_000) }
    #expect(Set(stored.map(\.record.recordName)) == expected)
    await shard.close()
  }

  @Test func `a new session that is cut before its first group leaves the shard in service`() async throws {
    let proxy = try CuttingProxy(to: ":\(PrivateCluster.shared.get().port)")
    defer { proxy.close() }
    var configuration = try World.postgreSQL()
    configuration.address = PrivateCluster.networkAddress(port: proxy.port) + " sslmode=disable"
    let shard = try await PostgreSQLRecordStore(configuration, shardCount: 1).open(shard: 0)
    let place = try await Place(in: shard)
    var (byteCount, isWhole, expected) = (0, false, 0)
    while !isWhole {
      proxy.set(.init(answerByteCount: byteCount, isOnce: true))
      let name = "cut at \(byteCount)"
      do {
        _ = try await shard.write { try $0.save(Sample.note(name), in: place) }
        expected += 1
      } catch StoreError.unreachable {
        // Nothing is stored.
      }
      try #require(shard.failure == nil, "cut at \(byteCount)")
      isWhole = proxy.willCut
      byteCount += 20
    }
    proxy.set(.init())
    #expect(try await shard.read { try $0.counts().records } == expected)
    await shard.close()
  }

  @Test func `keys that a lost transaction took are given out again, and no record gets one twice`() async throws {
    let configuration = try World.postgreSQL()
    let store = try PostgreSQLRecordStore(configuration, shardCount: 1)
    let shard = try await store.open(shard: 0)
    let place = try await Place(in: shard)
    let beside = try Session(configuration.session(ofShard: 0))
    let schema = configuration.schema(ofShard: 0)
    await #expect {
      _ = try await shard.write { transaction in
        let session = try #require((transaction as? SQLiteTransaction)?.session.connection.session)
        try transaction.save(Sample.note("lost"), in: place)
        try session.finish()
        try Session(configuration.session(ofShard: 0)).endLockHolder(of: schema)
      }
    } throws: { if case StoreError.unreachable = $0 { true } else { false } }
    // The server has lost its log of the sequence as well.
    _ = try beside.rows(Command("restart", "ALTER SEQUENCE record_keys RESTART"))
    for number in 1...5 { _ = try await shard.write { try $0.save(Sample.note("\(number)"), in: place) } }
    await shard.close()
    let again = try await store.open(shard: 0, knownEpoch: shard.epoch)
    for number in 6...7 { _ = try await again.write { try $0.save(Sample.note("\(number)"), in: place) } }
    #expect(try await again.read { try $0.counts().records } == 7)
    await again.close()
  }

  private static func save(
    _ name: String, in place: Place, of shard: any ShardStore, through proxy: CuttingProxy, _ isRequest: Bool,
    cutAt byteCount: Int
  ) async throws -> Attempt {
    let passed: @Sendable () -> Int = {
      isRequest ? proxy.passedByteCounts.request : proxy.passedByteCounts.answer
    }
    proxy.setWithinConnections(
      .init(requestByteCount: isRequest ? byteCount : nil, answerByteCount: isRequest ? nil : byteCount))
    let isOver = Mutex(false)
    let pending = shard.enqueue { _ = try $0.save(Sample.note(name), in: place) }
    async let wasCut: Bool = {
      while passed() < byteCount {
        if isOver.withLock(\.self) { return false }
        await Task.yield()
      }
      // A commit without an answer asks until it has one.
      proxy.set(.init())
      return true
    }()
    var isStored = true
    do {
      try await pending.value
    } catch StoreError.unreachable {
      isStored = false
    }
    isOver.withLock { $0 = true }
    let attempt = Attempt(isStored: isStored, isWhole: await !wasCut)
    proxy.setWithinConnections(.init())
    return attempt
  }
}

extension StoreConnection {
  /// The session with PostgreSQL; nil in a file.
  fileprivate var session: Session? { if case .postgreSQL(let session) = self { session } else { nil } }
}
