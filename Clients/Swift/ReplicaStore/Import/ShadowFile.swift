// The second file of a reset: pages go there, and the store changes in one commit when the reset is done (K13).

import FoundationEssentials
import MirrorWire
import SQLite

/// A file with the same tables, which nobody reads. It is made anew with each reset and each opening of the store.
final class ShadowFile {
  private let path: String
  private let connection: Connection
  private let snapshot: Snapshot
  private let tables: ObjectTables
  private let contents: ContentFolder

  init(
    beside storePath: String, _ model: ManagedObjectModel, _ configuration: ReplicaConfiguration,
    _ contents: ContentFolder
  ) throws {
    path = "\(storePath)-reset"
    self.contents = contents
    Self.removeFiles(path)
    connection = try Connection(shared: path, mode: .readWrite)
    try connection.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF")
    try connection.defineTextFunctions()
    let schema = try connection.transaction { [connection] in
      try connection.execute(Tables.common)
      let schema = try SchemaBuilder(
        model: model, configuration: configuration.configuration, keys: FileKeys(connection, canAdd: true)
      ).build()
      for root in schema.roots { for sql in Tables.create(root, in: schema) { try connection.execute(sql) } }
      for sql in schema.links.flatMap(Tables.create) { try connection.execute(sql) }
      return schema
    }
    snapshot = Snapshot(connection, schema, contents: contents)
    tables = ObjectTables(connection, schema)
  }

  func remove() {
    connection.close()
    Self.removeFiles(path)
  }

  static func removeFiles(_ path: String) {
    for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + suffix) }
  }

  /// - Returns: zones whose shares are to be fetched.
  func apply(_ body: (PageApplication) throws -> Void, now: Int64) throws -> PageApplication {
    let application = try PageApplication(snapshot, tables, nil, contents, now: now)
    try connection.transaction { try body(application) }
    if connection.logPageCount > 4000 { try connection.checkpoint(.passive) }
    return application
  }

  /// The bytes of a content that a row of this file names.
  func byteCount(ofContent checksum: String) throws -> Int64? {
    try connection.statement(ContentSweep.named).binding(checksum).first { $0.int64(0) }
  }

  // MARK: Swap

  /// Makes the store what this file is, but for what is pending.
  func swap(into store: PageApplication) throws {
    let seen = store.tables.connection
    try seen.execute("CREATE TEMP TABLE IF NOT EXISTS seen(key INTEGER PRIMARY KEY); DELETE FROM seen")
    for entity in snapshot.schema.all where !entity.isAbstract { try swap(entity, into: store) }
    try deleteUnseen(store)
    for link in store.schema.links { try swap(link, into: store) }
    try noteContents(in: store)
    try seen.execute("DELETE FROM seen")
  }

  private func swap(_ own: EntityPlan, into store: PageApplication) throws {
    let entity = try store.schema.entity(own.name)
    let columns = own.columns.map { $0.isStored ? "e.\($0.quoted)" : "NULL" }
    let statement = try connection.prepare(
      SQL(
        "shadow rows",
        """
        SELECT o.name, o.tag, z.zoneName, z.ownerRecordName\(columns.map { ", " + $0 }.joined()) FROM object o \
        JOIN \(own.table) e ON e._pk = o._pk LEFT JOIN zone z ON z.key = o.zone WHERE o.state = 1 AND o.entity = ? \
        ORDER BY o._pk
        """))
    try statement.bind(1, own.key)
    try statement.forEach { row in
      let name = RecordName.read(row, 0)
      let zone = try row.optionalText(2).map {
        try store.zone(ZoneID(zoneName: $0, ownerRecordName: row.text(3).isEmpty ? nil : row.text(3)))
      }
      let values = try own.columns.enumerated().map { place, column throws -> Literal? in
        let value = row.literal(Int32(place + 4))
        if !column.isMirrored { return nil }
        guard let relationship = column.toOne, case .integer(let key) = value,
          let (target, _) = try snapshot.object(key)
        else { return value }
        return try store.pointer(to: target.recordName, try store.schema.entity(relationship.destination))
      }
      try store.store(name, entity, zone: zone, tag: row.optionalText(1), values)
      if let key = try store.snapshot.find(name)?.key {
        try store.tables.connection.statement(Self.see).binding(key).run()
      }
    }
  }

  /// Tells the store where the contents of its objects are. Those that wait to be sent are here.
  private func noteContents(in store: PageApplication) throws {
    let isSent = try store.tables.connection.statement(Self.isSent)
    try connection.prepare(Self.contents).forEach { row in
      if try isSent.binding(row.text(0)).first({ $0.bool(0) }) == false { return }
      try store.noteContent(
        ContentName(checksum: row.text(0), byteCount: row.int64(1)), row.optionalText(2),
        until: row.optionalInt64(3), owner: row.isNull(4) ? nil : RecordName.read(row, 4))
    }
  }

  /// Deletes what the server does not have, and was not made here since, is sent again or lies in a paused zone.
  private func deleteUnseen(_ store: PageApplication) throws {
    let objects = try store.tables.connection.statement(Self.unseen).all { row in
      FoundObject(key: row.int64(0), entity: row.int64(1), zone: nil, state: Tables.State.here)
    }
    try store.delete(objects)
  }

  private func swap(_ link: LinkTable, into store: PageApplication) throws {
    let entity = try store.schema.entity(link.firstEntity)
    let relationship = try store.schema.toMany(link.firstRelationship, of: entity)
    let destination = try store.schema.entity(relationship.destination)
    var kept: Set<Pair> = []
    let rows = try connection.prepare(
      SQL(
        "shadow pairs",
        "SELECT a.name, b.name FROM \(link.table) l JOIN object a ON a._pk = l.a "
          + "JOIN object b ON b._pk = l.b ORDER BY l.a, l.b"
      ))
    try rows.forEach { row in
      let a = try store.tables.key(of: RecordName.read(row, 0), entity)
      let b = try store.tables.key(of: RecordName.read(row, 1), destination)
      guard !link.isSymmetric || a <= b else { return }
      let pair = Pair(link: link, a: a, b: b)
      kept.insert(pair)
      try store.setPair(pair, isLinked: true)
    }
    let current = try store.tables.connection.prepare(SQL("pairs", "SELECT a, b FROM \(link.table) ORDER BY a, b")).all
    { row in
      Pair(link: link, a: row.int64(0), b: row.int64(1))
    }
    for pair in current where !kept.contains(pair) && (!link.isSymmetric || pair.a <= pair.b) {
      if try !store.isSentAgain(pair), try !store.isPaused(pair) { try store.setPair(pair, isLinked: false) }
    }
  }

  private static let see = SQL("see", "INSERT OR IGNORE INTO seen(key) VALUES (?)")
  private static let unseen = SQL(
    "unseen",
    "SELECT o._pk, o.entity FROM object o WHERE o.state = 1 AND NOT EXISTS (SELECT 1 FROM seen WHERE key = o._pk) "
      + "AND NOT EXISTS (SELECT 1 FROM pending p WHERE p.object = o._pk AND p.property = \(Pending.wholeObject)) "
      + "AND NOT EXISTS (SELECT 1 FROM sentAgain s WHERE s.object = o._pk) "
      + "AND NOT EXISTS (SELECT 1 FROM zone z WHERE \(PageApplication.isPaused)) ORDER BY o._pk")
  private static let isSent = SQL("is content sent", "SELECT isAtServer FROM content WHERE checksum = ?")
  private static let contents = SQL(
    "shadow contents",
    "SELECT c.checksum, c.byteCount, c.downloadURL, c.expiry, o.name FROM content c LEFT JOIN object o "
      + "ON o._pk = c.owner ORDER BY c.checksum")
}
