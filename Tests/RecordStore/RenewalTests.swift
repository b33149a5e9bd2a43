import Records
import SQLite
import Testing

@testable import RecordStore

/// Shards that have lost what clients have seen: nothing that they give out afterwards is taken for something lost.
struct RenewalTests {
  /// The first sequence, and the first numbers of an event and a conflict, in a database that a shard makes.
  static func firstNumbers(in shard: any ShardStore, _ owner: String) async throws -> [Int64] {
    let place = try await Place(in: shard, owner: owner)
    let mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database)
    let numbers = try await shard.write { transaction in
      [
        try transaction.put(StoredEvent(identifier: "e", kind: .setup, startedAt: 1), of: mirror.key),
        try transaction.appendConflict(
          JournalConformanceTests.conflict(place.database, "b"), content: [1], assets: []),
      ]
    }
    let database = try #require(try await shard.read { try $0.database(key: place.database) })
    // Clients see the progress of an import in these steps.
    #expect(database.stepCount(through: database.sequence) == 1)
    return [database.sequence] + numbers
  }

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

  @Test(arguments: StoreKind.queued)
  func `a shard that is made in place of a lost one gives out no number again`(_ kind: StoreKind) async throws {
    let world = try World(kind)
    let shard = try await world.store.open(shard: 0, knownEpoch: 0, renewingBelow: 7)
    #expect(shard.epoch > 7)
    for number in try await Self.firstNumbers(in: shard, "ada") { #expect(number > 1_000_000) }
    #expect(try await shard.verify(readsAssets: false).problems == [])
    await shard.close()
    // A shard that is only new begins at 1.
    let new = try await world.store.open(shard: 1)
    #expect(try await Self.firstNumbers(in: new, "ada") == [1, 1, 1])
    await new.close()
  }

  @Test func `a database that a renewed shard makes gives out no number again, wherever the shard moves`() async throws
  {
    let places = try Places()
    await (try await places.store(isInDatabase: true).open(shard: 0)).close()
    #expect(try places.database.renewRestored(now: 1_900_000_000_000) == 1)
    for isInDatabase in [true, false, true] {
      let shard = try await places.store(isInDatabase: isInDatabase).open(shard: 0)
      for number in try await Self.firstNumbers(in: shard, "ada \(shard.epoch)") {
        #expect(number > 1_900_000_000_000 << 10)
      }
      await shard.close()
      _ = try await places.migration(toDatabase: !isInDatabase).run()
    }
  }

  @Test(arguments: StoreKind.queued)
  func `conflicts of every zone stay whole in a renewed shard, and damaged ones stay damaged`(_ kind: StoreKind)
    async throws
  {
    let world = try World(kind)
    var shard = try await world.store.open(shard: 0)
    let place = try await Place(in: shard, zone: "a")
    let database = place.database
    let zones = try await shard.write { transaction in
      try ["a", "b", "c"].map { try transaction.makeZone(named: $0, in: database) }
    }
    // More than a page, of zones in turns, and of one that is gone.
    let (live, gone) = (zones.map { ($0.zoneName, $0.incarnation) }, ("gone", UInt64(4711)))
    try await shard.write { transaction in
      for index in 0..<450 {
        let (name, incarnation) = index % 4 == 3 ? gone : live[index % 4]
        _ = try transaction.appendConflict(
          StoredConflict(
            databaseKey: database, zoneName: name, zoneIncarnation: incarnation, recordName: Sample.uuid(index),
            entity: "Note", kind: 2, state: 1, userRecordName: "ada", deviceID: "phone", at: 10),
          content: [UInt8(index % 256)], assets: [])
      }
    }
    await shard.close()
    shard = try await world.store.open(shard: 0, knownEpoch: 0, renewingBelow: 5000)
    try await shard.read { snapshot in
      let found = try snapshot.conflicts(in: database, afterNumber: 0, ConflictFilter(), limit: 999)
      #expect(found.count == 450)
      for (index, conflict) in found.enumerated() {
        let zone = zones.first { $0.zoneName == conflict.zoneName }
        let present = try zone.flatMap { try snapshot.zone(key: $0.key)?.incarnation } ?? gone.1
        #expect(conflict.zoneIncarnation == present && zone?.incarnation != present)
        #expect(try snapshot.conflictContent(conflict.number, in: database) == [UInt8(index % 256)])
      }
    }
    #expect(try await shard.verify(readsAssets: false).problems == [])
    await shard.close()
  }
}
