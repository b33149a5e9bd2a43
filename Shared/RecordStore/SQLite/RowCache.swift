// Rows that the writer keeps in memory from commit to commit. The changes of a failed body are undone.

import Crypto
import Records

/// A dictionary whose changes can be undone back to the beginning of the current body.
struct RowCache<Key: Hashable, Row> {
  private var rows: [Key: Row] = [:]
  /// The earlier rows, in the order of the changes.
  private var journal: [(key: Key, earlier: Row?)] = []

  var count: Int { rows.count }
  subscript(key: Key) -> Row? { rows[key] }

  /// Keeps a row that was read, without an entry in the journal.
  mutating func load(_ row: Row, for key: Key) { rows[key] = row }

  /// Keeps a row that the body changed; nil removes the row.
  mutating func set(_ row: Row?, for key: Key) {
    journal.append((key, rows[key]))
    rows[key] = row
  }

  /// Keeps the changes of the body for good.
  mutating func keepChanges() { journal.removeAll(keepingCapacity: true) }

  mutating func undoChanges() {
    for change in journal.reversed() { rows[change.key] = change.earlier }
    journal.removeAll(keepingCapacity: true)
  }

  mutating func removeAll() {
    rows = [:]
    journal = []
  }
}

/// A row, and whether its latest state has to be written.
struct CachedRow<Row> {
  var row: Row
  var isDirty: Bool
}

/// Counters of which each shard has one.
struct ShardCounters: Hashable {
  /// The last key given to a row: a database, zone, mirror, subscription, index or news of a share.
  var lastKey: Int64 = 0
  var lastEvent: Int64 = 0
  /// 1 once the shard has a reference whose action is not `none`. Until then no statement looks for them.
  var bindsReferences: Int64 = 0
  /// The newest key once it has sealed something of the shard; nil until then.
  var sealingKey: KeyRing.ID?
  /// The newest key of the store of assets once the shard has adopted a content; nil until then.
  var contentKey: KeyRing.ID?
}

/// The writer's caches.
///
/// Sequence counters change with every record: they are written once a group, which saves 8 % of the processor's time.
struct WriterCache {
  struct Name: Hashable {
    let parent: Int64
    let name: String
  }

  var databases = RowCache<Int64, CachedRow<StoredDatabase>>()
  var databaseKeys = RowCache<DatabaseID, Int64>()
  var zones = RowCache<Int64, CachedRow<ZoneRow>>()
  var zoneKeys = RowCache<Name, Int64>()
  var mirrors = RowCache<Int64, CachedRow<StoredMirror>>()
  var mirrorKeys = RowCache<Name, Int64>()
  var symbols = RowCache<String, Int64>()

  /// Keys of rows that may be dirty. A key can appear twice or belong to a clean row.
  var dirtyDatabases: [Int64] = []
  var dirtyZones: [Int64] = []
  var dirtyMirrors: [Int64] = []

  mutating func keepChanges() {
    databases.keepChanges()
    databaseKeys.keepChanges()
    zones.keepChanges()
    zoneKeys.keepChanges()
    mirrors.keepChanges()
    mirrorKeys.keepChanges()
    symbols.keepChanges()
  }

  mutating func undoChanges() {
    databases.undoChanges()
    databaseKeys.undoChanges()
    zones.undoChanges()
    zoneKeys.undoChanges()
    mirrors.undoChanges()
    mirrorKeys.undoChanges()
    symbols.undoChanges()
  }

  /// Drops all rows when there are too many, which bounds the memory of a shard with millions of zones. All rows must
  /// be written.
  mutating func trim(to limit: Int) {
    dirtyDatabases.removeAll(keepingCapacity: true)
    dirtyZones.removeAll(keepingCapacity: true)
    dirtyMirrors.removeAll(keepingCapacity: true)
    if databases.count + zones.count + mirrors.count + symbols.count > limit {
      databases.removeAll()
      databaseKeys.removeAll()
      zones.removeAll()
      zoneKeys.removeAll()
      mirrors.removeAll()
      mirrorKeys.removeAll()
      symbols.removeAll()
    }
  }
}
