// The keys that sealed a shard's contents: a backup tells of them, and their loss is noticed at the shard's opening.

import Assets
import Crypto
import Foundation
import Records
import SQLite
import Testing

@testable import RecordStore

struct ContentKeyTests {
  private let folder: TemporaryFolder

  init() throws { folder = try TemporaryFolder() }

  /// Saves a note with a content of its own.
  private static func save(_ name: String, in shard: any ShardStore, _ place: Place, _ assets: AssetFolder) async throws
  {
    let asset = try assets.put(Array("the content of \(name)".utf8), until: 0)
    _ = try await shard.write { try $0.save(Sample.note(name, assets: [asset]), in: place) }
  }

  @Test(arguments: StoreKind.queued)
  func `a shard and its backup tell which keys sealed its contents, and no missing key keeps it from opening`(
    _ kind: StoreKind
  ) async throws {
    let owned = try OwnedShard(kind)
    let (old, new) = (try SealingTests.keys("1"), try SealingTests.keys("2"))
    let both = try SealingTests.keys("1", "2")
    let (first, second) = (try #require(old.newest), try #require(new.newest))
    func with<Value>(_ keys: KeyRing, _ body: (any ShardStore, AssetFolder) async throws -> Value) async throws -> Value
    {
      let assets = AssetFolder(directory: owned.contents.directory, keys: keys)
      let shard = try await owned.open(assets)
      let value = try await body(shard, assets)
      await shard.close()
      return value
    }
    func missing(of keys: KeyRing) async throws -> Set<KeyRing.ID> {
      try await with(keys) { shard, _ in Set(try await shard.missingContentKeys()) }
    }

    let place = try await with(KeyRing()) { shard, assets in
      let place = try await Place(in: shard)
      try await Self.save("plain", in: shard, place, assets)
      return place
    }
    try await with(old) { shard, assets in
      let asset = try assets.put([1], until: 0)
      await #expect(throws: CancellationError.self) {
        try await shard.write { transaction -> Void in
          try transaction.save(Sample.note("undone", assets: [asset]), in: place)
          throw CancellationError()
        }
      }
      #expect(try await shard.missingContentKeys() == [])
    }
    #expect(try await missing(of: KeyRing()) == [], "nothing that is sealed was committed")

    try await with(old) { try await Self.save("a", in: $0, place, $1) }
    #expect(try await missing(of: old) == [])
    #expect(try await missing(of: KeyRing()) == [first])
    // The second save of a tenure notes nothing again.
    try await with(both) { shard, assets in
      for name in ["b", "c"] { try await Self.save(name, in: shard, place, assets) }
    }
    #expect(try await missing(of: both) == [])
    #expect(try await missing(of: new) == [first])
    #expect(try await missing(of: KeyRing()) == [first, second])

    let copy = try await with(both) { shard, _ in
      try await shard.copy(to: BackupPlace(folder: folder.path))
    }
    #expect(copy.problems == [] && copy.neededKeys == [first.description, second.description].sorted())
  }

  @Test func `the keys of contents move with their shard to PostgreSQL and back`() async throws {
    let places = try Places()
    await (try await places.store(isInDatabase: false).open(shard: 0)).close()
    let path = places.files.path(ofShard: 0)
    let name = "contentKey-0123456789abcdef"
    let file = try Connection(path: path, mode: .readWrite)
    try file.execute("INSERT INTO meta VALUES ('\(name)', 1)")
    file.close()
    for toDatabase in [true, false] { _ = try await places.migration(toDatabase: toDatabase).run() }
    let back = try Connection(path: path, mode: .readOnly)
    #expect(try back.statement(ShardQuery.contentKeys).all { $0.text(0) } == [name])
    back.close()
  }
}
