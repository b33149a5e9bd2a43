import Records
import SQLite
import Testing

@testable import RecordStore

/// Shards that have lost what clients have seen: nothing that they give out afterwards is taken for something lost.
struct RenewalTests {
  @Test(arguments: StoreKind.queued)
  func `an accepted copy from before the known epoch is renewed, and a shard of that epoch stays as it is`(
    _ kind: StoreKind
  ) async throws {
    let world = try World(kind)
    var shard = try await world.store.open(shard: 0)
    let place = try await Place(in: shard)
    let saved = try await shard.write { try $0.save(Sample.note("a"), in: place) }
    let before = try #require(try await shard.read { try $0.database(key: place.database) })
    await shard.close()
    let known = shard.epoch
    shard = try await world.store.open(shard: 0, knownEpoch: 0, renewingBelow: known)
    #expect(try await shard.read { try $0.database(key: place.database) } == before)
    #expect(shard.epoch == known + 1)
    await shard.close()

    let lost: Int64 = 5000
    shard = try await world.store.open(shard: 0, knownEpoch: 0, renewingBelow: lost)
    let renewed = try #require(try await shard.read { try $0.database(key: place.database) })
    #expect(renewed.incarnation != before.incarnation && renewed.sequence > before.sequence + 1_000_000)
    #expect(shard.epoch > lost)
    let next = try await shard.write { try $0.save(Sample.note("b"), in: place) }
    #expect(next.sequence > saved.sequence + 1_000_000)
    #expect(try await shard.verify(readsAssets: false).problems == [])
    await shard.close()
    // Once is enough.
    let again = try await world.store.open(shard: 0, knownEpoch: 0, renewingBelow: lost)
    #expect(try await again.read { try $0.database(key: place.database)?.incarnation } == renewed.incarnation)
    await again.close()
  }
}
