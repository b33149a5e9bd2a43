// A shard's part of a backup: its place, and its description in the backup's manifest.

import Assets
public import Records

/// The place in a backup under way that an engine copies a shard to.
public struct BackupPlace: Hashable, Sendable {
  let folder: String

  init(folder: String) { self.folder = folder }

  /// - Parameters:
  ///   - backup: the final path of the backup.
  ///   - mark: the text by which the share service has marked the backup under way.
  ///   - attempt: the attempt's random name, hexadecimal digits; nil for a share service that does not name attempts.
  /// - Throws: `StoreError.io` when this process does not see the backup under that path, or for another kind of text.
  public init(inBackup backup: String, mark: String, attempt: String?) throws(StoreError) {
    let backup = try BackupFolder(backup)
    try backup.check(mark: mark)
    folder = if let attempt { try backup.draft(of: attempt) } else { backup.draft }
  }
}

/// Describes the copy of a shard in a backup.
public struct ShardCopy: Hashable, Sendable, Codable {
  public let shard: Int
  public let epoch: Int64
  public let databaseCount: Int
  public let recordCount: Int
  /// The number and the bytes of the files that the copy consists of.
  public let fileCount: Int
  public let byteCount: Int64
  /// SHA-256 of the list, 64 hexadecimal digits.
  public let listDigest: String
  /// The identifiers of the encryption keys that the copy needs to be read completely. A backup contains no encryption
  /// keys.
  public let neededKeys: [String]
  /// The problems that verification found in the copy, as in `VerificationReport.problems`. The shard itself has them
  /// too.
  public let problems: [String]
  /// The databases of the shard; nil for a shard that was never divided.
  public var part: ShardPart?

  // Paths below a backup's folder: the list of the copy's files in the format of `sha256sum`, the shard's file, and the
  // folder of its assets.
  static func listName(_ shard: Int) -> String { "shard-\(shard).sha256" }
  static func fileName(_ shard: Int) -> String { "shards/shard-\(shard).sqlite" }
  static func assetFolder(_ shard: Int) -> String { "assets/" + Asset.folder(ofShard: shard) }
}
