// Copies the objects of another account's file into a store, so that the user who signed in has them and sends them.

import FoundationEssentials
import MirrorWire
import SQLite

extension Replica {
  /// Inserts the objects of another file of the same model, in one save. Objects that the store has, or that were
  /// deleted in it, stay as they are, so twice is once. An event tells how many came, and which contents are not here.
  /// - Parameter handOver: runs at the end. Nobody saves in the other file from the first object on until it has run.
  package func reupload(
    _ former: Replica, handOver: @escaping @Sendable () throws -> Void = {}
  ) async throws(StoreError) {
    var options = SaveOptions()
    options.author = MirroringAuthor.reupload
    options.areValuesAccepted = true
    do {
      try await former.writer.run { [options, writer, configuration] source in
        try writer.runNow { writer in
          _ = try writer.save(options) { save in
            let start = configuration.now()
            var reupload = Reupload(save)
            try reupload.insertObjects(of: source.snapshot)
            guard !reupload.names.isEmpty else { return }
            try EventLog(save.tables.connection).keep(
              MirrorEvent(
                identifier: configuration.makeIdentifier(), kind: .import, startDate: start,
                endDate: configuration.now(), succeeded: reupload.errors.isEmpty, errors: reupload.errors,
                savedCount: reupload.names.count))
          }
        }
        try handOver()
      }
    } catch { throw storeError(error) }
  }
}

/// Not Sendable: it lives within the save.
private struct Reupload {
  private let save: SaveTransaction
  /// The record names of the objects that come.
  private(set) var names: Set<String> = []
  /// Of external attributes whose contents only the former user's server has.
  private(set) var errors: [MirrorEvent.ObjectError] = []

  private static let errorLimit = 1000

  init(_ save: SaveTransaction) { self.save = save }

  mutating func insertObjects(of source: Snapshot) throws {
    let all = try source.schema.roots.flatMap { root in try source.objectIDs(Query(root.name)) }
    let new = try all.filter { id in (try save.snapshot.find(id.recordName)?.state ?? State.named) == State.named }
    names = Set(new.map(\.recordName))
    for id in new { try insert(id, of: source) }
    for link in source.schema.links { try insertPairs(link, of: source) }
  }

  private typealias State = Tables.State

  private mutating func insert(_ id: AnyObjectID, of source: Snapshot) throws {
    let columns = try save.schema.entity(id.entityName).columns
    var contents: [String: ContentSource] = [:]
    let values = try source.object(id) { row in
      try columns.enumerated().map { place, column in
        let value = row.literal(place + 1, isName: column.toOne != nil)
        if let relationship = column.toOne, case .object(let target) = value {
          return try canLead(to: target, relationship) ? value : .null
        }
        guard column.isExternal, case .text(let text) = value, let name = ContentName(text) else { return value }
        guard let path = row.contents?.localPath(of: name) else {
          note(id, column)
          return .null
        }
        contents[name.checksum] = .file(path: path)
        return value
      }
    }
    if let values { try save.insert(id, values, contents: contents) }
  }

  private mutating func note(_ id: AnyObjectID, _ column: Column) {
    if errors.count < Self.errorLimit {
      errors.append(MirrorEvent.ObjectError(id, withoutContentOf: column, "was not on this device"))
    }
  }

  /// What was not here is not at the new user's either. Objects that they have keep their own one-to-one partners.
  private func canLead(to name: String, _ relationship: RelationshipPlan) throws -> Bool {
    if names.contains(name) { return true }
    return try relationship.isInverseToMany && isReachable(name)
  }

  /// New objects lie in the default zone, and a relationship leads into no other one (134060).
  private func isReachable(_ name: String) throws -> Bool {
    guard let found = try save.snapshot.find(name), found.state == State.here else { return false }
    return try save.tables.connection.statement(Self.elsewhere).binding(found.key).first { _ in true } == nil
  }

  private func insertPairs(_ link: LinkTable, of source: Snapshot) throws {
    let pairs = try source.connection.prepare(
      SQL(
        "pairs of a former account",
        "SELECT a.name, b.name FROM \(link.table) l JOIN object a ON a._pk = l.a JOIN object b ON b._pk = l.b "
          + "WHERE a.state = 1 AND b.state = 1 ORDER BY l.a, l.b"
      )
    ).all { row in (RecordName.read(row, 0), RecordName.read(row, 1)) }
    for (a, b) in pairs where names.contains(a) || names.contains(b) {
      guard try [a, b].allSatisfy({ name in try names.contains(name) || isReachable(name) }),
        let one = try save.snapshot.objectID(named: a), let other = try save.snapshot.objectID(named: b)
      else { continue }
      try save.setPair(link.firstRelationship, of: one, with: other, isLinked: true)
    }
  }

  private static let elsewhere = SQL(
    "is in another zone",
    "SELECT 1 FROM object o JOIN zone z ON z.key = o.zone WHERE o._pk = ? "
      + "AND z.zoneName <> '\(ZoneID.homeName)'"
  )
}
