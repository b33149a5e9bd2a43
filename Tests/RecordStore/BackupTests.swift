import Assets
import CSQLite
import Foundation
import Records
import SQLite
import Testing

@testable import RecordStore

/// A shard's part of a backup, and what becomes of a backup.
struct BackupTests {
  let folder: TemporaryFolder
  let data: String
  let backup: BackupFolder
  let assets: AssetStore

  init() throws {
    folder = try TemporaryFolder()
    data = folder.path + "/data"
    backup = try BackupFolder(folder.path + "/backup/")
    assets = AssetStore(directory: data + "/assets")
  }

  static func open(_ data: String) async throws -> any ShardStore {
    try await SQLiteRecordStore(directory: data + "/shards", shardCount: 1, assets: AssetStore(directory: data + "/assets")).open(shard: 0)
  }

  /// A note with a file.
  static func note(_ name: String, _ asset: Asset) -> Record {
    var record = Sample.note(name)
    record.fields["CD_file"] = Field(.asset(asset))
    return record
  }

  /// Writes notes, makes a backup while more are written, and closes.
  /// - Returns: those that were acknowledged before the backup began, and the database and zone as they were.
  func back(up count: Int, then later: Int) async throws -> (names: [String], database: StoredDatabase, place: Place) {
    let shard = try await Self.open(data)
    let place = try await Place(in: shard)
    let names = (0..<count).map { "note \($0)" }
    for name in names {
      let asset = try assets.put(Array("the content of \(name)".utf8), until: 0)
      _ = try await shard.write { try $0.save(Self.note(name, asset), in: place) }
    }
    try backup.begin(mark: "mark")
    try backup.check(mark: "mark")
    async let copy = shard.copy(to: backup.draft)
    for number in 0..<later { _ = try await shard.write { try $0.save(Sample.note("later \(number)"), in: place) } }
    let database = try #require(try await shard.read { try $0.database(key: place.database) })
    #expect(FileManager.default.createFile(atPath: backup.directoryFile, contents: Data([1, 2, 3])))
    let directory = try backup.digestOfDirectory()
    let part = try await copy
    #expect(part.problems == [] && part.recordCount >= count && part.fileCount == count + 1)
    try backup.finish(
      BackupManifest(
        installation: "0123456789abcdef", createdAt: 1, shardCount: 1, directoryByteCount: directory.byteCount, directoryDigest: directory.digest, shards: [part]))
    await shard.close()
    return (names, database, place)
  }

  func restore(to target: String) throws -> BackupManifest { try BackupRestore(source: backup.path, data: target) { _ in }.run() }

  @Test func `a backup that is made while others save has everything acknowledged before, and is restored with other incarnations`() async throws {
    let (names, database, place) = try await back(up: 40, then: 60)
    let target = folder.path + "/restored"
    let manifest = try restore(to: target)
    #expect(manifest.shardCount == 1 && manifest.recordCount >= 40 && manifest.problems == [])
    let shard = try await Self.open(target)
    let report = try await shard.verify(readsAssets: true)
    #expect(report.problems == [] && report.assetCount == 40)
    for name in names { #expect(try await shard.read { try $0.record(named: name, in: place.zone) } != nil, "\(name)") }
    let restored = try #require(try await shard.read { try $0.database(key: place.database) })
    #expect(restored.incarnation != database.incarnation && restored.sequence <= database.sequence)
    _ = try await shard.write { try $0.save(Sample.note("after"), in: place) }
    await shard.close()
    // The backup is as it was: it can be restored again, elsewhere, and not over what is there.
    #expect(try restore(to: folder.path + "/again") == manifest)
    #expect(throws: StoreError.self) { try restore(to: target) }
  }

  @Test(arguments: ["-1", "9223372036854775807"]) func `a manifest whose numbers can't be is none`(_ number: String) throws {
    let part = ShardCopy(
      shard: 0, epoch: 1, databaseCount: 1, recordCount: 111, fileCount: 1, byteCount: 222, listDigest: "", neededKeys: [], problems: [])
    let manifest = BackupManifest(installation: "0", createdAt: 1, shardCount: 1, directoryByteCount: 333, directoryDigest: "", shards: [part])
    let text = String(decoding: manifest.encoded(), as: UTF8.self)
    #expect(BackupManifest(decoding: Array(text.utf8)) == manifest)
    #expect(BackupManifest(decoding: Array(text.replacingOccurrences(of: #""bytes":333"#, with: #""bytes":\#(number)"#).utf8)) == nil)
  }

  @Test func `a backup with a byte that flipped anywhere is refused, and leaves no installation`() async throws {
    _ = try await back(up: 5, then: 0)
    let files = try #require(FileManager.default.subpaths(atPath: backup.path)).filter { !$0.hasSuffix("manifest.json") }.filter {
      var isFolder: ObjCBool = false
      return FileManager.default.fileExists(atPath: backup.path + "/" + $0, isDirectory: &isFolder) && !isFolder.boolValue
    }.sorted()
    #expect(files.count == 8)
    for (index, file) in files.enumerated() {
      let path = backup.path + "/" + file
      let whole = try Data(contentsOf: URL(filePath: path))
      var damaged = whole
      damaged[damaged.count * (index + 1) / (files.count + 2)] ^= 1
      // Another file: assets are second names of what the installation uses.
      try FileManager.default.removeItem(atPath: path)
      try damaged.write(to: URL(filePath: path))
      let target = folder.path + "/restored \(index)"
      #expect(throws: StoreError.self, "\(file)") { try restore(to: target) }
      #expect(!FileManager.default.fileExists(atPath: target + "/directory.sqlite") && !FileManager.default.fileExists(atPath: target + "/shards"))
      try whole.write(to: URL(filePath: path))
    }
    #expect(try restore(to: folder.path + "/restored").shardCount == 1)
  }

  @Test func `a backup that was not finished is none, and makes room for the next`() async throws {
    try backup.begin(mark: "one")
    #expect(throws: StoreError.self) { try BackupRestore(source: backup.draft, data: folder.path + "/restored") { _ in }.run() }
    #expect(throws: StoreError.self) { try backup.check(mark: "two") }
    try backup.begin(mark: "two")
    try backup.check(mark: "two")
    try FileManager.default.createDirectory(atPath: backup.path + "/x", withIntermediateDirectories: true)
    #expect(throws: StoreError.self) { try backup.begin(mark: "three") }
    #expect(throws: StoreError.self) { try BackupFolder("relative") }
  }
}
