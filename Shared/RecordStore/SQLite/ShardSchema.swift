// The stored format of a shard's file and its history; docs/protocol/stored-format.md explains the tables.

import Records
import SQLite

/// A change of the stored format. Opening a file applies the missing changes in order, in one transaction.
enum FormatChange: Int, CaseIterable, Sendable {
  /// The first format. Cost: none, the file is new.
  case initial = 1
  /// Field indexes. Cost: none, two empty tables.
  case fieldIndexes = 2
  /// Counts the uses of assets, and the bytes of databases and zones. Cost: reads every record and transaction once.
  case assets = 3
  /// Subscriptions. Cost: none, a new table, and a column whose default is not written into rows.
  case subscriptions = 4
  /// Finds records by their `shortGUID`. Cost: none, no record had one.
  case shortGUIDs = 5
  /// Registered consumers of history. Cost: none, an empty table.
  case consumers = 6
  /// Changes that exports hold back. Cost: none, an empty table, and a column whose default is not written into rows.
  case quarantine = 7
  /// Adds actions to references. Cost: reads every record that has references once.
  case referenceActions = 8
  /// Past states of records. Cost: an empty table, and a number in every zone's row.
  case pastStates = 9
  /// Counts the resets of a database's environment. Cost: none, a default that is not written into rows.
  case generations = 10
  /// The progress of a large transaction's export. Cost: none, a column whose default is not written into rows.
  case slices = 11
  /// Finds events without an end without a scan. Cost: reads every event once.
  case openEvents = 12
  /// The journal of conflicts. Cost: none, an empty table.
  case journal = 13
  /// Placements of objects outside the default zones. Cost: steps over the names and types of the records of those
  /// zones once.
  case placements = 14
  /// Import and recovery state. Cost: none, empty tables, and columns whose defaults are not written into rows.
  case recovery = 15
  /// Redirects from duplicates to other records, and indexes that find duplicates. Cost: none, an empty table.
  case redirects = 16
  /// Authors of edits in records and transactions, and the versions that they knew. Cost: none, older ones are read as
  /// they are.
  case edits = 17
  /// Seals records with encrypted fields, and such values in transactions, held back changes and conflicts. Cost: none,
  /// an empty table. Earlier rows stay readable and are sealed when they are written next.
  case sealing = 18
  /// Shares. Cost: none, empty tables, and a column whose default is not written into rows.
  case sharing = 19
  /// Notes placements only in databases that have or had a mirrored store. Cost: removes the rows of the other
  /// databases.
  case trackedPlacements = 20
  /// Adds parents to the references of records. Cost: reads every record and tombstone once.
  case parents = 21
  /// Counts a user's stores without reading other users'. Cost: reads every store's row once.
  case storeUsers = 22
  /// Recognizes transactions whose history is gone. Cost: none, empty tables, and numbers in the rows of purged stores.
  case settledTransactions = 23
  /// Numbers events and conflicts by database. Cost: reads and writes every event and conflict once.
  case numbers = 24
  /// The sequences that restores skipped, by database. Cost: reads two records of each zone of restored databases.
  case gaps = 25
  /// Finds a store's transactions by time without a scan. Cost: reads every transaction's row once.
  case historyTimes = 26
  /// Held-back changes with the authors and edits of their transactions. Cost: none, earlier ones are read as they are.
  case heldTransactions = 27
  /// Finds a database's zones without those that ended. Cost: reads every zone's row once.
  case liveZones = 28

  var statements: [String] {
    switch self {
    case .initial: Self.initialTables
    case .fieldIndexes: Self.fieldIndexTables
    case .assets: Self.assetTables
    case .subscriptions: Self.subscriptionTables
    case .pastStates: Self.pastTables
    case .consumers:
      [
        """
        CREATE TABLE consumer(mirror INTEGER NOT NULL, name TEXT NOT NULL, number INTEGER NOT NULL,
          seen INTEGER NOT NULL, PRIMARY KEY(mirror, name)) WITHOUT ROWID
        """
      ]
    case .shortGUIDs:
      [
        "CREATE TABLE shortGUID(guid TEXT PRIMARY KEY, zone INTEGER NOT NULL, source INTEGER NOT NULL) WITHOUT ROWID",
        // For the sweep of deleted zones.
        "CREATE INDEX shortGUID_zone ON shortGUID(zone)",
      ]
    case .quarantine: Self.quarantineTables
    case .referenceActions, .edits, .parents, .heldTransactions: []
    case .generations: ["ALTER TABLE database ADD COLUMN generation INTEGER NOT NULL DEFAULT 0"]
    case .slices: ["ALTER TABLE mirror ADD COLUMN slice INTEGER NOT NULL DEFAULT 0"]
    // Most events are stored with their end, and cost this index nothing.
    case .openEvents: ["CREATE INDEX event_open ON event(id) WHERE ended IS NULL"]
    case .journal: Self.journalTables
    case .placements: Self.placementTables
    case .recovery: Self.recoveryTables
    case .redirects: Self.redirectTables
    // The keys that are needed to open the shard's values.
    case .sealing: ["CREATE TABLE sealing_key(id BLOB PRIMARY KEY) WITHOUT ROWID"]
    case .sharing: Self.sharingTables
    case .trackedPlacements: Self.trackedPlacementStatements
    case .storeUsers: ["CREATE INDEX mirror_user ON mirror(database, user)"]
    case .settledTransactions: Self.settledTables
    case .numbers: Self.numberStatements
    case .gaps: Self.gapStatements
    case .historyTimes: Self.historyTimeStatements
    // Rows of ended zones stay for good.
    case .liveZones: ["CREATE INDEX zone_live ON zone(database, name) WHERE deleted = 0"]
    }
  }

  /// Fills the new tables where statements alone cannot.
  var fill: (@Sendable (Connection, ShardFile) throws -> Void)? {
    switch self {
    case .assets: { connection, file in try AssetUpgrade(connection, file).run() }
    case .referenceActions: { connection, _ in try ReferenceUpgrade(connection).run() }
    case .parents: { connection, file in try ParentUpgrade(connection, file).run() }
    default: nil
    }
  }

  private static let fieldIndexTables = [
    // `state`: see `IndexState`. `afterZone` and `afterName`: the progress of filling or removing.
    """
    CREATE TABLE fieldindex(id INTEGER PRIMARY KEY, database INTEGER NOT NULL, type TEXT NOT NULL, field TEXT NOT NULL,
      kind INTEGER NOT NULL, state INTEGER NOT NULL, afterZone TEXT NOT NULL, afterName)
    """,
    "CREATE INDEX fieldindex_database ON fieldindex(database)",
    // The zone comes first, so that a deleted zone's entries are one range. The row ID saves the search for the record
    // by its name.
    """
    CREATE TABLE entry(zone INTEGER NOT NULL, fieldindex INTEGER NOT NULL, key BLOB NOT NULL, name NOT NULL,
      record INTEGER NOT NULL, PRIMARY KEY(zone, fieldindex, key, name)) WITHOUT ROWID
    """,
  ]

  /// Column order matters: SQLite reads a row's columns from the front, so small ones come before blobs.
  private static let initialTables = [
    // Interned because these names repeat in every row: record types, fields with pointers.
    "CREATE TABLE symbol(id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE)",
    """
    CREATE TABLE database(id INTEGER PRIMARY KEY, container TEXT NOT NULL, environment TEXT NOT NULL,
      owner TEXT NOT NULL, incarnation INTEGER NOT NULL, seq INTEGER NOT NULL, UNIQUE(owner, container, environment))
    """,
    """
    CREATE TABLE zone(id INTEGER PRIMARY KEY, database INTEGER NOT NULL, name TEXT NOT NULL,
      incarnation INTEGER NOT NULL, seq INTEGER NOT NULL, deleted INTEGER NOT NULL, live INTEGER NOT NULL,
      UNIQUE(database, name))
    """,
    "CREATE INDEX zone_changes ON zone(database, seq)",
    // Deleted zones whose rows are still being removed, a slice a commit.
    "CREATE TABLE doomed(zone INTEGER PRIMARY KEY)",
    // A rowid table: WITHOUT ROWID halves the speed at 1 KB a row. `name` has no type: 16-byte blob or text.
    """
    CREATE TABLE record(id INTEGER PRIMARY KEY, zone INTEGER NOT NULL, name NOT NULL, seq INTEGER NOT NULL,
      type INTEGER NOT NULL, deleted INTEGER NOT NULL, origin INTEGER NOT NULL, others INTEGER NOT NULL,
      sum INTEGER NOT NULL, refs BLOB, data BLOB NOT NULL)
    """,
    // With the type, so that a scan for one type reads no rows of others. The writer ensures that a name is unique.
    "CREATE INDEX record_name ON record(zone, name, type)",
    "CREATE UNIQUE INDEX record_changes ON record(zone, seq)",
    """
    CREATE TABLE reference(zone INTEGER NOT NULL, target NOT NULL, field INTEGER NOT NULL, source INTEGER NOT NULL,
      PRIMARY KEY(zone, target, field, source)) WITHOUT ROWID
    """,
    """
    CREATE TABLE mirror(id INTEGER PRIMARY KEY, database INTEGER NOT NULL, identifier TEXT NOT NULL,
      incarnation INTEGER NOT NULL, user TEXT NOT NULL, scope TEXT NOT NULL, model TEXT NOT NULL, configuration TEXT,
      device TEXT, created INTEGER NOT NULL, last INTEGER NOT NULL, exported INTEGER NOT NULL, purged INTEGER NOT NULL,
      UNIQUE(database, identifier))
    """,
    "CREATE INDEX mirror_waiting ON mirror(id) WHERE exported < last",
    // The row ID combines mirror and number, so that history needs no further index to be read in order.
    """
    CREATE TABLE history(id INTEGER PRIMARY KEY, mirror INTEGER NOT NULL, appended INTEGER NOT NULL,
      sum INTEGER NOT NULL, txid NOT NULL, author TEXT, payload BLOB NOT NULL, UNIQUE(mirror, txid))
    """,
    """
    CREATE TABLE event(id INTEGER PRIMARY KEY, mirror INTEGER NOT NULL, kind INTEGER NOT NULL, started INTEGER NOT NULL,
      ended INTEGER, succeeded INTEGER NOT NULL, saved INTEGER NOT NULL, deleted INTEGER NOT NULL,
      identifier TEXT NOT NULL, error BLOB)
    """,
    "CREATE INDEX event_mirror ON event(mirror)",
    // The row ID begins with the time: new rows go to the end, and the oldest are found without an index on the time.
    "CREATE TABLE outcome(id INTEGER PRIMARY KEY, key NOT NULL UNIQUE, payload BLOB NOT NULL)",
  ]

  private static let assetTables = [
    "ALTER TABLE database ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE zone ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0",
    """
    CREATE TABLE asset(hash BLOB PRIMARY KEY, bytes INTEGER NOT NULL, uses INTEGER NOT NULL,
      orphaned INTEGER) WITHOUT ROWID
    """,
    "CREATE INDEX asset_orphaned ON asset(orphaned) WHERE orphaned IS NOT NULL",
    // By transaction, so that a purge need not read the payloads.
    """
    CREATE TABLE history_asset(history INTEGER NOT NULL, hash BLOB NOT NULL, PRIMARY KEY(history, hash)) WITHOUT ROWID
    """,
  ]

  private static let pastTables = [
    // The checksummed columns are those of `record`. `at` comes before the blobs, because it is read without them.
    """
    CREATE TABLE past(id INTEGER PRIMARY KEY, zone INTEGER NOT NULL, name NOT NULL, seq INTEGER NOT NULL,
      until INTEGER NOT NULL, at INTEGER NOT NULL, type INTEGER NOT NULL, deleted INTEGER NOT NULL,
      origin INTEGER NOT NULL, others INTEGER NOT NULL, sum INTEGER NOT NULL, refs BLOB, data BLOB NOT NULL)
    """,
    "CREATE UNIQUE INDEX past_name ON past(zone, name, until)",
    "ALTER TABLE zone ADD COLUMN horizon INTEGER NOT NULL DEFAULT 0",
    "UPDATE zone SET horizon = seq",
  ]

  private static let subscriptionTables = [
    "ALTER TABLE database ADD COLUMN subscriptions INTEGER NOT NULL DEFAULT 0",
    """
    CREATE TABLE subscription(id INTEGER PRIMARY KEY, database INTEGER NOT NULL, user TEXT NOT NULL,
      scope TEXT NOT NULL, identifier TEXT NOT NULL, sum INTEGER NOT NULL, payload BLOB NOT NULL,
      UNIQUE(database, user, scope, identifier))
    """,
    // All subscriptions of a database are read when one has changed.
    "CREATE INDEX subscription_database ON subscription(database)",
  ]
}

/// A format change as the upgrade applies it.
struct FormatChangeStep: Sendable {
  /// The format of the file after the change.
  let format: Int
  let statements: [String]
  var fill: (@Sendable (Connection, ShardFile) throws -> Void)?

  /// All changes up to this release's format, in order.
  static let all = FormatChange.allCases.map {
    FormatChangeStep(format: $0.rawValue, statements: $0.statements, fill: $0.fill)
  }
}

/// The rows of `meta`, besides those of `ContentKey`.
enum MetaKey: String, Sendable {
  case format, epoch, shard, lastKey, lastEvent, bindsReferences, installation
  /// The modulus of the shard's `ShardPart`: the number of shards at the installation's creation, doubled by each
  /// division of the shard.
  case shardCount
  /// The remainder of the shard's part; only of a shard that was split off another one.
  case remainder
  /// 1 while rows of databases are left that another shard has.
  case cut
  /// The number of a division, the new shard, and the symbol of its cluster's name, until that shard may be opened.
  case split, splitShard, splitCluster
  /// Of a shard that was split off another one: that shard, and the number of the division.
  case source, origin
  /// 1: the new shard of a division lacks the last round; 0 behind it, missing in copies of earlier releases.
  case lacksRest
  /// The number of the move (`StoreMigration`) that the shard left with, or is arriving with.
  case move
  /// In PostgreSQL: the number of the move that the shard arrived with; 0 once it was renewed.
  case arrival
  /// The sequence of a database that is made, and the last number of its events and of its conflicts. The shard may
  /// have lost a database of the same name, whose numbers clients know.
  case firstNumber
}
