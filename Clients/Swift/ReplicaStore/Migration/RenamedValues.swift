// Sends the values of renamed attributes: each name is a field of its own at the server, which moves no values.

import FoundationEssentials
import SQLite

/// The values go as inserts by the author `reupload`, which give the server only what it lacks: several devices
/// migrate, and somebody may have edited the new field before. Until they are sent they are the user's, since pages
/// tell that the field is empty.
struct RenamedValues {
  private let connection: Connection
  private let mapping: ModelMapping
  private let schema: StoreSchema
  private let configuration: ReplicaConfiguration
  private let importToken: String?

  /// Objects of one transaction.
  private static let pageCount = 1000

  init(
    _ connection: Connection, _ mapping: ModelMapping, _ schema: StoreSchema, _ configuration: ReplicaConfiguration,
    importToken: String?
  ) {
    self.connection = connection
    self.mapping = mapping
    self.schema = schema
    self.configuration = configuration
    self.importToken = importToken
  }

  /// Puts the values into the outbox, behind all that waits.
  func send() throws {
    // Records of a renamed entity are of another type.
    for entity in schema.all where !entity.isAbstract && mapping.earlierEntity(entity.name) == entity.name {
      let places = entity.columns.indices.filter { place in
        let column = entity.columns[place]
        guard column.attribute != nil, column.isMirrored else { return false }
        return mapping.earlierProperty(column.name, of: entity.name).map { $0 != column.name } ?? false
      }
      guard !places.isEmpty else { continue }
      var last: Int64? = 0
      while let after = last { last = try sendPage(of: entity, places, after: after) }
    }
  }

  /// - Returns: the last object; nil: there are no more.
  private func sendPage(of entity: EntityPlan, _ places: [Int], after: Int64) throws -> Int64? {
    let snapshot = Snapshot(connection, schema, contents: nil)
    let rights = CachedRights(connection)
    let keys = try connection.statement(Self.page).binding(entity.key, after, Self.pageCount).all { $0.int64(0) }
    var changes: [ChangeText] = []
    var marks: [(object: Int64, property: Int64)] = []
    for key in keys {
      guard let (id, found) = try snapshot.object(key), try rights.of(key, zone: found.zone).canUpdate else { continue }
      let pending = try PendingEdits(connection).properties(key)
      let values = try ObjectTables(connection, schema).values(of: entity, key)
      let edit = Edit(key: key, id: id, entity: entity, zone: found.zone, kind: .insert)
      for place in places where values[place] != .null && !pending.contains(entity.columns[place].key) {
        edit.note(place, from: .null, to: values[place])
        marks.append((key, entity.columns[place].key))
      }
      if !edit.changed.isEmpty, let change = TransactionText.change(edit, []) { changes.append(change) }
    }
    try enqueue(changes, marks)
    return keys.last
  }

  private func enqueue(_ changes: [ChangeText], _ marks: [(object: Int64, property: Int64)]) throws {
    guard !changes.isEmpty else { return }
    let header = TransactionHeader(
      transactionID: configuration.makeIdentifier().uuidString, timestamp: configuration.now().milliseconds,
      author: MirroringAuthor.reupload, contextName: nil, bundleID: configuration.bundleID,
      processID: configuration.processID, importToken: importToken)
    // No history tells of it: the objects are as they were.
    let number = try StoreOpening.lastNumber(connection)
    var last: Int64 = 0
    for part in TransactionText.parts(header, changes) { last = try Outbox.add(part, of: number, connection) }
    for mark in marks { try connection.statement(Self.mark).binding(mark.object, mark.property, last).run() }
  }

  /// A new object goes with its values, and one of a paused zone once somebody has decided.
  private static let page = SQL(
    "objects with renamed values",
    """
    SELECT o._pk FROM object o WHERE o.entity = ?1 AND o.state = 1 AND o._pk > ?2 \
    AND NOT EXISTS (SELECT 1 FROM pending p WHERE p.object = o._pk AND p.property = \(Pending.wholeObject)) \
    AND NOT EXISTS (SELECT 1 FROM zone z WHERE \(PageApplication.isPaused)) ORDER BY o._pk LIMIT ?3
    """)
  private static let mark = SQL(
    "pend renamed value", "INSERT OR IGNORE INTO pending(object, property, target, number) VALUES (?, ?, 0, ?)")
}
