// Quarantined transactions of exports, in both stores.

import Foundation
import RecordStore
import Records
import Testing

struct QuarantineConformanceTests {
  static func object(
    _ mirror: Int64, _ name: String, cause: Int = 0, dueAt: Int64 = 10, schemaVersion: Int64 = 1,
    reason: String = "Note.title"
  ) -> StoredQuarantine {
    StoredQuarantine(
      mirror: mirror, name: name, entity: "Note", cause: cause, code: "BAD_REQUEST", cocoaErrorCode: 134060,
      reason: reason, firstAt: 1, lastAt: 2, attempts: 3,
      dueAt: dueAt, schemaVersion: schemaVersion)
  }

  @Test(arguments: StoreKind.allCases)
  func `a held-back change is counted, listed, found when it is due, and gone when it is removed`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database).key
      let other = try await HistoryConformanceTests.makeMirror(in: shard, "tablet", database: place.database).key
      try await shard.write { transaction in
        for (index, name) in [Sample.uuid(1), "b", "c"].enumerated() {
          try transaction.putQuarantined(
            Self.object(mirror, name, cause: index, dueAt: 30 - Int64(index) * 10), changes: [UInt8(index)], assets: [])
        }
        try transaction.putQuarantined(Self.object(other, "b"), changes: [9], assets: [])
        #expect(try transaction.mirror(key: mirror)?.quarantinedCount == 3)
      }
      try await shard.read { (snapshot) throws in
        let all = try snapshot.quarantined(of: mirror, afterKey: 0, limit: 9)
        #expect(all.map(\.name) == [Sample.uuid(1), "b", "c"])
        #expect(try all.map { try snapshot.quarantinedChanges($0.key) } == [[0], [1], [2]])
        #expect(try snapshot.quarantined(of: mirror, afterKey: all[0].key, limit: 1).map(\.name) == ["b"])
        #expect(try snapshot.quarantined(of: mirror, dueBy: 20, limit: 9).map(\.name) == ["c", "b"])
        #expect(try snapshot.quarantined("b", of: mirror) == all[1])
        #expect(try snapshot.quarantined("d", of: mirror) == nil)
        #expect(try snapshot.mirrorsWithQuarantine(afterKey: 0, limit: 9) == [mirror, other])
        #expect(try snapshot.nextQuarantineDue() == 10)
      }
      try await shard.write { transaction in
        // Replaces the quarantined change of the same object.
        try transaction.putQuarantined(
          Self.object(mirror, "b", cause: 7, reason: "another"), changes: [7, 7], assets: [])
        #expect(try transaction.quarantined(of: mirror, afterKey: 0, limit: 9).map(\.cause) == [0, 7, 2])
        #expect(try transaction.retryQuarantined(.cause(7), of: mirror, at: 5) == 1)
        #expect(try transaction.retryQuarantined(.names(["b", "b", "nobody"]), of: mirror, at: 6) == 1)
        #expect(try transaction.retryQuarantined(.otherSchema(than: 1), of: mirror, at: 7) == 0)
        #expect(try transaction.retryQuarantined(.otherSchema(than: 2), of: mirror, at: 8) == 3)
        #expect(try transaction.retryQuarantined(.all, of: mirror, at: 9) == 3)
        try transaction.removeQuarantined("b", of: mirror)
        try transaction.removeQuarantined("b", of: mirror)
        #expect(try transaction.mirror(key: mirror)?.quarantinedCount == 2)
        // A caller with an older count does not overwrite the count.
        var row = try #require(try transaction.mirror(key: mirror))
        try transaction.removeQuarantined("c", of: mirror)
        row.deviceName = "renamed"
        try transaction.update(row)
        #expect(try transaction.mirror(key: mirror)?.quarantinedCount == 1)
      }
      await #expect(throws: ContradictingWrite.self) {
        try await shard.write { try $0.putQuarantined(Self.object(99, "b"), changes: [], assets: []) }
      }
      if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a store that begins anew keeps what is held back, and one that is forgotten does not`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database)
      try await shard.write { transaction in
        try transaction.append(HistoryConformanceTests.transaction(1), to: mirror.key)
        try transaction.putQuarantined(Self.object(mirror.key, "b"), changes: [1], assets: [])
      }
      let fresh = try await shard.write { try $0.resetMirror(mirror.key) }
      #expect(
        fresh.key == mirror.key && fresh.incarnation != mirror.incarnation && fresh.identifier == mirror.identifier)
      try await shard.read { (snapshot) throws in
        #expect(try snapshot.mirror(key: fresh.key) == fresh && fresh.quarantinedCount == 1)
        #expect(
          [fresh.lastTransactionNumber, fresh.exportedTransactionNumber, fresh.purgedTransactionNumber] == [1, 1, 1])
        #expect(try snapshot.quarantined(of: fresh.key, afterKey: 0, limit: 9).map(\.name) == ["b"])
        #expect(try snapshot.transactions(of: fresh.key, after: 0, limit: 9) == [])
      }
      try await shard.write { try $0.deleteMirror(fresh.key) }
      #expect(try await shard.read { try $0.nextQuarantineDue() } == nil)
      if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
    }
  }

  @Test(arguments: StoreKind.allCases) func `assets of what is held back stay, also when its transaction is purged`(
    _ kind: StoreKind
  ) async throws {
    try await AssetWorld.with(kind) { world, shard in
      let place = try await Place(in: shard)
      let mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database)
      let (first, second) = (try world.upload([1]), try world.upload([2]))
      try await shard.write { transaction in
        try transaction.append(HistoryConformanceTests.transaction(1), assets: [first, second], to: mirror.key)
        try transaction.putQuarantined(Self.object(mirror.key, "b"), changes: [1], assets: [first, second])
        _ = try transaction.purgeTransactions(of: mirror.key, through: 1)
      }
      func uses() async throws -> [Int?] {
        try await shard.read { snapshot in try [first, second].map { try snapshot.asset(withHash: $0.hash)?.useCount } }
      }
      #expect(try await uses() == [1, 1])
      try await shard.write { try $0.putQuarantined(Self.object(mirror.key, "b"), changes: [2], assets: [second]) }
      #expect(try await uses() == [0, 1])
      let fresh = try await shard.write { try $0.resetMirror(mirror.key) }
      #expect(try await uses() == [0, 1])
      try await shard.write { try $0.removeQuarantined("b", of: fresh.key) }
      #expect(try await uses() == [0, 0])
    }
  }

  @Test(arguments: StoreKind.allCases) func `history is read as far as its bytes go, and one transaction at least`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database).key
      try await shard.write { transaction in
        for number: Int64 in 1...5 {
          try transaction.append(
            HistoryConformanceTests.transaction(number, payload: Array(repeating: 0, count: 100)), to: mirror)
        }
      }
      func count(_ limit: Int, after number: Int64 = 0) async throws -> Int {
        try await shard.read { try $0.transactions(of: mirror, after: number, limit: 9, byteLimit: limit).count }
      }
      #expect(
        try await [count(1), count(100), count(299), count(300), count(.max), count(0, after: 5)] == [1, 1, 2, 3, 5, 0])
    }
  }
}
