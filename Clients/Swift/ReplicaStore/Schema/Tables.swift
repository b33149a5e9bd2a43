// The tables of a store's file.

import SQLite

enum Tables {
  /// The format of the tables that do not depend on the model. A file of a later format is refused.
  static let format: Int64 = 6

  /// A row a transaction; `changes` are `PackedChanges`.
  static let history = """
    CREATE TABLE history(number INTEGER PRIMARY KEY, timestamp INTEGER NOT NULL, author INTEGER, contextName INTEGER,
      bundleID INTEGER, processID INTEGER, changes BLOB NOT NULL);
    """

  /// `body` is the last column, because a large one continues on pages of its own.
  static let outbox = """
    CREATE TABLE outbox(key INTEGER PRIMARY KEY, number INTEGER NOT NULL, batch INTEGER, batchLimit INTEGER,
      savedCount INTEGER NOT NULL, deletedCount INTEGER NOT NULL, body BLOB NOT NULL);
    CREATE TABLE exported(key INTEGER PRIMARY KEY, number INTEGER NOT NULL, savedCount INTEGER NOT NULL,
      deletedCount INTEGER NOT NULL, at INTEGER NOT NULL, byteCount INTEGER NOT NULL, body BLOB NOT NULL);
    """

  /// A mark for each save that tells a property or pair: `number` is the key of its row of the outbox, or below 0
  /// that of a kept save's transaction. Each save has its own, so that none of them takes another's along.
  static let pending = """
    CREATE TABLE pending(object INTEGER NOT NULL, property INTEGER NOT NULL, target INTEGER NOT NULL DEFAULT 0,
      number INTEGER NOT NULL, PRIMARY KEY(object, property, target, number)) WITHOUT ROWID;
    """

  /// Objects of ended zones that wait to be sent again, with the row of the outbox that has them: apart from `pending`,
  /// because they may be all objects of the store.
  static let sentAgain = """
    CREATE TABLE sentAgain(object INTEGER PRIMARY KEY, number INTEGER NOT NULL);
    CREATE INDEX sentAgain_number ON sentAgain(number);
    \(endedZone)
    """

  /// Ended zones whose objects are not all in the outbox yet: the last object that is, the last that the zone had, and
  /// the row of the outbox behind which the next ones go. Nearly always empty, because each save looks at it.
  private static let endedZone = """
    CREATE TABLE endedZone(zone INTEGER PRIMARY KEY, after INTEGER NOT NULL, last INTEGER NOT NULL,
      key INTEGER NOT NULL);
    """

  static let common = """
    CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE entity(key INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    CREATE TABLE property(key INTEGER PRIMARY KEY, root TEXT NOT NULL, name TEXT NOT NULL, UNIQUE(root, name));
    CREATE TABLE word(key INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
    CREATE TABLE zone(key INTEGER PRIMARY KEY, zoneName TEXT NOT NULL, ownerRecordName TEXT NOT NULL, share BLOB,
      permission INTEGER NOT NULL DEFAULT 3, isPaused INTEGER NOT NULL DEFAULT 0, UNIQUE(zoneName, ownerRecordName));
    CREATE TABLE object(_pk INTEGER PRIMARY KEY, name NOT NULL UNIQUE, entity INTEGER NOT NULL, zone INTEGER,
      tag TEXT, state INTEGER NOT NULL);
    CREATE TABLE permission(object INTEGER PRIMARY KEY, canUpdate INTEGER NOT NULL, canDelete INTEGER NOT NULL);
    \(history)
    CREATE TABLE consumer(name TEXT PRIMARY KEY, number INTEGER NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID;
    \(outbox)
    \(pending)
    \(sentAgain)
    CREATE TABLE rejected(identifier TEXT PRIMARY KEY, number INTEGER NOT NULL, body BLOB NOT NULL, error BLOB NOT NULL,
      isConsequence INTEGER NOT NULL, at INTEGER NOT NULL, isDecided INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
    CREATE TABLE reread(object INTEGER PRIMARY KEY);
    CREATE TABLE event(number INTEGER PRIMARY KEY AUTOINCREMENT, identifier TEXT NOT NULL UNIQUE,
      kind INTEGER NOT NULL, startDate INTEGER NOT NULL,
      body BLOB NOT NULL);
    CREATE TABLE content(checksum TEXT PRIMARY KEY, byteCount INTEGER NOT NULL, downloadURL TEXT, expiry INTEGER,
      receipt BLOB,
      receiptExpiry INTEGER, isHere INTEGER NOT NULL, isAtServer INTEGER NOT NULL, usedAt INTEGER NOT NULL,
      owner INTEGER) WITHOUT ROWID;
    """

  /// An object's `state`.
  enum State {
    /// A pointer or pair has named it.
    static let named: Int64 = 0
    static let here: Int64 = 1
    static let deleted: Int64 = 2
  }

  /// Statements that make the table of a root entity, with the columns of its subentities.
  static func create(_ root: EntityPlan, in schema: StoreSchema, named table: String? = nil) -> [String] {
    let columns = columns(of: root, in: schema)
    let definitions = ["_pk INTEGER PRIMARY KEY"] + columns.map { "\($0.quoted) \(type($0))" }
    return ["CREATE TABLE \(table ?? root.table)(\(definitions.joined(separator: ", ")))"]
  }

  static func indexes(of root: EntityPlan, in schema: StoreSchema) -> [String] {
    var statements = columns(of: root, in: schema).filter { $0.toOne != nil }
      .map {
        """
        CREATE INDEX \("i_\(root.name)_\($0.name)".quoted) ON \(root.table)(\($0.quoted)) WHERE \($0.quoted) IS NOT NULL
        """
      }
    for entity in schema.all where entity.rootName == root.name {
      for (place, index) in (schema.model.entities.first { $0.name == entity.name }?.fetchIndexes ?? []).enumerated() {
        let columns = index.compactMap { entity.column($0) }.filter(\.isStored)
        if columns.isEmpty { continue }
        statements.append(
          """
          CREATE INDEX \("f_\(entity.name)_\(place)".quoted) ON \
          \(root.table)(\(columns.map(\.quoted).joined(separator: ", ")))
          """
        )
      }
    }
    return statements
  }

  static func create(_ link: LinkTable) -> [String] {
    [
      "CREATE TABLE \(link.table)(a INTEGER, b INTEGER, PRIMARY KEY(a, b)) WITHOUT ROWID",
      "CREATE INDEX \("\(link.table.dropFirst().dropLast())_b".quoted) ON \(link.table)(b, a)",
    ]
  }

  /// The stored columns of a root entity and its subentities, each once.
  static func columns(of root: EntityPlan, in schema: StoreSchema) -> [Column] {
    var columns: [Column] = []
    var names: Set<String> = []
    for entity in [root] + schema.all.filter({ $0.rootName == root.name && $0.name != root.name }) {
      for column in entity.columns where column.isStored && names.insert(column.name).inserted {
        columns.append(column)
      }
    }
    return columns
  }

  private static func type(_ column: Column) -> String {
    guard let attribute = column.attribute else { return "INTEGER" }
    return switch attribute.type {
    case .integer16, .integer32, .integer64, .boolean, .date: "INTEGER"
    case .double, .float: "REAL"
    case .decimal, .uuid, .uri, .string, .composite: "TEXT"
    case .binary, .transformable: attribute.traits.contains(.external) ? "TEXT" : "BLOB"
    }
  }
}
