// Tests of forgotten mirrors and outcomes, of every store.

import RecordStore
import Records
import Testing

extension HistoryConformanceTests {
  @Test(arguments: StoreKind.allCases)
  func `forgetting a mirror forgets its history and events, and its numbers are not used again`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let mirror = try await Self.makeMirror(in: shard, database: place.database)
      try await shard.write {
        try $0.append(Self.transaction(1), to: mirror.key)
        _ = try $0.put(StoredEvent(identifier: "1", kind: .setup, startedAt: 1), of: mirror.key)
      }
      try await shard.write { try $0.deleteMirror(mirror.key) }
      try await shard.read { (snapshot) throws in
        #expect(try snapshot.mirror("phone", in: place.database) == nil)
        #expect(try snapshot.transactions(of: mirror.key, after: 0, limit: 9) == [])
        #expect(try snapshot.transaction(withID: Sample.uuid(1), of: mirror.key) == nil)
        #expect(try snapshot.events(of: mirror.key, after: 0, kind: nil, limit: 9) == [])
      }
      await #expect(throws: ContradictingWrite.self) { try await shard.write { try $0.deleteMirror(mirror.key) } }
      let again = try await Self.makeMirror(in: shard, database: place.database)
      #expect(again.key > mirror.key)
      #expect(again.incarnation != mirror.incarnation)
      #expect(
        try await shard.write { try $0.put(StoredEvent(identifier: "2", kind: .setup, startedAt: 1), of: again.key) }
          == 2)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `an outcome is remembered under its key until it is forgotten, the oldest first`(_ kind: StoreKind) async throws
  {
    try await withShard(kind) { shard in
      #expect(try await shard.read { try $0.outcome(of: "a") } == nil)
      let keys = ["a", Sample.uuid(1), Sample.uuid(1).lowercased(), "é", ""]
      try await shard.write {
        for (index, key) in keys.enumerated() {
          try $0.putOutcome(Array(repeating: 1, count: index), of: key, at: 100 - Int64(index))
        }
      }
      for (index, key) in keys.enumerated() {
        #expect(try await shard.read { try $0.outcome(of: key) } == Array(repeating: 1, count: index))
      }
      await #expect(throws: ContradictingWrite.self) {
        try await shard.write { try $0.putOutcome([9], of: "a", at: 500) }
      }
      #expect(try await shard.write { try $0.forgetOutcomes(before: 96, limit: 9) } == 0)
      #expect(try await shard.write { try $0.forgetOutcomes(before: 100, limit: 3) } == 3)
      #expect(try await shard.read { try $0.outcome(of: "") } == nil)
      #expect(try await shard.read { try $0.outcome(of: Sample.uuid(1)) } == [1])
      #expect(try await shard.write { try $0.forgetOutcomes(before: 100, limit: 3) } == 1)
      #expect(try await shard.write { try $0.forgetOutcomes(before: .max, limit: 0) } == 0)
      #expect(try await shard.write { try $0.forgetOutcomes(before: .max, limit: 9) } == 1)
      // A forgotten key is free again.
      try await shard.write { try $0.putOutcome([2], of: "a", at: 1) }
    }
  }
}
