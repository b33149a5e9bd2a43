// The directory's knowledge of data folders and shard files, so that an old or foreign copy is not taken for the
// present one.

public import Records

/// Asks whether a folder belongs to the installation, and notes that a process begins to use it. A repetition gets the
/// same answer.
public struct ClaimFolder: Message {
  public static let name = "directory.claim-folder/1"
  public static let senders: Set<Role> = [.gateway, .worker]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    public let isGranted: Bool
    /// The epoch of the folder in use; nil if there never was one.
    public let knownEpoch: Int64?
    /// Shards were opened before, so their files must exist somewhere.
    public let hasShards: Bool

    public init(isGranted: Bool, knownEpoch: Int64?, hasShards: Bool) {
      self.isGranted = isGranted
      self.knownEpoch = knownEpoch
      self.hasShards = hasShards
    }
  }

  /// `data` or `assets`.
  public let folder: String
  /// The epoch in the folder's `FolderMark`; 0 if the folder has none.
  public let epoch: Int64
  public let nonce: String
  /// The nonce of the use that begins; nil for a caller that only looks.
  public let next: String?

  public init(folder: String, epoch: Int64, nonce: String, next: String?) {
    self.folder = folder
    self.epoch = epoch
    self.nonce = nonce
    self.next = next
  }
}

/// Fetches the epoch that each shard had when it was last opened.
public struct FetchShardEpochs: Message {
  public static let name = "directory.shard-epochs/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// The epoch of each shard, or of the requested one; 0 if it was never opened.
    public let epochs: [Int64]
    /// The epoch that each of them had before an operator accepted the shard as it is found; 0 for a shard that was
    /// opened since. nil from earlier releases.
    public let accepted: [Int64]?

    public init(epochs: [Int64], accepted: [Int64]? = nil) {
      self.epochs = epochs
      self.accepted = accepted
    }
  }

  /// nil for all shards.
  public let shard: Int?

  public init(shard: Int? = nil) { self.shard = shard }
}

/// Reports that shards were opened; an epoch that is not higher than the known one changes nothing.
public struct NoteShardEpochs: Message {
  public static let name = "directory.note-shard-epochs/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public let epochs: [Opened]

  public struct Opened: Codable, Sendable, Hashable {
    public let shard: Int
    public let epoch: Int64
    /// The cluster in which it was opened; nil for workers without clusters.
    public let cluster: String?
    /// The databases that it has; nil for a shard that was never divided.
    public let part: ShardPart?
    /// The division that its tables have a note of; nil: none.
    public let pending: PendingSplit?
    /// The request for a division that the worker knew as taken back before the opening; nil: none.
    public let takenBack: Int64?

    public init(
      shard: Int, epoch: Int64, cluster: String? = nil, part: ShardPart? = nil, pending: PendingSplit? = nil,
      takenBack: Int64? = nil
    ) {
      self.shard = shard
      self.epoch = epoch
      self.cluster = cluster
      self.part = part
      self.pending = pending
      self.takenBack = takenBack
    }

    /// True when the shard was renewed after it had the known epoch: it may have come from a backup. A renewal raises
    /// the epoch to the time in milliseconds since 1970 (`ShardRenewal`), an opening or a move by a few.
    public func isRenewed(since known: Int64) -> Bool { epoch - known > 60_000 }
  }

  public init(epochs: [Opened]) { self.epochs = epochs }
}
