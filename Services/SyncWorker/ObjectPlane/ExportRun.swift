// Exports one batch: transactions after the export position become records, change log and event in one commit.

package import History
package import Mirroring
import ObjectModel
package import RecordStore
package import Records
import ServiceBus
import ServiceKit
import WebServices
package import ZoneCommit

extension ExportRun {
  /// Makes this the batch after one that is committed.
  mutating func advance(after outcome: ExportOutcome) {
    running = outcome.running
    recent = outcome.next.map { [$0.transaction.transactionID: $0] } ?? [:]
    contents = context.contents(on: shard)
  }
}

/// The body of one export batch, for the shard's writer queue.
///
/// A batch takes whole transactions, up to about 400 items and 1 572 864 bytes (T-E01) and a weight of stored records
/// (`StoredWeight`). A larger transaction goes in slices: readers see it grow, as they do with CloudKit, and writes of
/// others between two slices stay.
/// The links of a deleted object go in the same batch, however many there are.
package struct ExportRun: Sendable {
  package let mirrorKey: Int64
  package let shard: Int
  package let database: DatabaseID
  package let model: MirrorModel
  package let schema: EnvironmentSchema
  package let context: ObjectContext
  /// The quota of the store's user; nil when there is none.
  package var quota: StorageQuota?
  /// Transactions of the save under way, by transaction ID: their stored form need not be decoded again.
  package var recent: [String: RecentTransaction] = [:]
  /// The large values of this batch.
  var contents: ContentsAtHand
  /// The run this batch continues.
  var running: ExportProgress?
  /// Changes of objects that the zone lacks, from transactions that were exported before (`HistoryRescan`).
  var resent: [HistoryTransaction] = []

  /// Set while the store looks for the object that makes the batch fail.
  var isolation: ExportIsolation?
  var limits = ExportLimits.standard

  package init(
    mirrorKey: Int64, shard: Int, database: DatabaseID, model: MirrorModel, schema: EnvironmentSchema,
    context: ObjectContext, quota: StorageQuota? = nil,
    recent: [String: RecentTransaction] = [:], contents: [[UInt8]: [UInt8]] = [:], running: ExportProgress? = nil,
    resent: [HistoryTransaction] = [],
    isolation: ExportIsolation? = nil, limits: ExportLimits = ExportLimits.standard
  ) {
    self.mirrorKey = mirrorKey
    self.shard = shard
    self.database = database
    self.model = model
    self.schema = schema
    self.context = context
    self.quota = quota
    self.recent = recent
    self.contents = context.contents(on: shard, recent: contents)
    self.running = running
    self.resent = resent
    self.isolation = isolation
    self.limits = limits
  }

  /// The records that the export of the save under way looks up first.
  package func lookups(of mirror: StoredMirror) -> [ExpectedLookup] {
    guard let zoneName = mirror.defaultZoneName else { return [] }
    return recent.values.flatMap(\.transaction.changes).map {
      .record($0.objectID, zone: zoneName, database: database)
    }
  }

  /// - Throws: store errors. An object that can't be exported is held back, listed in the event and blocks no other.
  package func callAsFunction(_ transaction: any ShardTransaction) throws -> ExportOutcome {
    let outcome = try exported(in: transaction)
    try contents.complete()
    return outcome
  }

  private func exported(in transaction: any ShardTransaction) throws -> ExportOutcome {
    isolation?.end()
    guard var mirror = try transaction.mirror(key: mirrorKey) else { return ExportOutcome(exportedNumber: .max) }
    if mirror.isHome {
      // The objects of a home are in other users' databases: `SharedForward` forwards them.
      var outcome = ExportOutcome(exportedNumber: mirror.exportedTransactionNumber)
      outcome.moreComing = mirror.exportedTransactionNumber < mirror.lastTransactionNumber
      return outcome
    }
    var problems: [MirroringProblem] = []
    let startNumber = running?.startNumber ?? mirror.exportedTransactionNumber
    if mirror.exportedTransactionNumber < mirror.purgedTransactionNumber {
      problems.append(Self.purgedProblem(mirror))
      mirror.exportedTransactionNumber = mirror.purgedTransactionNumber
      mirror.exportedStepCount = 0
    }
    var batch = try nextBatch(of: mirror, in: transaction)
    problems += batch.unreadable.map { Self.unreadableProblem(mirror, $0) }
    var (retried, moreDue) = try retried(with: batch.transactions, of: mirror, in: transaction)
    guard batch.position != nil || !retried.isEmpty || !resent.isEmpty, mirror.defaultZoneName != nil || mirror.isGuest
    else {
      return try finish(mirror, [], problems, ZoneEffects(), from: startNumber, moreDue: false, in: transaction)
    }
    let commit = try terms(of: mirror).begin(in: transaction.row(ofDatabase: mirror.databaseKey), transaction)
    let left: Unwritten?
    if let zoneName = mirror.defaultZoneName {
      left = try leaveOut(
        &batch, &retried, from: transaction.zone(named: zoneName, in: mirror.databaseKey), of: mirror, in: transaction)
      if left?.takesOthers ?? true, batch.position != nil || !retried.isEmpty || !resent.isEmpty {
        _ = try commit.makeZone(named: zoneName)
      }
    } else {
      left = try leaveOutUnreachable(&batch, &retried, of: mirror, in: transaction)
    }
    let leftElsewhere = try mirror.isGuest ? nil : leaveOutOfEndedZones(&batch, &retried, of: mirror, commit)
    problems += (left?.problems ?? []) + (leftElsewhere?.problems ?? [])
    let locator = try ObjectLocator(of: mirror, in: transaction)
    let again = try retried.flatMap { try retry(of: $0, locator, in: transaction) }
    let missed = try unrecorded(locator)
    let sent = again + missed + batch.transactions
    let lost = try (left?.lost ?? []) + (leftElsewhere?.lost ?? []) + edits(ofEnded: sent, locator)
    var zones: [ZoneExport] = []
    for zone in try locator.zones(of: sent, lost: lost) {
      zones.append(
        try export(batch, after: again + missed, sent: sent, lost: lost, of: mirror, to: zone, locator, commit))
    }
    let (known, dueAt) = try settle(
      zones.flatMap(\.leftOut), zones.flatMap(\.refused), retried: retried, sent: sent, of: mirror, in: transaction)
    problems += zones.flatMap(\.reverted)
    problems += known + zones.flatMap(\.conflicts)
    let retryAt = try freed(by: zones, of: mirror, in: transaction) ? context.clock.now : dueAt
    if let position = batch.position { (mirror.exportedTransactionNumber, mirror.exportedStepCount) = position }
    // Even if nothing was written: the changes that were left out have passed the export position.
    if left != nil || leftElsewhere != nil { try transaction.update(mirror) }
    try settlePlacements(of: sent, locator, mirror, in: transaction)
    var outcome = try finish(
      mirror, zones, problems, try commit.finish(), from: startNumber, moreDue: moreDue, in: transaction)
    outcome.next = batch.next
    outcome.retryAt = [retryAt, left?.retryAt, leftElsewhere?.retryAt].compactMap(\.self).min()
    outcome.hasAdvanced = batch.position != nil
    return outcome
  }

  /// The sent relationship updates of objects whose zone has ended, from a store that was told of the end.
  private func edits(ofEnded sent: [HistoryTransaction], _ locator: ObjectLocator) throws -> [HistoryChange] {
    if locator.isSingle { return [] }
    return try sent.lazy.filter { Exporter.exports(author: $0.author) }.flatMap(\.changes).filter { change in
      try change.changeType == .update && !change.relationships.isEmpty && locator.isEnded(change.objectID)
    }
  }

  /// A deletion makes room, so objects that are held back for lack of space become due.
  private func freed(by zones: [ZoneExport], of mirror: StoredMirror, in transaction: any ShardTransaction) throws
    -> Bool
  {
    guard mirror.quarantinedCount > 0,
      zones.contains(where: { $0.written.contains { if case .delete = $0.item { true } else { false } } })
    else { return false }
    return try transaction.retryQuarantined(
      .cause(QuarantineCause.space.rawValue), of: mirror.key, at: context.clock.now) > 0
  }

  /// Settles the assignments of objects that were exported or came to nothing; a held-back object keeps its own.
  private func settlePlacements(
    of sent: [HistoryTransaction], _ locator: ObjectLocator, _ mirror: StoredMirror,
    in transaction: any ShardTransaction
  ) throws {
    if locator.isSingle { return }
    for name in Set(sent.lazy.flatMap(\.changes).map(\.objectID)).sorted() where try locator.isAssigned(name) {
      if try transaction.quarantined(name, of: mirror.key) == nil {
        try transaction.settlePlacement(of: name, in: mirror.databaseKey)
      }
    }
  }

  /// The resent changes whose objects still have no record.
  private func unrecorded(_ locator: ObjectLocator) throws -> [HistoryTransaction] {
    try resent.map { transaction in
      var transaction = transaction
      transaction.changes = try transaction.changes.filter { try locator.row(of: $0.objectID) == nil }
      return transaction
    }
  }

  private static func unreadableProblem(_ mirror: StoredMirror, _ number: Int64) -> MirroringProblem {
    MirroringProblem(
      recordName: mirror.identifier, entity: "", code: .internalError, reason: "transaction \(number) can't be read",
      cause: .damaged)
  }

  private static func purgedProblem(_ mirror: StoredMirror) -> MirroringProblem {
    MirroringProblem(
      recordName: mirror.identifier, entity: "", code: .badRequest, cocoaErrorCode: .historyTokenExpired,
      reason:
        "transactions up to \(mirror.purgedTransactionNumber) were purged before their export: the store must be reset")
  }

  // MARK: What is written

  /// An exporter over one of the store's zones.
  func exporter(
    of mirror: StoredMirror, from source: ZoneSource, elsewhere: Exporter.Elsewhere?, reverting: Set<String> = [],
    isolatesErrors: Bool, judge: ConflictJudge? = nil
  ) -> Exporter {
    let random = context.random
    return Exporter(
      model: model.index, links: model.links, entityNames: model.entityNames(inConfiguration: mirror.configuration),
      source: source,
      serializer: Serializer(contents: contents, assetThresholdByteCount: context.assetThresholdByteCount),
      stamp: stamp(of: mirror), isolatesErrors: isolatesErrors, elsewhere: elsewhere, reverting: reverting,
      judge: judge,
      makeRecordName: { random.uuid() })
  }

  func stamp(of mirror: StoredMirror) -> Stamp {
    Stamp(timestamp: context.clock.now, userRecordName: mirror.userRecordName, deviceID: mirror.deviceID)
  }

  private func terms(of mirror: StoredMirror) -> CommitTerms {
    CommitTerms(
      .export, by: WriteAuthor(userRecordName: mirror.userRecordName, device: mirror.deviceID, mirror: mirror.key),
      stamp(of: mirror), schema, quota: quota,
      shard: shard, context)
  }

  // MARK: The end of a batch

  private func finish(
    _ mirror: StoredMirror, _ zones: [ZoneExport], _ problems: [MirroringProblem], _ effects: ZoneEffects,
    from startNumber: Int64, moreDue: Bool,
    in transaction: any ShardTransaction
  ) throws -> ExportOutcome {
    var outcome = ExportOutcome(exportedNumber: mirror.exportedTransactionNumber)
    outcome.startNumber = startNumber
    outcome.moreComing = mirror.lastTransactionNumber > mirror.exportedTransactionNumber || moreDue
    if !zones.isEmpty || !problems.isEmpty { try transaction.update(mirror) }
    outcome.effects = effects
    let plan = ExportPlan(writes: zones.flatMap(\.written))
    if isEvent(plan.savedCount + plan.deletedCount, problems) {
      outcome.noticed = MirrorID(shard: shard, key: mirrorKey)
    }
    try putEvent(saved: plan.savedCount, deleted: plan.deletedCount, problems, for: &outcome, mirror, in: transaction)
    outcome.syncToken = try transaction.database(key: mirror.databaseKey).map {
      SyncToken(.database, incarnation: $0.incarnation, sequence: $0.sequence)
    }
    return outcome
  }

  /// A run that did nothing has no event.
  private func isEvent(_ writeCount: Int, _ problems: [MirroringProblem]) -> Bool {
    running != nil || writeCount > 0 || !problems.isEmpty
  }

  /// A run of one batch stores one ended event; a longer run begins its event with the first batch (T-V01).
  private func putEvent(
    saved: Int, deleted: Int, _ problems: [MirroringProblem], for outcome: inout ExportOutcome, _ mirror: StoredMirror,
    in transaction: any ShardTransaction
  ) throws {
    if !isEvent(saved + deleted, problems) { return }
    let now = context.clock.now
    var run =
      running
      ?? ExportProgress(
        event: StoredEvent(identifier: context.random.uuid(), kind: .export, startedAt: now, succeeded: true),
        startNumber: outcome.startNumber)
    run.problems += problems.prefix(ExportProgress.problemLimit - run.problems.count)
    run.event.savedCount += saved
    run.event.deletedCount += deleted
    if !run.problems.isEmpty {
      run.event.errorJSON = MirrorErrors.partialFailure(run.problems)
      run.event.succeeded = false
    }
    if !outcome.moreComing { run.event.endedAt = now }
    run.event.number = try transaction.put(run.event, of: mirrorKey)
    let exported = RecentExports.Run(
      after: run.startNumber, through: outcome.exportedNumber, eventNumber: run.event.number,
      eventIdentifier: run.event.identifier)
    context.recentExports.note(exported, of: MirrorID(shard: shard, key: mirrorKey))
    let removal = DuplicateRemoval(
      database: database, shard: shard, schema: schema, context: context.commits, userRecordName: mirror.userRecordName)
    outcome.effects.add(try removal.note(run.event, of: mirror.databaseKey, in: transaction))
    if outcome.moreComing { outcome.running = run } else { outcome.event = run.event }
  }
}
