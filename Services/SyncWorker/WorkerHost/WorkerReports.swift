// A worker's reports to an operator about the shards it holds.

import JSON
import Mirroring
import ObjectPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices
import ZoneActions
import ZoneCommit

/// Answers `WorkerReport`s with one JSON object each. Lists hold the newest or the first rows of each shard.
struct WorkerReports: Sendable {
  let stores: [any ShardStore]
  let openingCount: Int
  let pendingPingCount: Int
  var standings: [ShardHost.Standing] = []
  /// By shard.
  var loads: [Int: ShardLoad] = [:]
  /// Further state of the worker for the summary.
  var condition = Condition()

  struct Condition: Sendable {
    /// The shards that don't serve, with the reason.
    var problems: [(shard: Int, problem: String)] = []
    var figures = ShardCensus.Figures()
    /// Waiting writes: the sum over all shards, and the most of any shard.
    var queue: (sum: Int, longest: Int) = (0, 0)
    var disk: DiskSpace?
  }
  /// Gives the facts about a store's exports that are not stored.
  var facts: @Sendable (StoredDatabase, StoredMirror, MirrorID) async -> StoreFacts = { _, mirror, _ in
    StoreFacts(pendingCount: mirror.lastTransactionNumber - mirror.exportedTransactionNumber)
  }

  /// The most rows of one shard in a list.
  static let rowLimit = 1000

  func answer(_ report: WorkerReport) async throws -> [UInt8] {
    var output = JSONWriter()
    output.beginObject()
    switch report.subject {
    case "summary": try await writeSummary(to: &output)
    case "shards": writeStandings(to: &output)
    case "stores":
      try await writeRows("stores", to: &output) { [filter = DatabaseFilter(report.query)] in
        try Self.mirrors(in: $0, filter)
      }
    case "zones":
      try await writeRows("zones", to: &output) { [filter = DatabaseFilter(report.query)] in
        try Self.zones(in: $0, filter)
      }
    case "subscriptions":
      try await writeRows("subscriptions", to: &output) { [filter = DatabaseFilter(report.query)] in
        try Self.subscriptions(in: $0, filter)
      }
    case "events":
      let after = report.query["after"].flatMap { Int64($0) } ?? 0
      try await writeRows("events", to: &output) { [filter = DatabaseFilter(report.query)] in
        try Self.events(in: $0, filter, after: after)
      }
    case "explain": try await writeExplanations(report.query, to: &output)
    case "duplicates":
      try await writeRows("duplicates", to: &output) { [filter = DatabaseFilter(report.query)] in
        try Self.duplicates(in: $0, filter)
      }
    case "shares":
      try await writeRows("shares", to: &output) { [filter = ShareFilter(report.query)] in
        try Self.shares(in: $0, filter)
      }
    case "participants":
      try await writeRows("participants", to: &output) { [filter = ShareFilter(report.query)] in
        try Self.participants(in: $0, filter)
      }
    case "usage": await writeUsage(report.query, to: &output)
    case "fields": await writeFieldCounts(report.query, to: &output)
    case "quarantine":
      try await writeRows("quarantine", to: &output) { [filter = DatabaseFilter(report.query)] in
        try Self.quarantine(in: $0, filter)
      }
    default: throw BusError(.notFound, "there is no report on \(report.subject.prefix(40))")
    }
    output.endObject()
    return output.bytes
  }

  /// The answer of a worker that takes no work because of its data folder.
  static func refusal(_ reason: String) -> [UInt8] {
    var output = JSONWriter()
    output.beginObject()
    output.member("refused", reason)
    output.endObject()
    return output.bytes
  }

  private func writeSummary(to output: inout JSONWriter) async throws {
    var counts = ShardCounts(databases: 0, zones: 0, records: 0, mirrors: 0)
    for store in stores {
      // Dropped because the summary's problems name a shard that can't be read.
      guard let shard = try? await store.read({ try $0.counts() }) else { continue }
      counts.databases += shard.databases
      counts.zones += shard.zones
      counts.records += shard.records
      counts.mirrors += shard.mirrors
    }
    output.key("shards")
    output.beginArray()
    for store in stores { output.integer(Int64(store.shard)) }
    output.endArray()
    output.member("opening", openingCount)
    output.member("databases", counts.databases)
    output.member("zones", counts.zones)
    output.member("records", counts.records)
    output.member("stores", counts.mirrors)
    output.member("pendingPings", pendingPingCount)
    write(condition, to: &output)
  }

  private func write(_ condition: Condition, to output: inout JSONWriter) {
    output.member("waitingTransactions", condition.figures.waitingCount)
    if let oldest = condition.figures.oldestWaitingAt { output.member("oldestWaitingAt", oldest) }
    output.member("quarantined", condition.figures.quarantinedCount)
    output.member("queue", condition.queue.sum)
    output.member("longestQueue", condition.queue.longest)
    if let disk = condition.disk {
      output.member("diskFree", disk.free)
      output.member("diskSize", disk.size)
    }
    output.key("problems")
    output.beginArray()
    for (shard, problem) in condition.problems {
      output.beginObject()
      output.member("shard", shard)
      output.member("problem", problem)
      output.endObject()
    }
    output.endArray()
  }

  private func writeStandings(to output: inout JSONWriter) {
    output.key("shards")
    output.beginArray()
    for standing in standings {
      output.beginObject()
      output.member("shard", standing.shard)
      output.member("state", standing.state.rawValue)
      if let epoch = standing.epoch { output.member("epoch", epoch) }
      if let reason = standing.reason { output.member("reason", reason) }
      if let count = standing.placement?.movedRowCount { output.member("movedRows", count) }
      if let problem = standing.placement?.problem { output.member("moveProblem", problem) }
      if let load = loads[standing.shard] { Self.write(load, to: &output) }
      output.endObject()
    }
    output.endArray()
  }

  private static func write(_ load: ShardLoad, to output: inout JSONWriter) {
    if let count = load.recordCount { output.member("records", count) }
    if let bytes = load.byteCount { output.member("bytes", bytes) }
    func hundredths(_ rate: Double) -> Double { (rate * 100).rounded() / 100 }
    if let saves = load.savesPerSecond { output.member("savesPerSecond", hundredths(saves)) }
    if let reads = load.readsPerSecond { output.member("readsPerSecond", hundredths(reads)) }
  }

  /// Writes a list under its subject's name, each row one JSON object. `unread` names the shards that can't be read.
  private func writeRows(
    _ name: String, to output: inout JSONWriter, _ rows: @escaping @Sendable (any ShardSnapshot) throws -> [[UInt8]]
  ) async throws {
    output.key(name)
    output.beginArray()
    var unread: [Int] = []
    for store in stores {
      do {
        for row in try await store.read(rows) { output.raw(row) }
      } catch {
        unread.append(store.shard)
      }
    }
    output.endArray()
    if unread.isEmpty { return }
    output.key("unread")
    output.beginArray()
    for shard in unread { output.integer(Int64(shard)) }
    output.endArray()
  }

  /// Explains the state of an object of a private or the public database in each of the user's stores that knows it.
  private func writeExplanations(_ query: [String: String], to output: inout JSONWriter) async throws {
    output.key("explain")
    output.beginArray()
    if let container = query["container"].flatMap(ContainerID.init(rawValue:)),
      let environment = query["environment"].flatMap(Environment.init(rawValue:)),
      let user = query["user"], let objectID = query["object"]
    {
      let isPublic = query["scope"] == "public"
      let id = DatabaseID(
        container: container, environment: environment, owner: isPublic ? DatabaseID.publicOwner : user)
      for store in stores { try await writeExplanations(of: objectID, in: id, user, store, to: &output) }
    }
    output.endArray()
  }

  private func writeExplanations(
    of objectID: String, in id: DatabaseID, _ user: String, _ store: any ShardStore, to output: inout JSONWriter
  ) async throws {
    let found = try await store.read { snapshot -> (StoredDatabase, [StoredMirror])? in
      guard let database = try snapshot.database(id) else { return nil }
      var mirrors: [StoredMirror] = []
      var last: Int64 = 0
      while case let page = try snapshot.mirrors(afterKey: last, limit: Self.rowLimit), let end = page.last {
        mirrors += page.filter { $0.databaseKey == database.key && $0.userRecordName == user }
        last = end.key
      }
      return (database, mirrors)
    }
    guard let (database, mirrors) = found else { return }
    for mirror in mirrors {
      let facts = await facts(database, mirror, MirrorID(shard: store.shard, key: mirror.key))
      let (explanation, way) = try await store.read { snapshot in
        let mirror = try snapshot.mirror(key: mirror.key) ?? mirror
        let explanation = try Explanation(of: objectID, in: mirror, facts, in: snapshot)
        return (explanation, try ObjectWay(of: objectID, zoneName: explanation.zoneName, in: mirror, snapshot))
      }
      if explanation.facts.isUnknown { continue }
      output.beginObject()
      output.member("store", mirror.deviceID)
      if let device = mirror.deviceName { output.member("device", device) }
      explanation.answer(lastExport: explanation.lastExport.map { MirrorEvent($0, storeIdentifier: mirror.deviceID) })
        .write(to: &output)
      output.key("way")
      way.write(to: &output)
      output.endObject()
    }
  }
}
