// The zones of objects outside of the default zones, in both stores.

import Records
import SQLite
import Testing

@testable import RecordStore

@Suite struct `Objects in other zones` {
  @Test(arguments: StoreKind.allCases)
  func `an object is noted in its zone when its record is made, and when it is assigned, until the zone is gone`(
    _ kind: StoreKind
  )
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard, zone: "Trips")
      let second = try await Place(in: shard, zone: "Work")
      _ = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database)
      #expect(try await shard.read { try $0.database(key: place.database)?.placementState } == .empty)
      try await shard.write { transaction in
        for zone in [ReservedName.privateMirrorZone, ReservedName.defaultZone] {
          let home = Place(
            database: place.database, zone: try transaction.makeZone(named: zone, in: place.database).key)
          try transaction.save(Sample.note("at home"), in: home)
        }
        try transaction.save(Sample.note("other", type: "Note"), in: place)
        #expect(
          try transaction.database(key: place.database)?.hasPlacements == false,
          "neither a default zone's objects nor records that are none")
        try transaction.save(Sample.note(Sample.uuid(1)), in: place)
        try transaction.save(Sample.note(Sample.uuid(1)), in: second)
        try transaction.save(Sample.note("gone"), in: place)
        try transaction.delete("gone", in: place)
        try transaction.place("to come", in: second.zone)
        try transaction.place("to come", in: second.zone)
        #expect(try transaction.database(key: place.database)?.hasPlacements == true)
        #expect(
          try transaction.placements(of: Sample.uuid(1), in: place.database).map(\.zone)
            == [place.zone, second.zone].sorted())
        #expect(
          try transaction.placements(of: "to come", in: place.database) == [
            StoredPlacement(zone: second.zone, isAssigned: true)
          ])
        // A plain record becomes an object's record.
        try transaction.save(Sample.note("other"), in: place)
      }
      try await shard.read { (snapshot) throws in
        let names = [Sample.uuid(1), "gone", "to come", "at home", "other", "nobody"]
        #expect(try names.map { try snapshot.placements(of: $0, in: place.database).count } == [2, 1, 1, 0, 1, 0])
        #expect(try snapshot.placements(of: "gone", in: 99) == [])
        #expect(try snapshot.database(key: place.database)?.hasPlacements == true)
      }
      await #expect(throws: ContradictingWrite.self) { try await shard.write { try $0.place("x", in: 99) } }
      // A failed body leaves nothing behind.
      struct Refused: Error {}
      let bob = try await Place(in: shard, zone: "Trips", owner: "bob")
      await #expect(throws: Refused.self) {
        try await shard.write { transaction in
          try transaction.place("x", in: bob.zone)
          throw Refused()
        }
      }
      #expect(
        try await shard.write {
          [
            try $0.database(key: bob.database)?.placementState != .untracked,
            try !$0.placements(of: "x", in: bob.database).isEmpty,
          ]
        } == [
          false, false,
        ])
      // An object is assigned to one zone at a time, which may be a default one. A withdrawn assignment is forgotten,
      // and a record replaces it.
      try await shard.write { transaction in
        let home = try #require(try transaction.zone(named: ReservedName.privateMirrorZone, in: place.database)).key
        try transaction.place("gone", in: second.zone)
        try transaction.place("gone", in: home)
        #expect(try transaction.placements(of: "gone", in: place.database).filter(\.isAssigned).map(\.zone) == [home])
        try transaction.settlePlacement(of: "gone", in: place.database)
        #expect(
          try transaction.placements(of: "gone", in: place.database).map(\.zone) == [place.zone, second.zone].sorted())
        try transaction.settlePlacement(of: "to come", in: place.database)
        #expect(try transaction.placements(of: "to come", in: place.database) == [])
        try transaction.place("to come", in: second.zone)
        try transaction.save(Sample.note("to come"), in: second)
        #expect(
          try transaction.placements(of: "to come", in: place.database) == [
            StoredPlacement(zone: second.zone, isAssigned: false)
          ])
      }
      // A deleted zone keeps its placements for stores that have not heard of the deletion, and so does its successor.
      try await shard.write { try $0.deleteZone(second.zone) }
      #expect(
        try await shard.read { try $0.placements(of: "to come", in: place.database).map(\.zone) } == [second.zone])
      await #expect(throws: ContradictingWrite.self) { try await shard.write { try $0.place("x", in: second.zone) } }
      let again = try await Place(in: shard, zone: "Work")
      #expect(
        try await shard.read { try $0.placements(of: "to come", in: place.database).map(\.zone) } == [again.zone]
          && again.zone != second.zone)
      if let store = shard as? SQLiteShardStore {
        // Swept after later commits.
        while try await store.read({ try ($0 as? SQLiteSnapshot)?.isDoomed(second.zone) }) == true {
          try await shard.write { _ in }
        }
        #expect(try await store.verify().problems == [])
      }
      // A restarted database has neither placements nor a store that needs them.
      _ = try await shard.write { try $0.restart(place.database, generation: 2) }
      #expect(try await shard.read { try $0.database(key: place.database)?.placementState } == .untracked)
      #expect(try await shard.read { try $0.placements(of: "to come", in: place.database) } == [])
    }
  }

  @Test func `a file of the format before is brought up to date with the objects of its other zones`() async throws {
    let folder = try TemporaryFolder()
    let store = try StoredFormatTests.store(folder)
    var older = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    older.changes = FormatChangeStep.all.filter { $0.format < FormatChange.placements.rawValue }
    let connection = try older.takeOver().connection
    try connection.execute(
      """
      INSERT INTO database(id, container, environment, owner, incarnation, seq) \
      VALUES (1, 'iCloud.a', 'development', 'ada', 5, 9), (2, 'iCloud.a', 'development', 'bob', 6, 9),
        (3, 'iCloud.a', 'development', 'eve', 7, 9);
      INSERT INTO mirror(id, database, identifier, incarnation, user, scope, model, created, last, exported, purged) \
      VALUES (8, 1, 'phone', 1, 'ada', 'private', '', 0, 0, 0, 0),
        (9, 2, 'phone', 1, 'bob', 'private', '', 0, 0, 0, 0);
      INSERT INTO symbol(id, text) VALUES (1, 'CD_Note'), (2, 'Note'), (3, 'CDMR');
      INSERT INTO zone(id, database, name, incarnation, seq, deleted, live) \
      VALUES (3, 1, 'Trips', 1, 9, 0, 0), (4, 1, '\(ReservedName.privateMirrorZone)', 1, 9, 0, 0),
        (5, 2, '\(ReservedName.defaultZone)', 1, 9, 0, 0), (6, 2, 'Old', 1, 9, 1, 0), (7, 3, 'Trips', 1, 9, 0, 0);
      INSERT INTO record(zone, name, seq, type, deleted, origin, others, sum, data) \
      VALUES (3, 'a', 1, 1, 0, 0, 0, 0, x''), (3, 'b', 2, 2, 0, 0, 0, 0, x''),
        (3, 'c', 3, 3, 0, 0, 0, 0, x''), (3, 'd', 4, 1, 1, 0, 0, 0, x''), (4, 'e', 1, 1, 0, 0, 0, 0, x''), (5, 'f', 1, \
      1, 0, 0, 0, 0, x''), (6, 'g', 1, 1, 0, 0, 0, 0, x''), (7, 'h', 1, 1, 0, 0, 0, 0, x'');
      INSERT OR REPLACE INTO meta(key, value) VALUES ('lastKey', 9);
      """)
    connection.close()
    for _ in 0..<2 {
      let shard = try await store.open(shard: 0)
      try await shard.read { (snapshot) throws in
        #expect(try [1, 2, 3].map { try snapshot.database(key: $0)?.placementState } == [.noted, .empty, .untracked])
        #expect(
          try ["a", "b", "c", "d", "e"].map { try snapshot.placements(of: $0, in: 1).map(\.zone) } == [
            [3], [], [], [3], [],
          ])
        #expect(try ["f", "g"].allSatisfy { try snapshot.placements(of: $0, in: 2).isEmpty })
        #expect(try snapshot.placements(of: "h", in: 3).isEmpty, "nobody asks in a database without a store")
      }
      await shard.close()
    }
    #expect(try FillRig.count("placement", in: folder.path) == 2)
  }
}
