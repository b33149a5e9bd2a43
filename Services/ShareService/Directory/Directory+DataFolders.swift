// Remembers the folders and shard epochs in use, so that an older copy of a folder or shard is never served.

import MessagePack
import Records
import SQLite
import ServiceBus

extension Directory {
  /// A row of `dataEpoch`.
  private struct Known {
    let epoch: Int64
    let nonce: String
  }

  private static func subject(ofShard shard: Int) -> String { "shard-\(shard)" }

  private func known(_ subject: String) throws -> Known? {
    try connection.statement(SQL("dataEpoch.get", "SELECT epoch, nonce FROM dataEpoch WHERE subject = ?1")).binding(
      subject
    ).first {
      Known(epoch: $0.int64(0), nonce: $0.text(1))
    }
  }

  private func set(_ subject: String, _ known: Known) throws {
    try connection.statement(
      SQL(
        "dataEpoch.set",
        """
        INSERT INTO dataEpoch VALUES (?1, ?2, ?3) ON CONFLICT (subject) DO UPDATE \
        SET epoch = excluded.epoch, nonce = excluded.nonce
        """
      )
    ).binding(subject, known.epoch, known.nonce).run()
  }

  /// Grants the claim of the folder in use. A folder with a higher epoch is granted too: then the directory was
  /// restored from a backup.
  func claim(_ claim: ClaimFolder) throws -> ClaimFolder.Reply {
    let known = try known(claim.folder)
    let hasShards =
      try connection.statement(SQL("dataEpoch.any", "SELECT count(*) FROM dataEpoch WHERE subject LIKE 'shard-%'"))
      .first { $0.int64(0) } ?? 0 > 0
    var isGranted = true
    if let known {
      isGranted =
        claim.epoch > known.epoch || claim.epoch == known.epoch && claim.nonce == known.nonce
        // Granted before, but the folder's file does not have the new epoch yet.
        || claim.epoch == known.epoch - 1 && claim.next == known.nonce
    }
    if isGranted, let next = claim.next, next != known?.nonce {
      try change { try set(claim.folder, Known(epoch: claim.epoch + 1, nonce: next)) }
    }
    return ClaimFolder.Reply(isGranted: isGranted, knownEpoch: known?.epoch, hasShards: hasShards)
  }

  func shardEpochs(_ message: FetchShardEpochs) throws -> FetchShardEpochs.Reply {
    let shards = message.shard.map { $0..<$0 + 1 } ?? 0..<shardCount
    return FetchShardEpochs.Reply(epochs: try shards.map { try known(Self.subject(ofShard: $0))?.epoch ?? 0 })
  }

  /// Notes that a shard exists, so that no worker makes it.
  func noteOpening(ofShard shard: Int) throws {
    if try known(Self.subject(ofShard: shard)) == nil {
      try set(Self.subject(ofShard: shard), Known(epoch: 1, nonce: ""))
    }
  }

  /// - Returns: whether a shard is in another cluster than before, or was divided.
  @discardableResult func note(_ message: NoteShardEpochs) throws -> Bool {
    if message.epochs.contains(where: { $0.part != nil }) {
      try readSplits()
      if let splits = try change({ try noteSplits(of: message.epochs) }) {
        noted(splits)
        try note(NoteShardEpochs(epochs: message.epochs.map(\.undivided)))
        return true
      }
    }
    let news = try message.epochs.filter { (0..<shardCount).contains($0.shard) }.filter {
      try known(Self.subject(ofShard: $0.shard))?.epoch ?? 0 < $0.epoch
    }
    if news.isEmpty { return false }
    return try change {
      for opened in news { try set(Self.subject(ofShard: opened.shard), Known(epoch: opened.epoch, nonce: "")) }
      return try noteClusters(of: news)
    }
  }

  /// Forgets the folder or shard in use, so that the present one is accepted at the next claim.
  /// - Parameters:
  ///   - what: the number of a shard, `data`, `assets` or `all`.
  ///   - known: the clusters that ready workers reach. Accepted shards of others can be made in these.
  /// - Returns: the forgotten subjects; folders before shards.
  /// - Throws: `badRequest` for any other text.
  func acceptData(_ what: String, known: Set<String>) throws -> [String] {
    var subjects: [String]
    switch what {
    case "data", "assets": subjects = [what]
    case "all": subjects = ["assets", "data"] + (0..<shardCount).map(Self.subject(ofShard:))
    default:
      guard let shard = Int(what), (0..<shardCount).contains(shard) else {
        throw RecordError(.badRequest, "'\(what)' is neither a shard (0 to \(shardCount - 1)) nor data, assets or all")
      }
      subjects = [Self.subject(ofShard: shard)]
    }
    let shards = (0..<shardCount).filter { subjects.contains(Self.subject(ofShard: $0)) }
    subjects = try subjects.filter { try self.known($0) != nil }
    try change {
      try forgetClusters(of: shards, known: known)
      for subject in subjects {
        try connection.statement(SQL("dataEpoch.forget", "DELETE FROM dataEpoch WHERE subject = ?1")).binding(subject)
          .run()
      }
    }
    return subjects
  }
}

extension DirectoryFormat {
  /// `subject` is a folder (`data`, `assets`) or a shard (`shard-3`), `epoch` its epoch when last taken into use.
  /// `nonce` names the claimant of a folder and is empty for shards.
  static let dataEpochTable =
    "CREATE TABLE dataEpoch (subject TEXT PRIMARY KEY, epoch INTEGER NOT NULL, nonce TEXT NOT NULL) WITHOUT ROWID;"

  /// Shards that a worker held before the directory knew epochs exist somewhere, so they must not be created again.
  static func noteEarlierShards(in connection: Connection) throws {
    // Dropped because a map of an earlier format tells nothing about shards.
    guard
      let map = try value("clusterMap", in: .sqlite(connection)).flatMap({
        try? MessagePackDecoder().decode(ClusterMap.self, from: $0)
      })
    else { return }
    for (shard, format) in (map.formats ?? []).enumerated() where format > 0 {
      try connection.statement(SQL("dataEpoch.earlier", "INSERT INTO dataEpoch VALUES (?1, 1, '')")).binding(
        "shard-\(shard)"
      ).run()
    }
  }
}

extension NoteShardEpochs.Opened {
  /// The same without the part.
  fileprivate var undivided: Self { Self(shard: shard, epoch: epoch, cluster: cluster) }
}
