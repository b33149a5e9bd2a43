import Assets
import Foundation
import PostgreSQL
import Records
import SQLite
import Testing

@testable import RecordStore

/// Backups of shards that PostgreSQL keeps: they are shard files, like those of the embedded engine.
struct DatabaseBackupTests {
  private let places: Places
  private let folder: TemporaryFolder

  init() throws {
    places = try Places()
    folder = try TemporaryFolder()
  }

  /// The copied shard, opened by the embedded engine.
  private func opened() async throws -> any ShardStore {
    var files = places.files
    files.directory = folder.path + "/shards"
    return try await SQLiteRecordStore(files, shardCount: 2, now: { 1000 }).open(shard: 0)
  }

  @Test(arguments: [3, 4] as [UInt64])
  func `a backup of a shard in PostgreSQL is a file that shows the same`(_ seed: UInt64) async throws {
    var generator = SeededGenerator(seed: seed)
    let shard = try await places.store(isInDatabase: true).open(shard: 0)
    for step in 1...150 as ClosedRange<Int64> {
      let script = Script(using: &generator, at: step)
      // Dropped because scripts are refused at times, by both engines alike.
      _ = try? await shard.write { try script.run(in: $0) }
    }
    try await shard.settleIndexes()
    let copy = try await shard.copy(to: BackupPlace(folder: folder.path))
    let counts = try await shard.read { try $0.counts() }
    #expect(copy.problems == [] && copy.epoch == shard.epoch && copy.fileCount == 1)
    #expect(copy.recordCount == counts.records && copy.databaseCount == counts.databases && counts.records > 0)
    let file = try await opened()
    #expect(file.epoch == shard.epoch + 1)
    #expect(try await file.read { try Script.dump($0, limit: 7) } == shard.read { try Script.dump($0, limit: 7) })
    #expect(try await file.verify(readsAssets: false).problems == [])
    await file.close()
    await shard.close()
  }

  @Test func `a backup made while others save has everything acknowledged before, and no gap`() async throws {
    let shard = try await places.store(isInDatabase: true).open(shard: 0)
    let place = try await Place(in: shard)
    for number in 0..<40 { _ = try await shard.write { try $0.save(Sample.note("note \(number)"), in: place) } }
    async let copy = shard.copy(to: BackupPlace(folder: folder.path))
    for number in 40..<140 { _ = try await shard.write { try $0.save(Sample.note("note \(number)"), in: place) } }
    #expect(try await copy.problems == [])
    let file = try await opened()
    let count = try await file.read { snapshot in
      let records = try snapshot.records(in: place.zone, afterName: nil, limit: 999).map(\.record.recordName)
      #expect(Set(records) == Set((0..<records.count).map { "note \($0)" }))
      return records.count
    }
    #expect((40...140).contains(count))
    await file.close()
    await shard.close()
  }

  @Test func `a database is renewed as a file is, with other incarnations and the same numbers`() async throws {
    var generator = SeededGenerator(seed: 5)
    let shard = try await places.store(isInDatabase: true).open(shard: 0)
    for step in 1...150 as ClosedRange<Int64> {
      let script = Script(using: &generator, at: step)
      // Dropped as above.
      _ = try? await shard.write { try script.run(in: $0) }
    }
    _ = try await shard.copy(to: BackupPlace(folder: folder.path))
    let before = try await Self.numbers(of: shard)
    #expect(throws: StoreError.self) {
      var impatient = places.database
      impatient.releaseLimit = .milliseconds(50)
      _ = try impatient.renewRestored()
    }
    await shard.close()
    let now: Int64 = 1_900_000_000_000
    #expect(try places.database.renewRestored(now: now) == 1)
    try ShardRenewal(shard: 0, startedAt: nil, now: now).run(at: folder.path + "/" + ShardCopy.fileName(0))
    let (renewed, file) = (try await places.store(isInDatabase: true).open(shard: 0), try await opened())
    let (after, expected) = (try await Self.numbers(of: renewed), try await Self.numbers(of: file))
    #expect(after.numbers == expected.numbers && after.numbers != before.numbers && !after.numbers.isEmpty)
    #expect(renewed.epoch == file.epoch && renewed.epoch > now)
    #expect(after.incarnations.count == before.incarnations.count && !before.incarnations.isEmpty)
    #expect(after.incarnations.isDisjoint(with: before.incarnations))
    for shard in [renewed, file] {
      #expect(try await shard.verify(readsAssets: false).problems == [])
      await shard.close()
    }
  }

  /// The numbers that a renewal raises, in words, and all incarnations.
  private static func numbers(of shard: any ShardStore) async throws -> (numbers: [String], incarnations: Set<UInt64>) {
    try await shard.read { snapshot in
      var (numbers, incarnations): ([String], Set<UInt64>) = ([], [])
      for owner in 0..<3 {
        guard let database = try snapshot.database(Sample.database("\(owner)")) else { continue }
        incarnations.insert(database.incarnation)
        numbers.append("\(database.sequence) \(database.stepCount(through: database.sequence))")
        for zone in try snapshot.zones(in: database.key, after: 0, limit: 99) { incarnations.insert(zone.incarnation) }
      }
      for mirror in try snapshot.mirrors(afterKey: 0, limit: 99) {
        incarnations.insert(mirror.incarnation)
        numbers.append("\(mirror.identifier) \(mirror.exportedTransactionNumber)")
      }
      return (numbers, incarnations)
    }
  }

  @Test func `a scan of a database holds a few megabytes, and many rows if they are small`() async throws {
    let world = try World(.postgreSQL)
    let shard = try #require(try await world.store.open(shard: 0) as? SQLiteShardStore)
    let found = try await shard.readWhole { snapshot, _ in
      var (lengths, largest, largestBehind): ([Int], Int, Int) = ([], 0, 0)
      let text = "SELECT repeat('x', CASE WHEN n <= 300 THEN 900000 ELSE 1 END) FROM generate_series(1, 1000) n"
      let statement = try snapshot.session.statement(SQL("large", text))
      try statement.forEach { row in
        guard case .postgreSQL(let command) = row else { return }
        largest = max(largest, command.heldByteCount)
        if lengths.count > 16 { largestBehind = max(largestBehind, command.heldByteCount) }
        lengths.append(row.text(0).utf8.count)
      }
      return (lengths, largest, largestBehind)
    }
    #expect(found.0 == Array(repeating: 900_000, count: 300) + Array(repeating: 1, count: 700))
    #expect(found.1 < 20 << 20 && found.2 < 5 << 20)
    await shard.close()
  }

  @Test func `batches of a scan grow and shrink with its rows, and end with the last one`() {
    var batches = ScanBatches()
    var counts: [Int] = []
    for mean in [100, 1 << 20, 700_000, 5 << 20, 100_000, 10] {
      counts.append(batches.count)
      batches.note(rowCount: batches.count, byteCount: batches.count * mean)
    }
    #expect(counts == [16, 64, 4, 4, 1, 32] && batches.count == 64 && batches.mayGoOn)
    batches.note(rowCount: 0, byteCount: 0)
    #expect(!batches.mayGoOn)
  }

  @Test func `a damaged record is in the backup, and the backup says so`() async throws {
    let place = try await places.save("first", inDatabase: true)
    try await places.save("second", in: place, inDatabase: true)
    let session = try Session(places.database.session(ofShard: 0))
    try session.transaction { _ = try session.rows(Command("damage", "UPDATE record SET sum = sum + 1 WHERE id = 1")) }
    session.close()
    let shard = try await places.store(isInDatabase: true).open(shard: 0)
    let copy = try await shard.copy(to: BackupPlace(folder: folder.path))
    #expect(copy.problems.count == 1 && copy.recordCount == 2, "\(copy.problems)")
    #expect(copy.problems.first?.contains("is damaged") == true, "\(copy.problems)")
    await shard.close()
  }

  @Test func `a folder that takes no file fails the backup alone`() async throws {
    let place = try await places.save("first", inDatabase: true)
    let shard = try await places.store(isInDatabase: true).open(shard: 0)
    #expect(FileManager.default.createFile(atPath: folder.path + "/shards", contents: nil))
    await #expect(throws: StoreError.self) { try await shard.copy(to: BackupPlace(folder: folder.path)) }
    try FileManager.default.removeItem(atPath: folder.path + "/shards")
    try FileManager.default.createDirectory(
      atPath: folder.path + "/" + ShardCopy.fileName(0), withIntermediateDirectories: true)
    await #expect(throws: StoreError.self) { try await shard.copy(to: BackupPlace(folder: folder.path)) }
    #expect(shard.failure == nil)
    _ = try await shard.write { try $0.save(Sample.note("second"), in: place) }
    await shard.close()
  }
}
