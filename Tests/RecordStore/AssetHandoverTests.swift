import Assets
import DistantAssets
import RecordStore
import Records
import Testing

/// Removals of contents that a store on a network carries out after another owner has taken the shard over.
struct AssetHandoverTests {
  private struct Refusal: Error {}

  /// How a content came to be removed.
  enum Origin: CaseIterable {
    /// A record used it once.
    case record
    /// A save adopted it and failed.
    case failedSave
  }

  private static func open(_ folder: TemporaryFolder, _ assets: DistantAssets) async throws -> any ShardStore {
    let configuration = SQLiteConfiguration(directory: folder.path + "/shards", assets: assets)
    return try await SQLiteRecordStore(configuration, shardCount: 1).open(shard: 0)
  }

  /// Begins a removal that has no answer yet, takes the shard over, and saves a record that uses the content.
  /// - Parameter time: the time in which a removal may come late, as owners believe.
  /// - Returns: whether the save succeeded, and what a verification says after the removal was carried out.
  private static func takeOver(_ origin: Origin, _ time: Duration) async throws -> (isSaved: Bool, problems: [String]) {
    let folder = try TemporaryFolder()
    let near = AssetFolder(directory: folder.path + "/assets")
    let first = DistantAssets(near, removalTime: time)
    let before = try await Self.open(folder, first)
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

    let after = try await Self.open(folder, DistantAssets(near, removalTime: time))
    let saved = try? await after.write { try $0.save(Sample.note("b", assets: [asset]), in: place) }
    try first.carryOutLostRemovals()
    #expect(near.present([asset], in: 0).isEmpty, "a removal was under way")
    let problems = try await after.verify(readsAssets: true).problems
    await after.close()
    return (saved != nil, problems)
  }

  @Test(arguments: Origin.allCases)
  func `a new owner uses no content that the owner before may still remove`(_ origin: Origin) async throws {
    let outcome = try await Self.takeOver(origin, .seconds(3600))
    #expect(!outcome.isSaved && outcome.problems == [])
  }

  @Test func `an owner that fears no late removal loses a content that a record uses`() async throws {
    let outcome = try await Self.takeOver(.record, .nanoseconds(1))
    #expect(outcome.isSaved && outcome.problems.count == 1)
  }

  @Test(.timeLimit(.minutes(1)))
  func `a content that a new owner's record was refused is used once no removal can be under way`() async throws {
    let folder = try TemporaryFolder()
    let assets = DistantAssets(AssetFolder(directory: folder.path + "/assets"), removalTime: .milliseconds(300))
    let before = try await Self.open(folder, assets)
    let place = try await Place(in: before)
    let (unused, new) = (try assets.put([1], until: 0), try assets.put([2], until: 0))
    _ = try await before.write { try $0.save(Sample.note("a", assets: [unused]), in: place) }
    _ = try await before.write { try $0.save(Sample.note("a"), in: place) }
    await before.close()
    let after = try await Self.open(folder, assets)
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
