// Fetches the rows that bodies have announced, and forgets those that a write makes stale.

import PostgreSQL
import Records

extension SQLiteTransaction {
  /// Fetches rows in one round trip; in two more the databases and zones that the caches lack.
  func fetch(_ lookups: [ExpectedLookup]) throws {
    guard let fetched = session.fetched else { return }
    var waiting = lookups
    for _ in 0..<Self.fetchStageCount where !waiting.isEmpty {
      waiting = try waiting.filter { lookup in
        do {
          return try !sendFetch(of: lookup)
        } catch let error as PostgreSQLError where error.kind == .invalidValue {
          // Dropped because the body that looks up such a name meets the error, and no other may.
          return false
        }
      }
      if case .postgreSQL(let connection) = session.connection { try fetched.finish(connection) }
    }
  }

  /// Databases, then zones, then records.
  private static let fetchStageCount = 3

  /// Sends a look-up, or the one that it depends on.
  /// - Returns: false when the look-up itself has to wait for that answer.
  private func sendFetch(of lookup: ExpectedLookup) throws -> Bool {
    switch lookup {
    case .outcome(let key): try boundOutcome(key).fetch()
    case .transaction(let id, let mirror): try boundTransaction(id, of: mirror).fetch()
    case .changes: break
    case .shortGUID(let shortGUID): if mayHave(shortGUID) { try boundShortGUID(shortGUID).fetch() }
    case .liveZoneCount(let id):
      guard let database = try databaseOrFetch(id) else { return false }
      if let database { try boundLiveZoneCount(in: database).fetch() }
    case .members(let user, let zoneName, let id):
      guard let database = try databaseOrFetch(id) else { return false }
      if let database, try hasShares(database) { try boundMembers(user, inZone: zoneName, of: database).fetch() }
    case .zone(let zoneName, let id): return try zoneOrFetch(zoneName, of: id) != nil
    case .record(let name, let zoneName, let id):
      guard let zone = try zoneOrFetch(zoneName, of: id) else { return false }
      if let zone { try boundRecord(name, in: zone).fetch() }
    case .share(let name, let zoneName, let id):
      guard let zone = try zoneOrFetch(zoneName, of: id) else { return false }
      if let zone, mayHave(name) { try boundShare(name, in: zone).fetch() }
    case .shareOfRoot(let name, let zoneName, let id):
      guard let zone = try zoneOrFetch(zoneName, of: id) else { return false }
      guard let zone, mayHave(name), let database = try databaseOrFetch(id) ?? nil else { return true }
      if try hasShares(database) { try boundShare(ofRoot: name, in: zone).fetch() }
    case .presence(let name, let zoneName, let id):
      guard let zone = try zoneOrFetch(zoneName, of: id) else { return false }
      if let zone, try !boundRecord(name, in: zone).isFetched { try boundPresence(name, in: zone).fetch() }
    }
    return true
  }

  private func hasShares(_ database: Int64) throws -> Bool { try self.database(key: database)?.hasShares == true }

  /// - Returns: the key, nil for none; nil when that, or that of the database, is being fetched.
  private func zoneOrFetch(_ zoneName: String, of id: DatabaseID) throws -> Int64?? {
    guard let database = try databaseOrFetch(id) else { return nil }
    guard let database else { return .some(nil) }
    return try zoneOrFetch(zoneName, in: database)
  }

  /// - Returns: the key, nil for none; nil when that is being fetched.
  private func databaseOrFetch(_ id: DatabaseID) throws -> Int64?? {
    if let key = cache.databaseKeys[id] { return key }
    let select = try boundDatabase(id)
    if select.isFetched { return .some(try database(id)?.key) }
    try select.fetch()
    return nil
  }

  private func zoneOrFetch(_ zoneName: String, in database: Int64) throws -> Int64?? {
    if let key = cache.zoneKeys[WriterCache.Name(parent: database, name: zoneName)] { return key }
    let select = try boundZone(zoneName, in: database)
    if select.isFetched { return .some(try zoneRow(named: zoneName, in: database)?.zone.key) }
    try select.fetch()
    return nil
  }

  // MARK: Rows that a write makes stale

  func forgetFetchedRecord(_ recordName: String, in zone: Int64) throws {
    guard session.fetched != nil else { return }
    try boundRecord(recordName, in: zone).forgetFetched()
    try boundPresence(recordName, in: zone).forgetFetched()
  }

  func forgetFetchedShortGUID(_ shortGUID: String) throws {
    if session.fetched != nil { try boundShortGUID(shortGUID).forgetFetched() }
  }

  /// Forgets the answers about a zone that is made, and the number of zones.
  func forgetFetchedZone(_ zoneName: String, in database: Int64) throws {
    guard session.fetched != nil else { return }
    try boundZone(zoneName, in: database).forgetFetched()
    try boundLiveZoneCount(in: database).forgetFetched()
  }

  func forgetFetchedMembers(_ userRecordName: String, inZone zoneName: String, of database: Int64) throws {
    guard session.fetched != nil else { return }
    try boundMembers(userRecordName, inZone: zoneName, of: database).forgetFetched()
  }

  func forgetFetchedOutcome(_ key: String) throws {
    if session.fetched != nil { try boundOutcome(key).forgetFetched() }
  }

  func forgetFetchedTransaction(_ transactionID: String, of mirror: Int64) throws {
    if session.fetched != nil { try boundTransaction(transactionID, of: mirror).forgetFetched() }
  }
}
