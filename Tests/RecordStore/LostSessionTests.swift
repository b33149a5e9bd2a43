// A shard in PostgreSQL whose writer loses its session at any point of a group: callers learn the truth, and the next
// group goes on.

import CuttingProxy
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
