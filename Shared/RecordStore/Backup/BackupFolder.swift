// A backup in progress: a folder under a temporary name, which gets its final name once everything in it is durable.

import Assets
import Crypto
import Glibc

/// The folder that a backup is written into. The share service makes and finishes it. Workers write their shards into
/// it, so they must see it under the same path.
public struct BackupFolder: Sendable {
  /// The final path of the backup.
  public let path: String
  /// The path of the backup until it is finished.
  public var draft: String { path + ".partial" }
  public var directoryFile: String { draft + "/" + BackupManifest.directoryName }

  fileprivate static let markName = "unfinished"
  fileprivate static let attemptPrefix = "copy-"
  private static let separator = "-"

  /// - Throws: `StoreError.io` for a path that is not absolute.
  public init(_ path: String) throws(StoreError) {
    var path = path
    while path.count > 1, path.hasSuffix("/") { path.removeLast() }
    guard path.hasPrefix("/"), path.count > 1, !path.utf8.contains(0) else {
      throw .io("\(path) is not an absolute path")
    }
    self.path = path
  }

  /// Makes the draft folder, in place of an unfinished earlier one of the same installation.
  /// - Parameters:
  ///   - name: a random text; hexadecimal digits.
  ///   - installation: the identifier of the installation that is backed up; hexadecimal digits.
  /// - Throws: `StoreError` when `path` is not empty, or when `draft` is no unfinished backup, or another
  ///   installation's. Nothing was changed then.
  public func begin(name: String, installation: String) throws(StoreError) -> BegunBackup {
    let mark = name + Self.separator + installation
    do throws(AssetError) {
      guard try Folder.names(in: path).isEmpty else { throw .io("\(path) is not empty") }
      if access(draft, F_OK) == 0 {
        try checkIsAbandoned(by: installation)
        // Renamed first, because a worker of the earlier attempt may still write into it.
        let abandoned = draft + "-" + mark
        try BackupFile.move(draft, to: abandoned)
        try BackupFile.removeTree(abandoned)
      }
      guard access(path, F_OK) != 0 || rmdir(path) == 0 else { throw Folder.failure("replace folder", path) }
      try Folder.make(draft)
      try BackupFile.write(Array(mark.utf8), to: draft + "/" + Self.markName)
    } catch {
      throw StoreError(error)
    }
    return BegunBackup(folder: self, mark: mark)
  }

  /// Checks that the draft is an earlier backup of this installation that has ended before its time.
  private func checkIsAbandoned(by installation: String) throws(AssetError) {
    let names = try Folder.names(in: draft)
    // One that ended before it had its name was told to nobody.
    let finished = try? FinishedBackup(draft)
    guard
      names.contains(Self.markName) || names.allSatisfy({ $0.hasPrefix(Self.attemptPrefix) }) || finished != nil
    else {
      throw .io("\(draft) exists, and is not an unfinished backup")
    }
    // Marks of earlier releases name no installation.
    let mark = try BackupFile.content(of: draft + "/" + Self.markName).map { String(decoding: $0, as: UTF8.self) }
    let parts = mark?.split(separator: Self.separator, maxSplits: 1) ?? []
    let owner = parts.count == 2 ? String(parts[1]) : finished?.manifest.installation
    guard owner ?? installation == installation else {
      throw .io("\(draft) is an unfinished backup of another installation")
    }
  }

  /// Checks that this process sees the folder that the share service has begun.
  /// - Throws: `StoreError.io` when it does not.
  func check(mark: String) throws(StoreError) {
    do throws(AssetError) {
      guard try BackupFile.content(of: draft + "/" + Self.markName) == Array(mark.utf8) else {
        throw .io(
          "\(draft) is not the folder that the share service has made: every worker must see it under the same path, "
            + "and no other backup may use it")
      }
    } catch {
      throw StoreError(error)
    }
  }

  /// The folder of one attempt to copy a shard. Each attempt has its own, because a worker that was given up or lost
  /// the shard may still write into another.
  /// - Parameter attempt: the attempt's random name, hexadecimal digits.
  /// - Throws: `StoreError.io` for any other text.
  func draft(of attempt: String) throws(StoreError) -> String {
    guard !attempt.isEmpty, attempt.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }) else {
      throw .io("\(attempt) names no attempt")
    }
    return draft + "/" + Self.attemptPrefix + attempt
  }

  /// - Returns: the length and SHA-256 of the share service's file; the digest as 64 hexadecimal digits.
  public func digestOfDirectory() throws(StoreError) -> (byteCount: Int64, digest: String) {
    do throws(AssetError) {
      let digest = try BackupFile.digest(of: directoryFile)
      return (digest.byteCount, Hex.encode(digest.hash))
    } catch {
      throw StoreError(error)
    }
  }
}

/// A backup under way, of the process that has begun it. Its functions change nothing in the draft of another.
public struct BegunBackup: Sendable {
  public let folder: BackupFolder
  /// The text by which workers recognize the draft.
  public let mark: String

  private var draft: String { folder.draft }

  /// - Throws: `StoreError.io` when the draft is not the one that was begun.
  public func check() throws(StoreError) { try folder.check(mark: mark) }

  /// Moves the complete copy of a shard into the backup. A worker of a release without attempts has written to the
  /// final place itself.
  /// - Throws: `StoreError.io` when the copy is at neither place, or when another backup has taken the draft.
  public func take(_ attempt: String, ofShard shard: Int) throws(StoreError) {
    try check()
    let source = try folder.draft(of: attempt)
    do throws(AssetError) {
      guard access(source, F_OK) == 0 else {
        guard access(draft + "/" + ShardCopy.listName(shard), F_OK) == 0 else {
          throw .io("\(source) is missing")
        }
        return
      }
      for name in [ShardCopy.fileName(shard), ShardCopy.assetFolder(shard), ShardCopy.listName(shard)]
      where access(source + "/" + name, F_OK) == 0 {
        try Folder.make(Folder.parent(of: draft + "/" + name))
        try BackupFile.removeTree(draft + "/" + name)
        try BackupFile.move(source + "/" + name, to: draft + "/" + name)
      }
      try BackupFile.removeTree(source)
    } catch {
      throw StoreError(error)
    }
  }

  /// Writes the manifest and gives the backup its final name.
  /// - Throws: `StoreError`, also when another backup has taken the draft.
  public func finish(_ manifest: BackupManifest) throws(StoreError) {
    try check()
    do throws(AssetError) {
      for name in try Folder.names(in: draft) where name.hasPrefix(BackupFolder.attemptPrefix) {
        try BackupFile.removeTree(draft + "/" + name)
      }
      try BackupFile.write(manifest.encoded(), to: draft + "/" + BackupManifest.name)
      try Folder.remove(draft + "/" + BackupFolder.markName)
      try Folder.sync(draft)
      try BackupFile.move(draft, to: folder.path)
    } catch {
      throw StoreError(error)
    }
  }

  /// Removes the draft, if it is still the one that was begun.
  public func abandon() {
    // Dropped because the draft is another's, or the next backup removes the remains.
    guard (try? check()) != nil else { return }
    try? BackupFile.removeTree(draft)
  }
}
