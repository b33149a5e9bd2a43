// What the share service asks of the workers that hold the shards when an operator wants a backup, or to know whether everything is sound.

/// Copies a shard into a backup that is being made. The answer's body is what was copied, as MessagePack of the record store's `ShardCopy`. Repeated it
/// begins anew.
public struct CopyShard: Message {
  public static let name = "worker.copy-shard/1"
  public static let senders: Set<Role> = [.share]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public let shard: Int
  /// Where the backup will be: an absolute path that everybody sees.
  public let directory: String
  /// What the share service has written there, to be found.
  public let mark: String
  /// Names this try: hexadecimal digits. nil: the share service knows no tries, and wants the copy at its place.
  public let attempt: String?

  public init(shard: Int, directory: String, mark: String, attempt: String? = nil) {
    self.shard = shard
    self.directory = directory
    self.mark = mark
    self.attempt = attempt
  }
}

/// Looks over a shard while it serves. One whose structure is damaged is taken out of service.
public struct ScrubShard: Message {
  public static let name = "worker.scrub-shard/1"
  public static let senders: Set<Role> = [.share]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// Naming tables, keys and files, the first of them.
    public let problems: [String]
    /// What was read.
    public let recordCount: Int
    public let assetCount: Int
    /// Link records that lead nowhere, and how many of them were removed; nil where nobody looked: the shard is damaged, or its worker of an
    /// earlier release.
    public let looseLinkCount: Int?
    public let removedLinkCount: Int?

    public init(problems: [String], recordCount: Int, assetCount: Int, looseLinkCount: Int? = nil, removedLinkCount: Int? = nil) {
      self.problems = problems
      self.recordCount = recordCount
      self.assetCount = assetCount
      self.looseLinkCount = looseLinkCount
      self.removedLinkCount = removedLinkCount
    }
  }

  public let shard: Int
  /// Also the contents of all files that the shard uses.
  public let readsAssets: Bool
  /// Also removes link records that lead nowhere; nil: no.
  public let mendsLinks: Bool?

  public init(shard: Int, readsAssets: Bool, mendsLinks: Bool = false) {
    self.shard = shard
    self.readsAssets = readsAssets
    self.mendsLinks = mendsLinks
  }
}
