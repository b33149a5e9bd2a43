// The usage of users' databases as the workers count it.

import JSON
import ObjectModel
import Records
import ServiceBus
import WebServices

/// The usage of an environment or of a user, summed over databases.
struct Usage: Sendable, Hashable {
  struct Row: Sendable, Hashable {
    let container: String
    let environment: String
    let owner: String
    let byteCount: Int64
    let recordCount: Int64
    let zoneCount: Int64

    var isPublic: Bool { owner == DatabaseID.publicOwner }
  }

  var rows: [Row] = []
  /// True when rows may be missing: a worker did not answer, or did not finish counting.
  var isPartial = false

  var records: Int64 { rows.reduce(0) { $0 + $1.recordCount } }
  var bytes: Int64 { rows.reduce(0) { $0 + $1.byteCount } }
  /// The number of private databases.
  var databases: Int { rows.count { !$0.isPublic } }
  var publicRecords: Int64 { rows.reduce(0) { $0 + ($1.isPublic ? $1.recordCount : 0) } }

  func write(to writer: inout JSONWriter) {
    writer.member("records", records)
    writer.member("databases", databases)
    writer.member("publicRecords", publicRecords)
    writer.member("bytes", bytes)
    if isPartial { writer.member("isPartial", true) }
  }
}

extension OperatorAPI {
  /// - Parameter query: `container`, `environment` and `owner` restrict the count; absent ones don't.
  func usage(_ query: [String: String]) async -> Usage {
    guard let list = await list("usage", query) else { return Usage(isPartial: true) }
    let read = list.rows.map { row in
      Usage.Row(
        container: row["container"]?.string ?? "", environment: row["environment"]?.string ?? "",
        owner: row["owner"]?.string ?? "",
        byteCount: row["bytes"]?.int64 ?? 0, recordCount: row["records"]?.int64 ?? 0,
        zoneCount: row["zones"]?.int64 ?? 0)
    }
    return Usage(rows: read, isPartial: list.isPartial)
  }

  /// The usage of an environment, without the records that its latest reset dropped.
  func usage(of key: EnvironmentKey) async throws -> Usage { await usage(try await place(key)) }

  /// The number of records that have a value for each of some fields.
  /// - Returns: also whether records may be missing from the counts.
  func recordCounts(of fields: [SchemaFieldName], in key: EnvironmentKey) async throws -> (
    counts: [SchemaFieldName: Int64], isPartial: Bool
  ) {
    var query = try await place(key)
    query["fields"] = fields.compactMap { name in name.field.map { "\(name.recordType)\t\($0)" } }.joined(
      separator: "\n")
    guard let list = await list("fields", query) else { return ([:], true) }
    var counts: [SchemaFieldName: Int64] = [:]
    for row in list.rows {
      guard let type = row["recordType"]?.string, let records = row["records"]?.int64 else { continue }
      counts[SchemaFieldName(recordType: type, field: row["field"]?.string), default: 0] += records
    }
    return (counts, list.isPartial)
  }

  private func place(_ key: EnvironmentKey) async throws -> [String: String] {
    [
      "container": key.container.rawValue, "environment": key.environment.rawValue,
      "generation": String(try await directory.environment(key).generation),
    ]
  }

  /// `GET` with `container`, `environment` and `user`.
  func usage(_ request: Request) async throws -> OperatorAnswer {
    guard request.method == "GET", request.rest.isEmpty else { throw Self.noSuchCall(request) }
    if let unknown = request.query.keys.sorted().first(where: { !["container", "environment", "user"].contains($0) }) {
      throw RecordError(.badRequest, "\(unknown): usage takes container, environment and user")
    }
    var query: [String: String] = request.query.filter { $0.key != "user" }
    if let user = request.query["user"] { query["owner"] = try await directory.recordName(ofUser: user) }
    if let container = query["container"], let environment = query["environment"] {
      query["generation"] = String(
        try await directory.environment(try Self.environment(container, environment)).generation)
    }
    let usage = await usage(query)
    return OperatorAnswer { usage.write(to: &$0) }
  }
}
