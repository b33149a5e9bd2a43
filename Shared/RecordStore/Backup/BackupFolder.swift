// A backup while it is made: a folder under a temporary name, which takes its own name when everything in it is durable.

import Assets
import Crypto
import Glibc

/// Where a backup is written. The share service makes and finishes it; workers write their shards into it, and so must see it under the same path.
public struct BackupFolder: Sendable {
  /// Where the backup will be.
  public let path: String
  /// Where it is meanwhile.
  public var draft: String { path + ".partial" }
  public var directoryFile: String { draft + "/" + BackupManifest.directoryName }

  private static let markName = "unfinished"
  private static let attemptPrefix = "copy-"

  /// - Throws: `StoreError.io` for a path that is not absolute.
  public init(_ path: String) throws(StoreError) {
    var path = path
    while path.count > 1, path.hasSuffix("/") { path.removeLast() }
    guard path.hasPrefix("/"), path.count > 1, !path.utf8.contains(0) else { throw .io("\(path) is not an absolute path") }
    self.path = path
  }

  /// Makes the folder anew.
  /// - Parameter mark: random text by which workers know that they see the same folder.
  /// - Throws: `StoreError` when there is something at its place.
  public func begin(mark: String) throws(StoreError) {
    do throws(AssetError) {
      guard try Folder.names(in: path).isEmpty, access(path, F_OK) != 0 || rmdir(path) == 0 else { throw .io("\(path) is not empty") }
      let names = try Folder.names(in: draft)
      guard names.contains(Self.markName) || names.allSatisfy({ $0.hasPrefix(Self.attemptPrefix) }) else {
        throw .io("\(draft) is there, and no backup that was not finished")
      }
      if access(draft, F_OK) == 0 {
        // Under another name first: a worker that has not heard that nobody waits for it may still write there.
        let abandoned = draft + "-" + mark
        try BackupFile.move(draft, to: abandoned)
        try BackupFile.removeTree(abandoned)
      }
      try Folder.make(draft)
      try BackupFile.write(Array(mark.utf8), to: draft + "/" + Self.markName)
    } catch {
      throw StoreError(error)
    }
  }

  /// - Throws: `StoreError.io` where this is not the folder that the share service has begun.
  public func check(mark: String) throws(StoreError) {
    do throws(AssetError) {
      guard try BackupFile.content(of: draft + "/" + Self.markName) == Array(mark.utf8) else {
        throw .io("\(draft) is not the folder that the share service has made: every worker must see it under the same path")
      }
    } catch {
      throw StoreError(error)
    }
  }

  /// Where one try to copy a shard is written. Each has a folder of its own: a worker that was given up, or that lost the shard, may still be writing
  /// another.
  /// - Parameter attempt: drawn for it, hexadecimal digits.
  /// - Throws: `StoreError.io` for another text.
  public func draft(of attempt: String) throws(StoreError) -> String {
    guard !attempt.isEmpty, attempt.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }) else { throw .io("\(attempt) names no attempt") }
    return draft + "/" + Self.attemptPrefix + attempt
  }

  /// Takes a shard's copy, which is complete, into the backup. Nothing is there to be taken where the worker is of a release that knew no attempts: it
  /// has written to the place itself.
  public func take(_ attempt: String, ofShard shard: Int) throws(StoreError) {
    let source = try draft(of: attempt)
    do throws(AssetError) {
      guard access(source, F_OK) == 0 else { return }
      for name in [ShardCopy.fileName(shard), ShardCopy.assetFolder(shard), ShardCopy.listName(shard)] where access(source + "/" + name, F_OK) == 0 {
        try Folder.make(Folder.parent(of: draft + "/" + name))
        try BackupFile.removeTree(draft + "/" + name)
        try BackupFile.move(source + "/" + name, to: draft + "/" + name)
      }
      try BackupFile.removeTree(source)
    } catch {
      throw StoreError(error)
    }
  }

  /// - Returns: length and SHA-256 of the share service's file.
  public func digestOfDirectory() throws(StoreError) -> (byteCount: Int64, digest: String) {
    do throws(AssetError) {
      let digest = try BackupFile.digest(of: directoryFile)
      return (digest.byteCount, Hex.encode(digest.hash))
    } catch {
      throw StoreError(error)
    }
  }

  /// Writes the manifest and gives the backup its name.
  public func finish(_ manifest: BackupManifest) throws(StoreError) {
    do throws(AssetError) {
      for name in try Folder.names(in: draft) where name.hasPrefix(Self.attemptPrefix) { try BackupFile.removeTree(draft + "/" + name) }
      try BackupFile.write(manifest.encoded(), to: draft + "/" + BackupManifest.name)
      try Folder.remove(draft + "/" + Self.markName)
      try Folder.sync(draft)
      try BackupFile.move(draft, to: path)
    } catch {
      throw StoreError(error)
    }
  }

  /// Removes what was written.
  public func abandon() {
    // Dropped because the next backup removes what stays.
    try? BackupFile.removeTree(draft)
  }
}
