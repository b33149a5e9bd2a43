// The two places between which tests of moves move shards.

import Assets
import Crypto
import Records
import SQLite
import Testing

@testable import RecordStore

/// A folder and a schema prefix between which shards move.
struct Places: Sendable {
  private let folder: TemporaryFolder
  let files: SQLiteConfiguration
  var database: PostgreSQLConfiguration

  init() throws {
    folder = try TemporaryFolder()
    let keys = try KeyRing(parsing: String(repeating: "a", count: 64))
    var options = StoreOptions()
    options.keepsPastStates = true
    options.readTime = .seconds(120)
    files = SQLiteConfiguration(directory: folder.path + "/shards", keys: keys, options: options)
    database = try World.postgreSQL(keys: keys, options: options)
  }

  func migration(toDatabase: Bool) -> StoreMigration {
    toDatabase
      ? StoreMigration(from: .files(files), to: .database(database))
      : StoreMigration(from: .database(database), to: .files(files))
  }

  func store(isInDatabase: Bool, makeIncarnation: (@Sendable () -> UInt64)? = nil) throws -> any RecordStore {
    isInDatabase
      ? try PostgreSQLRecordStore(database, shardCount: 2, makeIncarnation: makeIncarnation, now: { 1000 })
      : try SQLiteRecordStore(files, shardCount: 2, makeIncarnation: makeIncarnation, now: { 1000 })
  }

  func moving(toDatabase: Bool, report: @escaping @Sendable (String) -> Void) throws -> MovingRecordStore {
    let (source, target) = (ShardPlace.files(files), ShardPlace.database(database))
    return toDatabase
      ? try MovingRecordStore(from: source, to: target, shardCount: 2, report: report)
      : try MovingRecordStore(from: target, to: source, shardCount: 2, report: report)
  }

  /// Moves the shard up to the last step.
  func leaveBetween(toDatabase: Bool) async throws {
    let shard = try await store(isInDatabase: !toDatabase).open(shard: 0)
    let owned = try #require(shard as? SQLiteShardStore)
    let arriving = ShardStanding(shardCount: 2, epoch: shard.epoch + 2, installation: nil, move: 4711)
    #expect(try await migration(toDatabase: toDatabase).copy(owned, arriving) > 3)
    await #expect(throws: StoreError.fenced(shard: 0, epoch: shard.epoch + 1)) { try await shard.write { _ in } }
    await shard.close()
  }

  @discardableResult
  func save(_ name: String, in place: Place? = nil, inDatabase isInDatabase: Bool) async throws -> Place {
    let shard = try await store(isInDatabase: isInDatabase).open(shard: 0)
    var place = place
    if place == nil { place = try await Place(in: shard) }
    let known = try #require(place)
    _ = try await shard.write { try $0.save(Sample.note(name), in: known) }
    await shard.close()
    return known
  }

  func names(in place: Place, inDatabase isInDatabase: Bool) async throws -> [String] {
    let shard = try await store(isInDatabase: isInDatabase).open(shard: 0)
    let names = try await shard.read {
      try $0.records(in: place.zone, afterName: nil, limit: 99).map(\.record.recordName)
    }
    await shard.close()
    return names
  }
}

/// Files that lose a record on arrival.
struct LossyPlace: MigrationPlace {
  let files: SQLiteConfiguration
  var name: String { files.name }

  func shards() throws(StoreError) -> [Int] { try files.shards() }
  func standing(ofShard shard: Int) throws -> ShardStanding? { try files.standing(ofShard: shard) }
  var installation: InstallationID? { nil }
  func store(shardCount: Int, report: @escaping @Sendable (_ problem: String) -> Void) throws(StoreError)
    -> any RecordStore
  {
    try files.store(shardCount: shardCount, report: report)
  }
  func read<Value>(shard: Int, _ body: (StoreConnection) throws -> Value) throws -> Value {
    try files.read(shard: shard, body)
  }
  func admit(shard: Int, move: Int64) throws { try files.admit(shard: shard, move: move) }
  func receive(_ moving: MovingShard, fill: (StoreConnection) throws -> Void) throws {
    try files.receive(moving) { connection in
      try fill(connection)
      guard case .sqlite(let connection) = connection else { return }
      try connection.execute("DELETE FROM record")
    }
  }
}

/// A place that tells of the calls of an opening.
struct NotedPlace: MigrationPlace {
  let place: any MigrationPlace
  let note: @Sendable (_ call: String) -> Void
  var name: String { place.name }
  var installation: InstallationID? { place.installation }

  func shards() throws(StoreError) -> [Int] { try place.shards() }
  func standing(ofShard shard: Int) throws -> ShardStanding? {
    note("standing")
    return try place.standing(ofShard: shard)
  }
  func store(shardCount: Int, report: @escaping @Sendable (_ problem: String) -> Void) throws(StoreError)
    -> any RecordStore
  {
    try place.store(shardCount: shardCount, report: report)
  }
  func read<Value>(shard: Int, _ body: (StoreConnection) throws -> Value) throws -> Value {
    try place.read(shard: shard, body)
  }
  func admit(shard: Int, move: Int64) throws {
    note("admit")
    try place.admit(shard: shard, move: move)
  }
  func receive(_ moving: MovingShard, fill: (StoreConnection) throws -> Void) throws {
    try place.receive(moving, fill: fill)
  }
}
