// The manifest of a backup: its installation, its content, and the digests that prove it complete.

import Crypto
public import JSON
import Records

/// `manifest.json` of a backup. It exists only once everything else does.
public struct BackupManifest: Hashable, Sendable {
  /// The formats of backups, which are independent of those of shards' files. In format 2 shards are missing. In
  /// format 3 shards were divided, and some may be missing.
  static let formats: ClosedRange<Int64> = 1...3
  public static let name = "manifest.json"
  /// The file of the share service.
  public static let directoryName = "directory.sqlite"
  static let note =
    """
    Encryption keys and the operator token are not in this backup: keep the key file apart from it. The signing key \
    and hashed credentials are.
    """

  /// A shard that could not be copied.
  public struct Missing: Hashable, Sendable {
    public let shard: Int
    /// A text for operators.
    public let reason: String

    public init(shard: Int, reason: String) {
      self.shard = shard
      self.reason = reason
    }
  }

  /// The `InstallationID`, the same for all backups of one installation.
  public let installation: String
  /// Milliseconds since 1970. The backup has everything acknowledged until `startedAt`, except in missing shards. It
  /// has a part of the changes between `startedAt` and `createdAt`.
  public let startedAt: Int64
  public let createdAt: Int64
  public let shardCount: Int
  /// Those of `ShardLayout`.
  public let splits: [Int]
  public let directoryByteCount: Int64
  /// SHA-256, 64 hexadecimal digits.
  public let directoryDigest: String
  /// One copy for each shard that is not missing, ascending.
  public let shards: [ShardCopy]
  /// Ascending by shard.
  public let missing: [Missing]

  /// Where databases are; nil for splits that can't have been.
  var layout: ShardLayout? { ShardLayout(createdCount: shardCount - splits.count, splits: splits) }

  public var recordCount: Int { shards.reduce(0) { $0 + $1.recordCount } }
  public var byteCount: Int64 { shards.reduce(directoryByteCount) { $0 + $1.byteCount } }
  public var problems: [String] { shards.flatMap(\.problems) }

  public func encoded() -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.member("format", splits.isEmpty ? missing.isEmpty ? 1 : 2 : Self.formats.upperBound)
    writer.member("note", Self.note)
    writer.member("installation", installation)
    writer.member("startedAt", startedAt)
    writer.member("createdAt", createdAt)
    writer.member("shardCount", shardCount)
    if !splits.isEmpty {
      writer.key("splits")
      writer.beginArray()
      for shard in splits { writer.integer(Int64(shard)) }
      writer.endArray()
    }
    writer.member("records", recordCount)
    writer.member("bytes", byteCount)
    writer.key("directory")
    writer.beginObject()
    writer.member("bytes", directoryByteCount)
    writer.member("sha256", directoryDigest)
    writer.endObject()
    writer.key("shards")
    writer.beginArray()
    for shard in shards { Self.write(shard, to: &writer) }
    writer.endArray()
    Self.write(missing, to: &writer)
    writer.endObject()
    return writer.bytes
  }

  /// Writes the member `missing` of an object. Writes nothing for a complete backup.
  public static func write(_ missing: [Missing], to writer: inout JSONWriter) {
    if missing.isEmpty { return }
    writer.key("missing")
    writer.beginArray()
    for missing in missing {
      writer.beginObject()
      writer.member("shard", missing.shard)
      writer.member("reason", missing.reason)
      writer.endObject()
    }
    writer.endArray()
  }

  private static func write(_ shard: ShardCopy, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("shard", shard.shard)
    writer.member("epoch", shard.epoch)
    writer.member("databases", shard.databaseCount)
    writer.member("records", shard.recordCount)
    writer.member("files", shard.fileCount)
    writer.member("bytes", shard.byteCount)
    writer.member("sha256", shard.listDigest)
    for (name, texts) in [("neededKeys", shard.neededKeys), ("problems", shard.problems)] {
      writer.key(name)
      writer.beginArray()
      for text in texts { writer.string(text) }
      writer.endArray()
    }
    writer.endObject()
  }

  /// Fails unless the bytes are a manifest in a format that this release knows.
  init?(decoding bytes: [UInt8]) {
    // Dropped because the caller reports an unreadable manifest.
    guard let json = try? JSONValue(parsing: bytes), let format = json["format"]?.int64, Self.formats.contains(format),
      let installation = json["installation"]?.string,
      let createdAt = json["createdAt"]?.int64, let shardCount = json["shardCount"]?.int64,
      let directory = json["directory"],
      let directoryByteCount = directory["bytes"]?.int64, let directoryDigest = directory["sha256"]?.string
    else { return nil }
    let shards = (json["shards"]?.elements ?? []).compactMap(Self.shard)
    let missing = (json["missing"]?.elements ?? []).compactMap { missing in
      missing["shard"]?.int64.map { Missing(shard: Int($0), reason: missing["reason"]?.string ?? "") }
    }
    let divided = json["splits"]?.elements ?? []
    let splits = divided.compactMap { $0.int64.flatMap { Int(exactly: $0) } }
    guard (1...Int64(Int32.max)).contains(shardCount), splits.count == divided.count,
      shards.count + missing.count == Int(shardCount),
      (shards.map(\.shard) + missing.map(\.shard)).sorted() == Array(0..<Int(shardCount)),
      Self.areCounts([directoryByteCount] + shards.map(\.byteCount)),
      Self.areCounts(shards.map { Int64($0.recordCount) })
    else { return nil }
    let manifest = BackupManifest(
      installation: installation, startedAt: json["startedAt"]?.int64 ?? createdAt, createdAt: createdAt,
      shardCount: Int(shardCount), splits: splits,
      directoryByteCount: directoryByteCount, directoryDigest: directoryDigest, shards: shards, missing: missing)
    if manifest.layout == nil { return nil }
    self = manifest
  }

  public init(
    installation: String, startedAt: Int64, createdAt: Int64, shardCount: Int, splits: [Int] = [],
    directoryByteCount: Int64, directoryDigest: String, shards: [ShardCopy],
    missing: [Missing] = []
  ) {
    self.installation = installation
    self.startedAt = startedAt
    self.createdAt = createdAt
    self.shardCount = shardCount
    self.splits = splits
    self.directoryByteCount = directoryByteCount
    self.directoryDigest = directoryDigest
    self.shards = shards
    self.missing = missing
  }

  /// True when no count is negative and their sum does not overflow, because an altered manifest may contain any
  /// number.
  private static func areCounts(_ counts: [Int64]) -> Bool {
    var sum: Int64 = 0
    for count in counts {
      let (next, overflows) = sum.addingReportingOverflow(count)
      if count < 0 || overflows { return false }
      sum = next
    }
    return true
  }

  private static func shard(_ json: JSONValue) -> ShardCopy? {
    guard let shard = json["shard"]?.int64, let epoch = json["epoch"]?.int64, let databases = json["databases"]?.int64,
      let records = json["records"]?.int64,
      let files = json["files"]?.int64, let bytes = json["bytes"]?.int64, let digest = json["sha256"]?.string
    else { return nil }
    func texts(_ name: String) -> [String] { (json[name]?.elements ?? []).compactMap(\.string) }
    return ShardCopy(
      shard: Int(shard), epoch: epoch, databaseCount: Int(databases), recordCount: Int(records), fileCount: Int(files),
      byteCount: bytes, listDigest: digest,
      neededKeys: texts("neededKeys"), problems: texts("problems"))
  }
}
