// Knows which shards were divided, and which division has been asked for or is under way.

import MessagePack
import Records
import SQLite
import ServiceBus

/// What openings of shards have changed in the directory.
struct NotedOpenings: Sendable {
  /// A map has to tell it.
  var isNews = false
  /// What an operator has to know, as sentences. Each is told once.
  var problems: [String] = []
}

/// How far the division of a shard is, for operators.
struct SplitStanding: Hashable, Sendable {
  enum Step: String, Sendable { case requested, takenBack, lastStep }
  /// nil: no division is asked for or under way.
  var step: Step?
  /// The cluster of the new shard.
  var cluster: String?
  /// Why the directory does not know of a division.
  var problem: String?
}

extension Directory {
  /// Asks for the division of a shard.
  /// - Parameter cluster: gets the new shard.
  /// - Throws: `badRequest` for a shard that does not exist or can't be divided, and while another one is divided or
  ///   the shard moves.
  func split(_ shard: Int, to cluster: String) throws {
    try readSplits()
    try checkExists(shard)
    try change {
      var clusters = try storedClusters()
      if let obstacle = obstacle(toSplit: shard, clusters) {
        throw RecordError(.badRequest, obstacle, httpStatus: 409)
      }
      clusters.split(shard, to: cluster)
      try set(clusters)
    }
  }

  private func obstacle(toSplit shard: Int, _ clusters: ShardClusters) -> String? {
    if let other = clusters.splitting, other != shard {
      return "shard \(other) is being divided, and one shard is divided at a time"
    }
    if let division = clusters.divisions?.first {
      return """
        the division of shard \(division.shard) waits for its last step: shard \(division.newShard) may not be opened \
        yet
        """
    }
    if let takenBack = clusters.takenBack, takenBack.shard != shard {
      return """
        the request to divide shard \(takenBack.shard) was taken back and may have been carried out: wait until a \
        worker has opened that shard anew
        """
    }
    if let target = clusters.shards[shard]?.target { return "shard \(shard) moves to the cluster \(target)" }
    if layout.splitting(shard) == nil {
      return "shard \(shard) can't be divided: an installation has at most \(ShardLayout.countLimit) shards"
    }
    return nil
  }

  /// Takes the request for the division of a shard back. Until a worker has opened the shard anew, the division may
  /// have been carried out.
  /// - Throws: `badRequest` for a shard that does not exist, and without a request.
  func takeSplitBack(_ shard: Int) throws {
    try readSplits()
    try checkExists(shard)
    try change {
      var clusters = try storedClusters()
      if clusters.takenBack?.shard == shard { return }
      guard clusters.takeSplitBack(shard) else {
        let reason =
          layout.splits.lastIndex(of: shard).map {
            "is divided already: shard \(createdShardCount + $0) has half of its databases"
          } ?? "is not asked to be divided"
        throw RecordError(.badRequest, "shard \(shard) \(reason)", httpStatus: 409)
      }
      try set(clusters)
    }
  }

  /// The divisions that are asked for or under way, and those of which the directory does not know, by shard.
  func splitStandings() throws -> [Int: SplitStanding] {
    let clusters = try storedClusters()
    var standings = splitProblems.mapValues { SplitStanding(problem: $0) }
    func note(_ shard: Int, _ step: SplitStanding.Step, _ cluster: String?) {
      standings[shard] = SplitStanding(
        step: step, cluster: cluster ?? ShardCluster.main, problem: splitProblems[shard])
    }
    if let shard = clusters.splitting { note(shard, .requested, clusters.shards[shard]?.split) }
    if let takenBack = clusters.takenBack { note(takenBack.shard, .takenBack, takenBack.cluster) }
    for division in clusters.divisions ?? [] {
      note(division.shard, .lastStep, clusters.shards[division.newShard]?.name)
    }
    return standings
  }

  // MARK: Openings

  /// Divisions that shards tell of, and what is to be stored of them.
  struct NotedSplits {
    var clusters: ShardClusters
    var layout: ShardLayout
    /// By shard; nil: there is none any more.
    var problems: [Int: String?] = [:]
    /// The shards whose division was carried out although its request was taken back, with their new shards.
    var late: [Int: Int] = [:]
  }

  /// Notes a division that a worker has carried out, within a change. Only one whose new shard is certain counts:
  /// workers would look for its databases elsewhere for good.
  /// - Parameter isLatest: false for a message of an earlier opening than the directory knows.
  func noteSplit(_ opened: NoteShardEpochs.Opened, isLatest: Bool, in noted: inout NotedSplits) throws {
    let (shard, layout) = (opened.shard, noted.layout)
    guard let part = opened.part else {
      return noted.clusters.noteUndivided(shard, knowing: opened.takenBack)
    }
    if part == layout.part(of: shard) {
      let newest = layout.splits.lastIndex(of: shard).map { createdShardCount + $0 }
      noted.problems[shard] = .some(
        opened.pending.flatMap { $0.shard == newest ? nil : Self.contradiction(shard, $0) })
      if isLatest, opened.pending == nil { noted.clusters.noteDivisionsEnded(of: shard) }
      if isLatest { noted.clusters.noteUndivided(shard, knowing: opened.takenBack) }
      return
    }
    guard let next = layout.splitting(shard), next.part(of: shard) == part else {
      // A shard that was brought back to before a division is refused by its worker, and so is told of by nobody.
      if isLatest, layout.part(of: shard)?.isWithin(part) == false {
        noted.problems[shard] = """
          shard \(shard) has part \(part.remainder) of \(part.modulus), which no division that the directory knows of \
          has made: restore the directory from a later backup
          """
      }
      return
    }
    let cluster = noted.clusters.requestedCluster(ofShard: shard)
    if let pending = opened.pending, pending.shard != layout.count {
      noted.problems[shard] =
        pending.shard > layout.count
        ? """
        shard \(shard) was divided into shard \(pending.shard), and the directory knows of \(layout.count) shards: \
        other shards were divided before and have to be opened first, or restore the directory from a later backup
        """
        : Self.contradiction(shard, pending)
      return
    }
    guard opened.pending != nil || cluster != nil else {
      noted.problems[shard] = """
        shard \(shard) was divided, and the directory is older than that and does not know into which shard: restore \
        the directory from a later backup
        """
      return
    }
    if noted.clusters.takenBack?.shard == shard { noted.late[shard] = layout.count }
    // A later opening that the directory knows of has told of nothing pending.
    noted.clusters.noteSplit(
      of: shard, in: opened.pending?.cluster, number: isLatest ? opened.pending?.number : nil)
    noted.problems[shard] = .some(nil)
    noted.layout = next
    try noteNewShard(layout.count, of: shard, next)
  }

  private static func contradiction(_ shard: Int, _ pending: PendingSplit) -> String {
    """
    shard \(shard) was divided into shard \(pending.shard), which the directory knows as another one: restore the \
    directory from a later backup
    """
  }

  /// Takes what is stored.
  /// - Returns: the problems that are new.
  func take(_ noted: NotedSplits) -> [String] {
    self.noted(noted.layout.splits)
    var news: [String] = []
    for (shard, problem) in noted.problems.sorted(by: { $0.key < $1.key }) {
      if let problem, splitProblems[shard] != problem { news.append(problem) }
      splitProblems[shard] = problem
    }
    for (shard, newShard) in noted.late.sorted(by: { $0.key < $1.key }) {
      news.append(
        """
        the request to divide shard \(shard) was taken back too late: shard \(newShard) has half of its databases
        """)
    }
    return news
  }

  /// Gives the rows about databases that are in a new shard that shard's number.
  private func noteNewShard(_ shard: Int, of divided: Int, _ layout: ShardLayout) throws {
    try noteOpening(ofShard: shard)
    for table in ["sharedZone", "waitingInvitation"] {
      let databases = try connection.statement(
        SQL(
          "split.\(table)", "SELECT DISTINCT container, environment, owner FROM \(table) WHERE shard = ?1")
      ).binding(Int64(divided)).all { ($0.text(0), $0.text(1), $0.text(2)) }
      let leaving = databases.filter { name, environment, owner in
        guard let container = ContainerID(rawValue: name), let kind = Environment(rawValue: environment) else {
          return false
        }
        return layout.shard(of: DatabaseID(container: container, environment: kind, owner: owner)) == shard
      }
      for start in stride(from: 0, to: leaving.count, by: Self.databasesOfStatement) {
        // The last one is named again where fewer are left.
        let names = (start..<start + Self.databasesOfStatement).flatMap { index in
          let (name, environment, owner) = leaving[min(index, leaving.count - 1)]
          return [name, environment, owner]
        }
        let places = stride(from: 3, to: names.count + 3, by: 3).map { "(?\($0), ?\($0 + 1), ?\($0 + 2))" }
        try connection.statement(
          SQL(
            "split.note.\(table)",
            """
            UPDATE \(table) SET shard = ?1 WHERE shard = ?2 AND (container, environment, owner) IN \
            (VALUES \(places.joined(separator: ", ")))
            """)
        ).binding([Int64(shard), Int64(divided)], then: names).run()
      }
    }
  }

  /// So many databases are named by one statement. A new shard may have ten thousands with shares, and nobody signs in
  /// meanwhile.
  private static let databasesOfStatement = 200
}
