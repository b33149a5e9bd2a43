// Objects that the server is asked for one by one, since a transaction that changed them was refused.

import MirrorWire
import SQLite

struct RereadList {
  private let snapshot: Snapshot
  private var connection: Connection { snapshot.connection }

  init(_ snapshot: Snapshot) { self.snapshot = snapshot }

  func add(_ objects: [AnyObjectID]) throws {
    for object in objects {
      guard let found = try snapshot.find(object.recordName) else { continue }
      try connection.statement(Self.insert).binding(found.key).run()
    }
  }

  func remove(_ object: AnyObjectID) throws {
    guard let found = try snapshot.find(object.recordName) else { return }
    try connection.statement(Self.delete).binding(found.key).run()
  }

  /// Those that no waiting save names: what the server answers later has such a save, and nobody else tells of it.
  func objects(_ limit: Int) throws -> [AnyObjectID] {
    let listed = try connection.statement(Self.select).all { row in
      AnyObjectID(
        entityName: snapshot.schema.entitiesByKey[row.int64(1)]?.name ?? "", recordName: RecordName.read(row, 0))
    }
    if listed.isEmpty { return [] }
    let waiting = try waitingNames()
    return Array(listed.lazy.filter { !waiting.contains($0.recordName) }.prefix(limit))
  }

  private func waitingNames() throws -> Set<String> {
    var names: Set<String> = []
    try connection.statement(Self.bodies).forEach { row in
      guard let transaction = try? Transaction(json: row.blob(0)) else {
        throw StoreError.damaged("a transaction of the outbox can't be read")
      }
      for change in transaction.changes {
        names.insert(change.objectID)
        for case .toManyEdits(let add, let remove) in (change.relationships ?? [:]).values {
          names.formUnion(add + remove)
        }
      }
    }
    return names
  }

  private static let insert = SQL("add reread", "INSERT OR IGNORE INTO reread(object) VALUES (?)")
  private static let delete = SQL("remove reread", "DELETE FROM reread WHERE object = ?")
  private static let select = SQL(
    "rereads", "SELECT o.name, o.entity FROM reread r JOIN object o ON o._pk = r.object ORDER BY r.object")
  private static let bodies = SQL("waiting bodies", "SELECT body FROM outbox ORDER BY key")
}
