// One batch of an export: transactions after the store's export position become records, change log, position and event in one commit.

import Assets
import History
import Mirroring
import ObjectModel
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices

/// What a batch did.
struct ExportOutcome: Sendable {
  /// The store's export position afterwards.
  var exportedNumber: Int64
  /// Saved transactions are left for another batch.
  var moreComing = false
  /// To be published once the commit is durable.
  var zoneChanges: [ZoneChange] = []
  /// As `zoneChanges`.
  var fired: [FiredSubscription] = []
  /// What the next batch continues, if more is coming.
  var running: RunningExport?

  /// Tells of it; to be called when the commit is durable.
  func publish(by context: PlaneContext) {
    for change in zoneChanges { context.changes.publish(change) }
    context.publish(fired)
  }
}

/// A transaction as it was sent, and as it is stored.
struct RecentTransaction: Sendable {
  let transaction: HistoryTransaction
  let payload: [UInt8]
}

/// A run of more than one batch, between two of them.
struct RunningExport: Hashable, Sendable {
  var event: StoredEvent
  /// At most `problemLimit`: the event's list has to end somewhere.
  var problems: [MirroringProblem] = []

  static let problemLimit = 1000
}

/// The body of one export batch, for the shard's writer queue.
///
/// A batch takes whole transactions, as many as make about 400 items and 1 572 864 bytes (T-E01), and at least one. A transaction that is
/// larger is exported in one commit all the same: cut in pieces, readers would see half a save, and what others wrote between two pieces
/// would be overwritten when the rest is worked out again. The request's size bounds it.
struct ExportRun: Sendable {
  let mirrorKey: Int64
  let shard: Int
  let database: DatabaseID
  let model: MirrorModel
  let schema: EnvironmentSchema
  let context: PlaneContext
  /// Transactions that were just sent, by transaction ID: what was stored of them need not be decoded again.
  var recent: [String: RecentTransaction] = [:]
  /// Contents of their large values, by hash.
  var contents: [[UInt8]: [UInt8]] = [:]
  /// The run this batch continues.
  var running: RunningExport?

  /// - Throws: what the store throws. Objects that can't be exported are listed in the event and never block the others.
  func callAsFunction(_ transaction: any ShardTransaction) throws -> ExportOutcome {
    guard var mirror = try transaction.mirror(key: mirrorKey) else { return ExportOutcome(exportedNumber: .max) }
    var problems: [MirroringProblem] = []
    if mirror.exportedTransactionNumber < mirror.purgedTransactionNumber {
      problems.append(Self.purgedProblem(mirror))
      mirror.exportedTransactionNumber = mirror.purgedTransactionNumber
    }
    let batch = try nextBatch(of: mirror, in: transaction)
    guard let last = batch.last?.number, let zoneName = mirror.defaultZoneName else { return try finish(mirror, nil, problems, [], nil, in: transaction) }
    let zone = try transaction.makeZone(named: zoneName, in: mirror.databaseKey)
    let source = ZoneSource(zone, in: transaction)
    let plan = try plan(batch, of: mirror, from: source)
    let firing = try context.watch(schema, by: mirror.userRecordName).firing(in: zone.databaseKey, transaction)
    let written = try write(plan, of: mirror, to: zone, from: source, firing, in: transaction)
    mirror.exportedTransactionNumber = last
    return try finish(mirror, try transaction.zone(key: zone.key), problems, [written], try firing?.finish(), in: transaction)
  }

  private static func purgedProblem(_ mirror: StoredMirror) -> MirroringProblem {
    MirroringProblem(
      recordName: mirror.identifier, entity: "", code: .badRequest, cocoaErrorCode: .historyTokenExpired,
      reason: "transactions up to \(mirror.purgedTransactionNumber) were purged before they were exported: the store is to be reset")
  }

  // MARK: Which transactions

  /// A transaction of the batch; nil content: its row can't be read.
  private struct Item {
    let number: Int64
    let transaction: HistoryTransaction?
  }

  private func nextBatch(of mirror: StoredMirror, in transaction: any ShardTransaction) throws -> [Item] {
    guard mirror.lastTransactionNumber > mirror.exportedTransactionNumber else { return [] }
    var batch: [Item] = []
    var itemCount = 0
    var byteCount = 0
    for row in try transaction.transactions(of: mirrorKey, after: mirror.exportedTransactionNumber, limit: Limit.exportItemCount) {
      let decoded = decoded(row)
      itemCount += decoded?.exportItemCount ?? 1
      byteCount += row.payload.count
      if !batch.isEmpty, itemCount > Limit.exportItemCount || byteCount > Limit.exportByteCount { break }
      batch.append(Item(number: row.number, transaction: decoded))
    }
    return batch
  }

  private func decoded(_ row: StoredTransaction) -> HistoryTransaction? {
    // An identifier that was used before stands for what was stored then, whatever is sent with it now.
    if let known = recent[row.transactionID], known.payload == row.payload { return known.transaction }
    do {
      return try HistoryTransaction(decoding: row.payload)
    } catch {
      context.log.error(
        "a history transaction can't be read", ["mirror": .integer(mirrorKey), "transaction": .integer(row.number), "error": .text(String(describing: error))])
      return nil
    }
  }

  // MARK: What is written

  /// An exporter over the store's zone.
  func exporter(of mirror: StoredMirror, from source: ZoneSource) -> Exporter {
    let random = context.random
    return Exporter(
      model: model.index, links: model.links, entityNames: model.entityNames(inConfiguration: mirror.configuration), source: source,
      serializer: Serializer(contents: AssetVault(assets: context.assets, shard: shard, expiry: AssetLifetime.uploadExpiry(at: context.clock.now), recent: contents)),
      stamp: stamp(of: mirror),
      makeRecordName: { random.uuid() })
  }

  /// What is saved and not exported, as far as it can be read.
  func pending(of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws -> [HistoryTransaction] {
    guard mirror.lastTransactionNumber > mirror.exportedTransactionNumber else { return [] }
    return try snapshot.transactions(of: mirror.key, after: mirror.exportedTransactionNumber, limit: Limit.exportItemCount).compactMap(decoded)
  }

  private func plan(_ batch: [Item], of mirror: StoredMirror, from source: ZoneSource) throws -> ExportPlan {
    var exporter = exporter(of: mirror, from: source)
    var unreadable: [MirroringProblem] = []
    for item in batch {
      if let transaction = item.transaction {
        try exporter.apply(transaction)
      } else {
        unreadable.append(
          MirroringProblem(recordName: mirror.identifier, entity: "", code: .internalError, reason: "transaction \(item.number) can't be read"))
      }
    }
    let plan = exporter.plan()
    return ExportPlan(writes: plan.writes, problems: plan.problems + unreadable)
  }

  private func stamp(of mirror: StoredMirror) -> Stamp {
    Stamp(timestamp: context.clock.now, userRecordName: mirror.userRecordName, deviceID: mirror.identifier)
  }

  /// - Returns: what was written, with the records that references took along, and what was refused.
  private func write(
    _ plan: ExportPlan, of mirror: StoredMirror, to zone: StoredZone, from source: ZoneSource, _ firing: SubscriptionFiring?,
    in transaction: any ShardTransaction
  ) throws -> ExportPlan {
    let schema = schema
    func writer(origin: Int64) -> ZoneWriter {
      ZoneWriter(
        transaction: transaction, zone: zone, origin: origin, originDevice: origin == 0 ? nil : mirror.identifier, references: { schema.references(of: $0) },
        firing: firing)
    }
    // Custom roles are the caller's, and an export has none: it may what the built-in roles allow.
    let permissions = database.isPublic ? RecordPermissions(grants: schema.grants, user: mirror.userRecordName) : nil
    let verdict = try ExportWrites(zone: zone, source: source, transaction: transaction, permissions: permissions).verdict(on: plan.writes)
    let going = Set(verdict.cascade)
    var written: [PlannedWrite] = []
    written.reserveCapacity(verdict.writes.count + verdict.cascade.count)
    for write in verdict.writes where going.isEmpty || !going.contains(write.item.recordName) {
      let existing = try source.row(named: write.item.recordName)
      switch write.item {
      case .save(let record, _): _ = try writer(origin: write.isServersOwn ? 0 : mirror.key).save(record, replacing: existing)
      case .delete:
        if let existing { _ = try writer(origin: write.isServersOwn ? 0 : mirror.key).delete(existing, modified: stamp(of: mirror)) }
      }
      written.append(write)
    }
    for name in verdict.cascade {
      guard let stored = try transaction.record(named: name, in: zone.key), !stored.isDeleted else { continue }
      _ = try writer(origin: 0).delete(stored, modified: stamp(of: mirror))
      written.append(PlannedWrite(item: .delete(stored.record), isServersOwn: true))
    }
    return ExportPlan(writes: written, problems: plan.problems + verdict.problems)
  }

  // MARK: The end of a batch

  private func finish(
    _ mirror: StoredMirror, _ zone: StoredZone?, _ problems: [MirroringProblem], _ plans: [ExportPlan], _ fired: [FiredSubscription]?,
    in transaction: any ShardTransaction
  ) throws -> ExportOutcome {
    var outcome = ExportOutcome(exportedNumber: mirror.exportedTransactionNumber)
    outcome.moreComing = mirror.lastTransactionNumber > mirror.exportedTransactionNumber
    let problems = problems + plans.flatMap(\.problems)
    let writes = plans.flatMap(\.writes)
    if !plans.isEmpty || !problems.isEmpty { try transaction.update(mirror) }
    if let zone, let plan = plans.last, !writes.isEmpty {
      outcome.zoneChanges = [ZoneChange(zone, of: database, originStore: plan.originDevice(mirror), originUser: mirror.userRecordName, hasSubscriptions: fired != nil)]
      outcome.fired = fired ?? []
    }
    let counts = plans.reduce((saved: 0, deleted: 0)) { ($0.saved + $1.savedCount, $0.deleted + $1.deletedCount) }
    outcome.running = try putEvent(saved: counts.saved, deleted: counts.deleted, problems, moreComing: outcome.moreComing, in: transaction)
    return outcome
  }

  /// A run of one batch has one event, begun and ended in its commit; a longer one begins its event with the first (T-V01).
  private func putEvent(
    saved: Int, deleted: Int, _ problems: [MirroringProblem], moreComing: Bool, in transaction: any ShardTransaction
  ) throws -> RunningExport? {
    if running == nil, saved + deleted == 0, problems.isEmpty { return nil }
    let now = context.clock.now
    var run = running ?? RunningExport(event: StoredEvent(identifier: context.random.uuid(), kind: .export, startedAt: now, succeeded: true))
    run.problems += problems.prefix(RunningExport.problemLimit - run.problems.count)
    run.event.savedCount += saved
    run.event.deletedCount += deleted
    if !run.problems.isEmpty {
      run.event.errorJSON = MirrorErrors.partialFailure(run.problems)
      run.event.succeeded = false
    }
    if !moreComing { run.event.endedAt = now }
    run.event.number = try transaction.put(run.event, of: mirrorKey)
    return moreComing ? run : nil
  }
}

extension ExportPlan {
  /// The device that need not be told. One that shall learn of what the server did on its own is not the only one concerned, and is told too.
  fileprivate func originDevice(_ mirror: StoredMirror) -> String? { writes.contains(where: \.isServersOwn) ? nil : mirror.identifier }
}

extension HistoryTransaction {
  /// About how many records the transaction touches: each object, and each member of a set (a link record or a child).
  fileprivate var exportItemCount: Int {
    changes.reduce(0) { count, change in
      change.relationships.reduce(count + 1) { count, relationship in
        switch relationship.value {
        case .toOne: count
        case .toMany(let targets): count + targets.count
        case .toManyDelta(let added, let removed): count + added.count + removed.count
        }
      }
    }
  }
}

/// Asset contents for an export. The writer's thread reads a file only after a restart, and writes one only for a record that was nearly
/// full before an edit.
struct AssetVault: AssetContents {
  let assets: AssetStore
  let shard: Int
  /// Until when what is written may wait for its record: seconds since 1970.
  let expiry: Int64
  /// By hash.
  let recent: [[UInt8]: [UInt8]]

  func content(of asset: Asset) throws -> [UInt8] { try recent[asset.hash] ?? assets.read(asset, shard: shard) }
  func asset(with content: [UInt8]) throws -> Asset { try assets.put(content, until: expiry) }
}
