// The writer's view of its shard: one object that runs all bodies as long as the shard is open.

import Assets
import Records
import SQLite

/// A record that the body has read, so that a write need not read it again.
struct SeenRecord {
  let rowID: Int64
  let sequence: Int64
  /// The symbol of its record type.
  let type: Int64
  let isDeleted: Bool
  /// `StoredReferences`.
  let references: [UInt8]
  let use: RecordUse
}

/// A sequence number of a database.
struct GivenSequence: Hashable {
  let database: Int64
  let sequence: Int64
}

/// The reads and writes of a group's bodies, within the writer's current SQL transaction.
///
/// A savepoint undoes a failed body. It is opened at the body's first write, and only if an earlier body of the group
/// has written. Otherwise a rollback of the whole transaction has the same effect.
final class SQLiteTransaction: SQLiteSnapshot {
  var cache = WriterCache()
  var counters = ShardCounters()
  private var writtenCounters = ShardCounters()
  private var countersBeforeBody = ShardCounters()
  /// The last event's number when the shard was opened.
  private(set) var inheritedEvent: Int64 = 0
  private var isLoaded = false
  private var doomedBeforeBody: Set<Int64>?
  var indexes = ShardIndexes()
  private var indexesBeforeBody = ShardIndexes()
  /// The databases that have redirects. It can contain databases that lost the zones with their redirects.
  var redirectedDatabases: Set<Int64> = []
  private var redirectedDatabasesBeforeBody: Set<Int64> = []
  /// The databases whose `PlacementState` is `filling`.
  var fillingDatabases: Set<Int64> = []
  private var fillingDatabasesBeforeBody: Set<Int64> = []
  /// Receives the mirrors of every commit.
  let committedMirrors: CommittedMirrors
  /// Distinguishes outcomes of one millisecond.
  var outcomeCounter: Int64 = 0

  /// The sequences that the group gave out and no record has. Kept for engines whose writes are queued without looking
  /// whether a sequence is taken.
  var freshSequences: Set<GivenSequence> = []
  /// The row ID of the last outcome when the caches were read; all later ones are this owner's.
  private(set) var inheritedOutcome: Int64 = .max

  /// Records that the body has read or written; nil for a name that it found free.
  var seen: [WriterCache.Name: SeenRecord?] = [:]
  private let makeIncarnation: () -> UInt64
  let assets: (any AssetStore)?
  /// True when replaced states are kept.
  let keepsPastStates: Bool
  /// The current time in milliseconds since 1970.
  let now: () -> Int64
  /// Called once for each damaged record that background work skips.
  var onPassedOver: (String) -> Void = { _ in }
  private var passedOver: Set<Int64> = []
  /// Folders with new links. They are synced before the commit.
  var unsyncedFolders: Set<String> = []

  /// True when the group removes the note of a division.
  var endsSplit = false

  /// True when earlier bodies of the group have written, and when this body has.
  private var groupHasWritten = false
  private var bodyHasWritten = false
  private var hasSavepoint = false
  /// The first refused or failed write. The body fails with it even if it catches the error.
  private(set) var bodyFailure: (any Error)?

  var contents = BodyContents()
  /// The beginning of the first group. All commits of the owner before came earlier.
  private(set) var ownedSince: ContinuousClock.Instant?

  /// Settled transactions that the group forgot because of a limit.
  var forgottenTransactionCount = 0
  /// The records and bytes that the group has written so far.
  private(set) var recordCount = 0
  private(set) var byteCount = 0

  init(
    _ session: ShardSession, committedMirrors: CommittedMirrors, assets: (any AssetStore)?, keepsPastStates: Bool,
    makeIncarnation: @escaping () -> UInt64,
    now: @escaping () -> Int64
  ) {
    self.committedMirrors = committedMirrors
    self.makeIncarnation = makeIncarnation
    self.assets = assets
    self.keepsPastStates = keepsPastStates
    self.now = now
    super.init(session)
  }

  func nextIncarnation() -> UInt64 { makeIncarnation() }

  func nextKey() -> Int64 {
    counters.lastKey += 1
    return counters.lastKey
  }

  // MARK: The group

  /// Drops the caches and reads the state that every group needs. Called after opening, after a rollback and after a
  /// fence.
  func reload() throws {
    cache = WriterCache()
    committedMirrors.removeAll()
    session.forgetSymbols()
    seen.removeAll()
    counters = ShardCounters(
      lastKey: try meta(.lastKey), lastEvent: try meta(.lastEvent), bindsReferences: try meta(.bindsReferences))
    counters.sealingKey = try knownSealingKey()
    counters.contentKey = try knownContentKey()
    writtenCounters = counters
    if !isLoaded { inheritedEvent = counters.lastEvent }
    isLoaded = true
    if session.queuesWrites {
      inheritedOutcome = try statement(OutcomeQuery.newest).first { $0.optionalInt64(0) ?? .min } ?? .min
    }
    doomed = Set(try statement(SweepQuery.zones).all { $0.int64(0) })
    indexes = ShardIndexes(try statement(IndexQuery.all).all(indexRow))
    redirectedDatabases = Set(try statement(RedirectQuery.databases).all { $0.int64(0) })
    fillingDatabases = Set(try statement(PlacementQuery.fillingDatabases).all { $0.int64(0) })
  }

  /// Called when the SQL transaction has begun.
  func groupBegins() {
    if ownedSince == nil { ownedSince = .now }
    groupHasWritten = false
    bodyHasWritten = false
    freshSequences.removeAll(keepingCapacity: true)
    endsSplit = false
    recordCount = 0
    byteCount = 0
    forgottenTransactionCount = 0
  }

  /// Writes the cached rows and counters. Called after the last body and before COMMIT.
  func groupEnds() throws {
    // No savepoint is needed, because a failure here fails the whole group.
    bodyHasWritten = true
    if !unsyncedFolders.isEmpty { try syncFolders() }
    try flushCachedRows()
    if counters.lastKey != writtenCounters.lastKey { try setMeta(.lastKey, counters.lastKey) }
    if counters.lastEvent != writtenCounters.lastEvent { try setMeta(.lastEvent, counters.lastEvent) }
    if counters.bindsReferences != writtenCounters.bindsReferences {
      try setMeta(.bindsReferences, counters.bindsReferences)
    }
    if counters.sealingKey != writtenCounters.sealingKey { try noteSealingKey() }
    if counters.contentKey != writtenCounters.contentKey { try noteContentKey() }
    cache.keepChanges()
  }

  func groupCommitted() {
    writtenCounters = counters
    if endsSplit { session.extent.endSplit() }
    if !cache.dirtyMirrors.isEmpty {
      committedMirrors.note(cache.dirtyMirrors.lazy.map { (key: $0, row: self.committedRow(ofMirror: $0)) })
    }
    cache.trim(to: Self.cachedRowLimit)
  }

  private func committedRow(ofMirror key: Int64) -> (DatabaseID, StoredMirror)? {
    guard let mirror = cache.mirrors[key]?.row, let database = cache.databases[mirror.databaseKey]?.row.id else {
      return nil
    }
    return (database, mirror)
  }

  private static let cachedRowLimit = 50_000

  // MARK: The body

  func bodyBegins() {
    session.fetched?.bodyBegins()
    bodyHasWritten = false
    hasSavepoint = false
    bodyFailure = nil
    contents = BodyContents()
    countersBeforeBody = counters
    doomedBeforeBody = doomed
    indexesBeforeBody = indexes
    redirectedDatabasesBeforeBody = redirectedDatabases
    fillingDatabasesBeforeBody = fillingDatabases
  }

  /// Ends a body that returned.
  func bodyEnds() throws {
    if hasSavepoint { try session.connection.releaseSavepoint() }
    groupHasWritten = groupHasWritten || bodyHasWritten
    cache.keepChanges()
    seen.removeAll(keepingCapacity: true)
  }

  /// Undoes a body that threw.
  /// - Returns: true when the SQL transaction was rolled back, so that it must begin again.
  func undoBody() throws -> Bool {
    cache.undoChanges()
    counters = countersBeforeBody
    doomed = doomedBeforeBody
    indexes = indexesBeforeBody
    redirectedDatabases = redirectedDatabasesBeforeBody
    fillingDatabases = fillingDatabasesBeforeBody
    endsSplit = false
    seen.removeAll(keepingCapacity: true)
    session.fetched?.forgetAppended()
    guard bodyHasWritten else { return false }
    session.fetched?.forgetWhatBodyFetched()
    session.forgetSymbols()
    guard hasSavepoint else {
      try session.connection.rollback()
      return true
    }
    try session.connection.rollbackToSavepoint()
    try session.connection.releaseSavepoint()
    return false
  }

  /// Wraps every write and keeps the first failure, so that the body cannot go on after it.
  func write<Value>(_ body: () throws -> Value) throws -> Value {
    if let bodyFailure { throw bodyFailure }
    do {
      return try body()
    } catch {
      bodyFailure = error
      throw error
    }
  }

  /// A writing statement, to bind and run. Opens the savepoint when this body needs one.
  func writing(_ query: some Query) throws -> StoreStatement {
    if !bodyHasWritten {
      if groupHasWritten {
        try session.connection.openSavepoint()
        hasSavepoint = true
      }
      bodyHasWritten = true
    }
    return try statement(query)
  }

  func passOver(_ rowID: Int64, _ problem: String) {
    if passedOver.count < Self.passedOverLimit, passedOver.insert(rowID).inserted { onPassedOver(problem) }
  }

  private static let passedOverLimit = 1000

  func countWrite(records: Int, bytes: Int) {
    recordCount += records
    byteCount += bytes
  }

  // MARK: Reads that are answered from caches

  override var others: Set<Int64> { session.extent.others }

  override func flush() throws { try write { try flushCachedRows() } }

  override func database(_ id: DatabaseID) throws -> StoredDatabase? {
    // The removal of another shard's database has it in the cache.
    if session.part?.contains(id) != false, let key = cache.databaseKeys[id], let cached = cache.databases[key] {
      return cached.row
    }
    guard let row = try super.database(id) else { return nil }
    cache.databases.load(CachedRow(row: row, isDirty: false), for: row.key)
    cache.databaseKeys.load(row.key, for: id)
    return row
  }

  override func database(key: Int64) throws -> StoredDatabase? {
    if let cached = cache.databases[key] { return cached.row }
    guard let row = try super.database(key: key) else { return nil }
    cache.databases.load(CachedRow(row: row, isDirty: false), for: row.key)
    // The removal of another shard's database looks it up by its key, and nobody finds it by its name.
    if !others.contains(row.key) { cache.databaseKeys.load(row.key, for: row.id) }
    return row
  }

  override func zoneRow(named zoneName: String, in database: Int64) throws -> ZoneRow? {
    let name = WriterCache.Name(parent: database, name: zoneName)
    if let key = cache.zoneKeys[name], let cached = cache.zones[key] { return cached.row }
    return try super.zoneRow(named: zoneName, in: database).map(load)
  }

  override func zoneRow(key: Int64) throws -> ZoneRow? {
    if let cached = cache.zones[key] { return cached.row }
    return try super.zoneRow(key: key).map(load)
  }

  private func load(_ row: ZoneRow) -> ZoneRow {
    cache.zones.load(CachedRow(row: row, isDirty: false), for: row.zone.key)
    cache.zoneKeys.load(row.zone.key, for: WriterCache.Name(parent: row.zone.databaseKey, name: row.zone.zoneName))
    return row
  }

  override func mirror(_ identifier: String, in database: Int64) throws -> StoredMirror? {
    let name = WriterCache.Name(parent: database, name: identifier)
    if let key = cache.mirrorKeys[name], let cached = cache.mirrors[key] { return cached.row }
    return try super.mirror(identifier, in: database).map(load)
  }

  override func mirror(key: Int64) throws -> StoredMirror? {
    if let cached = cache.mirrors[key] { return cached.row }
    return try super.mirror(key: key).map(load)
  }

  private func load(_ mirror: StoredMirror) -> StoredMirror {
    cache.mirrors.load(CachedRow(row: mirror, isDirty: false), for: mirror.key)
    cache.mirrorKeys.load(mirror.key, for: WriterCache.Name(parent: mirror.databaseKey, name: mirror.identifier))
    return mirror
  }

  override func hasRedirects(in database: Int64) throws -> Bool { redirectedDatabases.contains(database) }

  override var mayHoldBindingReferences: Bool { counters.bindsReferences != 0 }

  override func symbolNumber(_ text: String) throws -> Int64? {
    if let number = cache.symbols[text] { return number }
    guard let number = try super.symbolNumber(text) else { return nil }
    cache.symbols.load(number, for: text)
    return number
  }

  override func expect(_ lookups: [ExpectedLookup]) throws { try fetch(lookups) }

  override func record(named recordName: String, in zone: Int64) throws -> StoredRecord? {
    try recordNotingSeen(named: recordName, in: zone)
  }

  override func readRecord(named recordName: String, into rows: inout RecordRows) throws -> Bool {
    guard let stored = try record(named: recordName, in: rows.zone) else { return false }
    rows.append(stored)
    return true
  }
}
