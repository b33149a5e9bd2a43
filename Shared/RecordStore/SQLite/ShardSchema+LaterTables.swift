// The tables and statements of the later changes of the stored format.

import Records
import SQLite

extension FormatChange {
  static let journalTables = [
    // AUTOINCREMENT, so that no number is reused: a reader that has read up to a number would miss a later entry under
    // it.
    """
    CREATE TABLE journal(id INTEGER PRIMARY KEY AUTOINCREMENT, database INTEGER NOT NULL, zone TEXT NOT NULL,
      incarnation INTEGER NOT NULL, name NOT NULL, entity TEXT NOT NULL, kind INTEGER NOT NULL, state INTEGER NOT NULL,
      user TEXT NOT NULL, device TEXT NOT NULL, at INTEGER NOT NULL, settled INTEGER, bytes INTEGER NOT NULL,
      sum INTEGER NOT NULL, payload BLOB NOT NULL)
    """,
    "CREATE INDEX journal_name ON journal(database, name)",
    // A user's entries in the order in which they are removed when there are too many.
    "CREATE INDEX journal_user ON journal(database, user, state DESC, id)",
    "CREATE INDEX journal_open ON journal(database, id) WHERE state = 0",
    // By age. Entries that wait for a decision never become too old.
    "CREATE INDEX journal_age ON journal(at) WHERE state <> 0",
    "CREATE INDEX journal_database ON journal(database)",
    """
    CREATE TABLE journal_use(database INTEGER NOT NULL, user TEXT NOT NULL, count INTEGER NOT NULL,
      bytes INTEGER NOT NULL, evicted INTEGER NOT NULL, PRIMARY KEY(database, user)) WITHOUT ROWID
    """,
  ]

  static let placementTables = [
    "ALTER TABLE database ADD COLUMN placed INTEGER NOT NULL DEFAULT 0",
    // With the zone in the key, because record clients may give records of two zones one name.
    """
    CREATE TABLE placement(database INTEGER NOT NULL, name NOT NULL, zone INTEGER NOT NULL,
      assigned INTEGER NOT NULL DEFAULT 0, PRIMARY KEY(database, name, zone)) WITHOUT ROWID
    """,
    // For zones that are made again.
    "CREATE INDEX placement_zone ON placement(zone)",
    """
    INSERT INTO placement(database, name, zone)
      SELECT z.database, r.name, r.zone FROM zone z CROSS JOIN record r INDEXED BY record_name ON r.zone = z.id
      JOIN symbol s ON s.id = r.type
      WHERE z.deleted = 0 AND z.name NOT IN ('\(ReservedName.privateMirrorZone)', '\(ReservedName.defaultZone)')
        AND substr(s.text, 1, \(ReservedName.recordTypePrefix.utf8.count)) = '\(ReservedName.recordTypePrefix)'
    """,
    "UPDATE database SET placed = 1 WHERE id IN (SELECT database FROM placement)",
  ]

  static let trackedPlacementStatements = [
    """
    CREATE TABLE unplaced(database INTEGER NOT NULL, zone INTEGER NOT NULL, target INTEGER NOT NULL, after,
      PRIMARY KEY(database, zone)) WITHOUT ROWID
    """,
    "DELETE FROM placement WHERE database NOT IN (SELECT database FROM mirror)",
    """
    UPDATE database SET placed = \(PlacementState.empty.rawValue) \
    WHERE placed = 0 AND id IN (SELECT database FROM mirror)
    """,
    """
    UPDATE database SET placed = \(PlacementState.untracked.rawValue) \
    WHERE placed = 1 AND id NOT IN (SELECT database FROM mirror)
    """,
  ]

  static let recoveryTables = [
    "ALTER TABLE zone ADD COLUMN reason INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE zone ADD COLUMN ended INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE mirror ADD COLUMN imported INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE mirror ADD COLUMN lease INTEGER NOT NULL DEFAULT 0",
    // Apart from the mirror's row, which every save writes.
    """
    CREATE TABLE syncstate(mirror INTEGER PRIMARY KEY, since INTEGER NOT NULL, firstImport INTEGER,
      resets INTEGER NOT NULL, resetReason INTEGER NOT NULL, resetSeq INTEGER NOT NULL, epoch INTEGER NOT NULL,
      previousModel TEXT, previousConfiguration TEXT, leaseUntil INTEGER NOT NULL, onDeleted INTEGER, onPurged INTEGER,
      onReset INTEGER)
    """,
    """
    CREATE TABLE zonehold(mirror INTEGER NOT NULL, zone TEXT NOT NULL, reason INTEGER NOT NULL, ended INTEGER NOT NULL,
      at INTEGER NOT NULL, decision INTEGER, PRIMARY KEY(mirror, zone)) WITHOUT ROWID
    """,
    """
    CREATE TABLE unimported(id INTEGER PRIMARY KEY, mirror INTEGER NOT NULL, zone INTEGER NOT NULL, name NOT NULL,
      entity TEXT NOT NULL, code TEXT NOT NULL, reason TEXT NOT NULL, seq INTEGER NOT NULL, first INTEGER NOT NULL,
      last INTEGER NOT NULL, attempts INTEGER NOT NULL, due INTEGER NOT NULL, UNIQUE(mirror, zone, name))
    """,
    "CREATE INDEX unimported_due ON unimported(mirror, due)",
  ]

  static let redirectTables = [
    """
    CREATE TABLE redirect(zone INTEGER NOT NULL, loser NOT NULL, survivor NOT NULL, since INTEGER NOT NULL,
      rule TEXT NOT NULL, progress INTEGER NOT NULL, removed INTEGER, PRIMARY KEY(zone, loser)) WITHOUT ROWID
    """,
    "CREATE INDEX redirect_survivor ON redirect(zone, survivor)",
    "CREATE INDEX redirect_pending ON redirect(zone, loser) WHERE removed IS NULL",
  ]

  static let sharingTables = [
    "ALTER TABLE database ADD COLUMN shared INTEGER NOT NULL DEFAULT 0",
    """
    CREATE TABLE share(id INTEGER PRIMARY KEY, zone INTEGER NOT NULL, name TEXT NOT NULL, root TEXT,
      active INTEGER NOT NULL, guid TEXT NOT NULL, sum INTEGER NOT NULL, state BLOB, UNIQUE(zone, name))
    """,
    "CREATE INDEX share_root ON share(zone, root) WHERE root IS NOT NULL",
    "CREATE TABLE invitation(guid TEXT PRIMARY KEY, zone INTEGER NOT NULL, share INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX invitation_share ON invitation(share)",
    // For the sweep of deleted zones.
    "CREATE INDEX invitation_zone ON invitation(zone)",
    // By names instead of the zone's key, because the end of a zone is reported long after it.
    """
    CREATE TABLE member(database INTEGER NOT NULL, user TEXT NOT NULL, zone TEXT NOT NULL, share TEXT NOT NULL,
      root TEXT, role INTEGER NOT NULL, permission INTEGER NOT NULL, since INTEGER NOT NULL, until INTEGER,
      PRIMARY KEY(database, user, zone, share)) WITHOUT ROWID
    """,
    "CREATE INDEX member_zone ON member(database, zone, user) WHERE until IS NULL",
    """
    CREATE TABLE sharenews(id INTEGER PRIMARY KEY, database INTEGER NOT NULL, zone TEXT NOT NULL, user TEXT NOT NULL,
      active INTEGER NOT NULL, seq INTEGER NOT NULL)
    """,
    """
    CREATE TABLE departure(zone INTEGER NOT NULL, name NOT NULL, root TEXT NOT NULL, seq INTEGER NOT NULL,
      PRIMARY KEY(zone, name, root)) WITHOUT ROWID
    """,
  ]

  static let settledTables = [
    // 0 stands for the mirror's own key.
    "ALTER TABLE mirror ADD COLUMN lineage INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE mirror ADD COLUMN forgotten INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE mirror ADD COLUMN forgottenAt INTEGER NOT NULL DEFAULT 0",
    "UPDATE mirror SET forgotten = purged WHERE purged > 0",
    // The row ID is as in `history`, with the lineage in place of the mirror.
    """
    CREATE TABLE settled(id INTEGER PRIMARY KEY, mirror INTEGER NOT NULL, appended INTEGER NOT NULL, txid NOT NULL,
      objects BLOB, UNIQUE(mirror, txid))
    """,
    """
    CREATE TABLE former(id INTEGER PRIMARY KEY, database INTEGER NOT NULL, identifier TEXT NOT NULL, user TEXT NOT NULL,
      last INTEGER NOT NULL, forgotten INTEGER NOT NULL, forgottenAt INTEGER NOT NULL, removed INTEGER NOT NULL,
      UNIQUE(database, identifier, user))
    """,
    "CREATE INDEX former_age ON former(removed)",
  ]

  /// Numbers that were given out stay. Later ones are greater than all of them.
  static let numberStatements = [
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
  static let gapStatements = [
    "ALTER TABLE database ADD COLUMN gapStart INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE database ADD COLUMN gapEnd INTEGER NOT NULL DEFAULT 0",
    """
    UPDATE database SET
      gapStart = coalesce((SELECT max((SELECT max(r.seq) FROM record r WHERE r.zone = z.id AND r.seq < 1 << 50))
        FROM zone z WHERE z.database = database.id), 0),
      gapEnd = coalesce((SELECT min((SELECT min(r.seq) FROM record r WHERE r.zone = z.id AND r.seq >= 1 << 50))
        FROM zone z WHERE z.database = database.id) - 1, seq)
      WHERE seq >= 1 << 50
    """,
  ]

  /// A running maximum, because clocks go back.
  static let historyTimeStatements = [
    """
    CREATE TABLE history_time(mirror INTEGER NOT NULL, latest INTEGER NOT NULL, number INTEGER NOT NULL,
      PRIMARY KEY(mirror, latest, number)) WITHOUT ROWID
    """,
    """
    INSERT INTO history_time(mirror, latest, number) SELECT mirror, latest, number FROM
      (SELECT mirror, id & \(HistoryRowID.lastNumber) AS number,
        max(appended) OVER (PARTITION BY mirror ORDER BY id) AS latest FROM history) AS running
      WHERE number % \(HistoryRowID.timeInterval) = 0
    """,
  ]

  static let quarantineTables = [
    "ALTER TABLE mirror ADD COLUMN quarantined INTEGER NOT NULL DEFAULT 0",
    "CREATE INDEX mirror_quarantined ON mirror(id) WHERE quarantined > 0",
    """
    CREATE TABLE quarantine(id INTEGER PRIMARY KEY, mirror INTEGER NOT NULL, name NOT NULL, entity TEXT NOT NULL,
      cause INTEGER NOT NULL, code TEXT NOT NULL, cocoa INTEGER, reason TEXT NOT NULL, first INTEGER NOT NULL,
      last INTEGER NOT NULL, attempts INTEGER NOT NULL, due INTEGER NOT NULL, schema INTEGER NOT NULL,
      sum INTEGER NOT NULL, payload BLOB NOT NULL, UNIQUE(mirror, name))
    """,
    "CREATE INDEX quarantine_due ON quarantine(mirror, due)",
    // For the next attempt of the whole shard.
    "CREATE INDEX quarantine_next ON quarantine(due)",
  ]
}
