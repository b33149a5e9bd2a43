// The change feeds: changes/zone, changes/database and their deprecated forms (docs/protocol/record-plane.md#changes).

import JSON
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Sharing
import WebServices
import ZoneCommit

/// A page of a zone's feed as it was read.
private struct ZonePage: Sendable {
  var zone: StoredZone
  /// In the feed's direction.
  var rows: RecordRows
  /// Sequences of the records that are not told to the caller.
  var hidden: Set<Int64> = []
  /// The share members of these records.
  var shares: ShownShares?
  var moreComing = false
  /// Where the page began.
  var start: FeedPosition
  /// The request, if others' devices may get the page that is written for it.
  var shared: SharedPages.Key?
  /// The page as it was written for another device.
  var written: SharedPages.Page?
}

extension RecordPlaneCall {
  // MARK: Zones' feeds

  func fetchZoneChanges() async throws(RecordError) -> PlaneAnswer {
    let zones = try ZoneChangesRequest.zones(of: json)
    var output = ListAnswer("zones", of: request, reservingByteCount: 1024)
    for (index, changes) in zones.enumerated() {
      do {
        let zone = try zone(changes.zone)
        // A zone without room in the answer gets an empty page.
        let hasRoom = output.byteCount <= Self.pageByteCount
        let page = try await page(of: zone, changes, limit: hasRoom ? changes.resultsLimit : 0)
        let othersByteCount = index == 0 ? 0 : output.byteCount
        try output.add { output throws(RecordError) in
          output.beginObject()
          output.key("zoneID")
          zone.write(to: &output)
          try write(page, of: zone, as: changes, behind: othersByteCount, to: &output)
          output.endObject()
        }
      } catch {
        // A failure of the whole shard fails the request; a failure of one zone is that zone's item.
        guard error.code == .badRequest || error.code == .zoneNotFound else { throw error }
        output.add(error) {
          ZoneDictionary.writeError(error, of: changes.zone, defaultOwner: ownerRecordName, to: &$0)
        }
      }
    }
    return try output.finish()
  }

  func fetchRecordChanges() async throws(RecordError) -> PlaneAnswer {
    let changes = try ZoneChangesRequest(records: json)
    let zone = try zone(changes.zone)
    let page = try await page(of: zone, changes, limit: changes.resultsLimit)
    var output = JSONWriter(reservingByteCount: 1024)
    output.beginObject()
    try write(page, of: zone, as: changes, to: &output)
    output.endObject()
    return PlaneAnswer(body: output.bytes)
  }

  private func page(of zone: Zone.ID, _ changes: ZoneChangesRequest, limit: Int) async throws(RecordError) -> ZonePage {
    if zone.isDefault { throw RecordError(.badRequest, "AppDefaultZone does not support getChanges call") }
    let token = try position(changes.position, as: .zone)
    let (finder, caller) = (finder, request.caller.userRecordName)
    let shared = sharedKey(of: zone, changes, after: token, limit: limit)
    let pages = context.pages
    if let shared { pages.note(shared) }
    return try await read { snapshot in
      let written = shared.flatMap(pages.page)
      // For a participant nothing is read ahead: whether a zone exists is not theirs to measure.
      if finder.participant == nil, !changes.isReversed, changes.position != .caughtUp {
        let sequence = token?.positions.first?.sequence ?? 0
        try snapshot.expect([
          .changes(
            zone: zone.zoneName, database: finder.database, after: sequence,
            limit: written == nil ? ZonePage.rowCount(left: limit) : 0, byteLimit: Self.pageByteCount)
        ])
      }
      guard let view = try finder.find(zone, in: snapshot) else { throw RecordError.noZone(named: zone.zoneName) }
      let row = view.row
      let visible = VisibleRecords(view, in: snapshot)
      let members = try view.access.map { _ in
        try snapshot.members(caller ?? "", inZone: row.zoneName, of: row.databaseKey)
      }
      let start = try FeedPosition(
        token, at: changes.position, in: row, isReversed: changes.isReversed, members: members)
      var page = ZonePage(zone: row, rows: RecordRows(of: row.key), start: start, shared: shared)
      if let written, written.zone == SharedPages.ZoneState(row) {
        page.written = written
        return page
      }
      try page.fill(limit: limit, from: snapshot)
      if view.access != nil { try page.hide(from: visible) }
      page.shares = try ShownShares.shown(with: page.rows.recordsWithShares(), in: row, to: caller, snapshot)
      return page
    }
  }

  /// The key of a page that depends on nothing but its zone; nil for another one.
  private func sharedKey(of zone: Zone.ID, _ changes: ZoneChangesRequest, after token: SyncToken?, limit: Int)
    -> SharedPages.Key?
  {
    let presentation = changes.presentation
    guard request.caller.userRecordName == database.owner, limit > 0, !changes.isReversed,
      changes.position != .caughtUp, changes.desiredRecordTypes == nil, presentation.desiredKeys == .all
    else { return nil }
    return SharedPages.Key(
      shard: store.shard, epoch: store.epoch, database: database, zoneName: zone.zoneName,
      start: token?.positions.first?.sequence ?? 0, limit: limit, numbersAsStrings: presentation.numbersAsStrings)
  }

  /// Writes `records`, `syncToken` and `moreComing` into the current object.
  /// - Parameter othersByteCount: the length of other zones' pages in the answer.
  private func write(
    _ page: ZonePage, of zone: Zone.ID, as changes: ZoneChangesRequest, behind othersByteCount: Int = 0,
    to output: inout JSONWriter
  ) throws(RecordError) {
    if let written = page.written {
      context.pages.sentAgain.increment()
      output.key("records")
      output.raw(written.records)
      return writeEnd(token: written.token, moreComing: written.moreComing, to: &output)
    }
    let records = writer(for: zone, showing: page.shares)
    let desiredTypes = changes.desiredRecordTypes
    var position = page.start
    var isCut = false
    output.reserve(room(for: page.rows))
    output.key("records")
    let beginning = output.bytes.count
    output.beginArray()
    for index in page.rows.indices {
      if othersByteCount + output.bytes.count - beginning > Self.pageByteCount {
        isCut = true
        break
      }
      let row = page.rows[index]
      position.pass(row.sequence)
      if page.hidden.contains(row.sequence) { continue }
      if row.isDeleted {
        records.writeTombstone(page.rows.recordName(at: index), to: &output)
      } else if desiredTypes?.contains(row.recordType) ?? true {
        try write(page.rows, at: index, by: records, as: changes.presentation, to: &output)
      }
    }
    output.endArray()
    let end = output.bytes.count
    var moreComing = page.moreComing || isCut
    if !moreComing {
      position.finish(at: page.zone.sequence)
      // A feed in reverse ends where it began; later changes belong to the next feed.
      moreComing = position.since < page.zone.sequence
    }
    let token = position.token(incarnation: page.zone.incarnation).text
    // A page that other zones' records cut is shorter than the one that its request gets alone.
    if !isCut || othersByteCount == 0 {
      share(page, output.bytes[beginning..<end], token: token, moreComing: moreComing)
    }
    writeEnd(token: token, moreComing: moreComing, to: &output)
  }

  private func writeEnd(token: String, moreComing: Bool, to output: inout JSONWriter) {
    output.member("syncToken", token)
    output.member("moreComing", moreComing)
  }

  /// Keeps a page that was asked for before.
  private func share(_ page: ZonePage, _ records: ArraySlice<UInt8>, token: String, moreComing: Bool) {
    let zone = SharedPages.ZoneState(page.zone)
    guard let key = page.shared, page.rows.count > 0, page.shares?.isEmpty ?? true,
      context.pages.isAskedAgain(key), !RecordDictionaryWriter.mayHaveAddresses(records)
    else { return }
    context.pages.keep(
      SharedPages.Page(zone: zone, records: Array(records), token: token, moreComing: moreComing), for: key)
  }

  // MARK: The database's feed

  func fetchDatabaseChanges(tokenKeys: [String]) async throws(RecordError) -> PlaneAnswer {
    if database.isPublic { throw RecordError(.badRequest, "The public database does not support getChanges call") }
    let changes = try DatabaseChangesRequest(json)
    let token = try position(changes.position, as: .database)
    if request.scope == .shared { return try await fetchSharedChanges(changes, token, tokenKeys: tokenKeys) }
    let database = database
    let page = try await read { snapshot -> (zones: [StoredZone], token: SyncToken, moreComing: Bool) in
      guard let row = try snapshot.database(database) else {
        if let token, !token.positions.isEmpty { throw SyncToken.Refusal.unknownType.recordError }
        // Without a row there is no incarnation to promise anything about: the empty token says "from the beginning".
        return ([], SyncToken(.database, []), false)
      }
      let start = try Self.start(token, at: changes.position, incarnation: row.incarnation, end: row.sequence)
      var zones = try snapshot.zones(in: row.key, after: start, limit: changes.resultsLimit + 1)
      let moreComing = zones.count > changes.resultsLimit
      if moreComing { zones.removeLast() }
      let end = moreComing ? zones.last?.sequence ?? start : row.sequence
      // A client that never saw a zone need not hear of its deletion; the default zone keeps no feed.
      zones.removeAll { $0.zoneName == ReservedName.defaultZone || ($0.isDeleted && start == 0) }
      return (zones, SyncToken(.database, incarnation: row.incarnation, sequence: end), moreComing)
    }
    return try writeDatabasePage(page.zones, token: page.token, moreComing: page.moreComing, tokenKeys: tokenKeys)
  }

  func writeDatabasePage(_ zones: [StoredZone], token: SyncToken, moreComing: Bool, tokenKeys: [String])
    throws(RecordError) -> PlaneAnswer
  {
    var output = ListAnswer("zones", of: request, reservingByteCount: 256 * (zones.count + 1))
    for stored in zones {
      let zone = Zone.ID(zoneName: stored.zoneName, ownerName: database.owner)
      output.add { output in
        if stored.isDeleted {
          ZoneDictionary.writeDeleted(zone, to: &output)
        } else {
          ZoneDictionary.write(zone, syncToken: stored.syncToken.text, to: &output)
        }
      }
    }
    return try output.finish(syncToken: token.text, moreComing: moreComing) { output in
      for key in tokenKeys { output.member(key, token.text) }
      output.member("moreComing", moreComing)
    }
  }

  // MARK: Tokens

  /// Reads a token, if one was sent.
  private func position(_ position: ChangesPosition, as kind: SyncToken.Kind) throws(RecordError) -> SyncToken? {
    guard case .token(let text) = position else { return nil }
    do {
      return try SyncToken(text, as: kind)
    } catch {
      throw error.recordError
    }
  }

  /// The sequence a database's feed goes on after.
  /// - Throws: `Unknown sync continuation type` for a token of something else: another zone, or the same name in an
  ///   earlier life.
  static func start(_ token: SyncToken?, at position: ChangesPosition, incarnation: UInt64, end: Int64) throws -> Int64
  {
    guard let token else { return position == .caughtUp ? end : 0 }
    // A database without zones gave out a token without positions: nothing was seen yet.
    if token.kind == .database, token.positions.isEmpty { return 0 }
    guard token.positions.count == 1, token.positions[0].incarnation == incarnation, token.positions[0].sequence <= end
    else {
      throw SyncToken.Refusal.unknownType.recordError
    }
    return token.positions[0].sequence
  }
}

extension ZonePage {
  /// Leaves out rows that a participant never saw, and turns rows that left the participant's sight into deletions.
  fileprivate mutating func hide(from visible: VisibleRecords) throws {
    for index in rows.indices {
      switch try visible.sight(of: rows.record(at: index)) {
      case .visible: break
      case .gone(let sequence) where start.tells(departureAt: sequence): rows[index].isDeleted = true
      case .gone, .hidden: hidden.insert(rows[index].sequence)
      }
    }
  }

  /// Rows of one read: half a page. Large records end a read earlier.
  private static let chunk = 100

  /// The rows to ask for while a page has room for `left`. The one behind its end tells whether more is coming.
  fileprivate static func rowCount(left: Int) -> Int { left > chunk ? chunk : left + 1 }

  fileprivate mutating func fill(limit: Int, from snapshot: any ShardSnapshot) throws {
    var position = start
    var byteCount = 0
    while true {
      let hasRoom = byteCount <= RecordPlaneCall.pageByteCount
      let readCount = rows.count
      let wanted = Self.rowCount(left: hasRoom ? limit - readCount : 0)
      let isAtEnd = try position.read(
        limit: wanted, byteLimit: max(0, RecordPlaneCall.pageByteCount - byteCount), from: snapshot, into: &rows)
      for index in readCount..<rows.count {
        if index == limit || byteCount > RecordPlaneCall.pageByteCount {
          moreComing = true
          rows.removeAll(from: index)
          return
        }
        byteCount += rows[index].contentByteCount
        position.pass(rows[index].sequence)
      }
      if isAtEnd { return }
    }
  }
}
