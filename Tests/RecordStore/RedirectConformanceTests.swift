// Redirects and shared keys, in both stores.

import Foundation
import Indexing
import RecordStore
import Records
import Testing

struct RedirectConformanceTests {
  private static func redirect(_ loser: String, _ survivor: String, since: Int64 = 10) -> StoredRedirect {
    StoredRedirect(loser: loser, survivor: survivor, since: since, rule: "Note(title)")
  }

  @Test(arguments: StoreKind.allCases)
  func `T-D07 a chain of duplicates leads to one survivor, in whatever order it was found`(_ kind: StoreKind)
    async throws
  {
    let names = ["a", Sample.uuid(1), Sample.uuid(2), "d"]
    let steps = [(3, 2), (2, 1), (1, 0)]
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
      try await withShard(kind) { shard in
        let place = try await Place(in: shard)
        try await shard.write { transaction in
          for (loser, survivor) in order.map({ steps[$0] }) {
            try transaction.put(Self.redirect(names[loser], names[survivor]), in: place.zone)
          }
        }
        try await shard.read { (snapshot) throws in
          #expect(try names.map { try snapshot.redirect(of: $0, in: place.zone)?.survivor } == [nil, "a", "a", "a"])
          #expect(try snapshot.redirects(to: "a", in: place.zone, limit: 9).map(\.loser) == ["d", names[1], names[2]])
          #expect(try snapshot.redirects(to: "a", in: place.zone, limit: 1).map(\.loser) == ["d"])
        }
        if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
      }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `redirects are found, noted, settled and forgotten, and a database says whether it has any`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      #expect(try await shard.write { try $0.hasRedirects(in: place.database) } == false)
      try await shard.write { transaction in
        try transaction.put(Self.redirect("b", "a", since: 10), in: place.zone)
        try transaction.put(Self.redirect(Sample.uuid(3), "a", since: 20), in: place.zone)
        #expect(try transaction.hasRedirects(in: place.database))
        try transaction.note(.exported, ofPendingRedirectsBefore: 20, in: place.zone)
        try transaction.note(.imported, ofPendingRedirectsBefore: 21, in: place.zone)
        #expect(
          try transaction.pendingRedirects(in: place.zone, afterName: nil, limit: 9).map(\.progress) == [
            [.exported, .imported], .imported,
          ])
        #expect(
          try transaction.pendingRedirects(in: place.zone, afterName: "b", limit: 9).map(\.loser) == [Sample.uuid(3)])
        #expect(
          try transaction.zonesWithPendingRedirects(in: place.database, afterKey: 0, limit: 9).map(\.key) == [
            place.zone
          ])
        #expect(try transaction.zonesWithPendingRedirects(in: place.database + 1000, afterKey: 0, limit: 9).isEmpty)
        var settled = try #require(try transaction.redirect(of: "b", in: place.zone))
        settled.removedAt = 30
        settled.progress = .all
        try transaction.put(settled, in: place.zone)
      }
      try await shard.read { (snapshot) throws in
        #expect(try snapshot.hasRedirects(in: place.database))
        #expect(try snapshot.redirect(of: "b", in: place.zone)?.removedAt == 30)
        #expect(
          try snapshot.pendingRedirects(in: place.zone, afterName: nil, limit: 9).map(\.loser) == [Sample.uuid(3)])
        #expect(try snapshot.zonesWithPendingRedirects(in: nil, afterKey: 0, limit: 9).map(\.key) == [place.zone])
        #expect(try snapshot.redirect(of: "nobody", in: place.zone) == nil)
      }
      // A settled redirect is not noted again.
      try await shard.write { try $0.note(.moved, ofPendingRedirectsBefore: 99, in: place.zone) }
      #expect(
        try await shard.read { try $0.redirect(of: Sample.uuid(3), in: place.zone)?.progress } == [.imported, .moved])
      try await shard.write { transaction in
        try transaction.removeRedirect(of: "b", in: place.zone)
        try transaction.removeRedirect(of: "b", in: place.zone)
        #expect(try transaction.redirect(of: "b", in: place.zone) == nil)
      }
      // A failed body leaves no redirect, not even in memory.
      let other = try await Place(in: shard, owner: "other")
      await #expect(throws: ContradictingWrite.self) {
        try await shard.write { transaction in
          try transaction.put(Self.redirect("y", "x"), in: other.zone)
          try transaction.put(Self.redirect("x", "y"), in: other.zone)
        }
      }
      #expect(try await shard.write { try $0.hasRedirects(in: other.database) } == false)
      await #expect(throws: ContradictingWrite.self) {
        try await shard.write { try $0.put(Self.redirect("y", "x"), in: 99_999) }
      }
      // A zone's redirects are deleted with it.
      try await shard.write { try $0.deleteZone(place.zone) }
      #expect(try await shard.read { try $0.redirect(of: Sample.uuid(3), in: place.zone) } == nil)
      #expect(try await shard.read { try $0.zonesWithPendingRedirects(in: nil, afterKey: 0, limit: 9) }.isEmpty)
      for _ in 0..<3 { try await shard.write { _ in } }
      if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
    }
  }

  @Test(arguments: StoreKind.allCases) func `keys that records share are found in their order, with every save`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let index = FieldIndex(uniqueFields: ["CD_title"], ofRecordType: "CD_Note")
      let made = try await shard.write { try $0.makeIndex(index, in: place.database) }
      #expect(made.isReady, "there is nothing to fill in")
      try await shard.write { transaction in
        for (name, title) in [("1", "x"), ("2", "y"), ("3", "x"), ("4", "z"), ("5", "z")] {
          _ = try transaction.save(Sample.note(name, title: title), in: place)
        }
      }
      func keys(after key: [UInt8] = [], limit: Int = 9) async throws -> [[UInt8]] {
        try await shard.read { try $0.sharedKeys(of: made.key, in: place.zone, after: key, limit: limit) }
      }
      let shared = try await keys()
      #expect(shared.count == 2)
      #expect(Set(shared) == Set(["x", "z"].compactMap { index.keys(of: Sample.note("n", title: $0)).first }))
      #expect(try await keys(limit: 1) == [shared[0]])
      #expect(try await keys(after: shared[0]) == [shared[1]])
      try await shard.write { _ = try $0.save(Sample.note("5", title: "w"), in: place) }
      #expect(try await keys().count == 1)
      let late = try await shard.write {
        try $0.makeIndex(FieldIndex(uniqueFields: ["CD_body"], ofRecordType: "CD_Note"), in: place.database)
      }
      if kind != .inMemory { #expect(!late.isReady, "there are records") }
      try await shard.settleIndexes()
      if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
    }
  }

  @Test func `a shard's redirects outlive its process`() async throws {
    let folder = try TemporaryFolder()
    let store = try SQLiteRecordStore(SQLiteConfiguration(directory: folder.path), shardCount: 1)
    let shard = try await store.open(shard: 0)
    let place = try await Place(in: shard)
    try await shard.write { try $0.put(Self.redirect("b", "a"), in: place.zone) }
    await shard.close()
    let again = try await store.open(shard: 0)
    #expect(try await again.write { try $0.hasRedirects(in: place.database) })
    #expect(try await again.write { try $0.redirect(of: "b", in: place.zone)?.survivor } == "a")
    await again.close()
  }
}
