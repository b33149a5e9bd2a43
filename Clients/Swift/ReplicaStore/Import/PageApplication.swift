// Applies what a page tells to the tables, except where the user's own edits wait to be sent.

import FoundationEssentials
import MirrorWire
import SQLite

/// The changes of one commit that come from the server. Not Sendable: it lives within a transaction.
final class PageApplication {
  let tables: ObjectTables
  let snapshot: Snapshot
  let schema: StoreSchema
  private let history: HistoryWriter?
  private let contents: ContentFolder
  private let now: Int64
  private let pending: PendingEdits
  /// Read when an object is met that somebody edited here.
  private var replay: OutboxReplay?
  private var zones: [ZoneID: Int64] = [:]
  private(set) var savedCount = 0
  private(set) var deletedCount = 0
  private(set) var changedShares: [ZoneID] = []
  private(set) var endedZones: [EndedZone] = []
  private(set) var entityNames: Set<String> = []
  /// Objects that go together. History does not tell that one of them led to another.
  private var leaving: Set<Int64> = []

  /// - Parameter history: nil for a second file, which nobody reads.
  init(_ snapshot: Snapshot, _ tables: ObjectTables, _ history: HistoryWriter?, _ contents: ContentFolder, now: Int64)
    throws
  {
    self.snapshot = snapshot
    self.tables = tables
    self.history = history
    self.contents = contents
    self.now = now
    schema = snapshot.schema
    pending = try PendingEdits(tables.connection)
  }

  func apply(_ change: ImportedChange) throws {
    switch change {
    case .save(let object): try save(object)
    case .delete(_, let objectID, _): try delete(objectID)
    case .link(let link): try setPair(link, isLinked: true)
    case .unlink(let link): try setPair(link, isLinked: false)
    case .move(let objectID, _, let zoneID):
      if let found = try snapshot.find(objectID) {
        try tables.connection.statement(Self.setZone).binding(try zone(zoneID), found.key).run()
      }
    case .zone(let ended): try end(ended)
    case .share(let zoneID): changedShares.append(zoneID)
    }
  }

  // MARK: Objects

  private func save(_ object: ImportedObject) throws {
    // The configuration of this store does not have the entity.
    guard let entity = schema.entities[object.entity] else { return }
    let values = try entity.columns.map { column throws -> Literal? in
      switch column.kind {
      case .toOne(let relationship):
        guard let target = object.relationships[column.name] else { return nil }
        guard let target, let destination = schema.entities[relationship.destination] else { return .null }
        return try pointer(to: target, destination)
      case .attribute(let attribute):
        guard let value = object.attributes[column.name], column.isMirrored else { return nil }
        return try WireValue.literal(value, attribute) { data in try keep(data) }
      }
    }
    try store(object.objectID, entity, zone: try zone(object.zoneID), tag: object.recordChangeTag, values)
    note(object)
  }

  /// The key that a pointer is kept as (K7). The server clears what points to a deletion that it hears of later, and
  /// tells others of it: here such a pointer is none (K6).
  func pointer(to target: String, _ destination: EntityPlan) throws -> Literal {
    let key = try tables.key(of: target, destination)
    return try pending.isDeleted(key) ? .null : .integer(key)
  }

  /// Stores an object as the server has it, but for what is pending (K4, K6).
  /// - Parameter values: of all columns, relationships as keys; nil: not told.
  func store(_ name: String, _ entity: EntityPlan, zone: Int64?, tag: String?, _ values: [Literal?]) throws {
    let found = try snapshot.find(name)
    if let found, try pending.isDeleted(found.key) { return }
    let key: Int64
    if let found, found.state == Tables.State.here, found.entity == entity.key {
      key = found.key
      try update(key, entity, values, but: try userProperties(key, name, entity))
    } else {
      if let found, found.state == Tables.State.here, let other = schema.entitiesByKey[found.entity] {
        try tables.deleteRow(other, found.key)
      }
      key = try tables.makeHere(name, entity, found: found)
      var values = values
      if try !pending.properties(key).isEmpty { try outbox().overlay(name, entity, &values) }
      try tables.insertRow(key, entity) { place in
        values[place] ?? entity.columns[place].attribute.map(WireValue.defaultValue) ?? .null
      }
      if let history {
        try history.change(
          key, .insert, entity.columns.indices.filter { (values[$0] ?? .null) != .null }.map { entity.columns[$0].key })
      }
      noteSaved(entity)
    }
    let place = try tables.connection.statement(Self.placeObject)
    try place.bind(1, zone)
    try place.bind(2, tag)
    try place.bind(3, key)
    try place.run()
  }

  private func noteSaved(_ entity: EntityPlan) {
    savedCount += 1
    entityNames.insert(entity.name)
  }

  private func outbox() throws -> OutboxReplay {
    if let replay { return replay }
    let read = try OutboxReplay(tables, schema)
    replay = read
    return read
  }

  /// The properties that are the user's (K4). Of a new object they are what its insert tells: another device may have
  /// made an object with this name, and the server keeps the rest of it.
  private func userProperties(_ key: Int64, _ name: String, _ entity: EntityPlan) throws -> Set<Int64> {
    let marked = try pending.properties(key)
    return marked.contains(Pending.wholeObject) ? marked.union(try outbox().properties(name, entity)) : marked
  }

  /// Changes the columns of an object that are not as told, but for the user's.
  private func update(_ key: Int64, _ entity: EntityPlan, _ values: [Literal?], but mine: Set<Int64>) throws {
    let current = try tables.values(of: entity, key)
    var changed: [Int] = []
    for (place, column) in entity.columns.enumerated() where column.isStored {
      guard let value = values[place], value != current[place], !mine.contains(column.key) else { continue }
      try tables.set(column, of: entity, key, to: value)
      changed.append(place)
    }
    guard !changed.isEmpty else { return }
    try history?.change(key, .update, changed.map { entity.columns[$0].key })
    noteSaved(entity)
  }

  /// Shows again what kept saves say of an object that was read anew, and that no save names that waits: one that was
  /// made over them was refused, and is undone.
  func showKept(_ name: String) throws {
    guard let found = try snapshot.find(name), let entity = schema.entitiesByKey[found.entity] else { return }
    if try pending.isDeleted(found.key) { return try delete(found) }
    let kept = try OutboxReplay(tables, schema, keptOf: name, found.key)
    var values: [Literal?] = entity.columns.map { _ in nil }
    if found.state == Tables.State.here {
      try kept.overlay(name, entity, &values)
      try update(found.key, entity, values, but: [])
    } else if kept.inserts(name) {
      try store(name, entity, zone: found.zone, tag: nil, values)
    } else {
      return
    }
    for (pair, isLinked) in try kept.pairs(of: found.key) { try change(pair, isLinked: isLinked) }
  }

  /// Empties an attribute whose content nobody has any more.
  func clear(_ place: Int, of entity: EntityPlan, _ key: Int64) throws {
    try tables.set(entity.columns[place], of: entity, key, to: .null)
    try history?.change(key, .update, [entity.columns[place].key])
    noteSaved(entity)
  }

  /// The server lacks the object, and gets it again.
  func isSentAgain(_ name: String) throws -> Bool {
    try snapshot.find(name).map { try pending.isSentAgain($0.key) } ?? false
  }

  func isSentAgain(_ pair: Pair) throws -> Bool { try pending.isSentAgain(pair.a) || pending.isSentAgain(pair.b) }

  /// No page tells what lies in a zone that waits for somebody's decision.
  func isPaused(_ pair: Pair) throws -> Bool {
    try tables.connection.statement(Self.inPausedZone).binding(pair.a, pair.b).first { _ in true } ?? false
  }

  /// An imported deletion is applied whatever was edited (K5). Only an object that was made here since stays: the
  /// server makes it again when it hears of it, and never tells a store its own saves.
  func delete(_ name: String) throws {
    guard let found = try snapshot.find(name), try !pending.isNew(found.key) else { return }
    try delete(found)
  }

  /// Deletes objects that go together.
  func delete(_ objects: [FoundObject]) throws {
    leaving = Set(objects.map(\.key))
    for object in objects { try delete(object) }
    leaving = []
  }

  private func delete(_ found: FoundObject) throws {
    guard let entity = schema.entitiesByKey[found.entity] else { return }
    if found.state == Tables.State.here {
      var tombstone: [String: Literal] = [:]
      if history != nil {
        let current = try tables.values(of: entity, found.key)
        for (place, column) in entity.columns.enumerated()
        where column.attribute?.traits.contains(.preservedOnDeletion) == true && current[place] != .null {
          tombstone[column.name] = current[place]
        }
      }
      try history?.change(found.key, .delete, tombstone: tombstone)
      deletedCount += 1
      entityNames.insert(entity.name)
    }
    try tables.deleteRow(entity, found.key)
    try release(found.key, entity)
  }

  /// Ends what leads to a deleted object: another object may get its name. The user's own edits stay (K4).
  private func release(_ key: Int64, _ entity: EntityPlan) throws {
    for relationship in entity.relationships {
      let destination = try schema.entity(relationship.destination)
      if case .link(let link, _) = relationship.storage {
        for pair in try tables.pairs(link, of: key) where try !pending.hasPair(pair) {
          guard try tables.setPair(pair, isLinked: false), let inverse = destination.toMany[relationship.inverse]
          else { continue }
          try noteReleased(pair.a == key ? pair.b : pair.a, inverse.key)
        }
        continue
      }
      guard let inverse = destination.column(relationship.inverse) else { continue }
      for owner in try tables.pointing(inverse, of: destination, to: key) {
        guard let (id, _) = try snapshot.object(owner),
          try !userProperties(owner, id.recordName, destination).contains(inverse.key)
        else { continue }
        try tables.set(inverse, of: destination, owner, to: .null)
        try noteReleased(owner, inverse.key)
      }
    }
  }

  /// A later change of the page may say it of the object itself, and is none then.
  private func noteReleased(_ owner: Int64, _ property: Int64) throws {
    guard !leaving.contains(owner), let (id, found) = try snapshot.object(owner), found.state == Tables.State.here
    else { return }
    try history?.change(owner, .update, [property])
    entityNames.insert(id.entityName)
  }

  // MARK: Pairs

  private func setPair(_ link: Link, isLinked: Bool) throws {
    guard let entity = schema.entities[link.entity], let relationship = entity.toMany[link.relationship],
      case .link(let table, let isFirst) = relationship.storage,
      let destination = schema.entities[link.targetEntity]
    else { return }
    let source = try tables.key(of: link.objectID, entity)
    let target = try tables.key(of: link.targetID, destination)
    let isOrdered = table.isSymmetric ? source <= target : isFirst
    try setPair(Pair(link: table, a: isOrdered ? source : target, b: isOrdered ? target : source), isLinked: isLinked)
  }

  /// Makes or ends a pair, unless the user's own edit of it is pending (K4).
  func setPair(_ pair: Pair, isLinked: Bool) throws {
    if try pending.hasPair(pair) { return }
    if isLinked, try pending.isDeleted(pair.a) || pending.isDeleted(pair.b) { return }
    try change(pair, isLinked: isLinked)
  }

  private func change(_ pair: Pair, isLinked: Bool) throws {
    guard try tables.setPair(pair, isLinked: isLinked) else { return }
    savedCount += 1
    for key in [pair.a, pair.b] {
      guard let (id, found) = try snapshot.object(key) else { continue }
      entityNames.insert(id.entityName)
      if key == pair.a, found.state == Tables.State.here { try history?.change(key, .update, [pair.link.firstKey]) }
    }
  }

  // MARK: Zones

  func zone(_ zoneID: ZoneID) throws -> Int64 {
    if let key = zones[zoneID] { return key }
    let owner = zoneID.ownerRecordName ?? ""
    try tables.connection.statement(Self.addZone).binding(zoneID.zoneName, owner).run()
    let key = try tables.connection.statement(Self.findZone).binding(zoneID.zoneName, owner).first { $0.int64(0) } ?? 0
    zones[zoneID] = key
    return key
  }

  private func end(_ ended: EndedZone) throws {
    endedZones.append(ended)
    switch ended.action {
    case .pause: break
    // The objects lie there again when they are sent (`ZoneReupload`).
    case .reupload: break
    case .delete:
      let (key, isHome) = (try zone(ended.zoneID), ended.zoneID.zoneName == ZoneID.homeName)
      try dropSentAgain(of: ended.zoneID)
      let objects = try tables.connection.statement(Self.objectsOfZone).binding(key, isHome).all { row in
        FoundObject(key: row.int64(0), entity: row.int64(1), zone: key, state: Tables.State.here)
      }
      // As with a single deletion: the server makes the default zone again when it hears of a new object.
      try delete(objects.filter { try !isHome || !pending.isNew($0.key) })
    }
    try noteEnd(ended)
  }

  /// Changes what the store knows of an ended zone itself, and no object.
  func noteEnd(_ ended: EndedZone) throws {
    try tables.connection.statement(ended.action == .pause ? Self.pauseZone : Self.forgetShare)
      .binding(try zone(ended.zoneID)).run()
  }

  /// Zones whose shares the store knows, without those that wait for a decision.
  func zonesWithShares() throws -> [ZoneID] {
    try tables.connection.statement(Self.withShares).all { row in
      ZoneID(zoneName: row.text(0), ownerRecordName: row.text(1).isEmpty ? nil : row.text(1))
    }
  }

  /// Sends no object of the zone again that waits for it after an earlier end.
  func dropSentAgain(of zoneID: ZoneID) throws {
    let isHome = zoneID.zoneName == ZoneID.homeName
    try ZoneReupload.drop(try zone(zoneID), isHome: isHome, snapshot, tables)
  }

  // MARK: Contents

  private func keep(_ data: Data) throws -> ContentName {
    let name = ContentName(checksum: SHA256.name(of: data), byteCount: Int64(data.count))
    if contents.localPath(of: name) == nil {
      try contents.make()
      try ContentFile.store(data, at: contents.path(of: name.checksum), isSynced: false)
    }
    try noteContent(name, nil, until: nil, owner: nil)
    return name
  }

  /// Notes where contents of the object are.
  private func note(_ object: ImportedObject) {
    for (_, value) in object.attributes.sorted(by: { $0.key < $1.key }) {
      guard case .asset(let asset) = value,
        let name = ContentName(fileChecksum: asset.fileChecksum, byteCount: asset.size)
      else { continue }
      // Dropped because a content without an address is asked for again, by its owner.
      try? noteContent(name, asset.downloadURL, until: now + Self.addressLifetime, owner: object.objectID)
    }
  }

  /// - Parameter owner: nil: it came within its page, so it is here.
  func noteContent(_ name: ContentName, _ address: String?, until expiry: Int64?, owner: String?) throws {
    let isHere = contents.localPath(of: name) != nil
    if let owner {
      guard let key = try snapshot.find(owner)?.key else { return }
      try tables.connection.statement(Self.noteContent).binding(
        name.checksum, name.byteCount, address, expiry, isHere, now, key
      )
      .run()
    } else {
      try tables.connection.statement(Self.keepContent).binding(name.checksum, name.byteCount, isHere, now).run()
    }
    // A save that named it may be undone.
    let isAtServer = try tables.connection.statement(Self.isAtServer).binding(name.checksum).first { $0.bool(0) }
    if isAtServer == false { try WaitingSaves.noteAtServer([name.checksum], tables.connection) }
  }

  /// An address is valid for 15 minutes.
  private static let addressLifetime: Int64 = 14 * 60 * 1000

  /// Whether zone `z` is paused and has object `o`.
  static let isPaused =
    "z.isPaused = 1 AND (z.key = o.zone OR o.zone IS NULL AND z.zoneName = '\(ZoneID.homeName)')"
  private static let inPausedZone = SQL(
    "in paused zone", "SELECT 1 FROM object o JOIN zone z ON \(isPaused) WHERE o._pk IN (?, ?) LIMIT 1")
  private static let setZone = SQL("set zone", "UPDATE object SET zone = ? WHERE _pk = ?")
  private static let placeObject = SQL("place object", "UPDATE object SET zone = ?, tag = ? WHERE _pk = ?")
  private static let addZone = SQL("add zone", "INSERT OR IGNORE INTO zone(zoneName, ownerRecordName) VALUES (?, ?)")
  private static let findZone = SQL("find zone", "SELECT key FROM zone WHERE zoneName = ? AND ownerRecordName = ?")
  private static let pauseZone = SQL("pause zone", "UPDATE zone SET isPaused = 1 WHERE key = ?")
  private static let objectsOfZone = SQL(
    "objects of zone",
    // Own objects lie nowhere as long as the server has told nothing of the default zone.
    "SELECT _pk, entity FROM object WHERE state = 1 AND (zone = ?1 OR ?2 AND zone IS NULL) ORDER BY _pk")
  private static let withShares = SQL(
    "zones with shares",
    "SELECT zoneName, ownerRecordName FROM zone WHERE share IS NOT NULL AND isPaused = 0 ORDER BY key")
  private static let forgetShare = SQL("forget share", "UPDATE zone SET share = NULL, isPaused = 0 WHERE key = ?")
  /// A content that is here and waits to be sent goes on waiting: what the page tells may be gone before it is sent.
  private static let keepContent = SQL(
    "keep imported content",
    "INSERT INTO content(checksum, byteCount, isHere, isAtServer, usedAt) VALUES (?1, ?2, ?3, 1, ?4) ON CONFLICT DO "
      + "UPDATE SET isHere = ?3, isAtServer = isAtServer OR NOT ?3"
  )
  private static let isAtServer = SQL("is content at server", "SELECT isAtServer FROM content WHERE checksum = ?")
  private static let noteContent = SQL(
    "note content",
    "INSERT INTO content(checksum, byteCount, downloadURL, expiry, isHere, isAtServer, usedAt, owner) VALUES (?1, "
      + "?2, ?3, ?4, ?5, 1, ?6, ?7) "
      + "ON CONFLICT DO UPDATE SET downloadURL = ?3, expiry = ?4, isHere = ?5, isAtServer = isAtServer OR NOT ?5, "
      + "owner = ?7")
}
