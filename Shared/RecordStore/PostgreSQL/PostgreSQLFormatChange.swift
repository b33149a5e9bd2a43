// The tables of a shard in PostgreSQL, and the history of their format.

/// A change of the stored format. Opening a shard applies the missing changes in order, in one transaction.
enum PostgreSQLFormatChange: Int, CaseIterable, Sendable {
  /// The first format. Cost: none, the schema is new.
  case initial = 1
  /// As `FormatChange.heldTransactions`. Cost: none, earlier rows are read as they are.
  case heldTransactions = 2
  /// Lets the updates of stores stay in their pages: each commit of a store's changes writes `last` and `exported`,
  /// which this index names. Cost: none.
  case storesInPlace = 3
  /// As `FormatChange.liveZones`. Cost: reads every zone's row once.
  case liveZones = 4

  var statements: [String] {
    switch self {
    case .initial:
      Self.recordTables + Self.storeTables + Self.stateTables + Self.sharingTables + Self.indexes
    case .heldTransactions: []
    case .storesInPlace: ["DROP INDEX IF EXISTS mirror_waiting"]
    case .liveZones: ["CREATE INDEX IF NOT EXISTS zone_live ON zone(database, name) WHERE deleted = 0"]
    }
  }

  /// A table. Words of `columns` in the form `name:type` become columns that are never NULL; `name:type?` can be.
  /// - Parameter churn: storage parameters for tables whose rows change often.
  private static func table(_ name: String, _ columns: String, _ keys: String, churn: Churn = .none) -> String {
    let parts = columns.split(separator: " ").map { word in
      let (name, type) = (word.prefix { $0 != ":" }, word.drop { $0 != ":" }.dropFirst())
      let isNullable = type.hasSuffix("?")
      let column = "\"\(name.lowercased())\" \(types[type.prefix(1)] ?? "")"
      return isNullable ? column : column + " NOT NULL"
    }
    return "CREATE TABLE \(name)(\((parts + [keys]).joined(separator: ", ")))\(churn.rawValue)"
  }

  /// Texts sort by their UTF-8.
  private static let types: [Substring: String] = [
    "i": "bigint", "t": "text COLLATE \"C\"", "b": "bytea", "n": "bigint DEFAULT 0",
    // A key that the database gives out. A sequence never goes back, also when a transaction is rolled back.
    "k": "bigint GENERATED ALWAYS AS IDENTITY",
  ]

  /// How often the rows of a table are written again. Free space in a page keeps a new version of a row beside the old
  /// one, without a new entry in any index.
  private enum Churn: String {
    case none = ""
    /// Rows that many commits write: databases, zones, stores.
    case high = " WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000)"
    /// Rows that are written now and then.
    case some = " WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05)"
    /// Rows that are removed in the order of their age.
    case queue = " WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000)"
  }

  private static let recordTables = [
    // Interned because these names repeat in every row: record types, fields with pointers.
    table("symbol", "id:k text:t", "PRIMARY KEY(id), UNIQUE(text)"),
    table("sealing_key", "id:b", "PRIMARY KEY(id)"),
    table("meta", "key:t value:i", "PRIMARY KEY(key)", churn: .some),
    table(
      "database",
      """
      id:i container:t environment:t owner:t incarnation:i seq:i bytes:n subscriptions:n generation:n placed:n \
      shared:n events:n conflicts:n gapStart:n gapEnd:n
      """, "PRIMARY KEY(id), UNIQUE(owner, container, environment)", churn: .high),
    table(
      "zone", "id:i database:i name:t incarnation:i seq:i deleted:i live:i bytes:n horizon:n reason:n ended:n",
      "PRIMARY KEY(id), UNIQUE(database, name)", churn: .high),
    // Deleted zones whose rows are still being removed, a slice a commit.
    table("doomed", "zone:i", "PRIMARY KEY(zone)"),
    table(
      "record", "id:i zone:i seq:i type:i deleted:i origin:i others:i sum:i name:b refs:b? data:b", "PRIMARY KEY(id)",
      churn: .some),
    table("shortGUID", "guid:t zone:i source:i", "PRIMARY KEY(guid)"),
    table("reference", "zone:i target:b field:i source:i", "PRIMARY KEY(zone, target, field, source)"),
    table(
      "past",
      "id:k zone:i name:b seq:i until:i at:i type:i deleted:i origin:i others:i sum:i refs:b? data:b",
      "PRIMARY KEY(id), UNIQUE(zone, name, until)", churn: .queue),
    table(
      "fieldindex", "id:i database:i type:t field:t kind:i state:i afterZone:t afterName:b?", "PRIMARY KEY(id)"),
    // The zone comes first, so that a deleted zone's entries are one range.
    table("entry", "zone:i fieldindex:i key:b name:b record:i", "PRIMARY KEY(zone, fieldindex, key, name)"),
    table("placement", "database:i name:b zone:i assigned:n", "PRIMARY KEY(database, name, zone)"),
    table("unplaced", "database:i zone:i target:i after:b?", "PRIMARY KEY(database, zone)"),
    table(
      "redirect", "zone:i loser:b survivor:b since:i rule:t progress:i removed:i?", "PRIMARY KEY(zone, loser)"),
    table("asset", "hash:b bytes:i uses:i orphaned:i?", "PRIMARY KEY(hash)", churn: .some),
    table("outcome", "id:i key:b payload:b", "PRIMARY KEY(id), UNIQUE(key)", churn: .queue),
  ]

  private static let storeTables = [
    table(
      "mirror",
      """
      id:i database:i identifier:t incarnation:i user:t scope:t model:t configuration:t? device:t? created:i last:i \
      exported:i purged:i quarantined:n slice:n imported:n lease:n lineage:n forgotten:n forgottenAt:n
      """, "PRIMARY KEY(id), UNIQUE(database, identifier)", churn: .high),
    // The number combines store and transaction, so that history needs no further index to be read in order.
    table(
      "history", "id:i mirror:i appended:i sum:i txid:b author:t? payload:b", "PRIMARY KEY(id), UNIQUE(mirror, txid)",
      churn: .queue),
    table("history_time", "mirror:i latest:i number:i", "PRIMARY KEY(mirror, latest, number)"),
    // By transaction, so that a purge need not read the payloads.
    table("history_asset", "history:i hash:b", "PRIMARY KEY(history, hash)"),
    table("settled", "id:i mirror:i appended:i txid:b objects:b?", "PRIMARY KEY(id), UNIQUE(mirror, txid)"),
    table(
      "former", "id:i database:i identifier:t user:t last:i forgotten:i forgottenAt:i removed:i",
      "PRIMARY KEY(id), UNIQUE(database, identifier, \"user\")"),
    table("consumer", "mirror:i name:t number:i seen:i", "PRIMARY KEY(mirror, name)", churn: .some),
  ]

  private static let stateTables = [
    table(
      "event",
      "id:i mirror:i number:n kind:i started:i ended:i? succeeded:i saved:i deleted:i identifier:t error:b?",
      "PRIMARY KEY(id)", churn: .queue),
    table(
      "quarantine",
      """
      id:i mirror:i name:b entity:t cause:i code:t cocoa:i? reason:t first:i last:i attempts:i due:i schema:i sum:i \
      payload:b
      """, "PRIMARY KEY(id), UNIQUE(mirror, name)", churn: .some),
    table(
      "journal",
      """
      id:k database:i zone:t incarnation:i name:b entity:t kind:i state:i user:t device:t at:i settled:i? bytes:i \
      sum:i number:n payload:b
      """, "PRIMARY KEY(id), UNIQUE(database, number)", churn: .some),
    table("journal_use", "database:i user:t count:i bytes:i evicted:i", "PRIMARY KEY(database, \"user\")"),
    table(
      "syncstate",
      """
      mirror:i since:i firstImport:i? resets:i resetReason:i resetSeq:i epoch:i previousModel:t? \
      previousConfiguration:t? leaseUntil:i onDeleted:i? onPurged:i? onReset:i?
      """, "PRIMARY KEY(mirror)", churn: .some),
    table("zonehold", "mirror:i zone:t reason:i ended:i at:i decision:i?", "PRIMARY KEY(mirror, zone)"),
    table(
      "unimported",
      "id:k mirror:i zone:i name:b entity:t code:t reason:t seq:i first:i last:i attempts:i due:i",
      "PRIMARY KEY(id), UNIQUE(mirror, zone, name)"),
  ]

  private static let sharingTables = [
    table(
      "subscription", "id:i database:i user:t scope:t identifier:t sum:i payload:b",
      "PRIMARY KEY(id), UNIQUE(database, \"user\", scope, identifier)"),
    table(
      "share", "id:k zone:i name:t root:t? active:i guid:t sum:i state:b?", "PRIMARY KEY(id), UNIQUE(zone, name)"),
    table("invitation", "guid:t zone:i share:i", "PRIMARY KEY(guid)"),
    table(
      "member", "database:i user:t zone:t share:t root:t? role:i permission:i since:i until:i?",
      "PRIMARY KEY(database, \"user\", zone, share)"),
    table("sharenews", "id:i database:i zone:t user:t active:i seq:i", "PRIMARY KEY(id)", churn: .queue),
    table("departure", "zone:i name:b root:t seq:i", "PRIMARY KEY(zone, name, root)"),
  ]

  private static let indexes = [
    "CREATE SEQUENCE record_keys INCREMENT BY \(StoredRecordQuery.keyCount)",
    "CREATE INDEX zone_changes ON zone(database, seq)",
    // With the type, so that a scan for one type reads no rows of others.
    "CREATE UNIQUE INDEX record_name ON record(zone, name) INCLUDE (type)",
    "CREATE UNIQUE INDEX record_changes ON record(zone, seq)",
    "CREATE INDEX shortGUID_zone ON shortGUID(zone)",
    "CREATE INDEX fieldindex_database ON fieldindex(database)",
    "CREATE INDEX placement_zone ON placement(zone)",
    "CREATE INDEX redirect_survivor ON redirect(zone, survivor)",
    "CREATE INDEX redirect_pending ON redirect(zone, loser) WHERE removed IS NULL",
    "CREATE INDEX asset_orphaned ON asset(orphaned) WHERE orphaned IS NOT NULL",
    "CREATE INDEX mirror_waiting ON mirror(id) WHERE exported < last",
    "CREATE INDEX mirror_quarantined ON mirror(id) WHERE quarantined > 0",
    "CREATE INDEX mirror_user ON mirror(database, \"user\")",
    "CREATE INDEX former_age ON former(removed)",
    "CREATE INDEX event_number ON event(mirror, number)",
    "CREATE INDEX event_open ON event(id) WHERE ended IS NULL",
    "CREATE INDEX quarantine_due ON quarantine(mirror, due)",
    "CREATE INDEX quarantine_next ON quarantine(due)",
    "CREATE INDEX journal_name ON journal(database, name)",
    // A user's entries in the order in which they are removed when there are too many.
    "CREATE INDEX journal_user ON journal(database, \"user\", state DESC, id)",
    "CREATE INDEX journal_open ON journal(database, number) WHERE state = 0",
    // By age. Entries that wait for a decision never become too old.
    "CREATE INDEX journal_age ON journal(at) WHERE state <> 0",
    "CREATE INDEX unimported_due ON unimported(mirror, due)",
    "CREATE INDEX subscription_database ON subscription(database)",
    "CREATE INDEX share_root ON share(zone, root) WHERE root IS NOT NULL",
    "CREATE INDEX invitation_share ON invitation(share)",
    "CREATE INDEX invitation_zone ON invitation(zone)",
    "CREATE INDEX member_zone ON member(database, zone, \"user\") WHERE until IS NULL",
  ]
}
