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
  let shardCount: Int
  /// The latest map; nil before the first.
  let map: @Sendable () async -> ClusterMap?
  /// The number of users' active accesses to zones of others; nil: unknown.
  var sharedZoneCount: @Sendable () async -> Int64? = { nil }

  /// A worker's answer; nil when it did not come in time.
  private struct Report {
    let worker: Peer
    let content: JSONValue?
  }

  /// nil for a subject without a call.
  func answer(_ subject: String, _ query: [String: String]) async -> OperatorAnswer? {
    switch subject {
    case "status": await status(query)
    case "workers": OperatorAnswer { [reports = await gather("summary", query)] in Self.write(reports, to: &$0) }
    case "shards": await shards()
    case _ where Self.counts.contains(subject): count(subject, await gather(subject, query))
    case _ where Self.lists.contains(subject): Self.merge(subject, await gather(subject, query))
    default: nil
    }
  }

  private func status(_ query: [String: String]) async -> OperatorAnswer {
    let reports = await gather("summary", query)
    let map = await map()
    let sharedZoneCount = await sharedZoneCount()
    return OperatorAnswer { writer in
      writer.key("members")
      writer.beginArray()
      for peer in map?.members ?? bus.peers { Self.write(peer, to: &writer) }
      writer.endArray()
      writer.key("shards")
      writer.beginObject()
      writer.member("count", shardCount)
      writer.member("held", map?.holders.count { $0 != nil } ?? 0)
      if let format = map?.unheldFormat { writer.member("neededFormat", format) }
      writer.endObject()
      if let map { writer.member("mapVersion", map.version) }
      if let sharedZoneCount { writer.member("sharedZones", sharedZoneCount) }
      Self.write(reports, to: &writer)
    }
  }

  private func shards() async -> OperatorAnswer {
    let holders = await map()?.holders ?? Array(repeating: nil, count: shardCount)
    // Only the report of a shard's holder counts.
    var standings: [Int64: JSONValue] = [:]
    for report in await gather("shards", [:]) {
      report.content?["shards"]?.forEachElement { standing in
        guard let shard = standing["shard"]?.int64, holders.indices.contains(Int(shard)),
          holders[Int(shard)] == report.worker.name
        else { return }
        standings[shard] = standing
      }
    }
    return OperatorAnswer { writer in
      writer.key("shards")
      writer.beginArray()
      for (shard, holder) in holders.enumerated() {
        writer.beginObject()
        writer.member("shard", shard)
        writer.key("worker")
        if let holder { writer.string(holder) } else { writer.null() }
        for key in ["state", "epoch", "reason"] {
          guard let value = standings[Int64(shard)]?[key] else { continue }
          writer.key(key)
          writer.value(value)
        }
        writer.endObject()
      }
      writer.endArray()
    }
  }

  /// Sends a command to every worker and adds up the counts. A worker that did not answer may have carried it out.
  func carryOut(_ subject: String, _ query: [String: String]) async -> OperatorAnswer {
    let reports = await gather(WorkerCommand(subject: subject, query: query))
    return OperatorAnswer { writer in
      writer.member("retried", reports.reduce(0) { $0 + Int($1.content?["retried"]?.int64 ?? 0) })
      Self.writeSilent(reports, to: &writer)
    }
  }

  /// Asks all workers at once. Ascending by worker name.
  private func gather(_ subject: String, _ query: [String: String]) async -> [Report] {
    await gather(WorkerReport(subject: subject, query: query))
  }

  private func gather<Question: Message>(_ message: Question) async -> [Report]
  where Question.Reply == Acknowledgement {
    return await withTaskGroup(of: Report.self) { [bus] group in
      for worker in bus.peers where worker.role == .worker {
        group.addTask {
          // Dropped because a worker that does not answer is listed as silent, whatever the reason.
          let answer = try? await bus.call(message, body: [], to: .peer(worker.name), within: Self.deadline)
          return Report(worker: worker, content: answer.flatMap { try? JSONValue(parsing: $0.body) })
        }
      }
      var reports: [Report] = []
      for await report in group { reports.append(report) }
      return reports.sorted { $0.worker.name < $1.worker.name }
    }
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

  private static func write(_ reports: [Report], to writer: inout JSONWriter) {
    writer.key("workers")
    writer.beginArray()
    for report in reports {
      writer.beginObject()
      writer.member("name", report.worker.name)
      writer.member("ready", report.worker.isReady)
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

  private static func merge(_ subject: String, _ reports: [Report]) -> OperatorAnswer {
    OperatorAnswer { writer in
      writer.key(subject)
      writer.beginArray()
      for report in reports { report.content?[subject]?.forEachElement { writer.value($0) } }
      writer.endArray()
      writeSilent(reports, to: &writer)
    }
  }

  /// The rows of all workers, and the shards that no worker read completely, whose rows may be missing.
  private func count(_ subject: String, _ reports: [Report]) -> OperatorAnswer {
    var uncovered = Set(0..<shardCount)
    for report in reports {
      report.content?["shards"]?.forEachElement { shard in if let shard = shard.int64 { uncovered.remove(Int(shard)) } }
    }
    return OperatorAnswer { writer in
      writer.key(subject)
      writer.beginArray()
      for report in reports { report.content?[subject]?.forEachElement { writer.value($0) } }
      writer.endArray()
      writer.key("uncountedShards")
      writer.beginArray()
      for shard in uncovered.sorted() { writer.integer(Int64(shard)) }
      writer.endArray()
      Self.writeSilent(reports, to: &writer)
    }
  }

  private static func writeSilent(_ reports: [Report], to writer: inout JSONWriter) {
    writer.key("silent")
    writer.beginArray()
    for report in reports {
      if report.content == nil { writer.string(report.worker.name) }
      report.content?["unread"]?.forEachElement { shard in
        writer.string("\(report.worker.name) (shard \(shard.int64 ?? -1))")
      }
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
