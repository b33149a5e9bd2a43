import Assets
import DistantAssets
import Records
import Synchronization
import Testing

@testable import RecordStore

/// A shard of a cluster is divided while it serves, and no save is lost or doubled, whoever dies.
struct SplitTests {
  /// Of the script's databases `2` leaves shard 0 of one, and the others stay.
  private static let whole = ShardPart(modulus: 2, remainder: 0)
  private static let staying = ["0", "1"].map(Sample.database)
  private static let leaving = [Sample.database("2")]

  /// Shard 0 has the part whose division `DivisionTests` describes.
  private static func told(_ cluster: String, splitInto target: String?) throws -> [ShardPlacement] {
    let part = try #require(whole)
    return [
      ShardPlacement(
        cluster: cluster, split: target.map { RequestedSplit(shard: 2, cluster: $0, part: part) }),
      ShardPlacement(cluster: cluster),
    ]
  }

  private static func fill(_ shard: any ShardStore, seed: UInt64, steps: Int = 120) async throws {
    var generator = SeededGenerator(seed: seed)
    for step in 1...steps {
      let script = Script(using: &generator, at: Int64(step))
      // Dropped because many scripts fail on purpose.
      _ = try? await shard.write { try script.run(in: $0) }
    }
  }

  private static func keys(_ owners: [DatabaseID], in shard: any ShardStore) async throws -> [Int64] {
    try await shard.read { snapshot in try owners.compactMap { try snapshot.database($0)?.key } }
  }

  /// Writes to a shard until its division ends its owner's hold, and opens both.
  private static func divided(_ shard: any ShardStore, in store: ClusteredRecordStore) async throws -> (
    any ShardStore, any ShardStore
  ) {
    let shard = try await store.write(to: shard) { $0.part != nil }
    await store.whenTidy()
    return (shard, try await store.open(shard: 2, knownEpoch: 1))
  }

  @Test(arguments: ["main", "west"])
  func `both shards of a division have all rows of their databases and no others`(target: String) async throws {
    let clusters = try Clusters()
    let store = try ClusteredRecordStore(clusters.all, shardCount: 2)
    store.follow(try Self.told("main", splitInto: nil))
    let shard = try await store.open(shard: 0)
    try await Self.fill(shard, seed: 7)
    try await shard.settle()
    let kept = try await (Self.keys(Self.staying, in: shard), Self.keys(Self.leaving, in: shard))
    let before = try await shard.read { snapshot in
      let snapshot = try #require(snapshot as? SQLiteSnapshot)
      return (try OwnRows.tallies(of: kept.0, in: snapshot), try OwnRows.tallies(of: kept.1, in: snapshot))
    }
    let tokens = try await shard.read { snapshot in try Self.leaving.map { try snapshot.database($0) } }

    store.follow(try Self.told("main", splitInto: target))
    let (old, new) = try await Self.divided(shard, in: store)
    #expect(old.part == ShardPart(modulus: 4, remainder: 0) && new.part == ShardPart(modulus: 4, remainder: 2))
    #expect(store.placement(ofShard: 2)?.cluster == target)
    #expect(try await new.read { snapshot in try Self.leaving.map { try snapshot.database($0) } } == tokens)
    for (shard, keys, tallies) in [(old, kept.0, before.0), (new, kept.1, before.1)] {
      try await shard.settle()
      try await shard.read { snapshot in
        let snapshot = try #require(snapshot as? SQLiteSnapshot)
        #expect(try OwnRows.tallies(of: keys, in: snapshot) == tallies)
        #expect(try OwnRows.strangers(to: keys, in: snapshot) == [])
      }
      #expect(try await shard.verify(readsAssets: false).problems == [])
      await shard.close()
    }
    #expect(try clusters.logs() == [])
  }

  @Test(arguments: zip(1...5, [false, true, false, true, false]))
  func `the owner of a shard that is divided dies, or only seems to, and its successor divides it`(
    at step: Int, goesOn: Bool
  ) async throws {
    let clusters = try Clusters()
    let successor = try ClusteredRecordStore(
      clusters.all, shardCount: 2, pause: .milliseconds(20), willTake: { _, _ in })
    successor.follow(try Self.told("main", splitInto: nil))
    let (taken, took) = AsyncStream.makeStream(of: (any ShardStore).self)
    let store = try ClusteredRecordStore(
      clusters.all, shardCount: 2,
      willTake: { _, number in
        guard number == step else { return }
        took.yield(try await successor.open(shard: 0, knownEpoch: 1))
        if !goesOn { throw StoreError.closed(shard: 0) }
      })
    store.follow(try Self.told("main", splitInto: nil))
    let shard = try await store.open(shard: 0)
    let places = try await (Place(in: shard, owner: "0"), Place(in: shard, owner: "2"))
    _ = try await shard.write { transaction in
      for place in [places.0, places.1] { try transaction.save(Sample.note("first"), in: place) }
    }
    store.follow(try Self.told("main", splitInto: "west"))
    let heir = try #require(await taken.first { _ in true })
    // The division may have come first.
    for place in [places.0] + (heir.part == nil ? [places.1] : []) {
      _ = try await heir.write { try $0.save(Sample.note("second"), in: place) }
    }
    await #expect(throws: StoreError.self) {
      _ = try await shard.write { try $0.save(Sample.note("lost"), in: places.0) }
    }
    let isDivided = heir.part != nil
    #expect(isDivided == (step == 5))

    successor.follow(try Self.told("main", splitInto: "west"))
    let (old, new) = try await Self.divided(heir, in: successor)
    for (shard, place, names) in [
      (old, places.0, ["first", "second"]), (new, places.1, isDivided ? ["first"] : ["first", "second"]),
    ] {
      _ = try await shard.write { try $0.save(Sample.note("third"), in: place) }
      let found = try await shard.read {
        try $0.records(in: place.zone, afterName: nil, limit: 99).map(\.record.recordName)
      }
      #expect(found == names + ["third"])
      try await shard.settle()
      #expect(try await shard.verify(readsAssets: false).problems == [])
    }
    await shard.close()
    await old.close()
    await new.close()
  }

  @Test func `savers go on while a shard is divided: none is lost or made twice, and no sequence goes back`()
    async throws
  {
    let clusters = try Clusters()
    let store = try ClusteredRecordStore(clusters.all, shardCount: 2)
    store.follow(try Self.told("main", splitInto: nil))
    let shards = OpenPair(try await store.open(shard: 0))
    let owners = ["0", "1", "2"]
    var places: [String: Place] = [:]
    for owner in owners { places[owner] = try await Place(in: shards.first, owner: owner) }
    let ledger = try await withThrowingTaskGroup(of: (String, [String: Int64]).self) { group in
      for owner in owners {
        let place = try #require(places[owner])
        group.addTask { (owner, try await Self.save(50, owner, place, to: shards, in: store)) }
      }
      store.follow(try Self.told("main", splitInto: "west"))
      var ledger: [String: [String: Int64]] = [:]
      for try await (owner, saved) in group { ledger[owner] = saved }
      return ledger
    }
    #expect(shards.first.part != nil)
    for owner in owners {
      let (place, shard) = (try #require(places[owner]), shards.shard(of: Sample.database(owner)))
      let stored = try await shard.read { try $0.changes(in: place.zone, after: 0, limit: 99_999) }
      #expect(stored.map(\.record.recordName).sorted() == ledger[owner]?.keys.sorted())
      #expect(stored.allSatisfy { ledger[owner]?[$0.record.recordName] == $0.sequence })
      // The zone was made at the first sequence, and each save has one of its own: the feed skips none.
      #expect(stored.map(\.sequence) == Array(2..<Int64(stored.count + 2)))
    }
    await shards.close()
  }

  @Test func `the new shard gets the contents of assets, and each shard counts its own uses in the end`() async throws {
    var clusters = try Clusters()
    let folder = try TemporaryFolder()
    let assets = AssetFolder(directory: folder.path)
    for name in clusters.all.keys { clusters.all[name]?.assets = assets }
    let store = try ClusteredRecordStore(clusters.all, shardCount: 2)
    store.follow(try Self.told("main", splitInto: nil))
    let shard = try await store.open(shard: 0)
    let places = try await (Place(in: shard, owner: "0"), Place(in: shard, owner: "2"))
    let contents = try ["stays", "leaves", "both"].map { try assets.put(Array("it \($0)".utf8), until: 0) }
    try await shard.write { transaction in
      try transaction.save(BackupTests.note("stays", contents[0]), in: places.0)
      try transaction.save(BackupTests.note("leaves", contents[1]), in: places.1)
      for place in [places.0, places.1] { try transaction.save(BackupTests.note("both", contents[2]), in: place) }
    }
    store.follow(try Self.told("main", splitInto: "west"))
    let (old, new) = try await Self.divided(shard, in: store)
    for (shard, uses) in [(old, [1, 0, 1]), (new, [0, 1, 1])] {
      #expect(try await shard.verify(readsAssets: true).problems == [])
      try await shard.settle()
      #expect(try await shard.verify(readsAssets: true).problems == [])
      let found = try await shard.read { snapshot in
        try contents.map { try snapshot.asset(withHash: $0.hash)?.useCount ?? 0 }
      }
      #expect(found == uses)
      await shard.close()
    }
    for content in contents { #expect(try assets.open(content.hash, of: 2) != nil) }
  }

  @Test func `contents that come before the last round are copied while savers go on, and the division goes on`()
    async throws
  {
    var clusters = try Clusters()
    let folder = try TemporaryFolder()
    // Refuses copies on a writer's thread.
    let assets = DistantAssets(AssetFolder(directory: folder.path))
    for name in clusters.all.keys { clusters.all[name]?.assets = assets }
    let late = try (0..<2).map { try assets.put([UInt8($0), 7], until: 0) }
    let (box, begun, rests) = (StoreBox(), Counter(0), Counter(0))
    let store = try ClusteredRecordStore(
      clusters.all, shardCount: 2,
      willTake: { _, step in
        if step == 1 { _ = begun.next() }
        guard step == 4, let shard = box.shard else { return }
        let number = Int(rests.next())
        if number > late.count { return }
        let place = try await Place(in: shard, zone: "late \(number)", owner: "2")
        _ = try await shard.write { try $0.save(BackupTests.note("late", late[number - 1]), in: place) }
      })
    store.follow(try Self.told("main", splitInto: nil))
    let shard = try await store.open(shard: 0)
    box.fill(store, shard)
    store.follow(try Self.told("main", splitInto: "west"))
    let (old, new) = try await Self.divided(shard, in: store)
    #expect(begun.next() == 2 && rests.next() == 4)
    for content in late { #expect(try assets.open(content.hash, of: 2) != nil) }
    #expect(try await new.verify(readsAssets: true).problems == [])
    await old.close()
    await new.close()
  }

  @Test func `each content that another shard gets has the time of a preparation of its own`() throws {
    let folder = try TemporaryFolder()
    let assets = DistantAssets(AssetFolder(directory: folder.path))
    let contents = try (0..<3).map { try assets.put([UInt8($0)], until: 0) }
      .sorted { $0.hash.lexicographicallyPrecedes($1.hash) }
    try assets.prepare(Set(contents), for: 0)
    for content in contents { _ = try assets.adopt(content, into: 0) }
    let count = assets.callCount
    try assets.copy(contents, from: 0, to: 2, until: 3600)
    #expect(assets.callCount == count + 3)
    #expect(assets.present(contents, in: 2).count == 3)
  }

  /// Saves records one by one, and again after each failure, until `count` are saved after the division. A save that is
  /// stored already is not made again.
  private static func save(
    _ count: Int, _ owner: String, _ place: Place, to shards: OpenPair, in store: ClusteredRecordStore
  ) async throws -> [String: Int64] {
    var saved: [String: Int64] = [:]
    var (number, rest) = (0, count)
    while rest > 0 {
      if shards.first.part != nil || number > 20_000 { rest -= 1 }
      let name = "note \(number)"
      number += 1
      while saved[name] == nil {
        let shard = shards.shard(of: Sample.database(owner))
        do {
          saved[name] = try await shard.write { transaction in
            guard try transaction.database(Sample.database(owner)) != nil else { throw StoreError.closed(shard: 0) }
            if let stored = try transaction.record(named: name, in: place.zone) { return stored.sequence }
            return try transaction.save(Sample.note(name), in: place).sequence
          }
        } catch StoreError.fenced, StoreError.closed {
          try await shards.reopen(shard, in: store)
        }
      }
    }
    return saved
  }
}

/// What savers have open: the shard that is divided and, from then on, the new one.
private final class OpenPair: Sendable {
  private let state: Mutex<(first: any ShardStore, second: (any ShardStore)?)>
  private let turns = Turns()

  init(_ first: any ShardStore) { state = Mutex((first, nil)) }

  var first: any ShardStore { state.withLock(\.first) }

  func shard(of database: DatabaseID) -> any ShardStore {
    state.withLock { state in
      guard let part = state.first.part, !part.contains(database) else { return state.first }
      return state.second ?? state.first
    }
  }

  /// Opens the shard anew that a saver has lost, unless another saver has done it.
  func reopen(_ lost: any ShardStore, in store: ClusteredRecordStore) async throws {
    let outcome = Mutex<Result<Void, any Error>>(.success(()))
    let turn = turns.add { [self] in
      let result = await Result { try await reopenOnce(lost, in: store) }
      outcome.withLock { $0 = result }
    }
    await turn.value
    try outcome.withLock { try $0.get() }
  }

  private func reopenOnce(_ lost: any ShardStore, in store: ClusteredRecordStore) async throws {
    let present = state.withLock(\.self)
    if present.first.epoch == lost.epoch, present.first.shard == lost.shard, present.first.part == nil {
      await lost.close()
      let opened = try await store.open(shard: 0, knownEpoch: lost.epoch)
      state.withLock { $0.first = opened }
    }
    let first = state.withLock(\.first)
    guard first.part != nil, state.withLock({ $0.second == nil }) else { return }
    await store.whenTidy()
    let second = try await store.open(shard: 2, knownEpoch: 1)
    state.withLock { $0.second = second }
  }

  func close() async {
    let open = state.withLock(\.self)
    await open.first.close()
    await open.second?.close()
  }
}
