// One shard of an engine, whose owners in turn bring stores of assets of their own.

import Assets
import RecordStore

struct OwnedShard: Sendable {
  private let folder: TemporaryFolder
  /// nil for SQLite.
  let postgreSQL: PostgreSQLConfiguration?
  /// The contents' files.
  let contents: AssetFolder

  init(_ kind: StoreKind) throws {
    folder = try TemporaryFolder()
    postgreSQL = kind == .postgreSQL ? try World.postgreSQL() : nil
    contents = AssetFolder(directory: folder.path + "/assets")
  }

  func open(_ assets: any AssetStore, options: StoreOptions = .init()) async throws -> any ShardStore {
    let store: any RecordStore
    if var configuration = postgreSQL {
      configuration.assets = assets
      configuration.options = options
      store = try PostgreSQLRecordStore(configuration, shardCount: 1, now: { 1000 })
    } else {
      let configuration = SQLiteConfiguration(directory: folder.path + "/shards", assets: assets, options: options)
      store = try SQLiteRecordStore(configuration, shardCount: 1, now: { 1000 })
    }
    return try await store.open(shard: 0)
  }
}
