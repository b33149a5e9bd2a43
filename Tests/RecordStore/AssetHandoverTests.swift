import Assets
import DistantAssets
import PostgreSQL
import Records
import Testing

@testable import RecordStore

/// Removals of contents that a store on a network carries out after another owner has taken the shard over.
@Suite(.aheadOfOtherTests) struct AssetHandoverTests {
  private struct Refusal: Error {}

  /// How a content came to be removed.
  enum Origin: CaseIterable {
    /// A record used it once.
    case record
    /// A save adopted it and failed.
    case failedSave
  }

  /// Begins a removal that has no answer yet, takes the shard over, and saves a record that uses the content.
  /// - Parameter time: the time in which a removal may come late, as owners believe.
  /// - Returns: whether the save succeeded, and what a verification says after the removal was carried out.
  private static func takeOver(
    _ origin: Origin, _ time: Duration, _ kind: StoreKind
  ) async throws -> (isSaved: Bool, problems: [String]) {
    let owned = try OwnedShard(kind)
    let near = owned.contents
    let first = DistantAssets(near, removalTime: time)
    let before = try await owned.open(first)
    let place = try await Place(in: before)
    let asset = try near.put([1], until: 0)
    switch origin {
    case .record:
      _ = try await before.write { try $0.save(Sample.note("a", assets: [asset]), in: place) }
      _ = try await before.write { try $0.save(Sample.note("a"), in: place) }
    case .failedSave:
      await #expect(throws: Refusal.self) {
        try await before.write { transaction in
          _ = try transaction.save(Sample.note("a", assets: [asset]), in: place)
          if first.callCount > 0 { throw Refusal() }
        }
      }
      #expect(near.present([asset], in: 0) == [asset])
    }
    first.loseRemovals()
    _ = try? await before.removeUnknownContent(after: nil)
    _ = try? await before.collectAssets(orphanedBefore: .max, limit: 9).value
    await before.close()

    let after = try await owned.open(DistantAssets(near, removalTime: time))
    let saved = try? await after.write { try $0.save(Sample.note("b", assets: [asset]), in: place) }
    try first.carryOutLostRemovals()
    #expect(near.present([asset], in: 0).isEmpty, "a removal was under way")
    let problems = try await after.verify(readsAssets: true).problems
    await after.close()
    return (saved != nil, problems)
  }

  @Test(arguments: Origin.allCases, StoreKind.queued)
  func `a new owner uses no content that the owner before may still remove`(
    _ origin: Origin, _ kind: StoreKind
  ) async throws {
    let outcome = try await Self.takeOver(origin, .seconds(3600), kind)
    #expect(!outcome.isSaved && outcome.problems == [])
  }

  @Test(arguments: StoreKind.queued)
  func `an owner that fears no late removal loses a content that a record uses`(_ kind: StoreKind) async throws {
    let outcome = try await Self.takeOver(.record, .nanoseconds(1), kind)
    #expect(outcome.isSaved && outcome.problems.count == 1)
  }

  @Test(arguments: StoreKind.queued)
  func `a content that no row names stays as long as one whose last use has just ended`(_ kind: StoreKind)
    async throws
  {
    let owned = try OwnedShard(kind)
    let distant = DistantAssets(owned.contents, removalTime: .seconds(3600))
    let shard = try await owned.open(distant)
    let asset = try owned.contents.put([1], until: 0)
    _ = try owned.contents.adopt(asset, into: 0)
    var part: Int?
    while let removed = try await shard.removeUnknownContent(after: part) { part = removed.part }
    // The store's clock stands still at 1000.
    #expect(try await shard.collectAssets(orphanedBefore: 1000, limit: 9).value == 0)
    #expect(owned.contents.present([asset], in: 0) == [asset])
    #expect(try await shard.collectAssets(orphanedBefore: 1001, limit: 9).value == 1)
    #expect(owned.contents.present([asset], in: 0).isEmpty)
    await shard.close()
  }

  /// PostgreSQL alone: SQLite's owner holds the lock of the file.
  @Test(.timeLimit(.minutes(2)))
  func `a removal is not made when another owner takes the shard over after its choice`() async throws {
    let owned = try OwnedShard(.postgreSQL)
    let configuration = try #require(owned.postgreSQL)
    let near = owned.contents
    let assets = DistantAssets(near) {
      // The server ends the session of an owner that is frozen in its body.
      let outside = try? Session(configuration.session(ofShard: 0))
      let ended = try? outside?.rows(
        Command(
          "end",
          """
          SELECT pg_terminate_backend(pid, 60000) FROM pg_locks
          WHERE relation = 'tenure'::regclass AND pid <> pg_backend_pid()
          """))
      #expect(ended?.first != nil)
      #expect(throws: Never.self) {
        try PostgreSQLTenure.takeOver(configuration, shard: 0, shardCount: 1, knownEpoch: 0)
      }
    }
    let before = try await owned.open(assets)
    let place = try await Place(in: before)
    let asset = try near.put([1], until: 0)
    _ = try await before.write { try $0.save(Sample.note("a", assets: [asset]), in: place) }
    _ = try await before.write { try $0.save(Sample.note("a"), in: place) }
    let callCount = assets.callCount
    await #expect(throws: StoreError.fenced(shard: 0, epoch: 2)) {
      try await before.collectAssets(orphanedBefore: .max, limit: 9).value
    }
    #expect(assets.callCount == callCount && near.present([asset], in: 0) == [asset])
    await before.close()
  }

  @Test(.timeLimit(.minutes(1)), arguments: StoreKind.queued)
  func `a content that a new owner's record was refused is used once no removal can be under way`(
    _ kind: StoreKind
  ) async throws {
    let owned = try OwnedShard(kind)
    let assets = DistantAssets(owned.contents, removalTime: .milliseconds(300))
    let before = try await owned.open(assets)
    let place = try await Place(in: before)
    let (unused, new) = (try assets.put([1], until: 0), try assets.put([2], until: 0))
    _ = try await before.write { try $0.save(Sample.note("a", assets: [unused]), in: place) }
    _ = try await before.write { try $0.save(Sample.note("a"), in: place) }
    await before.close()
    let after = try await owned.open(assets)
    // A content of which no owner knew comes at once.
    _ = try await after.write { try $0.save(Sample.note("b", assets: [new]), in: place) }
    var isSaved = false
    while !isSaved {
      do {
        _ = try await after.write { try $0.save(Sample.note("c", assets: [unused]), in: place) }
        isSaved = true
      } catch StoreError.unavailable {
        await Task.yield()
      }
    }
    #expect(try await after.verify(readsAssets: true).problems == [])
    await after.close()
  }
}
