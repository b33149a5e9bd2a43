// The journal of conflicts, in both stores.

import RecordStore
import Records
import Testing

struct JournalConformanceTests {
  static func conflict(_ database: Int64, _ name: String, state: Int = 1, user: String = "ada", at: Int64 = 10)
    -> StoredConflict
  {
    StoredConflict(
      databaseKey: database, zoneName: "notes", recordName: name, entity: "Note", kind: 2, state: state,
      userRecordName: user, deviceID: "phone", at: at)
  }

  @Test(arguments: StoreKind.allCases) func `conflicts are numbered, listed by object, state and user, and settled`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let numbers = try await shard.write { transaction in
        try [(Sample.uuid(1), 0, "ada"), ("b", 1, "ada"), (Sample.uuid(1), 1, "bob"), ("b", 0, "bob")].enumerated().map
        { index, row in
          try transaction.appendConflict(
            Self.conflict(place.database, row.0, state: row.1, user: row.2), content: [UInt8(index)], assets: [])
        }
      }
      #expect(numbers == numbers.sorted() && Set(numbers).count == 4)
      try await shard.read { (snapshot) throws in
        func found(_ filter: ConflictFilter, after number: Int64 = 0, limit: Int = 9) throws -> [Int] {
          try snapshot.conflicts(in: place.database, afterNumber: number, filter, limit: limit).compactMap {
            numbers.firstIndex(of: $0.number)
          }
        }
        #expect(try found(ConflictFilter()) == [0, 1, 2, 3])
        #expect(try found(ConflictFilter(), after: numbers[1], limit: 1) == [2])
        #expect(try found(ConflictFilter(recordName: Sample.uuid(1))) == [0, 2])
        #expect(try found(ConflictFilter(recordName: Sample.uuid(1), state: 1)) == [2])
        #expect(try found(ConflictFilter(state: 0, userRecordName: "bob")) == [3])
        #expect(try numbers.map { try snapshot.conflictContent($0, in: place.database) } == [[0], [1], [2], [3]])
        #expect(try snapshot.openConflictCount(in: place.database, of: nil) == 2)
        #expect(try snapshot.openConflictCount(in: place.database, of: "ada") == 1)
        #expect(try snapshot.openConflictCount(in: place.database + 1, of: nil) == 0)
        #expect(
          try snapshot.conflict(99, in: place.database) == nil
            && snapshot.conflictContent(99, in: place.database) == nil)
        #expect(
          try snapshot.conflict(numbers[0], in: place.database + 1) == nil, "a number says nothing to another database")
      }
      try await shard.write { try $0.settleConflict(numbers[0], in: place.database, as: 2, at: 77) }
      try await shard.read { (snapshot) throws in
        let settled = try #require(try snapshot.conflict(numbers[0], in: place.database))
        #expect(settled.state == 2 && settled.settledAt == 77)
        #expect(try snapshot.openConflictCount(in: place.database, of: nil) == 1)
      }
      await #expect(throws: ContradictingWrite.self) {
        try await shard.write { try $0.settleConflict(99, in: place.database, as: 2, at: 1) }
      }
      await #expect(throws: ContradictingWrite.self) {
        try await shard.write { _ = try $0.appendConflict(Self.conflict(999, "b"), content: [], assets: []) }
      }
      if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `old conflicts go, whatever waits for a decision stays, and no number is used again`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      try await shard.write { transaction in
        for (at, state) in [(10, 1), (30, 1), (5, 0), (20, 2)] as [(Int64, Int)] {
          _ = try transaction.appendConflict(
            Self.conflict(place.database, "b", state: state, at: at), content: [], assets: [])
        }
      }
      #expect(try await shard.read { try $0.oldestConflict() } == 10)
      // A clock that went back does not block the sweep.
      #expect(try await shard.write { try $0.forgetConflicts(before: 25, limit: 9) } == 2)
      #expect(try await shard.write { try $0.forgetConflicts(before: 99, limit: 0) } == 0)
      #expect(try await shard.write { try $0.forgetConflicts(before: 99, limit: 9) } == 1)
      #expect(try await shard.read { try $0.oldestConflict() } == nil)
      #expect(
        try await shard.read {
          try $0.conflicts(in: place.database, afterNumber: 0, ConflictFilter(), limit: 9).map(\.number)
        } == [3])
      #expect(
        try await shard.write { try $0.appendConflict(Self.conflict(place.database, "b"), content: [], assets: []) }
          == 5)
      if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
    }
  }

  @Test(arguments: StoreKind.allCases) func `a user has so many conflicts and no more, and nobody else's go for his`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let (kept, surplus) = (StoredConflict.keptCount, 20)
      try await shard.write { transaction in
        // The user's first entries wait for a decision, some are settled, and one belongs to another user.
        _ = try transaction.appendConflict(Self.conflict(place.database, "a", user: "bob"), content: [1], assets: [])
        for number in 0..<(kept + surplus) {
          let state = number < 3 ? 0 : number % 500 == 7 ? 3 : 1
          _ = try transaction.appendConflict(Self.conflict(place.database, "b", state: state), content: [1], assets: [])
        }
      }
      try await shard.read { (snapshot) throws in
        let left = try snapshot.conflicts(
          in: place.database, afterNumber: 0, ConflictFilter(userRecordName: "ada"), limit: .max)
        #expect(left.count == kept && left.filter { $0.state == 0 }.count == 3 && left.filter { $0.state == 3 }.isEmpty)
        #expect(
          try snapshot.conflicts(in: place.database, afterNumber: 0, ConflictFilter(userRecordName: "bob"), limit: 9)
            .count == 1)
        #expect(
          try snapshot.conflictUse(in: place.database, of: "ada")
            == ConflictUse(count: kept, byteCount: Int64(kept), evictedCount: surplus))
        #expect(try snapshot.evictedConflictCount() == surplus)
      }
      if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `assets count, and one entry that is too large alone takes no other user's with it`(_ kind: StoreKind)
    async throws
  {
    try await AssetWorld.with(kind) { world, shard in
      let place = try await Place(in: shard)
      let assets = try (0..<3).map { try world.upload([UInt8](repeating: UInt8($0), count: 150_000_000)) }
      try await shard.write { transaction in
        _ = try transaction.appendConflict(Self.conflict(place.database, "a", user: "bob"), content: [1], assets: [])
        for asset in assets {
          _ = try transaction.appendConflict(Self.conflict(place.database, "b"), content: [1], assets: [asset])
        }
      }
      #expect(try await shard.read { try $0.conflictUse(in: place.database, of: "ada").count } == 1)
      #expect(try await shard.read { try $0.conflictUse(in: place.database, of: "bob").count } == 1)
      #expect(
        try await shard.read { snapshot in try assets.map { try snapshot.asset(withHash: $0.hash)?.useCount } } == [
          0, 0, 1,
        ])
    }
  }

  @Test(arguments: StoreKind.allCases) func `a zone's conflicts can go by themselves, a slice at a time`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      try await shard.write { transaction in
        for zone in ["other", "notes", "notes", "other", "notes"] {
          let conflict = StoredConflict(
            databaseKey: place.database, zoneName: zone, recordName: "b", entity: "Note", kind: 1, state: 1,
            userRecordName: "ada", deviceID: "", at: 1)
          _ = try transaction.appendConflict(conflict, content: [1], assets: [])
        }
      }
      func delete(_ limit: Int) async throws -> (isDone: Bool, left: [Int64]) {
        try await shard.write { transaction in
          let isDone = try transaction.deleteConflicts(of: place.database, inZone: "notes", limit: limit)
          let left = try transaction.conflicts(in: place.database, afterNumber: 0, ConflictFilter(), limit: 9)
          return (isDone, left.map(\.number))
        }
      }
      #expect(try await delete(0) == (false, [1, 2, 3, 4, 5]))
      #expect(try await delete(2) == (false, [1, 4, 5]))
      #expect(try await delete(2) == (true, [1, 4]))
      #expect(try await delete(2) == (true, [1, 4]))
      if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a journal goes in slices, and what is counted of removed entries goes at last`(_ kind: StoreKind) async throws {
    try await withShard(kind) { shard in
      let (place, other) = (try await Place(in: shard), try await Place(in: shard, owner: "bob"))
      try await shard.write { transaction in
        for database in [other.database, place.database] {
          for name in ["a", "b", "c"] {
            _ = try transaction.appendConflict(Self.conflict(database, name), content: [1], assets: [])
          }
        }
      }
      var counts: [Int] = []
      for _ in 1...3 { counts.append(try await shard.write { try $0.deleteConflicts(of: place.database, limit: 2) }) }
      #expect(counts == [2, 1, 0])
      #expect(try await shard.read { try $0.conflictUse(in: place.database, of: "ada") } == ConflictUse())
      #expect(try await shard.read { try $0.conflictUse(in: other.database, of: "ada").count } == 3)
      if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a journal keeps the assets of what was lost, and goes when its database begins anew`(_ kind: StoreKind)
    async throws
  {
    try await AssetWorld.with(kind) { world, shard in
      let place = try await Place(in: shard)
      let (first, second) = (try world.upload([1]), try world.upload([2]))
      try await shard.write { transaction in
        _ = try transaction.appendConflict(
          Self.conflict(place.database, "b", at: 1), content: [1], assets: [first, second, first])
        _ = try transaction.appendConflict(Self.conflict(place.database, "c", at: 5), content: [1], assets: [second])
      }
      func uses() async throws -> [Int?] {
        try await shard.read { snapshot in try [first, second].map { try snapshot.asset(withHash: $0.hash)?.useCount } }
      }
      #expect(try await uses() == [1, 2])
      if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
      #expect(try await shard.write { try $0.forgetConflicts(before: 2, limit: 9) } == 1)
      #expect(try await uses() == [0, 1])
      _ = try await shard.write { try $0.restart(place.database, generation: 1) }
      #expect(try await uses() == [0, 0])
      #expect(try await shard.read { try $0.oldestConflict() } == nil)
    }
  }
}
