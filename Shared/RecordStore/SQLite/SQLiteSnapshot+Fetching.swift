// Fetches what the body of a read is about to look up, in the round trip of its first look-up.

import PostgreSQL
import Records

/// The keys of databases and zones that a session's reads have met. A key may be outdated: what is fetched by it is in
/// vain then, because the look-up itself asks with the present one.
struct KnownKeys {
  private(set) var databases: [DatabaseID: Int64] = [:]
  private var zones: [WriterCache.Name: Int64] = [:]

  private static let countLimit = 4096

  mutating func note(_ key: Int64, of database: DatabaseID) {
    if databases.count >= Self.countLimit { databases = [:] }
    databases[database] = key
  }

  mutating func note(_ zone: StoredZone) {
    if zones.count >= Self.countLimit { zones = [:] }
    zones[WriterCache.Name(parent: zone.databaseKey, name: zone.zoneName)] = zone.key
  }

  func zone(_ zoneName: String, in database: Int64) -> Int64? {
    zones[WriterCache.Name(parent: database, name: zoneName)]
  }
}

extension SQLiteSnapshot {
  func sendAhead(_ lookups: [ExpectedLookup]) throws {
    guard let known = session.knownKeys else { return }
    for lookup in lookups {
      do {
        try send(lookup, known)
      } catch let error as PostgreSQLError where error.kind == .invalidValue {
        // Dropped because the look-up itself meets the error.
      }
    }
  }

  private func send(_ lookup: ExpectedLookup, _ known: KnownKeys) throws {
    switch lookup {
    // Only bodies of writers look these up often.
    case .outcome, .transaction, .zone, .liveZoneCount, .members, .share, .shareOfRoot, .shortGUID: return
    case .record(let name, let zoneName, let id):
      if let zone = try sendZone(zoneName, in: id, known) { try boundRecord(name, in: zone).fetch() }
    case .presence(let name, let zoneName, let id):
      if let zone = try sendZone(zoneName, in: id, known) { try boundPresence(name, in: zone).fetch() }
    case .changes(let zoneName, let id, let sequence, let limit, let byteLimit):
      if let zone = try sendZone(zoneName, in: id, known) {
        try boundChanges(in: zone, after: sequence, limit: limit, byteLimit: byteLimit).fetch()
      }
    }
  }

  /// Sends the look-ups that every read of a zone begins with.
  /// - Returns: the zone's key; nil when it is unknown.
  private func sendZone(_ zoneName: String, in id: DatabaseID, _ known: KnownKeys) throws -> Int64? {
    if doomed == nil { try statement(SweepQuery.zones).fetch() }
    try boundDatabase(id).fetch()
    guard let database = known.databases[id] else { return nil }
    try boundZone(zoneName, in: database).fetch()
    return known.zone(zoneName, in: database)
  }
}
