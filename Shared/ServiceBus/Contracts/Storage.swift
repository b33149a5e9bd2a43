// Requests of the share service to the holders of shards: backups, and checks of stored data.

/// Copies a shard into a backup under way. The answer's body is the record store's `ShardCopy` as MessagePack. A
/// repetition begins anew.
public struct CopyShard: Message {
  public static let name = "worker.copy-shard/1"
  public static let senders: Set<Role> = [.share]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public let shard: Int
  /// The backup's directory: an absolute path that is the same for all processes.
  public let directory: String
  /// A text that the share service wrote into the directory; the worker must find it there.
  public let mark: String
  /// Names this attempt: hexadecimal digits. nil: the share service does not number attempts and wants the copy in its
  /// final place.
  public let attempt: String?

  public init(shard: Int, directory: String, mark: String, attempt: String? = nil) {
    self.shard = shard
    self.directory = directory
    self.mark = mark
    self.attempt = attempt
  }
}

/// Checks a shard while it serves. A shard with a damaged structure is taken out of service.
public struct ScrubShard: Message {
  public static let name = "worker.scrub-shard/1"
  public static let senders: Set<Role> = [.share]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// The first problems, each naming table, key or file.
    public let problems: [String]
    /// The number of records and assets that were read.
    public let recordCount: Int
    public let assetCount: Int
    /// Link records that lead nowhere, and the number of them that were removed; nil if the shard is damaged or its
    /// worker's release does not check links.
    public let looseLinkCount: Int?
    public let removedLinkCount: Int?

    public init(
      problems: [String], recordCount: Int, assetCount: Int, looseLinkCount: Int? = nil, removedLinkCount: Int? = nil
    ) {
      self.problems = problems
      self.recordCount = recordCount
      self.assetCount = assetCount
      self.looseLinkCount = looseLinkCount
      self.removedLinkCount = removedLinkCount
    }
  }

  public let shard: Int
  /// True to check the contents of all files that the shard uses, too.
  public let readsAssets: Bool
  /// True to remove link records that lead nowhere; nil: no.
  public let mendsLinks: Bool?

  public init(shard: Int, readsAssets: Bool, mendsLinks: Bool = false) {
    self.shard = shard
    self.readsAssets = readsAssets
    self.mendsLinks = mendsLinks
  }
}
