// Restores a backup into a data folder: verifies and copies it, verifies the copies, and marks the restored state as
// older than clients expect.

import Assets
import Crypto
import Glibc
import Records
import SQLite

/// Restores a backup into empty folders. No process of an installation may use them meanwhile.
public struct BackupRestore: Sendable {
  /// The treatment of shards that the backup could not copy.
  public enum Gaps: Hashable, Sendable {
    /// The backup is not restored.
    case refused
    /// The shards come from an earlier backup of the same installation.
    case filled(from: String)
    /// The shards begin empty, and their content is lost.
    case empty
  }

  /// The folder of the backup.
  public let source: String
  /// The data folders of the workers and of the share service.
  public let data: String
  public let directory: String
  public let gaps: Gaps
  /// The current time in milliseconds since 1970.
  let now: Int64
  /// Called with a text about each step.
  public let report: @Sendable (String) -> Void

  /// - Parameters:
  ///   - directory: the share service's data folder; nil for that of the workers.
  ///   - now: milliseconds since 1970; nil for the machine's clock.
  public init(
    source: String, data: String, directory: String? = nil, gaps: Gaps = .refused, now: Int64? = nil,
    report: @escaping @Sendable (String) -> Void
  ) {
    self.source = source
    self.data = data
    self.directory = directory ?? data
    self.gaps = gaps
    self.now = now ?? StoreSurroundings.wallClock()
    self.report = report
  }

  private static let draft = ".restoring"

  /// A shard, and the backup that it comes from.
  private struct Part {
    let copy: ShardCopy
    let folder: String
    let startedAt: Int64
  }

  /// Restores the backup.
  /// - Returns: the manifest of the backup.
  /// - Throws: `StoreError` that names the defect of the backup or of the folders. The folders then have no file that a
  ///   service would read, unless the last step failed, which renames the files, the directory's last.
  public func run() throws -> BackupManifest {
    do {
      let manifest = try FinishedBackup(source).manifest
      let parts = try parts(manifest)
      try refuseUsed(manifest)
      report("verifying the backup")
      try verify(manifest, parts) { $1 + "/" + $0 }
      report("copying \(parts.reduce(1) { $0 + $1.copy.fileCount }) files")
      try copy(parts)
      report("verifying the copies")
      try verify(manifest, parts) { file, _ in place(file) }
      report("giving every database another incarnation")
      let missing = try makeMissing(manifest, parts)
      // A home may have forwarded to a shard that comes from the earlier backup.
      let startedAt = parts.map(\.startedAt).min()
      for part in parts {
        let divided = try ShardRenewal(shard: part.copy.shard, startedAt: startedAt, now: now).run(
          at: place(ShardCopy.fileName(part.copy.shard)))
        if let divided, missing.contains(divided) {
          report(
            """
            shard \(divided) begins empty; \(part.folder)/\(ShardCopy.fileName(part.copy.shard)) has its databases, \
            because it was being split off shard \(part.copy.shard)
            """)
        }
      }
      for shard in missing {
        try ShardRenewal(shard: shard, startedAt: now, now: now).run(at: place(ShardCopy.fileName(shard)))
      }
      try name(manifest)
      return manifest
    } catch let error as AssetError {
      throw StoreError(error)
    }
  }

  /// The source of each shard.
  private func parts(_ manifest: BackupManifest) throws -> [Part] {
    let parts = manifest.shards.map { Part(copy: $0, folder: source, startedAt: manifest.startedAt) }
    if manifest.missing.isEmpty { return parts }
    switch gaps {
    case .empty: return parts
    case .refused:
      let list = manifest.missing.map { "\($0.shard) (\($0.reason))" }.joined(separator: ", ")
      throw StoreError.io(
        """
        the backup lacks shards: \(list). Take them from an earlier backup with --missing-from DIR, or leave them \
        empty with --without-missing
        """
      )
    case .filled(let folder):
      let earlier = try FinishedBackup(folder).manifest
      guard earlier.installation == manifest.installation else {
        throw StoreError.io("\(folder) is a backup of another installation")
      }
      guard earlier.layout == manifest.layout else {
        throw StoreError.io("shards were divided between the backup and \(folder), so that they don't fit together")
      }
      let filled = try manifest.missing.map { missing in
        guard let copy = earlier.shards.first(where: { $0.shard == missing.shard }) else {
          throw StoreError.io("\(folder) lacks shard \(missing.shard), too")
        }
        return Part(copy: copy, folder: folder, startedAt: earlier.startedAt)
      }
      return (parts + filled).sorted { $0.copy.shard < $1.copy.shard }
    }
  }

  /// Refuses folders that contain an installation.
  private func refuseUsed(_ manifest: BackupManifest) throws {
    for folder in Set([data, directory]).sorted() { try Folder.make(folder) }
    // SQLite would recover a leftover log over the restored file.
    var taken =
      ["\(data)/shards"] + ["", "-wal", "-journal"].map { "\(directory)/\(BackupManifest.directoryName)\($0)" }
    taken += (0..<manifest.shardCount).map { "\(data)/\(ShardCopy.assetFolder($0))" }
    for path in taken {
      guard access(path, F_OK) != 0 else {
        throw StoreError.io("\(path) exists already: restore a backup into an empty data folder")
      }
      try BackupFile.removeTree(path + Self.draft)
    }
  }

  /// Compares every file with the digests in the manifest and the lists.
  /// - Parameter place: the path of a file of a backup, from its name and the backup's folder.
  private func verify(
    _ manifest: BackupManifest, _ parts: [Part], _ place: (_ file: String, _ folder: String) -> String
  ) throws {
    try FinishedBackup.check(manifest.directoryDigest, place(BackupManifest.directoryName, source))
    for part in parts { try FinishedBackup.verify(part.copy, of: part.folder) { place($0, part.folder) } }
  }

  /// The draft path of a file of the backup.
  private func place(_ file: String) -> String {
    if file == BackupManifest.directoryName { return directory + "/" + file + Self.draft }
    let parts = file.split(separator: "/")
    if parts[0] == "shards" { return data + "/shards" + Self.draft + "/" + parts[1...].joined(separator: "/") }
    return data + "/" + parts[0] + "/" + parts[1] + Self.draft + "/" + parts[2...].joined(separator: "/")
  }

  private func copy(_ parts: [Part]) throws {
    // At most 256 for each shard, and a few others.
    var folders: Set<String> = []
    func copy(_ file: String, of backup: String) throws {
      let target = place(file)
      let folder = Folder.parent(of: target)
      if folders.insert(folder).inserted { try Folder.make(folder) }
      try BackupFile.copy(backup + "/" + file, to: target)
    }
    try copy(BackupManifest.directoryName, of: source)
    for part in parts {
      try BackupList(folder: part.folder, shard: part.copy.shard).forEach { try copy($1, of: part.folder) }
    }
    for folder in folders.sorted() { try Folder.sync(folder) }
  }

  /// Makes empty shards for those that the operator allowed to be lost, because workers do not make a shard that
  /// existed before.
  private func makeMissing(_ manifest: BackupManifest, _ parts: [Part]) throws -> [Int] {
    let missing = (0..<manifest.shardCount).filter { shard in !parts.contains { $0.copy.shard == shard } }
    let folder = Folder.parent(of: place(ShardCopy.fileName(0)))
    if !missing.isEmpty { try Folder.make(folder) }
    for shard in missing {
      guard let part = manifest.layout?.part(of: shard) else {
        throw StoreError.io("the backup's manifest has no shard \(shard)")
      }
      var file = ShardFile(
        SQLiteConfiguration(directory: folder), shard: shard, shardCount: Int(part.modulus))
      if part.remainder != Int64(shard) { file.remainder = part.remainder }
      try file.takeOver().connection.close()
    }
    return missing
  }

  /// Marks the folders as the installation's, with an epoch that makes them the current ones.
  private func mark(_ manifest: BackupManifest) throws {
    guard let installation = InstallationID(text: manifest.installation) else { return }
    for folder in [data, data + "/assets"] {
      let mark = FolderMark(
        installation: installation, epoch: now, nonce: Hex.encode(SecureRandom.bytes(FolderMark.nonceLength / 2)))
      try FolderMarkFile.open(in: folder, makes: true)?.write(mark)
    }
  }

  /// Gives all files their final names, the directory's file last, because no installation starts without it.
  private func name(_ manifest: BackupManifest) throws {
    for shard in 0..<manifest.shardCount {
      let assets = "\(data)/\(ShardCopy.assetFolder(shard))"
      if access(assets + Self.draft, F_OK) == 0 { try BackupFile.move(assets + Self.draft, to: assets) }
    }
    try BackupFile.move("\(data)/shards" + Self.draft, to: "\(data)/shards")
    try mark(manifest)
    let directory = "\(directory)/\(BackupManifest.directoryName)"
    try BackupFile.move(directory + Self.draft, to: directory)
  }
}
