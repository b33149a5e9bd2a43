// A backup becomes a data folder again: verified, copied, verified, and made to know that it is older than its clients think.

import Assets
import Crypto
import Glibc
import Records
import SQLite

/// Puts a backup where nothing is yet. No process of an installation uses the folders meanwhile.
public struct BackupRestore: Sendable {
  /// The backup.
  public let source: String
  /// The workers' data folder, and the share service's.
  public let data: String
  public let directory: String
  /// Told what is under way.
  public let report: @Sendable (String) -> Void

  /// - Parameter directory: nil: the same as the workers'.
  public init(source: String, data: String, directory: String? = nil, report: @escaping @Sendable (String) -> Void) {
    self.source = source
    self.data = data
    self.directory = directory ?? data
    self.report = report
  }

  private static let draft = ".restoring"

  /// - Returns: what the backup said of itself.
  /// - Throws: `StoreError` with what is wrong with the backup, or with the folders. Nothing that a service would read is there then, unless the
  ///   failure was in the last step, which gives the files their names, the directory's last.
  public func run() throws -> BackupManifest {
    do {
      let manifest = try manifest()
      try refuseUsed(manifest)
      report("verifying the backup")
      let files = try verify(manifest) { source + "/" + $0 }
      report("copying \(files.count) files")
      try copy(files)
      report("verifying the copies")
      _ = try verify(manifest, place)
      report("giving every database another incarnation")
      for shard in 0..<manifest.shardCount { try renew(shard) }
      try name(manifest)
      return manifest
    } catch let error as AssetError {
      throw StoreError(error)
    }
  }

  private func manifest() throws -> BackupManifest {
    guard let bytes = try BackupFile.content(of: source + "/" + BackupManifest.name) else {
      throw StoreError.io("\(source) has no \(BackupManifest.name): it is no backup, or one that was not finished")
    }
    guard let manifest = BackupManifest(decoding: bytes) else { throw StoreError.corrupt("\(source)/\(BackupManifest.name) can't be read, or is of a newer release") }
    return manifest
  }

  /// Only folders without an installation are written to.
  private func refuseUsed(_ manifest: BackupManifest) throws {
    for folder in Set([data, directory]).sorted() { try Folder.make(folder) }
    // A log that was left would be recovered over the file that is restored.
    var taken = ["\(data)/shards"] + ["", "-wal", "-journal"].map { "\(directory)/\(BackupManifest.directoryName)\($0)" }
    taken += (0..<manifest.shardCount).map { "\(data)/\(ShardCopy.assetFolder($0))" }
    for path in taken {
      guard access(path, F_OK) != 0 else { throw StoreError.io("\(path) is there already: a backup is restored into an empty data folder") }
      try BackupFile.removeTree(path + Self.draft)
    }
  }

  /// Compares every file with what the manifest and the lists say.
  /// - Parameter place: where a file of the backup is to be looked for.
  /// - Returns: the files.
  private func verify(_ manifest: BackupManifest, _ place: (String) -> String) throws -> [String] {
    var files = [BackupManifest.directoryName]
    try check(manifest.directoryDigest, place(BackupManifest.directoryName))
    for shard in manifest.shards {
      let name = ShardCopy.listName(shard.shard)
      let list = try BackupFile.content(of: source + "/" + name) ?? []
      guard Hex.encode(SHA256.hash(list)) == shard.listDigest else { throw StoreError.corrupt("\(source)/\(name) is not what the manifest says") }
      for line in String(decoding: list, as: UTF8.self).split(separator: "\n") {
        let parts = line.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: true)
        guard parts.count == 2, case let file = String(parts[1].drop { $0 == " " }), Self.isOwn(file, shard.shard) else {
          throw StoreError.corrupt("\(source)/\(name) lists what no backup has")
        }
        try check(String(parts[0]), place(file))
        files.append(file)
      }
    }
    return files
  }

  /// Names are ours: nothing is read or written elsewhere.
  private static func isOwn(_ file: String, _ shard: Int) -> Bool {
    if file == ShardCopy.fileName(shard) { return true }
    let prefix = ShardCopy.assetFolder(shard) + "/"
    return file.hasPrefix(prefix) && file.dropFirst(prefix.count).utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) || $0 == 0x2f }
  }

  private func check(_ expected: String, _ path: String) throws {
    guard access(path, F_OK) == 0 else { throw StoreError.corrupt("\(path) is missing") }
    guard Hex.encode(try BackupFile.digest(of: path).hash) == expected else { throw StoreError.corrupt("\(path) is not what was backed up") }
  }

  /// Where a file of the backup is put first.
  private func place(_ file: String) -> String {
    if file == BackupManifest.directoryName { return directory + "/" + file + Self.draft }
    let parts = file.split(separator: "/")
    if parts[0] == "shards" { return data + "/shards" + Self.draft + "/" + parts[1...].joined(separator: "/") }
    return data + "/" + parts[0] + "/" + parts[1] + Self.draft + "/" + parts[2...].joined(separator: "/")
  }

  private func copy(_ files: [String]) throws {
    var folders: Set<String> = []
    for file in files {
      let target = place(file)
      let folder = Folder.parent(of: target)
      if folders.insert(folder).inserted { try Folder.make(folder) }
      try BackupFile.copy(source + "/" + file, to: target)
    }
    for folder in folders.sorted() { try Folder.sync(folder) }
  }

  /// Databases, zones and stores go by other incarnations from here on: a token that was given out after the backup was made, or before, is refused
  /// instead of skipping what it does not know.
  private func renew(_ shard: Int) throws {
    let path = data + "/shards" + Self.draft + "/shard-\(shard).sqlite"
    do {
      let connection = try Connection(path: path, mode: .readWrite)
      defer { connection.close() }
      let lines = try connection.statement(SQL("integrity_check", "PRAGMA integrity_check(1)")).all { $0.text(0) }
      guard lines == ["ok"] else { throw StoreError.corrupt("shard \(shard) of the backup is damaged: \(lines.first ?? "")") }
      try connection.transaction {
        for table in ["database", "zone", "mirror"] { try Self.renew(table, connection) }
      }
    } catch let error as SQLiteError {
      throw StoreError(error, shard: shard)
    }
  }

  private static func renew(_ table: String, _ connection: Connection) throws {
    let rows = try connection.statement(SQL("\(table)Incarnations", "SELECT id, incarnation FROM \(table)")).all { ($0.int64(0), $0.int64(1)) }
    let update = try connection.statement(SQL("renew \(table)", "UPDATE \(table) SET incarnation = ?2 WHERE id = ?1"))
    for (key, old) in rows {
      let fresh = Int64(bitPattern: SecureRandom.uint64())
      try update.binding(key, fresh).run()
      if table == "zone" { try moveJournal(from: old, to: fresh, connection) }
    }
  }

  /// Conflicts name their zone's incarnation, under their checksum.
  private static func moveJournal(from old: Int64, to fresh: Int64, _ connection: Connection) throws {
    // Files of formats before the journal's.
    guard try connection.statement(SQL("hasJournal", "SELECT count(*) FROM sqlite_master WHERE name = 'journal'")).first({ $0.int(0) }) == 1 else { return }
    let select = try connection.statement(
      SQL("journalOfZone", "SELECT id, database, zone, name, entity, kind, user, device, at, payload, sum FROM journal WHERE incarnation = ?1"))
    let entries = try select.binding(old).all { row -> (Int64, Int64)? in
      guard let name = row.recordName(3) else { return nil }
      func checksum(_ incarnation: Int64) -> Int64 {
        StoredConflict(
          databaseKey: row.int64(1), zoneName: row.text(2), zoneIncarnation: UInt64(bitPattern: incarnation), recordName: name, entity: row.text(4),
          kind: row.int(5), state: 0, userRecordName: row.text(6), deviceID: row.text(7), at: row.int64(8)
        ).checksum(row.blob(9))
      }
      // A damaged entry stays one.
      return checksum(old) == row.int64(10) ? (row.int64(0), checksum(fresh)) : nil
    }
    let update = try connection.statement(SQL("moveConflict", "UPDATE journal SET incarnation = ?2, sum = ?3 WHERE id = ?1"))
    for case .some((let number, let sum)) in entries { try update.binding(number, fresh, sum).run() }
  }

  /// Gives everything its name, the directory's file last: without it no installation begins.
  private func name(_ manifest: BackupManifest) throws {
    for shard in 0..<manifest.shardCount {
      let assets = "\(data)/\(ShardCopy.assetFolder(shard))"
      if access(assets + Self.draft, F_OK) == 0 { try BackupFile.move(assets + Self.draft, to: assets) }
    }
    try BackupFile.move("\(data)/shards" + Self.draft, to: "\(data)/shards")
    let directory = "\(directory)/\(BackupManifest.directoryName)"
    try BackupFile.move(directory + Self.draft, to: directory)
  }
}
