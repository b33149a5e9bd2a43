// Sessions that wait for the next read: a busy shard keeps its own, within the limit of the store.

import Crypto
import PostgreSQL
import SQLite
import Testing

@testable import RecordStore

struct IdleSessionTests {
  private final class Shard {
    var id: ObjectIdentifier { ObjectIdentifier(self) }
  }

  private func session() throws -> ShardSession {
    ShardSession(
      shard: 0, connection: .sqlite(try Connection(path: ":memory:", mode: .readWrite)), keys: KeyRing())
  }

  private func sessions(_ count: Int) throws -> [ShardSession] { try (0..<count).map { _ in try session() } }

  @Test func `a busy shard keeps the sessions that quiet shards don't need, and the longest unused gives way`() throws {
    let idle = IdleSessions(IdleSessions.Limit(perShard: 2, least: 1))
    let shards = [Shard(), Shard(), Shard()]
    for shard in shards { idle.opened(shard.id) }
    let busy = try sessions(5)
    let quiet = try sessions(2)
    #expect(idle.put(quiet[0], of: shards[1].id).isEmpty)
    for session in busy { #expect(idle.put(session, of: shards[0].id).isEmpty) }
    #expect(idle.count == 6)
    #expect(idle.put(quiet[1], of: shards[2].id).map(ObjectIdentifier.init) == [ObjectIdentifier(quiet[0])])
    #expect(idle.take(of: shards[1].id) == nil)
    // The last one that became idle is the next one to be used.
    #expect(idle.take(of: shards[0].id) === busy[4] && idle.take(of: shards[0].id) === busy[3])
    #expect(idle.take(of: shards[2].id) === quiet[1] && idle.take(of: shards[2].id) == nil)
    #expect(idle.count == 3)
  }

  @Test func `a shard that closes gives back its sessions and its part of the limit`() throws {
    let idle = IdleSessions(IdleSessions.Limit(perShard: 2, least: 1))
    let shards = [Shard(), Shard()]
    for shard in shards { idle.opened(shard.id) }
    let (first, second) = (try sessions(1), try sessions(4))
    for session in first { _ = idle.put(session, of: shards[0].id) }
    for session in second.dropLast() { #expect(idle.put(session, of: shards[1].id).isEmpty) }
    #expect(idle.closed(shards[0].id).map(ObjectIdentifier.init) == first.map(ObjectIdentifier.init))
    #expect(idle.closed(shards[0].id).isEmpty && idle.count == 3)
    #expect(
      idle.put(second[3], of: shards[1].id).map(ObjectIdentifier.init) == second.prefix(2).map(ObjectIdentifier.init))
    #expect(idle.count == 2)
  }

  @Test func `a store with one shard keeps a session for each thread, and one without a limit keeps all`() throws {
    let few = IdleSessions(IdleSessions.Limit(perShard: 2, least: 4))
    let unlimited = IdleSessions(nil)
    let shard = Shard()
    few.opened(shard.id)
    let surplus = try sessions(10).map { few.put($0, of: shard.id).count }
    #expect(surplus == [0, 0, 0, 0, 1, 1, 1, 1, 1, 1] && few.count == 4)
    #expect(try sessions(10).allSatisfy { unlimited.put($0, of: shard.id).isEmpty } && unlimited.count == 10)
  }

  @Test func `as many reads at a time as there are threads open no session for each read`() async throws {
    var options = StoreOptions()
    options.readerThreadCount = 4
    options.longReaderThreadCount = 1
    try await withShard(.postgreSQL, options: options) { shard in
      var processes: Set<Int64> = []
      for _ in 0..<25 {
        let found = try await withThrowingTaskGroup(of: Int64.self) { group in
          for _ in 0..<8 { group.addTask { try await Self.process(of: shard) } }
          return try await group.reduce(into: Set<Int64>()) { $0.insert($1) }
        }
        processes.formUnion(found)
      }
      #expect((1...5).contains(processes.count))
    }
  }

  /// The server's process behind a read, which takes long enough for others to run beside it.
  private static func process(of shard: any ShardStore) async throws -> Int64 {
    try await shard.read { snapshot in
      guard case .postgreSQL(let session) = (snapshot as? SQLiteSnapshot)?.session.connection else { return 0 }
      return try session.rows(Command("process", "SELECT pg_backend_pid()::bigint FROM pg_sleep(0.005)"))[0].integer(0)
    }
  }
}
