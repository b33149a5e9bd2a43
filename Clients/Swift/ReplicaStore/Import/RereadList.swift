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
    try connection.statement(Self.forgetUndone).run()
  }

  /// A refused save is undone or discarded: what kept saves say of the listed objects is shown again once they are
  /// read. Where all are kept the tables show it already.
  func noteUndone() throws { try Meta(connection).set(Self.undone, 1) }

  func hasUndone() throws -> Bool { try Meta(connection).number(Self.undone) != nil }

  /// True if the object is still what the refused transaction made of it, or was changed since.
  func contains(_ name: String) throws -> Bool {
    guard let found = try snapshot.find(name) else { return false }
    return try connection.statement(Self.find).binding(found.key).first { _ in true } ?? false
  }

  /// Those that no waiting save names: what the server answers later has such a save, and nobody else tells of it.
  /// `WaitingSaves` has read all rows.
  func objects(_ limit: Int) throws -> [AnyObjectID] {
    try connection.statement(Self.select).binding(limit).all { row in
      AnyObjectID(
        entityName: snapshot.schema.entitiesByKey[row.int64(1)]?.name ?? "", recordName: RecordName.read(row, 0))
    }
  }

  private static let insert = SQL("add reread", "INSERT OR IGNORE INTO reread(object) VALUES (?)")
  private static let find = SQL("is reread", "SELECT 1 FROM reread WHERE object = ?")
  private static let delete = SQL("remove reread", "DELETE FROM reread WHERE object = ?")
  private static let undone = "undoneRereads"
  private static let forgetUndone = SQL(
    "forget undone", "DELETE FROM meta WHERE key = '\(undone)' AND NOT EXISTS (SELECT 1 FROM reread)")
  private static let select = SQL(
    "rereads",
    "SELECT o.name, o.entity FROM reread r JOIN object o ON o._pk = r.object WHERE NOT "
      + "\(WaitingSaves.isNamed) ORDER BY r.object LIMIT ?")
}
