// What the share service's directory knows of the folders and files with the data, so that none passes for another.

/// Asks whether a folder is the installation's, and notes that somebody begins to use it. Asked again it is answered alike.
public struct ClaimFolder: Message {
  public static let name = "directory.claim-folder/1"
  public static let senders: Set<Role> = [.gateway, .worker]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    public let isGranted: Bool
    /// Of the folder that is in use; nil: none was ever.
    public let knownEpoch: Int64?
    /// Shards were opened before: their files have to be somewhere.
    public let hasShards: Bool

    public init(isGranted: Bool, knownEpoch: Int64?, hasShards: Bool) {
      self.isGranted = isGranted
      self.knownEpoch = knownEpoch
      self.hasShards = hasShards
    }
  }

  /// `data` or `assets`.
  public let folder: String
  /// What the folder's file says (`FolderMark`); 0: it has none.
  public let epoch: Int64
  public let nonce: String
  /// Of the use that begins; nil: whoever asks only looks.
  public let next: String?

  public init(folder: String, epoch: Int64, nonce: String, next: String?) {
    self.folder = folder
    self.epoch = epoch
    self.nonce = nonce
    self.next = next
  }
}

/// The epochs that shards had when they were opened last.
public struct FetchShardEpochs: Message {
  public static let name = "directory.shard-epochs/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// Of each shard, or of the one that was asked for; 0: it was never opened.
    public let epochs: [Int64]

    public init(epochs: [Int64]) { self.epochs = epochs }
  }

  /// nil: all.
  public let shard: Int?

  public init(shard: Int? = nil) { self.shard = shard }
}

/// Tells that shards were opened; an epoch that is not higher than the known one changes nothing.
public struct NoteShardEpochs: Message {
  public static let name = "directory.note-shard-epochs/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public let epochs: [Opened]

  public struct Opened: Codable, Sendable, Hashable {
    public let shard: Int
    public let epoch: Int64

    public init(shard: Int, epoch: Int64) {
      self.shard = shard
      self.epoch = epoch
    }
  }

  public init(epochs: [Opened]) { self.epochs = epochs }
}
