// Answers calls on single objects of a store: their values, records and permissions.

import History
import JSON
import Mirroring
import ObjectModel
import RecordStore
package import Records
import ServiceBus
import ServiceKit
import WebServices
package import ZoneCommit

extension StoreCall {
  package func object(_ objectID: String) async throws(RecordError) -> PlaneAnswer {
    let form = try assetForm()
    let mirror = try await locate()
    let (model, schema) = try await model(of: mirror)
    let run = ExportRun(
      mirrorKey: mirror.key, shard: store.shard, database: request.database, model: model, schema: schema,
      context: context)
    let permissions = schema.permissions(of: request.caller, in: request.database)
    let isExporting = exports.runs.isRunning(id(of: mirror))
    let found = try await read { snapshot in
      let answer = try Self.object(
        objectID, of: try self.mirror(in: snapshot), run, isExporting: isExporting, in: snapshot)
      try run.contents.complete()
      if let permissions, let record = answer?.record?.0, !permissions.mayRead(record) { return nil as ObjectAnswer? }
      return answer
    }
    guard var answer = found else {
      throw RecordError(.notFound, "There is no object \(objectID.prefix(Limit.nameByteCount)) in this store")
    }
    let inliner = AssetInliner(
      assets: context.assets, shard: store.shard, deserializer: Deserializer(model.index), form: form)
    // Dropped because the import reports a record whose asset does not fit; here the link shows where it is.
    let inlined = await inliner.inlinedApart(answer.object, recordName: objectID, of: request.party)
    if let inlined { answer.object = inlined }
    return PlaneAnswer(
      body: answer.json(
        values: MirrorValueWriter(assets: assetLinks),
        records: RecordDictionaryWriter(zone: answer.zoneID, assets: assetLinks)))
  }

  /// The object's record, with the store's saved and unexported changes applied.
  private static func object(
    _ objectID: String, of mirror: StoredMirror, _ run: ExportRun, isExporting: Bool, in snapshot: any ShardSnapshot
  ) throws -> ObjectAnswer? {
    if mirror.defaultZoneName == nil, !mirror.isGuest { return nil }
    let locator = try ObjectLocator(of: mirror, in: snapshot)
    let zone = try locator.zone(of: objectID)
    if mirror.isGuest {
      // An object hidden from the user counts as missing.
      guard let zone else { return nil }
      if let row = try locator.source(in: zone).row(named: objectID), try !locator.isVisible(row, in: zone) {
        return nil
      }
    }
    let source = locator.source(in: zone)
    let pending = try run.pending(about: [objectID], isWide: true, of: mirror, in: snapshot)
    var exporter = run.exporter(
      of: mirror, from: source, elsewhere: locator.elsewhere(than: zone), isolatesErrors: true)
    let held = mirror.quarantinedCount == 0 ? nil : try snapshot.quarantined(objectID, of: mirror.key)
    let heldParts = try held.flatMap { try run.heldChanges($0, in: snapshot) }?.held.parts ?? []
    for part in heldParts { try exporter.apply(part) }
    for transaction in pending { try exporter.apply(transaction) }
    let deserializer = Deserializer(run.model.index)
    let record = try exporter.currentRecord(named: objectID)
    guard
      let object = try record.flatMap({ record in
        try deserializer.entity(of: record).map { try deserializer.object($0, from: record) }
      })
        ?? ObjectValues(held: heldParts.flatMap(\.changes)),
      let entity = run.model.index.entity(named: object.entity)
    else { return nil }
    let isDirty = pending.contains { $0.changes.contains { $0.objectID == objectID } }
    let lastError =
      try held.map(MirroringProblem.init)
      ?? MirrorErrors.problem(of: objectID, in: snapshot.latestEvent(of: mirror.key, kind: .export)?.errorJSON)
    // With more transactions than one batch takes, the object may not be in the batch under way.
    let waiting = mirror.lastTransactionNumber - mirror.exportedTransactionNumber
    let facts = SyncFacts(
      stored: .record, pendingTransactions: isDirty ? [mirror.exportedTransactionNumber + 1] : [], problem: lastError,
      isHeld: held != nil,
      conflicts: try snapshot.openConflicts(of: objectID, for: mirror),
      store: StoreFacts(pendingCount: waiting, isExporting: isExporting && waiting <= Limit.exportItemCount))
    return ObjectAnswer(
      object: object, objectID: objectID, zoneID: try locator.zoneID(of: objectID),
      syncState: facts.state.rawValue, lastError: lastError, sets: try exporter.sets(of: objectID, entity: entity),
      record: try source.row(named: objectID).flatMap { $0.isDeleted ? nil : ($0.record, $0.tag) })
  }

  // MARK: Records and permissions

  package func records() async throws(RecordError) -> PlaneAnswer {
    let names = try ObjectIDsRequest(try JSONValue.request(body)).objectIDs
    let rows = try await rows(names, byteLimit: Self.pageByteCount)
    var output = ListAnswer("records", of: request, reservingByteCount: 1024 * names.count + 64)
    for (index, name) in names.enumerated() {
      if index >= rows.count || output.byteCount > Self.pageByteCount {
        output.add(
          RecordError(.badRequest, "The records are too large for one answer: ask for fewer at a time"), ofRecord: name)
      } else if let row = rows[index].row, !row.isDeleted {
        let writer = RecordDictionaryWriter(zone: rows[index].zone, assets: assetLinks)
        output.add { writer.write(row.record, tag: row.tag, as: .complete, to: &$0) }
      } else {
        output.add(RecordError(.notFound, "Record not found"), ofRecord: name)
      }
    }
    return try output.finish()
  }

  /// In the private database for every object; in the public one for objects that are not stored or the caller's (A12).
  package func permissions() async throws(RecordError) -> PlaneAnswer {
    let names = try ObjectIDsRequest(try JSONValue.request(body)).objectIDs
    let rows = try await rows(names, byteLimit: .max)
    let objects = zip(names, rows).map { name, found in
      let isOwn = found.row.map { $0.isDeleted || $0.record.created.userRecordName == user } ?? true
      return (name, request.scope == .private || (request.scope == .public && isOwn))
    }
    return PlaneAnswer(body: StoreAnswer.permissions(canModify: true, objects: objects))
  }

  /// - Returns: the rows in the order of `names`, each with its zone; fewer than `names` when they are too large for
  ///   one answer.
  private func rows(_ names: [String], byteLimit: Int) async throws(RecordError) -> [(
    zone: Zone.ID, row: StoredRecord?
  )] {
    let permissions = try await context.schemas.schema(of: request.database.container, request.database.environment)
      .permissions(of: request.caller, in: request.database)
    return try await read { snapshot in
      let locator = try ObjectLocator(of: try mirror(in: snapshot), in: snapshot)
      var rows: [(zone: Zone.ID, row: StoredRecord?)] = []
      var byteCount = 0
      for name in names where byteCount <= byteLimit {
        var row = try locator.visibleRow(of: name)
        if let permissions, let found = row, !permissions.mayRead(found.record) { row = nil }
        byteCount += row?.record.fields.byteCount ?? 0
        rows.append((try locator.zoneID(of: name), row))
      }
      return rows
    }
  }
}

extension ObjectValues {
  /// An object of which only held-back changes exist; nil when they do not insert it.
  fileprivate init?(held changes: [HistoryChange]) {
    guard let made = HeldChanges.compacted(changes).first, made.changeType == .insert else { return nil }
    let relationships = made.relationships.compactMap { named -> NamedValue<String?>? in
      if case .toOne(let target) = named.value { NamedValue(name: named.name, value: target) } else { nil }
    }
    self.init(entity: made.entity, attributes: made.attributes, relationships: relationships)
  }
}
