// Answers the import batch call (I1, I2): prepares the page, and stores the parts of it that are kept.

import Mirroring
package import RecordStore
package import Records
import ServiceBus
import ServiceKit
package import WebServices
package import ZoneCommit

extension StoreCall {
  package func fetchChanges() async throws(RecordError) -> PlaneAnswer {
    let (batch, page) = try await importedBatch()
    let waits = try integer("wait", default: 0, minimum: 0, maximum: 60) > 0
    return PlaneAnswer(mayWait: waits && page.isEmpty && !page.moreComing, body: batch.json())
  }

  /// Reads a page, and notes what it says of the client and tells the client.
  package func importedBatch() async throws(RecordError) -> (batch: WrittenImportBatch, page: ImportedPage) {
    let token = try token("after", as: .importBatch)
    let limit = try integer("limit", default: Limit.recordsPerResponse, maximum: Self.changesLimit)
    let form = try assetForm()
    let mirror = try await locate()
    let (model, schema) = try await model(of: mirror)
    let permissions = schema.permissions(of: request.caller, in: request.database)
    if mirror.exportedTransactionNumber < mirror.lastTransactionNumber { try await exportEverything(of: mirror) }

    let entityNames = model.entityNames(inConfiguration: mirror.configuration)
    let importer = Importer(model: model.index, links: model.links, entityNames: entityNames)
    let reader = ImportReader(
      importer: importer,
      inliner: AssetInliner(
        assets: context.assets, shard: store.shard, deserializer: importer.deserializer, form: form,
        contents: ContentsAtHand(
          context.assets, shard: store.shard, expiry: 0, byteLimit: AssetInliner.pageContentByteLimit)),
      permissions: permissions)
    let values = MirrorValueWriter(assets: assetLinks)
    let started = now
    let start = token?.positions.first?.sequence ?? 0
    func page(retries: Bool) async throws(RecordError) -> ReadPage? {
      try await read { snapshot in
        let current = try self.mirror(in: snapshot)
        guard let database = try snapshot.database(key: current.databaseKey) else { throw missing }
        let state = try snapshot.syncState(of: current.key)
        let position = try token.map { token throws(RecordError) in try ImportPosition(token, of: database) }
        if retries, try !snapshot.unimported(of: current.key, dueBy: started, limit: 1).isEmpty { return nil }
        let upgrade = position.flatMap { modelUpgrade(of: $0, to: state, model, entityNames, schema) }
        var batch = try ImportBatch(
          mirror: current, database: database, position: position ?? ImportPosition(beginning: state),
          isFirst: position == nil, state: state, reader: reader,
          upgrade: upgrade, at: started, output: ImportBatchWriter(values: values), in: snapshot)
        try batch.fill(limit: limit, from: snapshot)
        // During a refetch or after a reset, a client does not have everything that its token passes.
        let confirmed = position?.epoch == state.modelEpoch && position?.refetch == nil ? start : 0
        let passed =
          confirmed > current.importedSequence
          ? try snapshot.forgettableHolds(
            batch.holds.values, of: current, state, through: min(confirmed, position?.told ?? 0)) : 0
        // An owner's conflicts are no guest's to decide.
        let conflictCount = current.isGuest ? 0 : try snapshot.openConflictCount(for: current)
        let (written, page) = batch.finish(openConflictCount: conflictCount)
        try reader.inliner.contents?.complete()
        return ReadPage(batch: written, page: page, confirmed: confirmed, passed: passed)
      }
    }
    var found = try await page(retries: true)
    if found == nil {
      try await retryUnimported(of: mirror, with: reader, schema)
      found = try await page(retries: false)
    }
    guard let found else { throw missing }
    // Only after the token was accepted as this store's.
    if await imports.confirm(found.confirmed, of: held(mirror), stored: mirror.importedSequence) {
      context.noticed(id(of: mirror))
    }
    do throws(RecordError) {
      try await note(found, after: start, of: mirror, schema, started: started)
    } catch {
      // Dropped because a full disk must not stop reading: only the event and the client's position go unnoted.
      guard error == .noSpace, !found.page.mustBeNoted else { throw error }
    }
    return (found.batch, found.page)
  }

  /// A page as it was read.
  private struct ReadPage: Sendable {
    let batch: WrittenImportBatch
    let page: ImportedPage
    /// The sequence up to which the client says that it has everything.
    let confirmed: Int64
    /// The sequence up to which its zones on hold may be forgotten.
    let passed: Int64
  }

  private static let changesLimit = 1000

  /// The records to send again to a store whose token is of an earlier model or of the time before a reset.
  private func modelUpgrade(
    of position: ImportPosition, to state: StoredSyncState, _ model: MirrorModel, _ entityNames: Set<String>?,
    _ schema: EnvironmentSchema
  ) -> ModelUpgrade? {
    guard position.epoch != state.modelEpoch else { return nil }
    let isNext = position.epoch == state.modelEpoch - 1
    let earlier = isNext ? state.previousModelHash.flatMap { schema.mirrorModels[$0] } : nil
    return ModelUpgrade(
      from: earlier.map { ($0.index, $0.entityNames(inConfiguration: state.previousConfiguration)) }, to: model.index,
      entityNames: entityNames)
  }

  /// Exports a store's own saves before a batch is read. Without them the batch would show old records, and the client,
  /// which knows that its edits are saved, would take them back.
  package func exportEverything(of mirror: StoredMirror) async throws(RecordError) {
    try checkThrottle(of: mirror)
    var run = try await exportRun(for: mirror)
    while true {
      let outcome = try await export(run)
      outcome.publish(by: context)
      // Go on until the run's event has its end.
      if outcome.exportedNumber >= mirror.lastTransactionNumber, outcome.running == nil { return }
      guard outcome.hasAdvanced || run.running != nil || outcome.running != nil else {
        throw RecordError(.tryAgainLater, "The store's changes can't be exported now", retryAfter: 1)
      }
      run.advance(after: outcome)
    }
  }

  /// Stores the results of a page: its run's event, the client's position, paused zones and left-out records. A poll
  /// that brought nothing new writes nothing.
  private func note(
    _ read: ReadPage, after start: Int64, of mirror: StoredMirror, _ schema: EnvironmentSchema, started: Int64
  ) async throws(RecordError) {
    let (page, confirmed) = (read.page, read.confirmed)
    let event = await imports.note(page, after: start, of: held(mirror), at: started, identifier: context.random.uuid())
    let isConfirmed = confirmed > mirror.importedSequence
    guard event != nil || isConfirmed || page.isNoteworthy else { return }
    let at = now
    let removal = DuplicateRemoval(
      database: request.database, shard: store.shard, schema: schema, context: context.commits,
      userRecordName: mirror.userRecordName)
    let (number, effects) = try await value(
      of: store.enqueue { transaction -> (Int64, ZoneEffects) in
        // The store was reset or removed meanwhile: the page is of its former state.
        guard var current = try transaction.mirror(key: mirror.key), current.incarnation == mirror.incarnation else {
          return (0, ZoneEffects())
        }
        if confirmed > current.importedSequence {
          current.importedSequence = confirmed
          try transaction.update(current)
          if read.passed > 0 { try transaction.forgetZoneHolds(of: current, through: read.passed) }
        }
        try page.store(of: current, at: at, in: transaction)
        guard let event else { return (0, ZoneEffects()) }
        return (
          try transaction.put(event, of: mirror.key), try removal.note(event, of: mirror.databaseKey, in: transaction)
        )
      })
    effects.publish(by: context)
    if let event, event.endedAt == nil { await imports.stored(number, of: held(mirror)) }
    if event != nil { context.noticed(id(of: mirror)) }
    for hold in page.holds where hold.decision == ZonePolicy.delete.rawValue {
      try await journalHeld(of: mirror, in: hold.zoneName)
    }
  }
}

extension ShardSnapshot {
  /// Looks whether a store has holds to forget, so that most confirmations of a position ask its writer for none.
  /// - Returns: the sequence up to which they may be forgotten; 0 when there are none.
  fileprivate func forgettableHolds(
    _ holds: some Sequence<StoredZoneHold>, of mirror: StoredMirror, _ state: StoredSyncState, through sequence: Int64
  ) throws -> Int64 {
    guard sequence > 0, holds.contains(where: { $0.endSequence <= sequence }) else { return 0 }
    return try passedHolds(of: mirror, state, through: sequence, limit: 1).isEmpty ? 0 : sequence
  }

  /// The holds of zones whose ends the store has heard of, where no object of the store can be. A hold that decided
  /// otherwise than the store's policy is none of them: a page that is repeated later has to tell the same.
  fileprivate func passedHolds(
    of mirror: StoredMirror, _ state: StoredSyncState, through sequence: Int64, limit: Int
  ) throws -> [StoredZoneHold] {
    let decisions = ZoneEnd.allCases.map { ($0, state.policy(for: $0).rawValue) }
    return try emptyZoneHolds(
      of: mirror.key, through: sequence, decidedAs: Dictionary(uniqueKeysWithValues: decisions),
      besides: mirror.defaultZoneName, limit: limit)
  }
}

extension ShardTransaction {
  /// Holds forgotten in one commit; the next new position forgets others.
  private static var forgottenCount: Int { 1000 }

  fileprivate func forgetZoneHolds(of mirror: StoredMirror, through sequence: Int64) throws {
    let state = try syncState(of: mirror.key)
    for hold in try passedHolds(of: mirror, state, through: sequence, limit: Self.forgottenCount) {
      try deleteZoneHold(of: hold.zoneName, mirror.key)
    }
  }
}

extension ImportedPage {
  /// Stores the page's results besides its event.
  fileprivate func store(of mirror: StoredMirror, at now: Int64, in transaction: any ShardTransaction) throws {
    if completesFirstImport || completesReset {
      var state = try transaction.syncState(of: mirror.key)
      if completesFirstImport, state.firstImportAt == nil { state.firstImportAt = now }
      if completesReset { state.openResetCount = 0 }
      try transaction.put(state, of: mirror.key)
    }
    let known = try holds.isEmpty ? [] : transaction.zoneHolds(of: mirror.key)
    let ends = Dictionary(known.map { ($0.zoneName, $0.endSequence) }, uniquingKeysWith: max)
    for hold in holds where ends[hold.zoneName].map({ $0 < hold.endSequence }) ?? true {
      try transaction.put(hold, of: mirror.key)
    }
    for place in settled { try transaction.removeUnimported(place.name, in: place.zone, of: mirror.key) }
    for record in leftOut { try transaction.putUnimported(record) }
  }
}
