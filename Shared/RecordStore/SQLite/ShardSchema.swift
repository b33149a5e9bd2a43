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
        CREATE TABLE consumer(mirror INTEGER NOT NULL, name TEXT NOT NULL, number INTEGER NOT NULL, seen INTEGER NOT NULL,
          PRIMARY KEY(mirror, name)) WITHOUT ROWID
        """
      ]
    case .shortGUIDs:
      [
        "CREATE TABLE shortGUID(guid TEXT PRIMARY KEY, zone INTEGER NOT NULL, source INTEGER NOT NULL) WITHOUT ROWID",
        // For the sweep of deleted zones.
        "CREATE INDEX shortGUID_zone ON shortGUID(zone)",
      ]
    case .quarantine: Self.quarantineTables
    case .referenceActions, .edits, .parents: []
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
    CREATE TABLE fieldindex(id INTEGER PRIMARY KEY, database INTEGER NOT NULL, type TEXT NOT NULL, field TEXT NOT NULL, kind INTEGER NOT NULL,
      state INTEGER NOT NULL, afterZone TEXT NOT NULL, afterName)
    """,
    "CREATE INDEX fieldindex_database ON fieldindex(database)",
    // The zone comes first, so that a deleted zone's entries are one range. The row ID saves the search for the record
    // by its name.
    """
    CREATE TABLE entry(zone INTEGER NOT NULL, fieldindex INTEGER NOT NULL, key BLOB NOT NULL, name NOT NULL, record INTEGER NOT NULL,
      PRIMARY KEY(zone, fieldindex, key, name)) WITHOUT ROWID
    """,
  ]

  /// Column order matters: SQLite reads a row's columns from the front, so small ones come before blobs.
  private static let initialTables = [
    // Interned because these names repeat in every row: record types, fields with pointers.
    "CREATE TABLE symbol(id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE)",
    """
    CREATE TABLE database(id INTEGER PRIMARY KEY, container TEXT NOT NULL, environment TEXT NOT NULL, owner TEXT NOT NULL,
      incarnation INTEGER NOT NULL, seq INTEGER NOT NULL, UNIQUE(owner, container, environment))
    """,
    """
    CREATE TABLE zone(id INTEGER PRIMARY KEY, database INTEGER NOT NULL, name TEXT NOT NULL, incarnation INTEGER NOT NULL,
      seq INTEGER NOT NULL, deleted INTEGER NOT NULL, live INTEGER NOT NULL, UNIQUE(database, name))
    """,
    "CREATE INDEX zone_changes ON zone(database, seq)",
    // Deleted zones whose rows are still being removed, a slice a commit.
    "CREATE TABLE doomed(zone INTEGER PRIMARY KEY)",
    // A rowid table: WITHOUT ROWID halves the speed at 1 KB a row. `name` has no type: 16-byte blob or text.
    """
    CREATE TABLE record(id INTEGER PRIMARY KEY, zone INTEGER NOT NULL, name NOT NULL, seq INTEGER NOT NULL, type INTEGER NOT NULL,
      deleted INTEGER NOT NULL, origin INTEGER NOT NULL, others INTEGER NOT NULL, sum INTEGER NOT NULL, refs BLOB, data BLOB NOT NULL)
    """,
    // With the type, so that a scan for one type reads no rows of others. The writer ensures that a name is unique.
    "CREATE INDEX record_name ON record(zone, name, type)",
    "CREATE UNIQUE INDEX record_changes ON record(zone, seq)",
    "CREATE TABLE reference(zone INTEGER NOT NULL, target NOT NULL, field INTEGER NOT NULL, source INTEGER NOT NULL, PRIMARY KEY(zone, target, field, source)) WITHOUT ROWID",
    """
    CREATE TABLE mirror(id INTEGER PRIMARY KEY, database INTEGER NOT NULL, identifier TEXT NOT NULL, incarnation INTEGER NOT NULL, user TEXT NOT NULL,
      scope TEXT NOT NULL, model TEXT NOT NULL, configuration TEXT, device TEXT, created INTEGER NOT NULL, last INTEGER NOT NULL,
      exported INTEGER NOT NULL, purged INTEGER NOT NULL, UNIQUE(database, identifier))
    """,
    "CREATE INDEX mirror_waiting ON mirror(id) WHERE exported < last",
    // The row ID combines mirror and number, so that history needs no further index to be read in order.
    """
    CREATE TABLE history(id INTEGER PRIMARY KEY, mirror INTEGER NOT NULL, appended INTEGER NOT NULL, sum INTEGER NOT NULL, txid NOT NULL, author TEXT,
      payload BLOB NOT NULL, UNIQUE(mirror, txid))
    """,
    """
    CREATE TABLE event(id INTEGER PRIMARY KEY, mirror INTEGER NOT NULL, kind INTEGER NOT NULL, started INTEGER NOT NULL, ended INTEGER,
      succeeded INTEGER NOT NULL, saved INTEGER NOT NULL, deleted INTEGER NOT NULL, identifier TEXT NOT NULL, error BLOB)
    """,
    "CREATE INDEX event_mirror ON event(mirror)",
    // The row ID begins with the time: new rows go to the end, and the oldest are found without an index on the time.
    "CREATE TABLE outcome(id INTEGER PRIMARY KEY, key NOT NULL UNIQUE, payload BLOB NOT NULL)",
  ]

  private static let assetTables = [
    "ALTER TABLE database ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE zone ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0",
    "CREATE TABLE asset(hash BLOB PRIMARY KEY, bytes INTEGER NOT NULL, uses INTEGER NOT NULL, orphaned INTEGER) WITHOUT ROWID",
    "CREATE INDEX asset_orphaned ON asset(orphaned) WHERE orphaned IS NOT NULL",
    // By transaction, so that a purge need not read the payloads.
    "CREATE TABLE history_asset(history INTEGER NOT NULL, hash BLOB NOT NULL, PRIMARY KEY(history, hash)) WITHOUT ROWID",
  ]

  private static let pastTables = [
    // The checksummed columns are those of `record`. `at` comes before the blobs, because it is read without them.
    """
    CREATE TABLE past(id INTEGER PRIMARY KEY, zone INTEGER NOT NULL, name NOT NULL, seq INTEGER NOT NULL, until INTEGER NOT NULL, at INTEGER NOT NULL,
      type INTEGER NOT NULL, deleted INTEGER NOT NULL, origin INTEGER NOT NULL, others INTEGER NOT NULL, sum INTEGER NOT NULL, refs BLOB,
      data BLOB NOT NULL)
    """,
    "CREATE UNIQUE INDEX past_name ON past(zone, name, until)",
    "ALTER TABLE zone ADD COLUMN horizon INTEGER NOT NULL DEFAULT 0",
    "UPDATE zone SET horizon = seq",
  ]

  private static let subscriptionTables = [
    "ALTER TABLE database ADD COLUMN subscriptions INTEGER NOT NULL DEFAULT 0",
    """
    CREATE TABLE subscription(id INTEGER PRIMARY KEY, database INTEGER NOT NULL, user TEXT NOT NULL, scope TEXT NOT NULL, identifier TEXT NOT NULL,
      sum INTEGER NOT NULL, payload BLOB NOT NULL, UNIQUE(database, user, scope, identifier))
    """,
    // All subscriptions of a database are read when one has changed.
    "CREATE INDEX subscription_database ON subscription(database)",
  ]

  private static let journalTables = [
    // AUTOINCREMENT, so that no number is reused: a reader that has read up to a number would miss a later entry under
    // it.
    """
    CREATE TABLE journal(id INTEGER PRIMARY KEY AUTOINCREMENT, database INTEGER NOT NULL, zone TEXT NOT NULL, incarnation INTEGER NOT NULL, name NOT NULL,
      entity TEXT NOT NULL, kind INTEGER NOT NULL, state INTEGER NOT NULL, user TEXT NOT NULL, device TEXT NOT NULL, at INTEGER NOT NULL, settled INTEGER,
      bytes INTEGER NOT NULL, sum INTEGER NOT NULL, payload BLOB NOT NULL)
    """,
    "CREATE INDEX journal_name ON journal(database, name)",
    // A user's entries in the order in which they are removed when there are too many.
    "CREATE INDEX journal_user ON journal(database, user, state DESC, id)",
    "CREATE INDEX journal_open ON journal(database, id) WHERE state = 0",
    // By age. Entries that wait for a decision never become too old.
    "CREATE INDEX journal_age ON journal(at) WHERE state <> 0",
    "CREATE INDEX journal_database ON journal(database)",
    """
    CREATE TABLE journal_use(database INTEGER NOT NULL, user TEXT NOT NULL, count INTEGER NOT NULL, bytes INTEGER NOT NULL, evicted INTEGER NOT NULL,
      PRIMARY KEY(database, user)) WITHOUT ROWID
    """,
  ]

  private static let placementTables = [
    "ALTER TABLE database ADD COLUMN placed INTEGER NOT NULL DEFAULT 0",
    // With the zone in the key, because record clients may give records of two zones one name.
    """
    CREATE TABLE placement(database INTEGER NOT NULL, name NOT NULL, zone INTEGER NOT NULL, assigned INTEGER NOT NULL DEFAULT 0,
      PRIMARY KEY(database, name, zone)) WITHOUT ROWID
    """,
    // For zones that are made again.
    "CREATE INDEX placement_zone ON placement(zone)",
    """
    INSERT INTO placement(database, name, zone)
      SELECT z.database, r.name, r.zone FROM zone z CROSS JOIN record r INDEXED BY record_name ON r.zone = z.id JOIN symbol s ON s.id = r.type
      WHERE z.deleted = 0 AND z.name NOT IN ('\(ReservedName.privateMirrorZone)', '\(ReservedName.defaultZone)')
        AND substr(s.text, 1, \(ReservedName.recordTypePrefix.utf8.count)) = '\(ReservedName.recordTypePrefix)'
    """,
    "UPDATE database SET placed = 1 WHERE id IN (SELECT database FROM placement)",
  ]

  private static let trackedPlacementStatements = [
    "CREATE TABLE unplaced(database INTEGER NOT NULL, zone INTEGER NOT NULL, target INTEGER NOT NULL, after, PRIMARY KEY(database, zone)) WITHOUT ROWID",
    "DELETE FROM placement WHERE database NOT IN (SELECT database FROM mirror)",
    "UPDATE database SET placed = \(PlacementState.empty.rawValue) WHERE placed = 0 AND id IN (SELECT database FROM mirror)",
    "UPDATE database SET placed = \(PlacementState.untracked.rawValue) WHERE placed = 1 AND id NOT IN (SELECT database FROM mirror)",
  ]

  private static let recoveryTables = [
    "ALTER TABLE zone ADD COLUMN reason INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE zone ADD COLUMN ended INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE mirror ADD COLUMN imported INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE mirror ADD COLUMN lease INTEGER NOT NULL DEFAULT 0",
    // Apart from the mirror's row, which every save writes.
    """
    CREATE TABLE syncstate(mirror INTEGER PRIMARY KEY, since INTEGER NOT NULL, firstImport INTEGER, resets INTEGER NOT NULL, resetReason INTEGER NOT NULL,
      resetSeq INTEGER NOT NULL, epoch INTEGER NOT NULL, previousModel TEXT, previousConfiguration TEXT, leaseUntil INTEGER NOT NULL, onDeleted INTEGER,
      onPurged INTEGER, onReset INTEGER)
    """,
    """
    CREATE TABLE zonehold(mirror INTEGER NOT NULL, zone TEXT NOT NULL, reason INTEGER NOT NULL, ended INTEGER NOT NULL, at INTEGER NOT NULL,
      decision INTEGER, PRIMARY KEY(mirror, zone)) WITHOUT ROWID
    """,
    """
    CREATE TABLE unimported(id INTEGER PRIMARY KEY, mirror INTEGER NOT NULL, zone INTEGER NOT NULL, name NOT NULL, entity TEXT NOT NULL, code TEXT NOT NULL,
      reason TEXT NOT NULL, seq INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, attempts INTEGER NOT NULL, due INTEGER NOT NULL,
      UNIQUE(mirror, zone, name))
    """,
    "CREATE INDEX unimported_due ON unimported(mirror, due)",
  ]

  private static let redirectTables = [
    """
    CREATE TABLE redirect(zone INTEGER NOT NULL, loser NOT NULL, survivor NOT NULL, since INTEGER NOT NULL, rule TEXT NOT NULL, progress INTEGER NOT NULL,
      removed INTEGER, PRIMARY KEY(zone, loser)) WITHOUT ROWID
    """,
    "CREATE INDEX redirect_survivor ON redirect(zone, survivor)",
    "CREATE INDEX redirect_pending ON redirect(zone, loser) WHERE removed IS NULL",
  ]

  private static let sharingTables = [
    "ALTER TABLE database ADD COLUMN shared INTEGER NOT NULL DEFAULT 0",
    """
    CREATE TABLE share(id INTEGER PRIMARY KEY, zone INTEGER NOT NULL, name TEXT NOT NULL, root TEXT, active INTEGER NOT NULL, guid TEXT NOT NULL,
      sum INTEGER NOT NULL, state BLOB, UNIQUE(zone, name))
    """,
    "CREATE INDEX share_root ON share(zone, root) WHERE root IS NOT NULL",
    "CREATE TABLE invitation(guid TEXT PRIMARY KEY, zone INTEGER NOT NULL, share INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX invitation_share ON invitation(share)",
    // For the sweep of deleted zones.
    "CREATE INDEX invitation_zone ON invitation(zone)",
    // By names instead of the zone's key, because the end of a zone is reported long after it.
    """
    CREATE TABLE member(database INTEGER NOT NULL, user TEXT NOT NULL, zone TEXT NOT NULL, share TEXT NOT NULL, root TEXT, role INTEGER NOT NULL,
      permission INTEGER NOT NULL, since INTEGER NOT NULL, until INTEGER, PRIMARY KEY(database, user, zone, share)) WITHOUT ROWID
    """,
    "CREATE INDEX member_zone ON member(database, zone, user) WHERE until IS NULL",
    """
    CREATE TABLE sharenews(id INTEGER PRIMARY KEY, database INTEGER NOT NULL, zone TEXT NOT NULL, user TEXT NOT NULL, active INTEGER NOT NULL,
      seq INTEGER NOT NULL)
    """,
    "CREATE TABLE departure(zone INTEGER NOT NULL, name NOT NULL, root TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY(zone, name, root)) WITHOUT ROWID",
  ]

  private static let settledTables = [
    // 0 stands for the mirror's own key.
    "ALTER TABLE mirror ADD COLUMN lineage INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE mirror ADD COLUMN forgotten INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE mirror ADD COLUMN forgottenAt INTEGER NOT NULL DEFAULT 0",
    "UPDATE mirror SET forgotten = purged WHERE purged > 0",
    // The row ID is as in `history`, with the lineage in place of the mirror.
    """
    CREATE TABLE settled(id INTEGER PRIMARY KEY, mirror INTEGER NOT NULL, appended INTEGER NOT NULL, txid NOT NULL, objects BLOB, UNIQUE(mirror, txid))
    """,
    """
    CREATE TABLE former(id INTEGER PRIMARY KEY, database INTEGER NOT NULL, identifier TEXT NOT NULL, user TEXT NOT NULL, last INTEGER NOT NULL,
      forgotten INTEGER NOT NULL, forgottenAt INTEGER NOT NULL, removed INTEGER NOT NULL, UNIQUE(database, identifier, user))
    """,
    "CREATE INDEX former_age ON former(removed)",
  ]

  /// Numbers that were given out stay. Later ones are greater than all of them.
  private static let numberStatements = [
    "ALTER TABLE database ADD COLUMN events INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE database ADD COLUMN conflicts INTEGER NOT NULL DEFAULT 0",
    """
    UPDATE database SET events = coalesce((SELECT value FROM meta WHERE key = 'lastEvent'), 0),
      conflicts = coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'journal'), 0)
    """,
    "ALTER TABLE event ADD COLUMN number INTEGER NOT NULL DEFAULT 0",
    "UPDATE event SET number = id",
    "DROP INDEX event_mirror",
    "CREATE INDEX event_number ON event(mirror, number)",
    "ALTER TABLE journal ADD COLUMN number INTEGER NOT NULL DEFAULT 0",
    "UPDATE journal SET number = id",
    "DROP INDEX journal_database",
    "CREATE UNIQUE INDEX journal_number ON journal(database, number)",
    "DROP INDEX journal_open",
    "CREATE INDEX journal_open ON journal(database, number) WHERE state = 0",
  ]

  /// Only restores bring a database's sequence to 2⁵⁰ (`ShardRenewal.number`); counting never does.
  private static let gapStatements = [
    "ALTER TABLE database ADD COLUMN gapStart INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE database ADD COLUMN gapEnd INTEGER NOT NULL DEFAULT 0",
    """
    UPDATE database SET
      gapStart = coalesce((SELECT max((SELECT max(r.seq) FROM record r WHERE r.zone = z.id AND r.seq < 1 << 50)) FROM zone z WHERE z.database = database.id), 0),
      gapEnd = coalesce((SELECT min((SELECT min(r.seq) FROM record r WHERE r.zone = z.id AND r.seq >= 1 << 50)) FROM zone z WHERE z.database = database.id) - 1, seq)
      WHERE seq >= 1 << 50
    """,
  ]

  private static let quarantineTables = [
    "ALTER TABLE mirror ADD COLUMN quarantined INTEGER NOT NULL DEFAULT 0",
    "CREATE INDEX mirror_quarantined ON mirror(id) WHERE quarantined > 0",
    """
    CREATE TABLE quarantine(id INTEGER PRIMARY KEY, mirror INTEGER NOT NULL, name NOT NULL, entity TEXT NOT NULL, cause INTEGER NOT NULL, code TEXT NOT NULL,
      cocoa INTEGER, reason TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, attempts INTEGER NOT NULL, due INTEGER NOT NULL,
      schema INTEGER NOT NULL, sum INTEGER NOT NULL, payload BLOB NOT NULL, UNIQUE(mirror, name))
    """,
    "CREATE INDEX quarantine_due ON quarantine(mirror, due)",
    // For the next attempt of the whole shard.
    "CREATE INDEX quarantine_next ON quarantine(due)",
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

/// The rows of `meta`.
enum MetaKey: String, Sendable {
  case format, epoch, shard, shardCount, lastKey, lastEvent, bindsReferences, installation
}
