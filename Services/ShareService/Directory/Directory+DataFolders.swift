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

    /// The nonce of a shard that an operator has accepted as it is found, until a worker opens it.
    static let accepted = "accepted"
    var isAccepted: Bool { nonce == Self.accepted }
    /// The least epoch that the shard may have.
    var leastEpoch: Int64 { isAccepted ? 0 : epoch }
    /// The epoch that an accepted shard had before.
    var acceptedEpoch: Int64 { isAccepted ? epoch : 0 }
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
      try connection.statement(
        SQL("dataEpoch.any", "SELECT count(*) FROM dataEpoch WHERE subject LIKE 'shard-%' AND nonce <> ?1")
      ).binding(Known.accepted).first { $0.int64(0) } ?? 0 > 0
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
    let rows = try shards.map { try known(Self.subject(ofShard: $0)) }
    return FetchShardEpochs.Reply(
      epochs: rows.map { $0?.leastEpoch ?? 0 }, accepted: rows.map { $0?.acceptedEpoch ?? 0 })
  }

  /// The shards that an operator has accepted and no worker has opened since, in their order.
  func acceptedShards() throws -> [Int] {
    let subjects = try connection.statement(
      SQL("dataEpoch.accepted", "SELECT subject FROM dataEpoch WHERE nonce = ?1")
    ).binding(Known.accepted).all { $0.text(0) }
    return (0..<shardCount).filter { subjects.contains(Self.subject(ofShard: $0)) }
  }

  /// Notes that a shard exists, so that no worker makes it.
  func noteOpening(ofShard shard: Int) throws {
    if try known(Self.subject(ofShard: shard)) == nil {
      try set(Self.subject(ofShard: shard), Known(epoch: 1, nonce: ""))
    }
  }

  /// Notes openings: the epochs and clusters of shards, and divisions that were carried out.
  func note(_ message: NoteShardEpochs) throws -> NotedOpenings {
    let tellsParts = message.epochs.contains { $0.part != nil }
    if tellsParts { try readSplits() }
    let opened = message.epochs.filter { (0..<shardCount).contains($0.shard) }
    let earlier = try opened.map { try known(Self.subject(ofShard: $0.shard))?.leastEpoch ?? 0 }
    let last = Dictionary(opened.map { ($0.shard, $0.epoch) }, uniquingKeysWith: max)
    let news = zip(opened, earlier).filter { $0.epoch > $1 && $0.epoch == last[$0.shard] }.map(\.0)
    // The directory may have stored a message before without a map that tells it.
    var noted = NotedOpenings(isNews: tellsParts)
    if news.isEmpty, !tellsParts { return noted }
    let clusters = try storedClusters()
    let stored = try change {
      var splits = NotedSplits(clusters: clusters, layout: layout)
      try repeatDepartures(in: zip(opened, earlier).filter { $0.isRenewed(since: $1) }.map(\.0))
      for (opened, earlier) in zip(opened, earlier) {
        try noteSplit(opened, isLatest: opened.epoch >= earlier, in: &splits)
      }
      for opened in news {
        try set(Self.subject(ofShard: opened.shard), Known(epoch: opened.epoch, nonce: ""))
        if let cluster = opened.cluster { splits.clusters.note(opened.shard, in: cluster) }
      }
      if splits.clusters != clusters { try set(splits.clusters) }
      if splits.layout != layout { try DirectoryFormat.set(splits: splits.layout.splits, in: connection) }
      return splits
    }
    if stored.clusters != clusters { noted.isNews = true }
    noted.problems = take(stored)
    return noted
  }

  /// Forgets the folder in use, so that the present one is accepted at the next claim. Keeps the epoch of a shard: its
  /// next holder renews one with a lower epoch, because clients have seen changes that an older shard lacks.
  /// - Parameters:
  ///   - what: the number of a shard, `data`, `assets` or `all`.
  ///   - known: the clusters that ready workers reach. Accepted shards of others can be made in these.
  ///   - open: the shards that workers have open. They need no acceptance: it would wait, and hold for what is found
  ///     at a later start. The same is true of the folders of these workers, unless `what` names one.
  /// - Throws: `badRequest` for any other text.
  func acceptData(_ what: String, known: Set<String>, open: Set<Int> = []) throws -> Acceptance {
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
    let served = Set(open.map(Self.subject(ofShard:)) + (what == "all" && !open.isEmpty ? ["assets", "data"] : []))
    let shards = (0..<shardCount).filter { !open.contains($0) && subjects.contains(Self.subject(ofShard: $0)) }
    subjects = try subjects.filter { try self.known($0).map { !$0.isAccepted } ?? false }
    let inUse = subjects.filter(served.contains)
    subjects.removeAll(where: served.contains)
    try change {
      try forgetClusters(of: shards, known: known)
      for shard in shards.map(Self.subject(ofShard:)) where subjects.contains(shard) {
        try set(shard, Known(epoch: try self.known(shard)?.epoch ?? 0, nonce: Known.accepted))
      }
      for folder in subjects where ["data", "assets"].contains(folder) {
        try connection.statement(SQL("dataEpoch.forget", "DELETE FROM dataEpoch WHERE subject = ?1")).binding(folder)
          .run()
      }
    }
    return Acceptance(accepted: subjects, inUse: inUse)
  }
}

/// The answer to an operator who accepts data as they are found; folders before shards.
struct Acceptance: Hashable, Sendable {
  let accepted: [String]
  /// What is open and served, and so was not accepted.
  let inUse: [String]
}

extension DirectoryFormat {
  /// `subject` is a folder (`data`, `assets`) or a shard (`shard-3`), `epoch` its epoch when last taken into use.
  /// `nonce` names the claimant of a folder. That of a shard is empty, or `accepted`.
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
