// A backup that is whole: it can be listed, and its files be compared with its digests.

import Assets
import Crypto
import Glibc

public struct FinishedBackup: Sendable {
  public let folder: String
  public let manifest: BackupManifest

  /// - Throws: `StoreError` that names the reason why the folder is no backup.
  public init(_ folder: String) throws(StoreError) {
    let bytes: [UInt8]?
    do throws(AssetError) {
      bytes = try BackupFile.content(of: folder + "/" + BackupManifest.name)
    } catch {
      throw StoreError(error)
    }
    guard let bytes else {
      throw StoreError.io("\(folder) has no \(BackupManifest.name): it is not a backup, or an unfinished one")
    }
    guard let manifest = BackupManifest(decoding: bytes) else {
      throw StoreError.corrupt("\(folder)/\(BackupManifest.name) can't be read, or is of a newer release")
    }
    self.folder = folder
    self.manifest = manifest
  }

  /// The most entries of a folder that are looked at.
  private static let entryLimit = 1000

  /// The folders directly below a folder that have a manifest, ascending by name.
  /// - Throws: `StoreError` for a folder that can't be read; a missing one has no backups.
  public static func folders(below parent: String) throws(StoreError) -> [String] {
    do throws(AssetError) {
      return try Folder.names(in: parent).prefix(entryLimit).map { "\(parent)/\($0)" }.filter {
        access("\($0)/\(BackupManifest.name)", F_OK) == 0
      }
    } catch {
      throw StoreError(error)
    }
  }

  /// Compares the share service's file with its digest.
  /// - Throws: `StoreError` that names the file and its defect.
  public func verifyDirectory() throws {
    try Self.check(manifest.directoryDigest, folder + "/" + BackupManifest.directoryName)
  }

  /// Compares every file of a shard with its digest.
  /// - Throws: `StoreError` that names the first file with a defect.
  public func verify(_ copy: ShardCopy) throws {
    try Self.verify(copy, of: folder) { folder + "/" + $0 }
  }

  /// - Parameter place: the path of a file, from its name in the backup.
  static func verify(_ copy: ShardCopy, of folder: String, _ place: (_ file: String) -> String) throws {
    let list = BackupList(folder: folder, shard: copy.shard)
    try list.verify(copy.listDigest)
    try list.forEach { digest, file in try check(digest, place(file)) }
  }

  static func check(_ expected: String, _ path: String) throws {
    guard access(path, F_OK) == 0 else { throw StoreError.corrupt("\(path) is missing") }
    guard Hex.encode(try BackupFile.digest(of: path).hash) == expected else {
      throw StoreError.corrupt("\(path) differs from the file that was backed up")
    }
  }
}
