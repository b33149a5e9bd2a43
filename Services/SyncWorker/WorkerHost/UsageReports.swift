// Reports the size of users' databases and the use of fields, for an operator who plans a change or a removal.

import JSON
import RecordStore
import Records
import ServiceBus
import ZoneCommit

/// The databases that an operator asks about; all of them if the query has no restriction.
struct DatabaseFilter: Sendable {
  private let container: String?
  private let environment: String?
  private let owner: String?
  /// Databases of earlier generations count as empty and do not match.
  private let generation: Int64

  init(_ query: [String: String]) {
    container = query["container"]
    environment = query["environment"]
    owner = query["owner"]
    generation = query["generation"].flatMap { Int64($0) } ?? 0
  }

  func matches(_ database: StoredDatabase) -> Bool { matches(database.id) && database.generation >= generation }

  private func matches(_ id: DatabaseID) -> Bool {
    container ?? id.container.rawValue == id.container.rawValue
      && environment ?? id.environment.rawValue == id.environment.rawValue && owner ?? id.owner == id.owner
  }
}

/// The work that one report may do: its caller waits for two seconds.
struct ReportBudget: Sendable {
  static let databaseLimit = 10_000
  static let recordLimit = 50_000

  var databaseCount = Self.databaseLimit
  var recordCount = Self.recordLimit
  private let end: ContinuousClock.Instant

  init(time: Duration = .milliseconds(1200)) { end = .now + time }

  var isSpent: Bool { databaseCount <= 0 || recordCount <= 0 || ContinuousClock.now >= end }
}

extension WorkerReports {
  /// Databases, or records, that one read looks at.
  private static let pageCount = 200
  /// Bytes of records that are in memory together, but for the last one.
  private static let pageByteCount = 4 << 20

  /// A row for each database that holds something: its bytes, live records and zones.
  func writeUsage(_ query: [String: String], _ budget: ReportBudget = ReportBudget(), to output: inout JSONWriter) async
  {
    let filter = DatabaseFilter(query)
    var budget = budget
    var covered: [Int] = []
    output.key("usage")
    output.beginArray()
    for store in stores {
      // Dropped because `covered` leaves out a shard that can't be read.
      guard let rows = try? await Self.usage(in: store, filter, &budget) else { continue }
      for row in rows.rows { output.raw(row) }
      if rows.isWhole { covered.append(store.shard) }
    }
    output.endArray()
    Self.write(covered, to: &output)
  }

  private static func usage(in store: any ShardStore, _ filter: DatabaseFilter, _ budget: inout ReportBudget)
    async throws -> (rows: [[UInt8]], isWhole: Bool)
  {
    var rows: [[UInt8]] = []
    var last: Int64? = 0
    while let after = last {
      if budget.isSpent { return (rows, false) }
      let page = try await store.read { snapshot in
        let databases = try snapshot.databases(afterKey: after, limit: pageCount)
        return (
          rows: try databases.filter { filter.matches($0) }.compactMap { try usage(of: $0, in: snapshot) },
          count: databases.count,
          last: databases.count == pageCount ? databases.last?.key : nil
        )
      }
      rows += page.rows
      budget.databaseCount -= page.count
      last = page.last
    }
    return (rows, true)
  }

  /// nil for a database without a zone.
  private static func usage(of database: StoredDatabase, in snapshot: any ShardSnapshot) throws -> [UInt8]? {
    let zones = try snapshot.liveZones(of: database.key)
    if zones.isEmpty { return nil }
    let recordCount = try zones.reduce(0) { try $0 + snapshot.recordCount(in: $1.key) }
    return row(database) { output in
      output.member("bytes", database.byteCount)
      output.member("records", recordCount)
      output.member("zones", zones.count)
    }
  }

  /// Counts the records with each field in `fields`: one line each, with record type and field, divided by a tab.
  func writeFieldCounts(_ query: [String: String], _ budget: ReportBudget = ReportBudget(), to output: inout JSONWriter)
    async
  {
    let filter = DatabaseFilter(query)
    var fields: [String: [String]] = [:]
    for line in (query["fields"] ?? "").split(separator: "\n") {
      let parts = line.split(separator: "\t", maxSplits: 1).map(String.init)
      if parts.count == 2 { fields[parts[0], default: []].append(parts[1]) }
    }
    var budget = budget
    var counts: [String: [String: Int]] = [:]
    var covered: [Int] = []
    for store in stores {
      // Dropped because `covered` leaves out a shard that can't be read.
      guard let found = try? await Self.counts(of: fields, in: store, filter, &budget) else { continue }
      for (type, byField) in found.counts { counts[type, default: [:]].merge(byField) { $0 + $1 } }
      if found.isWhole { covered.append(store.shard) }
    }
    output.key("fields")
    output.beginArray()
    for (type, names) in fields.sorted(by: { $0.key < $1.key }) {
      for name in names {
        output.beginObject()
        output.member("recordType", type)
        output.member("field", name)
        output.member("records", counts[type]?[name] ?? 0)
        output.endObject()
      }
    }
    output.endArray()
    Self.write(covered, to: &output)
  }

  private typealias FieldCounts = [String: [String: Int]]

  private static func counts(
    of fields: [String: [String]], in store: any ShardStore, _ filter: DatabaseFilter, _ budget: inout ReportBudget
  ) async throws -> (counts: FieldCounts, isWhole: Bool) {
    var counts: FieldCounts = [:]
    var last: Int64 = 0
    while true {
      if budget.isSpent { return (counts, false) }
      let after = last
      let databases = try await store.read { try $0.databases(afterKey: after, limit: pageCount) }
      guard let end = databases.last?.key else { return (counts, true) }
      budget.databaseCount -= databases.count
      for database in databases where filter.matches(database) {
        for zone in try await store.read({ try $0.liveZones(of: database.key).map(\.key) }) {
          guard try await count(fields, in: zone, of: store, &budget, &counts) else { return (counts, false) }
        }
      }
      last = end
    }
  }

  /// - Returns: true if the whole zone was counted.
  private static func count(
    _ fields: [String: [String]], in zone: Int64, of store: any ShardStore, _ budget: inout ReportBudget,
    _ counts: inout FieldCounts
  ) async throws -> Bool {
    var last: String?
    while !budget.isSpent {
      let after = last
      let page = try await store.read { snapshot -> (counts: FieldCounts, count: Int, last: String?) in
        let records = try snapshot.records(in: zone, afterName: after, limit: pageCount, byteLimit: pageByteCount)
        var counts: FieldCounts = [:]
        for stored in records.rows where !stored.isDeleted {
          let record = stored.record
          for name in fields[record.recordType] ?? [] where record.fields[name] != nil {
            counts[record.recordType, default: [:]][name, default: 0] += 1
          }
        }
        return (counts, records.rows.count, records.isAtEnd ? nil : records.rows.last?.record.recordName)
      }
      budget.recordCount -= page.count
      for (type, byField) in page.counts { counts[type, default: [:]].merge(byField) { $0 + $1 } }
      guard let next = page.last else { return true }
      last = next
    }
    return false
  }

  /// Writes the numbers of the shards that were read from end to end.
  private static func write(_ shards: [Int], to output: inout JSONWriter) {
    output.key("shards")
    output.beginArray()
    for shard in shards { output.integer(Int64(shard)) }
    output.endArray()
  }
}
