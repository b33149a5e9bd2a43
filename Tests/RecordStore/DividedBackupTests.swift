import Foundation
import Records
import SQLite
import Synchronization
import Testing

@testable import RecordStore

/// Backups of an installation whose shards were divided.
struct DividedBackupTests {
  private static let layout = ShardLayout(createdCount: 2, splits: [0])
  /// Its database is in shard 2 after the division of shard 0.
  private static let owner = "2"

  /// Makes the shards of a divided installation, with a database in the new one. Shard 0 still has the rows of the
  /// other half, and the note that the last step of the division was not taken.
  private static func fill(_ configuration: SQLiteConfiguration) async throws -> [any ShardStore] {
    let store = try SQLiteRecordStore(configuration, shardCount: 2)
    let whole = try #require(try await store.open(shard: 0) as? SQLiteShardStore)
    for owner in ["0", owner] { _ = try await Place(in: whole, owner: owner) }
    let staying = try #require(layout?.part(of: 0))
    try await whole.enqueue(of: "", runsAlone: true) { try $0.narrow(to: staying, by: 1, for: 2) }.value
    await whole.close()
    var file = ShardFile(configuration, shard: 2, shardCount: 4)
    file.remainder = try #require(layout?.part(of: 2)).remainder
    try file.takeOver().connection.close()
    let shards = [
      try await store.open(shard: 0, knownEpoch: 1), try await store.open(shard: 1),
      try await store.open(shard: 2, knownEpoch: 1),
    ]
    _ = try await Place(in: shards[2], owner: owner)
    return shards
  }

  @Test(arguments: [false, true])
  func `a backup brings divided shards back with their parts, and what it lacks is empty with its part`(
    lacksNew: Bool
  ) async throws {
    let folder = try TemporaryFolder()
    let shards = try await Self.fill(SQLiteConfiguration(directory: folder.path + "/data/shards"))
    let backup = try BackupFolder(folder.path + "/backup")
    let begun = try backup.begin(name: "01", installation: "0123456789abcdef")
    var copies: [ShardCopy] = []
    for shard in shards.dropLast(lacksNew ? 1 : 0) {
      copies.append(try await shard.copy(to: BackupPlace(folder: backup.draft)))
    }
    #expect(copies.map(\.part) == copies.map { Self.layout?.dividedPart(of: $0.shard) })
    #expect(FileManager.default.createFile(atPath: backup.directoryFile, contents: Data([1, 2, 3])))
    let directory = try backup.digestOfDirectory()
    try begun.finish(
      BackupManifest(
        installation: "0123456789abcdef", startedAt: 1, createdAt: 2, shardCount: 3, splits: [0],
        directoryByteCount: directory.byteCount, directoryDigest: directory.digest, shards: copies,
        missing: lacksNew ? [BackupManifest.Missing(shard: 2, reason: "it is damaged")] : []))
    #expect(shards[0].pendingSplit?.shard == 2, "the copy has the note")
    for shard in shards { await shard.close() }

    let target = folder.path + "/restored"
    let reports = Mutex<[String]>([])
    let restore = BackupRestore(source: backup.path, data: target, gaps: .empty, now: nil) { line in
      reports.withLock { $0.append(line) }
    }
    let manifest = try restore.run()
    #expect(manifest.splits == [0] && manifest.layout == Self.layout)
    #expect(reports.withLock { $0.contains { $0.contains("being split off shard 0") } } == lacksNew)
    let store = try SQLiteRecordStore(SQLiteConfiguration(directory: target + "/shards"), shardCount: 2)
    for number in 0..<3 {
      let shard = try await store.open(shard: number, knownEpoch: 1)
      #expect(shard.part == Self.layout?.dividedPart(of: number))
      #expect(shard.pendingSplit == nil, "nobody takes the last step of a division in a file")
      if number == 2 {
        let found = try await shard.read { try $0.database(Sample.database(Self.owner)) }
        #expect((found == nil) == lacksNew)
      }
      await shard.close()
    }
  }

  @Test func `shards of a backup of before a division don't fill the gaps of one of after it`() async throws {
    let folder = try TemporaryFolder()
    let shards = try await Self.fill(SQLiteConfiguration(directory: folder.path + "/data/shards"))
    func back(up name: String, splits: [Int], _ copied: [Int]) async throws -> String {
      let backup = try BackupFolder(folder.path + "/" + name)
      let begun = try backup.begin(name: "01", installation: "0123456789abcdef")
      var copies: [ShardCopy] = []
      for shard in copied { copies.append(try await shards[shard].copy(to: BackupPlace(folder: backup.draft))) }
      #expect(FileManager.default.createFile(atPath: backup.directoryFile, contents: Data([1])))
      let directory = try backup.digestOfDirectory()
      let lacking = (0..<3).filter { !copied.contains($0) }
      try begun.finish(
        BackupManifest(
          installation: "0123456789abcdef", startedAt: 1, createdAt: 2, shardCount: 3, splits: splits,
          directoryByteCount: directory.byteCount, directoryDigest: directory.digest, shards: copies,
          missing: lacking.map { BackupManifest.Missing(shard: $0, reason: "lost") }))
      return backup.path
    }
    let (before, after) = (
      try await back(up: "before", splits: [], [0, 1, 2]), try await back(up: "after", splits: [0], [0, 1])
    )
    for shard in shards { await shard.close() }
    #expect {
      try BackupRestore(source: after, data: folder.path + "/to", gaps: .filled(from: before), now: nil) { _ in }.run()
    } throws: {
      "\($0)".contains("were divided between the backup and")
    }
  }

  @Test(arguments: ["[3]", "[-1]", "[0,0,0]", "[null]", #"["0"]"#, "[1e300]", "[0.5]"])
  func `a manifest whose splits can't have been is none`(splits: String) throws {
    let copies = (0..<3).map { shard in
      ShardCopy(
        shard: shard, epoch: 1, databaseCount: 1, recordCount: 1, fileCount: 1, byteCount: 2, listDigest: "",
        neededKeys: [], problems: [])
    }
    let manifest = BackupManifest(
      installation: "0", startedAt: 1, createdAt: 2, shardCount: 3, splits: [1], directoryByteCount: 3,
      directoryDigest: "", shards: copies)
    let text = String(decoding: manifest.encoded(), as: UTF8.self)
    #expect(BackupManifest(decoding: Array(text.utf8)) == manifest)
    #expect(
      BackupManifest(decoding: Array(text.replacing(#""splits":[1]"#, with: #""splits":\#(splits)"#).utf8)) == nil)
  }
}
