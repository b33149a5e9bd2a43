import Assets
import CSQLite
import Foundation
import Records
import SQLite
import Testing

@testable import RecordStore

/// A shard's part of a backup, and the restore of a backup.
struct BackupTests {
  let folder: TemporaryFolder
  let data: String
  let backup: BackupFolder
  let assets: AssetFolder

  init() throws {
    folder = try TemporaryFolder()
    data = folder.path + "/data"
    backup = try BackupFolder(folder.path + "/backup/")
    assets = AssetFolder(directory: data + "/assets")
  }

  static func open(_ data: String) async throws -> any ShardStore {
    try await SQLiteRecordStore(
      SQLiteConfiguration(directory: data + "/shards", assets: AssetFolder(directory: data + "/assets")), shardCount: 1
    ).open(shard: 0)
  }

  /// A note with a file.
  static func note(_ name: String, _ asset: Asset) -> Record {
    var record = Sample.note(name)
    record.fields["CD_file"] = Field(.asset(asset))
    return record
  }

  /// Writes notes, makes a backup while more are written, and closes.
  /// - Returns: the notes acknowledged before the backup, with the database and zone of that time.
  func back(up count: Int, then later: Int) async throws -> (names: [String], database: StoredDatabase, place: Place) {
    let shard = try await Self.open(data)
    let place = try await Place(in: shard)
    let names = (0..<count).map { "note \($0)" }
    for name in names {
      let asset = try assets.put(Array("the content of \(name)".utf8), until: 0)
      _ = try await shard.write { try $0.save(Self.note(name, asset), in: place) }
    }
    let begun = try begin("aa")
    try backup.check(mark: begun.mark)
    async let copy = shard.copy(to: BackupPlace(folder: backup.draft))
    for number in 0..<later { _ = try await shard.write { try $0.save(Sample.note("later \(number)"), in: place) } }
    let database = try #require(try await shard.read { try $0.database(key: place.database) })
    #expect(FileManager.default.createFile(atPath: backup.directoryFile, contents: Data([1, 2, 3])))
    let directory = try backup.digestOfDirectory()
    let part = try await copy
    #expect(part.problems == [] && part.recordCount >= count && part.fileCount == count + 1)
    try begun.finish(
      BackupManifest(
        installation: "0123456789abcdef", startedAt: 1, createdAt: 1, shardCount: 1,
        directoryByteCount: directory.byteCount,
        directoryDigest: directory.digest, shards: [part]))
    await shard.close()
    return (names, database, place)
  }

  func restore(to target: String, gaps: BackupRestore.Gaps = .refused, now: Int64? = nil) throws -> BackupManifest {
    try BackupRestore(source: backup.path, data: target, gaps: gaps, now: now) { _ in }.run()
  }

  @Test
  func
    `a backup made while others save has everything acknowledged before, and is restored with other incarnations`()
    async throws
  {
    let (names, database, place) = try await back(up: 40, then: 60)
    let target = folder.path + "/restored"
    let manifest = try restore(to: target)
    #expect(manifest.shardCount == 1 && manifest.recordCount >= 40 && manifest.problems == [])
    let shard = try await Self.open(target)
    let report = try await shard.verify(readsAssets: true)
    #expect(report.problems == [] && report.assetCount == 40)
    for name in names { #expect(try await shard.read { try $0.record(named: name, in: place.zone) } != nil, "\(name)") }
    let restored = try #require(try await shard.read { try $0.database(key: place.database) })
    #expect(restored.incarnation != database.incarnation)
    // A device's change tag of a lost record is never given to another record.
    let after = try await shard.write { try $0.save(Sample.note("after"), in: place) }
    #expect(after.sequence > database.sequence + 60)
    #expect(try await shard.verify(readsAssets: false).problems == [])
    await shard.close()
    // The backup is unchanged: it can be restored elsewhere, but not over existing data.
    #expect(try restore(to: folder.path + "/again") == manifest)
    #expect(throws: StoreError.self) { try restore(to: target) }
  }

  @Test(arguments: ["-1", "9223372036854775807"]) func `a manifest whose numbers can't be is none`(_ number: String)
    throws
  {
    let part = ShardCopy(
      shard: 0, epoch: 1, databaseCount: 1, recordCount: 111, fileCount: 1, byteCount: 222, listDigest: "",
      neededKeys: [], problems: [])
    let manifest = BackupManifest(
      installation: "0", startedAt: 1, createdAt: 2, shardCount: 1, directoryByteCount: 333, directoryDigest: "",
      shards: [part])
    let text = String(decoding: manifest.encoded(), as: UTF8.self)
    #expect(BackupManifest(decoding: Array(text.utf8)) == manifest)
    #expect(
      BackupManifest(decoding: Array(text.replacingOccurrences(of: #""bytes":333"#, with: #""bytes":\#(number)"#).utf8))
        == nil)
  }

  @Test func `a backup with a byte that flipped anywhere is refused, and leaves no installation`() async throws {
    _ = try await back(up: 5, then: 0)
    let files = try #require(FileManager.default.subpaths(atPath: backup.path)).filter {
      !$0.hasSuffix("manifest.json")
    }.filter {
      var isFolder: ObjCBool = false
      return FileManager.default.fileExists(atPath: backup.path + "/" + $0, isDirectory: &isFolder)
        && !isFolder.boolValue
    }.sorted()
    #expect(files.count == 8)
    for (index, file) in files.enumerated() {
      let path = backup.path + "/" + file
      let whole = try Data(contentsOf: URL(filePath: path))
      var damaged = whole
      damaged[damaged.count * (index + 1) / (files.count + 2)] ^= 1
      // As a new file, because assets in the backup are hard links to the installation's.
      try FileManager.default.removeItem(atPath: path)
      try damaged.write(to: URL(filePath: path))
      let target = folder.path + "/restored \(index)"
      #expect(throws: StoreError.self, "\(file)") { try restore(to: target) }
      #expect(
        !FileManager.default.fileExists(atPath: target + "/directory.sqlite")
          && !FileManager.default.fileExists(atPath: target + "/shards"))
      try whole.write(to: URL(filePath: path))
    }
    #expect(try restore(to: folder.path + "/restored").shardCount == 1)
  }

  /// The next numbers in a restored shard: of its database, its events, its journal.
  private func numbers(in data: String) throws -> [Int64] {
    let connection = try Connection(exclusive: data + "/shards/shard-0.sqlite", mode: .readOnly)
    defer { connection.close() }
    return try [
      "SELECT seq FROM database", "SELECT value FROM meta WHERE key = 'lastEvent'",
      "SELECT seq FROM sqlite_sequence WHERE name = 'journal'",
    ].map { try #require(try connection.statement(SQL($0, $0)).first { $0.int64(0) }) }
  }

  @Test func `two installations restored from one backup number nothing alike, nor as that one did`() async throws {
    let (_, database, _) = try await back(up: 3, then: 0)
    let day: Int64 = 86_400_000
    var before = [database.sequence, 0, 0]
    for (index, now) in [1_800_000_000_000, 1_800_000_000_000 + day].enumerated() {
      let target = "\(folder.path)/restored \(index)"
      _ = try restore(to: target, now: now)
      let numbers = try numbers(in: target)
      for (number, earlier) in zip(numbers, before) { #expect(number > earlier + 1_000_000 && number < 1 << 53) }
      before = numbers
    }
    // A wrong clock does not matter.
    _ = try restore(to: folder.path + "/wrong", now: 0)
    for number in try numbers(in: folder.path + "/wrong") { #expect(number > 1_000_000) }
  }

  @Test
  func
    `a restored store of the shared database forwards again what it forwarded since the backup, and nothing twice`()
    async throws
  {
    let began: Int64 = 100 * ShardRenewal.forwardingTime
    let shard = try await Self.open(data)
    let place = try await Place(in: shard)
    func make(_ identifier: String, _ user: String, _ scope: DatabaseScope) async throws -> Int64 {
      try await shard.write { transaction in
        var mirror = try transaction.makeMirror(
          identifier, in: place.database, userRecordName: user, scope: scope, modelHash: "hash", configuration: nil,
          deviceName: nil, createdAt: 5)
        for (number, at) in [began - 2 * ShardRenewal.forwardingTime, began - 1000, began + 1000].enumerated() {
          try transaction.append(
            StoredTransaction(
              number: Int64(number) + 1, transactionID: Sample.uuid(number), author: nil, appendedAt: at, payload: [1]),
            to: mirror.key)
        }
        mirror = try #require(try transaction.mirror(key: mirror.key))
        mirror.exportedTransactionNumber = 3
        try transaction.update(mirror)
        return mirror.key
      }
    }
    let home = try await make("home", "ada", .shared)
    let others = [try await make("guest", "bob", .shared), try await make("own", "ada", .private)]
    let begun = try begin("aa")
    let part = try await shard.copy(to: BackupPlace(folder: backup.draft))
    await shard.close()
    try finish([part], startedAt: began, in: begun)
    let target = folder.path + "/restored"
    _ = try restore(to: target)
    let restored = try await Self.open(target)
    // Transactions from shortly before the backup, too: they may still have been waiting for the owner's shard.
    #expect(try await restored.read { try $0.mirror(key: home)?.exportedTransactionNumber } == 1)
    for key in others { #expect(try await restored.read { try $0.mirror(key: key)?.exportedTransactionNumber } == 3) }
    await restored.close()
  }

  @Test
  func `with a shard from an earlier backup every home forwards again what that backup can't have`() async throws {
    let store = try SQLiteRecordStore(SQLiteConfiguration(directory: data + "/shards", assets: assets), shardCount: 2)
    let shards = [try await store.open(shard: 0), try await store.open(shard: 1)]
    let place = try await Place(in: shards[0])
    let day = ShardRenewal.forwardingTime
    let (earlierBegan, began) = (100 * day, 110 * day)
    let home = try await shards[0].write { transaction in
      var mirror = try transaction.makeMirror(
        "home", in: place.database, userRecordName: "ada", scope: .shared, modelHash: "hash", configuration: nil,
        deviceName: nil, createdAt: 5)
      for (index, at) in [earlierBegan - 2 * day, earlierBegan - 1000, began - 3 * day, began - 1000].enumerated() {
        try transaction.append(
          StoredTransaction(
            number: Int64(index) + 1, transactionID: Sample.uuid(index), author: nil, appendedAt: at, payload: [1]),
          to: mirror.key)
      }
      mirror = try #require(try transaction.mirror(key: mirror.key))
      mirror.exportedTransactionNumber = 4
      try transaction.update(mirror)
      return mirror.key
    }
    let earlier = try BackupFolder(folder.path + "/earlier")
    let first = try begin("01", earlier)
    var parts: [ShardCopy] = []
    for shard in shards { parts.append(try await shard.copy(to: BackupPlace(folder: earlier.draft))) }
    try finish(parts, of: 2, startedAt: earlierBegan, in: first)
    let second = try begin("02")
    let missing = [BackupManifest.Missing(shard: 1, reason: "it is damaged")]
    let part = try await shards[0].copy(to: BackupPlace(folder: backup.draft))
    try finish([part], of: 2, startedAt: began, missing: missing, in: second)
    for shard in shards { await shard.close() }

    for (name, gaps, number) in [
      ("filled", .filled(from: earlier.path), 1), ("emptied", .empty, 3),
    ] as [(String, BackupRestore.Gaps, Int64)] {
      _ = try restore(to: "\(folder.path)/\(name)", gaps: gaps)
      let restored = try await SQLiteRecordStore(
        SQLiteConfiguration(directory: "\(folder.path)/\(name)/shards"), shardCount: 2
      ).open(shard: 0)
      #expect(try await restored.read { try $0.mirror(key: home)?.exportedTransactionNumber } == number)
      await restored.close()
    }
  }

  /// Completes a backup of the copied shards.
  private func finish(
    _ parts: [ShardCopy], of count: Int = 1, startedAt: Int64 = 1, missing: [BackupManifest.Missing] = [],
    in begun: BegunBackup
  ) throws {
    #expect(FileManager.default.createFile(atPath: begun.folder.directoryFile, contents: Data([1, 2, 3])))
    let directory = try begun.folder.digestOfDirectory()
    try begun.finish(
      BackupManifest(
        installation: "0123456789abcdef", startedAt: startedAt, createdAt: startedAt + 1, shardCount: count,
        directoryByteCount: directory.byteCount,
        directoryDigest: directory.digest, shards: parts, missing: missing))
  }

  @Test func `a shard that a backup lacks is taken from an earlier one, or left empty, but not silently`() async throws
  {
    let store = try SQLiteRecordStore(SQLiteConfiguration(directory: data + "/shards", assets: assets), shardCount: 2)
    let shards = [try await store.open(shard: 0), try await store.open(shard: 1)]
    let earlier = try BackupFolder(folder.path + "/earlier")
    let first = try begin("01", earlier)
    try finish(
      [
        try await shards[0].copy(to: BackupPlace(folder: earlier.draft)),
        try await shards[1].copy(to: BackupPlace(folder: earlier.draft)),
      ], of: 2, in: first)
    _ = try await Place(in: shards[0])
    let missing = [BackupManifest.Missing(shard: 1, reason: "it is damaged")]
    let second = try begin("02")
    let part = try await shards[0].copy(to: BackupPlace(folder: backup.draft))
    try finish([part], of: 2, missing: missing, in: second)
    for shard in shards { await shard.close() }

    #expect {
      try restore(to: folder.path + "/refused")
    } throws: {
      "\($0)".contains("lacks shards: 1 (it is damaged)")
    }
    #expect(try restore(to: folder.path + "/filled", gaps: .filled(from: earlier.path)).missing == missing)
    #expect(try restore(to: folder.path + "/emptied", gaps: .empty).missing == missing)
    // Workers don't create shards that existed before.
    for target in ["filled", "emptied"] {
      let names = try FileManager.default.contentsOfDirectory(atPath: "\(folder.path)/\(target)/shards").filter {
        $0.hasSuffix(".sqlite")
      }
      #expect(names.sorted() == ["shard-0.sqlite", "shard-1.sqlite"])
    }
    let emptied = try await SQLiteRecordStore(
      SQLiteConfiguration(directory: folder.path + "/emptied/shards"), shardCount: 2
    ).open(shard: 1)
    for number in try await RenewalTests.firstNumbers(in: emptied, "ada") { #expect(number > 1_000_000) }
    await emptied.close()
    // This backup lacks the shard, too.
    #expect(throws: StoreError.self) { try restore(to: folder.path + "/again", gaps: .filled(from: backup.path)) }
  }

  @Test func `a worker that was given up and writes on spoils neither the shard's next copy nor the next backup`()
    async throws
  {
    let shard = try await Self.open(data)
    _ = try await Place(in: shard)
    let begun = try begin("0a")
    /// Writes like a worker that does not know that it was given up: into the folder it was given.
    func writeOn(_ attempt: String) throws {
      let orphan = try backup.draft(of: attempt)
      try FileManager.default.createDirectory(atPath: orphan + "/shards", withIntermediateDirectories: true)
      for name in ["shards/shard-0.sqlite", "shard-0.sha256"] {
        try Data("half".utf8).write(to: URL(filePath: orphan + "/" + name))
      }
    }
    try writeOn("01")
    let part = try await shard.copy(to: BackupPlace(folder: backup.draft(of: "02")))
    try writeOn("01")
    try begun.take("02", ofShard: 0)
    try writeOn("01")
    try finish([part], in: begun)
    #expect(
      try FileManager.default.contentsOfDirectory(atPath: backup.path).sorted() == [
        "directory.sqlite", "manifest.json", "shard-0.sha256", "shards",
      ])
    #expect(try restore(to: folder.path + "/restored").shards == [part])
    // Its later writes disturb nothing.
    try FileManager.default.removeItem(atPath: backup.path)
    try writeOn("01")
    _ = try begin("0b")
    #expect(throws: StoreError.self) { try backup.draft(of: "../x") }
    await shard.close()
  }

  /// Begins a backup of the test's installation, in `backup` if no other folder is named.
  private func begin(_ name: String, _ folder: BackupFolder? = nil) throws -> BegunBackup {
    try (folder ?? backup).begin(name: name, installation: "0123456789abcdef")
  }

  @Test func `a backup that was not finished is none, and makes room for the next`() async throws {
    let first = try begin("01")
    #expect(throws: StoreError.self) {
      try BackupRestore(source: backup.draft, data: folder.path + "/restored") { _ in }.run()
    }
    try first.check()
    let second = try begin("02")
    #expect(throws: StoreError.self) { try first.check() }
    try second.check()
    try FileManager.default.createDirectory(atPath: backup.path + "/x", withIntermediateDirectories: true)
    #expect(throws: StoreError.self) { try begin("03") }
    try second.check()
    #expect(throws: StoreError.self) { try BackupFolder("relative") }
  }

  @Test func `a backup whose process ended before its folder had its name makes room for the next`() async throws {
    _ = try await back(up: 1, then: 0)
    try FileManager.default.moveItem(atPath: backup.path, toPath: backup.draft)
    try begin("02").check()
  }
}
