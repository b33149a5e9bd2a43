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
  /// The most events of one mirrored store in a list.
  private static let eventLimit = 20

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
      output.endObject()
    }
    output.endArray()
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

  static func row(_ database: StoredDatabase?, _ write: (inout JSONWriter) -> Void) -> [UInt8] {
    var output = JSONWriter()
    output.beginObject()
    if let database {
      output.member("container", database.id.container.rawValue)
      output.member("environment", database.id.environment.rawValue)
      output.member("owner", database.id.owner)
    }
    write(&output)
    output.endObject()
    return output.bytes
  }

  /// The first stores in the filter's databases, each with its database.
  private static func mirrors(
    in snapshot: any ShardSnapshot, of filter: DatabaseFilter, _ page: (_ after: Int64) throws -> [StoredMirror]
  ) throws -> [(database: StoredDatabase, mirror: StoredMirror)] {
    var found: [(database: StoredDatabase, mirror: StoredMirror)] = []
    var last: Int64 = 0
    while found.count < rowLimit, case let mirrors = try page(last), let end = mirrors.last?.key {
      for mirror in mirrors where found.count < rowLimit {
        if let database = try snapshot.database(key: mirror.databaseKey), filter.matches(database) {
          found.append((database, mirror))
        }
      }
      last = end
    }
    return found
  }

  /// The first databases that match the filter.
  private static func databases(in snapshot: any ShardSnapshot, _ filter: DatabaseFilter) throws -> [StoredDatabase] {
    var (found, last) = ([StoredDatabase](), Int64(0))
    while found.count < rowLimit, case let databases = try snapshot.databases(afterKey: last, limit: rowLimit),
      let end = databases.last?.key
    {
      found += databases.filter { filter.matches($0) }
      last = end
    }
    return Array(found.prefix(rowLimit))
  }

  private static func mirrors(in snapshot: any ShardSnapshot, _ filter: DatabaseFilter) throws -> [[UInt8]] {
    try mirrors(in: snapshot, of: filter) { try snapshot.mirrors(afterKey: $0, limit: rowLimit) }.map {
      database, mirror in
      row(database) { output in
        output.member("scope", mirror.scope.rawValue)
        output.member("store", mirror.deviceID)
        output.member("user", mirror.userRecordName)
        if let device = mirror.deviceName { output.member("device", device) }
        output.member("modelHash", mirror.modelHash)
        output.member("transactions", mirror.lastTransactionNumber)
        output.member("exported", mirror.exportedTransactionNumber)
        output.member("createdAt", mirror.createdAt)
      }
    }
  }

  private static func zones(in snapshot: any ShardSnapshot, _ filter: DatabaseFilter) throws -> [[UInt8]] {
    var rows: [[UInt8]] = []
    for database in try databases(in: snapshot, filter) where rows.count < rowLimit {
      let zones = try snapshot.zones(in: database.key, after: 0, limit: rowLimit - rows.count)
      var audiences: [Int64: Int] = [:]
      for zone in zones where database.hasShares && !zone.isDeleted {
        let audience = try snapshot.audience(ofZone: zone.zoneName, of: database.key)
        if !audience.isEmpty { audiences[zone.key] = audience.count }
      }
      for zone in zones {
        rows.append(
          row(database) { output in
            output.member("zone", zone.zoneName)
            output.member("sequence", zone.sequence)
            output.member("deleted", zone.isDeleted)
            if let count = audiences[zone.key] { output.member("members", count) }
          })
      }
    }
    return rows
  }

  private static func subscriptions(in snapshot: any ShardSnapshot, _ filter: DatabaseFilter) throws -> [[UInt8]] {
    var rows: [[UInt8]] = []
    for database in try databases(in: snapshot, filter) where rows.count < rowLimit && database.subscriptionEdition != 0
    {
      for subscription in try snapshot.subscriptions(in: database.key, afterKey: 0, limit: rowLimit - rows.count) {
        rows.append(
          row(database) { output in
            output.member("scope", subscription.scope.rawValue)
            output.member("user", subscription.userRecordName)
            output.member("subscription", subscription.identifier)
            // Dropped because `verify` reports a subscription that can't be read.
            let dictionary = try? JSONValue(parsing: subscription.payload)
            output.member("type", dictionary?["subscriptionType"]?.string ?? "")
            if let recordType = dictionary?["query"]?["recordType"]?.string { output.member("recordType", recordType) }
            output.member("firesOnce", dictionary?["firesOnce"]?.bool ?? false)
          })
      }
    }
    return rows
  }

  private static func duplicates(in snapshot: any ShardSnapshot, _ filter: DatabaseFilter) throws -> [[UInt8]] {
    try DuplicateGroup.all(in: snapshot, limit: rowLimit).filter { group in
      group.database.map { filter.matches($0) } ?? false
    }.map { group in
      row(group.database) { group.writeMembers(to: &$0) }
    }
  }

  private static func quarantine(in snapshot: any ShardSnapshot, _ filter: DatabaseFilter) throws -> [[UInt8]] {
    var rows: [[UInt8]] = []
    let found = try mirrors(in: snapshot, of: filter) { after in
      try snapshot.mirrorsWithQuarantine(afterKey: after, limit: rowLimit).compactMap { try snapshot.mirror(key: $0) }
    }
    for (database, mirror) in found where rows.count < rowLimit {
      for object in try snapshot.quarantined(of: mirror.key, afterKey: 0, limit: rowLimit - rows.count) {
        rows.append(
          row(database) { output in
            output.member("store", mirror.deviceID)
            output.member("user", mirror.userRecordName)
            QuarantinedObject(object).writeMembers(to: &output)
          })
      }
    }
    return rows
  }

  private static func events(in snapshot: any ShardSnapshot, _ filter: DatabaseFilter, after: Int64) throws -> [[UInt8]]
  {
    var rows: [[UInt8]] = []
    for (database, mirror) in try mirrors(
      in: snapshot, of: filter, { try snapshot.mirrors(afterKey: $0, limit: rowLimit) }) where rows.count < rowLimit
    {
      let events = try snapshot.events(of: mirror.key, after: 0, kind: nil, limit: rowLimit).filter {
        $0.endedAt ?? $0.startedAt > after
      }
      for event in events.suffix(eventLimit) {
        rows.append(
          row(database) { output in
            output.member("store", mirror.deviceID)
            output.member("user", mirror.userRecordName)
            write(event, to: &output)
          })
      }
    }
    return rows
  }

  private static func write(_ event: StoredEvent, to output: inout JSONWriter) {
    output.member("identifier", event.identifier)
    output.member("type", "\(event.kind)")
    output.member("startedAt", event.startedAt)
    if let endedAt = event.endedAt { output.member("endedAt", endedAt) }
    output.member("succeeded", event.succeeded)
    output.member("savedCount", event.savedCount)
    output.member("deletedCount", event.deletedCount)
    if let error = event.errorJSON {
      output.key("error")
      output.raw(error)
    }
  }
}
