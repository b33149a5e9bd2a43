// Builds one page of an import: the rows of all of a store's zones in feed order, as objects, without its own echoes.

import Mirroring
import RecordStore
import Records
import Sharing
import WebServices
import ZoneCommit

/// One page of changes while it is being filled.
struct ImportBatch {
  let mirror: StoredMirror
  let database: StoredDatabase
  var position: ImportPosition
  /// The client brought no token, so it knows no zone that could be gone.
  private let isFirst: Bool
  let state: StoredSyncState
  private let reader: ImportReader
  /// The records to send again, if the store's token is of an earlier model epoch.
  private let upgrade: ModelUpgrade?
  /// Milliseconds since 1970.
  let now: Int64
  let holds: [String: StoredZoneHold]
  /// nil when the store belongs to the database's owner.
  private let guest: GuestZones?
  /// Records that earlier pages left out.
  let known: [RecordPlace: StoredUnimported]
  var output: ImportBatchWriter
  var page = ImportedPage()
  /// The moves that the store knows of, by its token.
  private let moves: MoveView
  /// The zones whose records are delivered, by name.
  private var delivered: [String: StoredZone] = [:]
  var deliveredCount = 0
  private var scannedCount = 0
  private var propertyListByteCount = 0
  private let wasComplete: Bool
  /// The sequence at which the store last had everything: a run's progress counts from there.
  private let runStart: Int64
  /// Steps of the feed that a model upgrade goes through again, for the progress.
  private let againCount: Int64

  /// Rows that one call looks at, most of which may be echoes.
  private static let scanLimit = 5000
  /// Bytes of binary property lists that one call reads; a whole page of them would occupy a reader that others need.
  private static let propertyListByteLimit = 512 * 1024
  /// Left-out records remembered for a store; the page tells of further ones, and nothing remembers them.
  static let unimportedLimit = 10_000

  init(
    mirror: StoredMirror, database: StoredDatabase, position: ImportPosition, isFirst: Bool, state: StoredSyncState,
    reader: ImportReader,
    upgrade: ModelUpgrade?, at now: Int64, output: ImportBatchWriter, in snapshot: any ShardSnapshot
  ) throws {
    self.mirror = mirror
    self.database = database
    self.position = position
    self.isFirst = isFirst
    self.state = state
    self.reader = reader
    self.upgrade = upgrade
    self.now = now
    self.output = output
    guest = mirror.isGuest ? try GuestZones(of: mirror, snapshot) : nil
    holds = Dictionary(
      try snapshot.zoneHolds(of: mirror.key).map { ($0.zoneName, $0) }, uniquingKeysWith: { first, _ in first })
    // Most stores have no left-out record: one cheap look tells.
    let count = try snapshot.unimported(of: mirror.key, afterKey: 0, limit: 1).isEmpty ? 0 : Self.unimportedLimit
    known = Dictionary(
      try snapshot.unimported(of: mirror.key, afterKey: 0, limit: count).map {
        (RecordPlace(zone: $0.zone, name: $0.name), $0)
      },
      uniquingKeysWith: { first, _ in first })
    // From the token's state: the end of another zone in this page must not change it.
    moves = MoveView(told: position.told, hasBeenComplete: position.hasBeenComplete, store: mirror.identifier)
    wasComplete = position.hasBeenComplete || state.firstImportAt != nil
    runStart = position.told
    againCount = upgrade.map { $0.isEmpty ? 0 : database.stepCount(through: position.sequence) } ?? 0
    page.completesReset = state.openResetCount > 0 && !isFirst && position.completes(state)
  }

  mutating func fill(limit: Int, from snapshot: any ShardSnapshot) throws {
    guard let zones = try zonesTold(limit: limit, from: snapshot) else {
      page.moreComing = true
      return
    }
    if let upgrade {
      guard try sendAgain(upgrade, zones, limit: limit, from: snapshot) else {
        page.moreComing = true
        return
      }
    }
    let isAtEnd = try walk(zones, after: position.sequence, through: .max, from: snapshot) { batch, row, cursor in
      guard try batch.deliver(row, cursor, limit: limit, from: snapshot) else { return false }
      batch.position.sequence = row.sequence
      return true
    }
    if isAtEnd {
      // Every row of this snapshot was looked at, so only later rows need the echo test.
      position.caughtUp(with: database.sequence)
    } else {
      page.moreComing = true
    }
  }

  /// Tells of zones that came and went.
  /// - Returns: the zones whose records are delivered; nil when the page is full before that.
  private mutating func zonesTold(limit: Int, from snapshot: any ShardSnapshot) throws -> [StoredZone]? {
    let zones = try snapshot.mirroredZones(of: mirror, after: 0)
    guard let guest else {
      guard let noted = try zonesNoted(zones, limit: limit) else { return nil }
      for zone in noted { delivered[zone.zoneName] = zone }
      return noted
    }
    for zone in zones { delivered[zone.zoneName] = zone }
    let keys = Set(zones.map(\.key))
    for place in known.keys where !keys.contains(place.zone) { page.settled.append(place) }
    if isFirst {
      // A client without a token may repeat its first request and have content of zones that its user lost meanwhile.
      let left = GuestNews.left(guest.members, since: state.sinceSequence)
      for zoneName in left { try tell(zoneLeft: zoneName, in: snapshot) }
      position.begin(with: database.sequence)
      // A user who came back to a zone may have discarded their own work there: it is sent too.
      if !left.isEmpty || guest.members.contains(where: { $0.since > state.sinceSequence }) { position.beginAgain() }
    }
    let news = GuestNews(
      guest.members, since: position.memberships, through: position.catchUp?.through ?? database.sequence)
    if position.catchUp == nil, !news.isEmpty {
      for zoneName in news.left { try tell(zoneLeft: zoneName, in: snapshot) }
      for zone in zones
      where news.joined.contains(zone.zoneName) && !news.left.contains(zone.zoneName)
        && zone.endSequence > position.memberships
      {
        output.addZone(Zone.ID(zoneName: zone.zoneName, ownerName: database.id.owner), reason: zone.end)
        page.deletedCount += 1
      }
      // The client lost, or never had, even the store's own records of these zones.
      if news.left.isEmpty { position.beginAgain() } else { position.lostZone(.max) }
      position.catchUp = ImportPosition.CatchUp(through: database.sequence, sequence: 0)
    }
    if var catchUp = position.catchUp {
      let joined = zones.filter { news.joined.contains($0.zoneName) }
      let isDone = try walk(joined, after: catchUp.sequence, through: position.sequence, from: snapshot) {
        batch, row, cursor in
        guard try batch.deliver(row, cursor, limit: limit, isNews: true, from: snapshot) else { return false }
        catchUp.sequence = row.sequence
        return true
      }
      position.catchUp = isDone ? nil : catchUp
      guard isDone else { return nil }
      position.memberships = catchUp.through
    }
    // The next page tells of zones that were joined after that point.
    return zones.filter { (guest.access[$0.zoneName]?.since ?? .max) <= position.memberships }
  }

  private mutating func tell(zoneLeft zoneName: String, in snapshot: any ShardSnapshot) throws {
    let zone = try snapshot.zone(named: zoneName, in: database.key)
    output.addZone(
      Zone.ID(zoneName: zoneName, ownerName: database.id.owner),
      reason: zone?.isDeleted == false ? nil : zone?.end ?? .deleted)
    page.deletedCount += 1
  }

  /// Sends again the records of which the store's model reads more than the model before it did (I8).
  /// - Returns: whether all of them were sent.
  private mutating func sendAgain(
    _ upgrade: ModelUpgrade, _ zones: [StoredZone], limit: Int, from snapshot: any ShardSnapshot
  ) throws -> Bool {
    let epoch = state.modelEpoch
    var isDone = upgrade.isEmpty
    if !isDone {
      // A refetch that began for an earlier model did not send enough for this one.
      if position.refetch?.epoch != epoch { position.beginRefetch(for: epoch) }
      isDone = try walk(zones, after: position.refetch?.sequence ?? 0, through: position.sequence, from: snapshot) {
        batch, row, cursor in
        if case .record(let stored) = row, !stored.isDeleted, upgrade.concerns(stored.record) {
          guard try batch.deliver(row, cursor, limit: limit, isAgain: true, from: snapshot) else { return false }
        }
        batch.position.refetch?.sequence = row.sequence
        return true
      }
    }
    if isDone {
      position.epoch = epoch
      position.refetch = nil
    }
    return isDone
  }

  /// Visits the rows of several zones in feed order, until `visit` returns false or a limit of the call is reached.
  /// - Returns: whether no row is left.
  private mutating func walk(
    _ zones: [StoredZone], after start: Int64, through end: Int64, from snapshot: any ShardSnapshot,
    visit: (inout ImportBatch, ZoneCursor.Row, ZoneCursor) throws -> Bool
  ) throws -> Bool {
    var feed = try ZoneFeed(
      zones.filter { $0.sequence > start }, of: database, as: guest, after: start, in: snapshot)
    while scannedCount < Self.scanLimit, propertyListByteCount < Self.propertyListByteLimit {
      guard let (row, cursor) = try feed.next(from: snapshot), row.sequence <= end else { return true }
      guard try visit(&self, row, cursor) else { return false }
      feed.advance()
      scannedCount += 1
    }
    return false
  }

  // MARK: Records

  /// - Returns: false when the page has no room for the row.
  private mutating func deliver(
    _ row: ZoneCursor.Row, _ cursor: ZoneCursor, limit: Int, isAgain: Bool = false, isNews: Bool = false,
    from snapshot: any ShardSnapshot
  ) throws -> Bool {
    guard case .record(let found) = row else {
      // A damaged row does not say where in the hierarchy it is, so a user with partial sight is not told of it.
      if cursor.visible?.seesEverything == false { return true }
      leaveOut(row, cursor, .damaged(row.recordName, ""))
      return true
    }
    if !isAgain, !isNews, position.isEcho(found, of: mirror) { return true }
    guard let stored = try sighted(found, cursor) else { return true }
    if found.isDeleted, try isTold(where: found, from: snapshot) { return true }
    if stored.record.recordType == ReservedName.shareRecordType {
      let encoded = ImportBatchWriter.encodedShare(zone: cursor.zoneJSON)
      guard deliveredCount < limit, output.hasRoom(for: encoded) else { return false }
      output.add(encoded)
      deliveredCount += 1
      page.savedCount += 1
      return true
    }
    propertyListByteCount += stored.record.propertyListByteCount
    let outcome = try reader.outcome(of: stored, in: cursor.source)
    let isRead = if case .change = outcome { true } else { false }
    let move = isAgain || stored.isDeleted ? nil : move(of: stored.record, to: cursor.zone, mayBeUnknown: !isRead)
    switch outcome {
    case .nothing, .problem:
      // The store may have an earlier version: the page tells of the move, and the object goes with its zone.
      if let move {
        guard deliveredCount < limit, output.hasRoom(for: move) else { return false }
        output.add(move)
        deliveredCount += 1
      }
      guard case .problem(let problem) = outcome else { break }
      leaveOut(row, cursor, problem)
      return true
    case .change(let change):
      let encoded = output.encoded(
        change, tag: RecordChangeTag(sequence: stored.sequence), zone: cursor.zoneJSON, isAgain: isAgain)
      guard deliveredCount < limit, output.hasRoom(for: encoded) else { return false }
      if let move { output.add(move) }
      output.add(encoded)
      deliveredCount += 1
      if stored.isDeleted { page.deletedCount += 1 } else { page.savedCount += 1 }
    }
    if !known.isEmpty, let place = cursor.place(of: row), known[place] != nil { page.settled.append(place) }
    return true
  }

  /// The record as the store's user sees it, nil if they don't. A record that left their sight comes as deleted.
  private func sighted(_ stored: StoredRecord, _ cursor: ZoneCursor) throws -> StoredRecord? {
    guard let visible = cursor.visible else { return stored }
    switch try visible.sight(of: stored) {
    case .visible: return stored
    case .gone(let sequence) where sequence > position.departures:
      var gone = stored
      gone.isDeleted = true
      return gone
    case .gone, .hidden: return nil
    }
  }

  /// True if a tombstone's record moved to a zone of which the store is told, whichever of the two comes first (T-P02).
  /// A store that does not see that zone is told of a deletion.
  private mutating func isTold(where tombstone: StoredRecord, from snapshot: any ShardSnapshot) throws -> Bool {
    guard let name = Tombstone.movedTo(tombstone.record), let zone = delivered[name] else { return false }
    return try unlessDamaged {
      guard let row = try snapshot.record(named: tombstone.record.recordName, in: zone.key) else { return false }
      guard let visible = guest?.visible(in: zone, snapshot) else { return true }
      guard visible.seesEverything else { return try !row.isDeleted && visible.mayRead(row.record) }
      // A deletion there that is hidden from the user tells them nothing: a later move from there may.
      guard row.isDeleted, case .hidden = try visible.sight(of: row) else { return true }
      return try row.sequence > tombstone.sequence && isTold(where: row, from: snapshot)
    } ?? true
  }

  /// Encodes a move, for a store that has the object in another zone; nil when there is none to tell.
  /// - Parameter mayBeUnknown: tell it also when nothing says that the store has the object.
  private func move(of record: Record, to zone: StoredZone, mayBeUnknown: Bool) -> [UInt8]? {
    let receipts = MoveReceipts(of: record, in: database.incarnation)
    if receipts.moves.isEmpty { return nil }
    // The owner's stores have, or had, all of the owner's zones.
    let sees = { [delivered, mirror] name in mirror.scope == .private || delivered[name] != nil }
    guard let origin = moves.origin(of: record, receipts, in: zone.zoneName, mayBeUnknown: mayBeUnknown, sees: sees)
    else { return nil }
    func id(_ name: String) -> Zone.ID { Zone.ID(zoneName: name, ownerName: database.id.owner) }
    return output.encodedMove(of: record.recordName, from: id(origin), to: id(zone.zoneName))
  }

  private mutating func leaveOut(_ row: ZoneCursor.Row, _ cursor: ZoneCursor, _ problem: MirroringProblem) {
    output.add(problem)
    page.problems.append(problem)
    guard let place = cursor.place(of: row),
      known[place] != nil || known.count + page.leftOut.count < Self.unimportedLimit
    else { return }
    let earlier = known[place].flatMap { $0.sequence == row.sequence ? $0 : nil }
    page.leftOut.append(StoredUnimported(problem, place, row.sequence, of: mirror, after: earlier, at: now))
  }

  consuming func finish(openConflictCount: Int) -> (WrittenImportBatch, ImportedPage) {
    var page = page
    page.sequence = position.sequence
    page.completesFirstImport = state.firstImportAt == nil && !page.moreComing
    page.isFirstRun = !wasComplete
    let reset =
      state.openResetCount > 0
      ? (reason: ResetReason(rawValue: state.resetReason) ?? .other, isDone: position.completes(state)) : nil
    let start = database.stepCount(through: runStart)
    let total = againCount + max(database.stepCount(through: database.sequence) - start, 0)
    let done =
      position.refetch.map { database.stepCount(through: $0.sequence) } ?? againCount
      + max(database.stepCount(through: position.sequence) - start, 0)
    let importState = ImportState(
      done: page.moreComing ? min(done, total) : total, total: total,
      isInitialImportDone: wasComplete || !page.moreComing, reset: reset, openConflictCount: openConflictCount)
    return (
      output.finish(importToken: position.token(of: database).text, moreComing: page.moreComing, state: importState),
      page
    )
  }
}
