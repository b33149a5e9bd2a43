// The import batch: records of all the store's zones in the order of their changes, as objects, without the store's own echoes.

import Mirroring
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices

extension StoreCall {
  func fetchChanges() async throws(RecordError) -> PlaneAnswer {
    let token = try token("after", as: .importBatch)
    let limit = try integer("limit", default: Limit.recordsPerResponse, maximum: Self.changesLimit)
    let waits = try integer("wait", default: 0, minimum: 0, maximum: 60) > 0
    let mirror = try await locate()
    let (model, schema) = try await model(of: mirror)
    let permissions = schema.permissions(of: request.caller, in: request.database)
    if mirror.exportedTransactionNumber < mirror.lastTransactionNumber { try await exportEverything(of: mirror) }

    let importer = Importer(model: model.index, links: model.links, entityNames: model.entityNames(inConfiguration: mirror.configuration))
    let inliner = AssetInliner(assets: context.assets, shard: store.shard, deserializer: importer.deserializer)
    let values = MirrorValueWriter(assets: assetLinks)
    let started = now
    let start = token?.positions.first?.sequence ?? 0
    let (answer, page) = try await read { snapshot -> ([UInt8], ImportedPage) in
      let current = try self.mirror(in: snapshot)
      guard let database = try snapshot.database(key: current.databaseKey) else { throw missing }
      let position = try token.map { token throws(RecordError) in try ImportPosition(token, of: database) }
      var batch = ImportBatch(
        mirror: current, database: database, position: position ?? ImportPosition(), isFirst: position == nil, importer: importer, inliner: inliner,
        permissions: permissions, output: ImportBatchWriter(values: values))
      try batch.fill(limit: limit, from: snapshot)
      return batch.finish()
    }
    // Only now: a token that is another store's was refused.
    if await imports.confirm(start, of: id(of: mirror)) { context.noticed(id(of: mirror)) }
    try await note(page, after: start, of: mirror, started: started)
    return PlaneAnswer(mayWait: waits && page.isEmpty && !page.moreComing, body: answer)
  }

  private static let changesLimit = 1000

  /// Until a store's own saves are in the zone, a batch would show it records without them, and the client, told that they are saved, would
  /// take its own edits back. So they are exported first.
  func exportEverything(of mirror: StoredMirror) async throws(RecordError) {
    try checkThrottle(of: mirror)
    var run = try await exportRun(for: mirror)
    while true {
      let outcome = try await export(run)
      outcome.publish(by: context)
      run.advance(after: outcome)
      // Not before the event that was begun has its end.
      if outcome.exportedNumber >= mirror.lastTransactionNumber, outcome.running == nil { return }
    }
  }

  /// Stores the import's event when a run of pages begins or ends; a poll that brought nothing writes nothing.
  private func note(_ page: ImportedPage, after start: Int64, of mirror: StoredMirror, started: Int64) async throws(RecordError) {
    guard let event = await imports.note(page, after: start, of: id(of: mirror), at: started, identifier: context.random.uuid()) else { return }
    let number = try await value(
      of: store.enqueue { transaction -> Int64 in
        guard try transaction.mirror(key: mirror.key) != nil else { return 0 }
        return try transaction.put(event, of: mirror.key)
      })
    if event.endedAt == nil { await imports.stored(number, of: id(of: mirror)) }
    context.noticed(id(of: mirror))
  }
}

/// One page of changes on its way.
private struct ImportBatch {
  let mirror: StoredMirror
  let database: StoredDatabase
  private(set) var position: ImportPosition
  /// The client brought no token: it knows of no zone that could be gone.
  let isFirst: Bool
  let importer: Importer
  let inliner: AssetInliner
  /// nil in a private database.
  let permissions: RecordPermissions?
  private var output: ImportBatchWriter
  private var page = ImportedPage()

  /// Records looked at in one call, most of which may be echoes.
  private static let scanLimit = 5000
  /// Rows of a zone read at once.
  private static let chunk = 64

  init(
    mirror: StoredMirror, database: StoredDatabase, position: ImportPosition, isFirst: Bool, importer: Importer, inliner: AssetInliner,
    permissions: RecordPermissions?, output: ImportBatchWriter
  ) {
    self.mirror = mirror
    self.database = database
    self.position = position
    self.isFirst = isFirst
    self.importer = importer
    self.inliner = inliner
    self.permissions = permissions
    self.output = output
  }

  /// A zone's part of the feed, read as it is needed.
  private struct Cursor {
    let zone: StoredZone
    let zoneJSON: [UInt8]
    let source: ZoneSource
    var rows: ArraySlice<StoredRecord> = []
    var last: Int64
    var isAtEnd = false

    mutating func peek(_ snapshot: any ShardSnapshot) throws -> StoredRecord? {
      if rows.isEmpty, !isAtEnd {
        rows = try snapshot.changes(in: zone.key, after: last, limit: ImportBatch.chunk)[...]
        isAtEnd = rows.count < ImportBatch.chunk
        last = rows.last?.sequence ?? last
      }
      return rows.first
    }
  }

  mutating func fill(limit: Int, from snapshot: any ShardSnapshot) throws {
    let zones = try snapshot.mirroredZones(of: mirror, after: 0)
    noteZones(zones)
    var cursors = zones.filter { !$0.isDeleted && $0.sequence > position.sequence }.map { zone in
      Cursor(
        zone: zone, zoneJSON: Zone.ID(zoneName: zone.zoneName, ownerName: database.id.owner).json, source: ZoneSource(zone, in: snapshot),
        last: position.sequence)
    }
    var delivered = 0
    for _ in 0..<Self.scanLimit {
      var next: (cursor: Int, row: StoredRecord)?
      for index in cursors.indices {
        guard let row = try cursors[index].peek(snapshot), next.map({ row.sequence < $0.row.sequence }) ?? true else { continue }
        next = (index, row)
      }
      guard let next else {
        // Everything up to this snapshot was looked at: there is no echo to tell apart any more but later ones.
        position.caughtUp(with: database.sequence)
        return
      }
      guard delivered < limit, try deliver(next.row, cursors[next.cursor], &delivered) else { break }
      position.sequence = next.row.sequence
      cursors[next.cursor].rows.removeFirst()
    }
    page.moreComing = true
  }

  /// Zones that are gone, or were made anew, since the token: their objects went with them.
  private mutating func noteZones(_ zones: [StoredZone]) {
    var known: [Int64: UInt64] = [:]
    for zone in zones {
      let hash = ImportPosition.hash(of: zone.zoneName)
      if !isFirst, let before = position.zones[hash], zone.isDeleted || before != zone.incarnation {
        output.addZone(Zone.ID(zoneName: zone.zoneName, ownerName: database.id.owner), reason: .deleted)
        page.deletedCount += 1
        position.lostZone()
      }
      if !zone.isDeleted { known[hash] = zone.incarnation }
    }
    position.zones = known
  }

  /// - Returns: false when the page has no room for the row.
  private mutating func deliver(_ row: StoredRecord, _ cursor: Cursor, _ delivered: inout Int) throws -> Bool {
    if position.isEcho(row, of: mirror) { return true }
    if let permissions, !permissions.mayRead(row.record) { return true }
    switch try importer.outcome(of: SourceRecord(record: row.record, isDeleted: row.isDeleted), in: cursor.source) {
    case .nothing: return true
    case .problem(let problem): note(problem)
    case .change(.save(let object, let record)):
      switch inliner.inlined(object, recordName: record.recordName) {
      case .failure(let problem): note(problem)
      case .success(let object): return add(.save(object, record), row, cursor, &delivered)
      }
    case .change(let change): return add(change, row, cursor, &delivered)
    }
    return true
  }

  private mutating func note(_ problem: MirroringProblem) {
    output.add(problem)
    page.problems.append(problem)
  }

  private mutating func add(_ change: ImportChange, _ row: StoredRecord, _ cursor: Cursor, _ delivered: inout Int) -> Bool {
    let encoded = output.encoded(change, tag: RecordChangeTag(sequence: row.sequence), zone: cursor.zoneJSON)
    guard output.hasRoom(for: encoded) else { return false }
    output.add(encoded)
    delivered += 1
    if row.isDeleted { page.deletedCount += 1 } else { page.savedCount += 1 }
    return true
  }

  consuming func finish() -> ([UInt8], ImportedPage) {
    var page = page
    page.sequence = position.sequence
    return (output.finish(importToken: position.token(of: database).text, moreComing: page.moreComing), page)
  }
}
