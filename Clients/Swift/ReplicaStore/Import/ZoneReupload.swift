// Sends the objects of a zone that ended again, so that the next export makes the zone and its records anew.

import FoundationEssentials
import MirrorWire
import SQLite

/// The inserts of a zone's objects, as transactions of their own: one that the server refuses takes no other along.
/// They give the server only what it lacks, so several devices may send one object. Not Sendable: it lives within the
/// writer's transaction.
struct ZoneReupload {
  private let writer: Writer
  private let application: PageApplication
  private let importToken: String?
  private(set) var result = Result()
  /// Of the next row of the outbox; nil: behind all that waits.
  private var nextKey: Int64?
  private var changes: [ChangeText] = []
  private var objects: Set<Int64> = []
  private var byteCount = 0
  private var tables: ObjectTables { writer.tables }
  private var connection: Connection { writer.connection }

  /// The outcome of putting objects into the outbox.
  struct Result: Sendable {
    var isEmpty = true
    /// Of external attributes whose contents only the server had.
    var errors: [MirrorEvent.ObjectError] = []

    mutating func add(_ other: Result) {
      isEmpty = isEmpty && other.isEmpty
      errors += other.errors.prefix(ZoneReupload.errorLimit - errors.count)
    }
  }

  /// Objects of one commit.
  private static let pageCount = 1000
  /// The keys of the outbox that a zone's objects have before those of later saves.
  static let keyCount: Int64 = 1 << 32
  /// Pairs of one change: a tag with 100 000 photos fits no request.
  private static let pairLimit = 1000
  private static let errorLimit = 1000

  /// - Parameter importToken: of the page that tells the end; nil: a reset has begun since.
  init(_ writer: Writer, _ application: PageApplication, importToken: String?) {
    self.writer = writer
    self.application = application
    self.importToken = importToken
  }

  /// Puts the objects behind all that waits. Those that are new, or wait to be sent again already, are left out.
  mutating func insertObjects(of zoneID: ZoneID) throws {
    let (zone, isHome) = (try application.zone(zoneID), zoneID.zoneName == ZoneID.homeName)
    var last: Int64? = 0
    while let after = last { last = try insertPage(of: zone, isHome: isHome, from: after, to: .max) }
    try enqueue()
  }

  /// - Returns: the last object; nil: there are no more.
  private mutating func insertPage(of zone: Int64, isHome: Bool, from after: Int64, to last: Int64) throws -> Int64? {
    let page = try connection.statement(Self.page).binding(zone, isHome, after, last, Self.pageCount).all { row in
      (key: row.int64(0), entity: row.int64(1))
    }
    for (key, entity) in page { if let entity = writer.schema.entitiesByKey[entity] { try insert(key, entity) } }
    return page.last?.key
  }

  // MARK: Purges

  /// Takes the objects of a purged zone out of what waits to be sent again, or was refused. Other objects of their rows
  /// stay: another device may have moved an object here from the zone that ended.
  static func drop(_ zone: Int64, isHome: Bool, _ snapshot: Snapshot, _ tables: ObjectTables) throws {
    let connection = tables.connection
    try forget(zone, connection)
    guard try connection.statement(isMarked).binding(zone, isHome).first({ _ in true }) != nil else { return }
    let pending = try PendingEdits(connection)
    // An object with many pairs is in several rows, and its mark names the last one, so all rows are read.
    for table in [Rows.waiting, .rejected] {
      for (row, number) in try connection.statement(table.keys).all({ ($0.text(0), $0.int64(1)) }) {
        guard let body = try connection.statement(table.body).binding(row).first({ $0.blob(0) }),
          var transaction = try? Transaction(json: body)
        else { throw StoreError.damaged("a transaction of the outbox can't be read") }
        guard transaction.author == MirroringAuthor.reupload else { continue }
        let marks = PendingMarks(tables, number: number, of: transaction)
        let count = transaction.changes.count
        try transaction.changes.removeAll { change in
          // One that came with another account's objects is new here, and stays.
          guard let found = try snapshot.find(change.objectID), try !pending.isNew(found.key),
            found.zone == zone || isHome && found.zone == nil
          else { return false }
          try marks.remove(change)
          return true
        }
        if transaction.changes.isEmpty {
          try connection.statement(table.drop).binding(row).run()
        } else if transaction.changes.count < count {
          try connection.statement(table.setBody).binding(row, try transaction.json(), transaction.changes.count).run()
        }
      }
    }
    try connection.statement(dropMarks).binding(zone, isHome).run()
  }

  /// The statements of a table of transactions: the outbox, or the rejected ones.
  private struct Rows {
    /// With the numbers of their marks.
    let keys: SQL
    let body: SQL
    let drop: SQL
    let setBody: SQL

    static let waiting = Rows("outbox", key: "key", number: "key", count: "savedCount")
    static let rejected = Rows("rejected", key: "identifier", number: "-number", count: nil)

    private init(_ table: String, key: String, number: String, count: String?) {
      keys = SQL("keys of \(table)", "SELECT \(key), \(number) FROM \(table) ORDER BY \(key)")
      body = SQL("body of \(table)", "SELECT body FROM \(table) WHERE \(key) = ?")
      drop = SQL("drop from \(table)", "DELETE FROM \(table) WHERE \(key) = ?")
      let counts = count.map { ", \($0) = ?3" } ?? ""
      // Each takes three values; a refused transaction has no count.
      setBody = SQL("shorten \(table)", "UPDATE \(table) SET body = ?2\(counts) WHERE \(key) = ?1 AND ?3 > 0")
    }
  }

  // MARK: Slices

  /// Notes that the objects that the zone has now are to be sent again, before all saves that are made from now on.
  static func begin(_ zone: Int64, _ connection: Connection) throws {
    try connection.statement(start).binding(zone, try Outbox.lastKey(connection)).run()
  }

  /// Objects of an ended zone are gone that are not in the outbox yet.
  static func forget(_ zone: Int64, _ connection: Connection) throws {
    try connection.statement(forget).binding(zone).run()
  }

  /// Puts the next objects of a zone into the outbox.
  /// - Returns: nil: no zone's objects are left.
  static func nextSlice(_ writer: Writer, _ outcome: inout Writer.Outcome) throws -> Result? {
    let connection = writer.connection
    let found = try connection.statement(begun).first { row in
      (
        zone: row.int64(0), isHome: row.text(1) == ZoneID.homeName, after: row.int64(2), last: row.int64(3),
        key: row.int64(4)
      )
    }
    guard let found else { return nil }
    let history = HistoryWriter(connection, number: writer.lastNumber + 1)
    let application = try PageApplication(writer.snapshot, writer.tables, history, writer.contents, now: writer.now)
    var reupload = ZoneReupload(writer, application, importToken: writer.position.importToken)
    reupload.nextKey = found.key + 1
    let end = try reupload.insertPage(of: found.zone, isHome: found.isHome, from: found.after, to: found.last)
    try reupload.enqueue()
    if let end, let next = reupload.nextKey {
      try connection.statement(goOn).binding(found.zone, end, next - 1).run()
    } else {
      try forget(found.zone, connection)
    }
    try writer.finish(history, author: MirroringAuthor.importing, application, &outcome)
    outcome.hasExports = !reupload.result.isEmpty
    return reupload.result
  }

  private mutating func insert(_ key: Int64, _ entity: EntityPlan) throws {
    guard let (id, found) = try writer.snapshot.object(key) else { return }
    let edit = Edit(key: key, id: id, entity: entity, zone: found.zone, kind: .insert)
    let values = try tables.values(of: entity, key)
    for (place, column) in entity.columns.enumerated() where column.isStored && values[place] != .null {
      if column.toOne != nil {
        // Also of a target that has not arrived: another device may send it.
        guard case .integer(let target) = values[place], let (name, _) = try named(target) else { continue }
        edit.note(place, from: .null, to: .object(name.recordName))
      } else if !column.isExternal {
        edit.note(place, from: .null, to: values[place])
      } else if case .text(let text) = values[place], let name = ContentName(text), try keep(name) {
        edit.note(place, from: .null, to: values[place])
      } else {
        try application.clear(place, of: entity, key)
        note(id, column)
      }
    }
    let pairs = try pairs(key, entity)
    try add(edit, Array(pairs.prefix(Self.pairLimit)))
    for start in stride(from: Self.pairLimit, to: pairs.count, by: Self.pairLimit) {
      let rest = Edit(key: key, id: id, entity: entity, zone: found.zone, kind: .update)
      try add(rest, Array(pairs[start..<min(start + Self.pairLimit, pairs.count)]))
    }
  }

  private func named(_ key: Int64) throws -> (id: AnyObjectID, found: FoundObject)? {
    try writer.snapshot.object(key).flatMap { $0.found.state == Tables.State.deleted ? nil : $0 }
  }

  /// The pairs that the object's change tells: each pair is told from one end.
  private func pairs(_ key: Int64, _ entity: EntityPlan) throws -> [PairEdit] {
    var pairs: [PairEdit] = []
    for relationship in entity.toMany.values.sorted(by: { $0.name < $1.name }) {
      guard case .link(let link, let isFirst) = relationship.storage, isFirst || link.isSymmetric else { continue }
      let destination = try writer.schema.entity(relationship.destination)
      for member in try tables.members(of: relationship, entity, key, destination) {
        guard !link.isSymmetric || key <= member, let (target, _) = try named(member) else { continue }
        pairs.append(PairEdit(isLinked: true, owner: key, relationship: relationship, target: target))
      }
    }
    return pairs
  }

  // MARK: Contents

  /// The server's copy went with the zone, so the one here stays until it is sent.
  /// - Returns: false: the content is not here.
  private func keep(_ name: ContentName) throws -> Bool {
    guard writer.contents.localPath(of: name) != nil else { return false }
    try connection.statement(Self.keepContent).binding(name.checksum).run()
    return true
  }

  private mutating func note(_ id: AnyObjectID, _ column: Column) {
    if result.errors.count < Self.errorLimit {
      result.errors.append(MirrorEvent.ObjectError(id, withoutContentOf: column, "went with its zone"))
    }
  }

  // MARK: Transactions

  private mutating func add(_ edit: Edit, _ pairs: [PairEdit]) throws {
    guard let change = TransactionText.change(edit, pairs) else { return }
    let isFull =
      changes.count == TransactionText.changeLimit || byteCount + change.bytes.count > TransactionText.byteLimit
    if isFull { try enqueue() }
    changes.append(change)
    objects.insert(edit.key)
    byteCount += change.bytes.count
  }

  private mutating func enqueue() throws {
    if changes.isEmpty { return }
    let header = TransactionHeader(
      transactionID: writer.configuration.makeIdentifier().uuidString, timestamp: writer.now,
      author: MirroringAuthor.reupload, contextName: nil, bundleID: writer.configuration.bundleID,
      processID: writer.configuration.processID, importToken: importToken)
    for part in TransactionText.parts(header, changes) {
      // No history tells of it: nothing changes here.
      let key = try nextKey ?? Outbox.lastKey(connection) + 1
      let row = try Outbox.add(part, of: writer.lastNumber, at: key, connection)
      if nextKey != nil { nextKey = key + 1 }
      for object in objects.sorted() { try connection.statement(Self.mark).binding(object, row).run() }
    }
    (changes, objects, byteCount, result.isEmpty) = ([], [], 0, false)
  }

  private static let page = SQL(
    "objects to send again",
    """
    SELECT o._pk, o.entity FROM object o WHERE o.state = 1 AND o._pk > ?3 AND o._pk <= ?4 \
    AND (o.zone = ?1 OR ?2 AND o.zone IS NULL) \
    AND NOT EXISTS (SELECT 1 FROM pending p WHERE p.object = o._pk AND p.property = \(Pending.wholeObject)) \
    AND NOT EXISTS (SELECT 1 FROM sentAgain s WHERE s.object = o._pk) ORDER BY o._pk LIMIT ?5
    """)
  private static let mark = SQL("mark sent again", "INSERT OR REPLACE INTO sentAgain(object, number) VALUES (?, ?)")
  private static let start = SQL(
    "begin sending again",
    "INSERT OR REPLACE INTO endedZone(zone, after, last, key) SELECT ?1, 0, coalesce(max(_pk), 0), ?2 FROM object")
  private static let begun = SQL(
    "zone to send again",
    """
    SELECT e.zone, z.zoneName, e.after, e.last, e.key FROM endedZone e JOIN zone z ON z.key = e.zone \
    ORDER BY e.key LIMIT 1
    """)
  private static let forget = SQL("end sending again", "DELETE FROM endedZone WHERE zone = ?")
  private static let goOn = SQL("go on", "UPDATE endedZone SET after = ?2, key = ?3 WHERE zone = ?1")
  private static let ofZone = "object IN (SELECT _pk FROM object WHERE zone = ?1 OR ?2 AND zone IS NULL)"
  private static let isMarked = SQL("is sent again of zone", "SELECT 1 FROM sentAgain WHERE \(ofZone) LIMIT 1")
  private static let dropMarks = SQL("drop marks of reupload", "DELETE FROM sentAgain WHERE \(ofZone)")
  private static let keepContent = SQL(
    "keep content until it is sent",
    "UPDATE content SET isAtServer = 0, downloadURL = NULL, expiry = NULL, receipt = NULL, receiptExpiry = NULL "
      + "WHERE checksum = ?")
}
