// The operators' views of the cluster: its members, the holders of shards, and the workers' own reports.

import JSON
import ServiceBus
import WebServices

/// Answers the status calls from the cluster map and the workers' reports.
struct ClusterReports: Sendable {
  /// Short, so that one worker that hangs does not delay the other workers' reports.
  private static let deadline = Duration.seconds(2)
  /// Subjects whose reports are lists under the subject's own name; the lists of all workers are merged.
  private static let lists: Set<String> = [
    "stores", "zones", "subscriptions", "events", "quarantine", "explain", "duplicates", "shares", "participants",
  ]

  /// Subjects whose lists also name the shards that a worker read completely.
  private static let counts: Set<String> = ["usage", "fields"]

  let bus: any Bus
  let shardCount: @Sendable () -> Int
  /// Milliseconds since 1970.
  let now: @Sendable () -> Int64
  /// The latest map; nil before the first.
  let map: @Sendable () async -> ClusterMap?
  /// The moves that wait for others.
  var plannedMoves: @Sendable () async -> [PlannedMove] = { [] }
  /// How far divisions are, by shard.
  var splits: @Sendable () async -> [Int: SplitStanding] = { [:] }
  /// The shards that an operator has accepted and no worker has opened since.
  var acceptedShards: @Sendable () async -> [Int] = { [] }
  /// The number of users' active accesses to zones of others; nil: unknown.
  var sharedZoneCount: @Sendable () async -> Int64? = { nil }

  /// nil for a subject without a call.
  func answer(_ subject: String, _ query: [String: String]) async -> OperatorAnswer? {
    switch subject {
    case "status": await status(query)
    case "workers": OperatorAnswer { [reports = await gather("summary", query)] in Self.write(reports, to: &$0) }
    case "shards": await shards()
    default: await list(subject, query)?.answer(as: subject)
    }
  }

  /// The rows of all workers; nil for a subject without a list.
  func list(_ subject: String, _ query: [String: String]) async -> ClusterList? {
    let isCount = Self.counts.contains(subject)
    guard isCount || Self.lists.contains(subject) else { return nil }
    let reports = await gather(subject, query)
    let covered = Set(reports.elements(of: "shards").compactMap(\.value.int64))
    return ClusterList(
      rows: reports.elements(of: subject).map(\.value),
      uncountedShards: isCount ? (0..<Int64(shardCount())).filter { !covered.contains($0) } : nil,
      silent: reports.silent)
  }

  private func status(_ query: [String: String]) async -> OperatorAnswer {
    let reports = await gather("summary", query)
    let map = await map()
    let sharedZoneCount = await sharedZoneCount()
    let accepted = await acceptedShards()
    let members = map?.members ?? bus.peers
    let held = map?.holders.count { $0 != nil } ?? 0
    let shardCount = map?.shardCount ?? shardCount()
    let verdict = Verdict(
      members, reports, held: held, of: shardCount, neededFormat: map?.unheldFormat, accepted: accepted, now: now())
    return OperatorAnswer { writer in
      writer.key("verdict")
      verdict.write(to: &writer)
      writer.key("members")
      writer.beginArray()
      for peer in members { Self.write(peer, to: &writer) }
      writer.endArray()
      writer.key("shards")
      writer.beginObject()
      writer.member("count", shardCount)
      writer.member("held", held)
      if let format = map?.unheldFormat { writer.member("neededFormat", format) }
      if !accepted.isEmpty {
        writer.key("accepted")
        writer.beginArray()
        for shard in accepted { writer.integer(Int64(shard)) }
        writer.endArray()
      }
      writer.endObject()
      if let map { writer.member("mapVersion", map.version) }
      if let sharedZoneCount { writer.member("sharedZones", sharedZoneCount) }
      Self.write(reports, to: &writer)
    }
  }

  private func shards() async -> OperatorAnswer {
    let map = await map()
    let holders = map?.holders ?? Array(repeating: nil, count: shardCount())
    let standings = await standings(holders)
    let waiting = Dictionary(await plannedMoves().map { ($0.shard, $0.to) }) { $1 }
    let splits = await splits()
    let accepted = Set(await acceptedShards())
    return OperatorAnswer { writer in
      writer.key("shards")
      writer.beginArray()
      for (shard, holder) in holders.enumerated() {
        writer.beginObject()
        writer.member("shard", shard)
        writer.key("worker")
        if let holder { writer.string(holder) } else { writer.null() }
        if let cluster = map?.cluster(ofShard: shard) {
          writer.member("cluster", cluster.name)
          if let target = cluster.target { writer.member("movesTo", target) }
          if let target = waiting[shard] { writer.member("waitsFor", target) }
        }
        if accepted.contains(shard) { writer.member("accepted", true) }
        if let cluster = splits[shard]?.cluster { writer.member("splitsInto", cluster) }
        if let step = splits[shard]?.step { writer.member("splitStep", step.rawValue) }
        if let problem = splits[shard]?.problem { writer.member("splitProblem", problem) }
        for key in Self.facts {
          guard let value = standings[shard]?[key] else { continue }
          writer.key(key)
          writer.value(value)
        }
        writer.endObject()
      }
      writer.endArray()
    }
  }

  /// What a worker tells of a shard.
  private static let facts = [
    "state", "epoch", "reason", "movedRows", "moveProblem", "records", "bytes", "savesPerSecond", "readsPerSecond",
  ]

  /// The largest weight that counts: sums of such weights have no limit that matters.
  private static let weightLimit: Int64 = 1 << 48

  /// The weights of the shards whose holders tell all of them.
  func shardFigures() async -> [Int: ShardBalance.Figures] {
    guard let map = await map() else { return [:] }
    return await standings(map.holders).compactMapValues { standing in
      guard let bytes = standing["bytes"]?.int64, let saves = standing["savesPerSecond"]?.double,
        let reads = standing["readsPerSecond"]?.double
      else { return nil }
      let load = saves * ShardBalance.readsPerSave + reads
      return ShardBalance.Figures(
        byteCount: min(max(bytes, 0), Self.weightLimit), load: min(max(load, 0), Double(Self.weightLimit)))
    }
  }

  /// The shards that their holders have open.
  func openShards() async -> Set<Int> {
    guard let map = await map() else { return [] }
    return Set(await standings(map.holders).filter { $0.value["state"]?.string == "open" }.keys)
  }

  /// The reports on shards, by shard. Only the report of a shard's holder counts.
  private func standings(_ holders: [String?]) async -> [Int: JSONValue] {
    var standings: [Int: JSONValue] = [:]
    for (worker, standing) in await gather("shards", [:]).elements(of: "shards") {
      guard let shard = standing["shard"]?.int64.flatMap({ Int(exactly: $0) }), holders.indices.contains(shard),
        holders[shard] == worker
      else { continue }
      standings[shard] = standing
    }
    return standings
  }

  /// Sends a command to every worker and adds up the counts. A worker that did not answer may have carried it out.
  func carryOut(_ subject: String, _ query: [String: String]) async -> OperatorAnswer {
    let reports = await bus.reports(on: WorkerCommand(subject: subject, query: query), within: Self.deadline)
    return OperatorAnswer { writer in
      writer.member("retried", reports.reduce(0) { $0 + Int($1.content?["retried"]?.int64 ?? 0) })
      reports.writeSilent(to: &writer)
    }
  }

  func pings(_ question: FetchPings) async -> PingList {
    let reports = await bus.reports(on: question, within: Self.deadline) { $0.role == .notifier }
    return PingList(reports, after: question.after, limit: question.limit)
  }

  func pushRecords(of registrations: [Int64]) async -> PushRecordList {
    let question = FetchPushRecords(registrations: registrations)
    return PushRecordList(await bus.reports(on: question, within: Self.deadline) { $0.role == .notifier })
  }

  private func gather(_ subject: String, _ query: [String: String]) async -> [ProcessReport] {
    await bus.reports(on: WorkerReport(subject: subject, query: query), within: Self.deadline)
  }

  // MARK: JSON

  private static func write(_ peer: Peer, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("name", peer.name)
    writer.member("role", peer.role.rawValue)
    writer.member("ready", peer.isReady)
    writer.member("endpoint", peer.endpoint)
    if let url = peer.adminURL { writer.member("adminURL", url) }
    writer.endObject()
  }

  private static func write(_ reports: [ProcessReport], to writer: inout JSONWriter) {
    writer.key("workers")
    writer.beginArray()
    for report in reports {
      writer.beginObject()
      writer.member("name", report.peer.name)
      writer.member("ready", report.peer.isReady)
      writer.member("silent", report.content == nil)
      report.content?.forEachMember { key, value in
        guard let name = key.string, !["name", "ready", "silent"].contains(name) else { return }
        writer.key(name)
        writer.value(value)
      }
      writer.endObject()
    }
    writer.endArray()
  }
}

extension ClusterMap {
  /// The lowest stored format that a worker must know in order to hold every shard without a holder; nil: any format
  /// will do.
  fileprivate var unheldFormat: Int? {
    guard let formats else { return nil }
    return zip(holders, formats).filter { $0.0 == nil && $0.1 > 0 }.map(\.1).max()
  }
}
