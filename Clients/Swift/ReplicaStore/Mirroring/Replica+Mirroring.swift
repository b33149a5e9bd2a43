// Positions, figures, events, zones and permissions, as mirroring asks for them.

package import FoundationEssentials
package import MirrorWire
import SQLite

extension Replica: MirroredStore {
  package func position() async throws(StoreError) -> MirrorPosition {
    do { return try await writer.run { $0.position } } catch { throw storeError(error) }
  }

  package func updatePosition(_ change: @escaping @Sendable (inout MirrorPosition) -> Void) async throws(StoreError) {
    try await write { writer, outcome in
      var position = writer.position
      change(&position)
      outcome.position = position
    }
  }

  /// Makes the file a user's.
  /// - Parameter user: by record name.
  /// - Throws: `damaged`: it has the objects of somebody else.
  package func assign(to user: String) async throws(StoreError) {
    try await write { writer, outcome in
      var position = writer.position
      guard position.account == nil || position.account == user else {
        throw StoreError.damaged("the file has the objects of another account than its user's")
      }
      position.account = user
      outcome.position = position
    }
  }

  /// Mirroring asks several times between two commits; a file that another process writes is read each time.
  package func figures() async throws(StoreError) -> MirrorFigures {
    let (changeCount, known) = hub.figures
    if let known, !configuration.isReadOnly { return known }
    let figures = try await readFigures()
    hub.keep(figures, changeCount: changeCount)
    return figures
  }

  func readFigures() async throws(StoreError) -> MirrorFigures {
    do {
      return try await read { snapshot in
        try snapshot.connection.statement(Self.figures).first { row in
          MirrorFigures(
            pendingTransactions: row.int(0), pendingObjects: row.int(1), pendingByteCount: row.int(2),
            rejectedCount: row.int(3), missingContents: row.int(4),
            objectsToReread: row.int(5))
        } ?? MirrorFigures()
      }
    } catch { throw storeError(error) }
  }

  // MARK: Events

  package func record(_ event: MirrorEvent) async throws(StoreError) {
    try await write { writer, outcome in
      try EventLog(writer.connection).keep(event)
      outcome.changesFigures = false
    }
  }

  package func mirrorEvents(after date: Date?, afterEvent: UUID?, type: MirrorEvent.Kind?) async throws(StoreError)
    -> [MirrorEvent]
  {
    do {
      return try await read { snapshot in
        try EventLog(snapshot.connection).events(after: date, afterEvent: afterEvent, kind: type)
      }
    } catch { throw storeError(error) }
  }

  // MARK: Zones

  package func zones() async throws(StoreError) -> [CachedZone] {
    do {
      return try await read { snapshot in
        try snapshot.connection.statement(Self.zones).all { row in
          CachedZone(
            zoneID: ZoneID(zoneName: row.text(0), ownerRecordName: row.text(1).isEmpty ? nil : row.text(1)),
            share: row.optionalBlob(2).map { Data($0) },
            permission: ZonePermission(rawValue: row.int(3)) ?? .owner, isPaused: row.bool(4), objectCount: row.int(5),
            pendingCount: row.int(6))
        }
      }
    } catch { throw storeError(error) }
  }

  package func cacheShare(_ share: Data?, permission: ZonePermission, of zoneID: ZoneID) async throws(StoreError) {
    try await write { writer, outcome in
      try writer.connection.statement(Self.cacheShare).binding(
        zoneID.zoneName, zoneID.ownerRecordName ?? "", share.map { [UInt8]($0) }, permission.rawValue
      ).run()
      outcome.isImport = true
      outcome.changesShares = true
    }
  }

  package func cachePermissions(_ answer: PermissionsAnswer) async throws(StoreError) {
    try await write { writer, _ in
      for object in answer.objects {
        guard let found = try writer.snapshot.find(object.objectID) else { continue }
        try writer.connection.statement(Self.cachePermission).binding(found.key, object.canUpdate, object.canDelete)
          .run()
      }
    }
  }

  package func zone(of object: AnyObjectID) async throws(StoreError) -> ZoneID? {
    do {
      return try await read { snapshot in
        guard let zone = try snapshot.find(object.recordName)?.zone else { return nil }
        return try snapshot.connection.statement(Self.zoneID).binding(zone).first { row in
          ZoneID(zoneName: row.text(0), ownerRecordName: row.text(1).isEmpty ? nil : row.text(1))
        }
      }
    } catch { throw storeError(error) }
  }

  private static let figures = SQL(
    "figures",
    // An ended zone whose objects are not all in the outbox yet waits as well.
    "SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM endedZone), (SELECT count(*) FROM sentAgain) + "
      + "(SELECT count(DISTINCT object) FROM pending p WHERE NOT EXISTS (SELECT 1 FROM sentAgain s WHERE s.object = "
      + "p.object)), (SELECT coalesce(sum(length(body)), 0) FROM outbox), "
      + "(SELECT count(*) FROM rejected), (SELECT count(*) FROM content WHERE isHere = 0), (SELECT count(*) FROM "
      + "reread)"
  )
  private static let zones = SQL(
    "zones",
    """
    SELECT zoneName, ownerRecordName, share, permission, isPaused,
      (SELECT count(*) FROM object o WHERE o.state = 1 AND (o.zone = z.key OR z.isHome AND o.zone IS NULL)),
      (SELECT count(*) FROM (SELECT object FROM pending UNION SELECT object FROM sentAgain) p
        JOIN object o ON o._pk = p.object WHERE o.zone = z.key OR z.isHome AND o.zone IS NULL)
    FROM (SELECT key, zoneName, ownerRecordName, share, permission, isPaused, zoneName = '\(ZoneID.homeName)' AS isHome
      FROM zone
      -- Own objects lie nowhere as long as the server has told nothing of the default zone.
      UNION ALL SELECT 0, '\(ZoneID.homeName)', '', NULL, \(ZonePermission.owner.rawValue), 0, 1
      WHERE NOT EXISTS (SELECT 1 FROM zone WHERE zoneName = '\(ZoneID.homeName)')
        AND EXISTS (SELECT 1 FROM object WHERE zone IS NULL AND state = 1)) z
    ORDER BY zoneName, ownerRecordName
    """
  )
  private static let cacheShare = SQL(
    "cache share",
    "INSERT INTO zone(zoneName, ownerRecordName, share, permission) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE "
      + "SET share = ?3, permission = ?4"
  )
  private static let cachePermission = SQL(
    "cache permission", "INSERT OR REPLACE INTO permission(object, canUpdate, canDelete) VALUES (?, ?, ?)")
  private static let zoneID = SQL("zone ID", "SELECT zoneName, ownerRecordName FROM zone WHERE key = ?")
}
