// Holds back objects whose changes could not be written, one row each, and takes them out again (E9).

import History
import Mirroring
import ObjectModel
import RecordStore
import Records
import ServiceKit
import WebServices
import ZoneCommit

/// The held-back changes of an object that this batch tries again.
struct RetriedObject {
  let row: StoredQuarantine
  var held: HeldTransactions

  var changes: [HistoryChange] { held.changes }
  /// When the newest of them was held back: milliseconds since 1970.
  var heldAt: Int64 { held.timestamp }
}

extension ExportRun {
  /// Due rows that one batch tries.
  private static let retryLimit = 100

  /// Takes the held-back changes of due objects, and of objects that the batch changes: that keeps their order.
  /// - Returns: the changes, and whether more is due.
  func retried(with batch: [HistoryTransaction], of mirror: StoredMirror, in transaction: any ShardTransaction) throws
    -> (objects: [RetriedObject], moreDue: Bool)
  {
    if mirror.quarantinedCount == 0 { return ([], false) }
    var objects: [RetriedObject] = []
    var seen: Set<String> = []
    var byteCount = 0
    func take(_ row: StoredQuarantine) throws {
      guard seen.insert(row.name).inserted else { return }
      if KeptChanges.isName(row.name) {
        // A call that retries everything does not mean changes that were given up.
        _ = try transaction.retryQuarantined(.names([row.name]), of: mirror.key, at: StoredQuarantine.never)
        return
      }
      guard let (held, count) = try heldChanges(row, retriedIn: transaction) else { return }
      byteCount += count
      objects.append(RetriedObject(row: row, held: held))
    }
    for transactionInBatch in batch {
      let isExported = Exporter.exports(author: transactionInBatch.author)
      // Of an import only the deletions matter to held-back objects.
      for change in transactionInBatch.changes where isExported || change.changeType == .delete {
        for name in change.names where !seen.contains(name) {
          if let row = try transaction.quarantined(name, of: mirror.key) { try take(row) }
        }
      }
    }
    let due = try transaction.quarantined(of: mirror.key, dueBy: context.clock.now, limit: Self.retryLimit)
    var takenCount = 0
    for row in due where byteCount < Limit.exportByteCount {
      try take(row)
      takenCount += 1
    }
    let later = Array(batch.lazy.filter { Exporter.exports(author: $0.author) }.flatMap(\.changes))
    for index in objects.indices {
      for part in objects[index].held.parts.indices {
        objects[index].held.parts[part].changes = HeldChanges.overtaken(
          objects[index].held.parts[part].changes, by: later, model.index)
      }
    }
    return (objects, takenCount < due.count || due.count == Self.retryLimit)
  }

  /// The retried changes of an object, without relationships that others set from their side since it was held back.
  /// - Returns: a transaction for each part.
  func retry(of object: RetriedObject, _ locator: ObjectLocator, in snapshot: any ShardSnapshot) throws
    -> [HistoryTransaction]
  {
    try object.held.parts.map { part in
      ChangeOrigin(part).part(try yielding(part.changes, of: object, locator, in: snapshot))
    }
  }

  private func yielding(
    _ changes: [HistoryChange], of object: RetriedObject, _ locator: ObjectLocator, in snapshot: any ShardSnapshot
  ) throws -> [HistoryChange] {
    try HeldChanges.yielding(changes, model.index) { owner, field in
      try locator.source(of: owner).pointers(to: owner).filter { $0.field == field }.map(\.source)
    } isNewer: { name, field in
      guard let zone = try locator.zone(of: name), let row = try locator.row(of: name), !row.isDeleted,
        row.record.modified.timestamp > object.heldAt
      else { return false }
      let pointer = row.record.fields.string(field)
      guard let then = try snapshot.pastState(of: name, in: zone.key, replacedAfter: object.heldAt) else {
        // The value at that time is unknown. A record that points to another owner keeps that owner.
        return pointer.map { $0 != object.row.name } ?? false
      }
      return then.stored.record.fields.string(field) != pointer
    }
  }

  /// The held-back changes of a row and their stored size in bytes; nil when they are unreadable: the row stays.
  func heldChanges(_ row: StoredQuarantine, in snapshot: any ShardSnapshot) throws -> (
    held: HeldTransactions, byteCount: Int
  )? {
    func unreadable(_ error: any Error) {
      context.log.error(
        "changes that were held back can't be read",
        ["mirror": .integer(mirrorKey), "quarantine": .integer(row.key), "error": .text(String(describing: error))])
    }
    do {
      guard let payload = try snapshot.quarantinedChanges(row.key) else { return nil }
      return (try HeldTransactions(decoding: payload), payload.count)
    } catch StoreError.corrupt(let reason) {
      unreadable(StoreError.corrupt(reason))
    } catch let error as StoredFormatError {
      unreadable(error)
    }
    return nil
  }

  /// As `heldChanges(_:in:)`; an unreadable row is not due again by itself.
  private func heldChanges(_ row: StoredQuarantine, retriedIn transaction: any ShardTransaction) throws -> (
    held: HeldTransactions, byteCount: Int
  )? {
    if let held = try heldChanges(row, in: transaction) { return held }
    if row.dueAt != StoredQuarantine.never {
      _ = try transaction.retryQuarantined(.names([row.name]), of: row.mirror, at: StoredQuarantine.never)
    }
    return nil
  }

  /// Holds back the changes that were left out or refused, and removes the rows of those that went through.
  /// - Parameter sent: everything that was exported, beginning with a transaction for each part of the retried changes.
  /// - Returns: the problems that the event tells, without those known from an earlier try, and the time of the first
  ///   retry in milliseconds since 1970.
  func settle(
    _ leftOut: [LeftOutChange], _ refused: [ExportWrites.Refusal], retried: [RetriedObject], sent: [HistoryTransaction],
    of mirror: StoredMirror,
    in transaction: any ShardTransaction
  ) throws -> (problems: [MirroringProblem], retryAt: Int64?) {
    if leftOut.isEmpty, refused.isEmpty, retried.isEmpty { return ([], nil) }
    let held = held(leftOut, refused, sent: sent)
    let names = Set(held.map(\.name))
    for object in retried where !names.contains(object.row.name) {
      try transaction.removeQuarantined(object.row.name, of: mirror.key)
    }
    let rows = Dictionary(retried.map { ($0.row.name, $0) }, uniquingKeysWith: { first, _ in first })
    let retriedCount = retried.reduce(0) { $0 + $1.held.parts.count }
    let fresh = Set(sent.dropFirst(retriedCount).flatMap(\.changes).map(\.objectID))
    var problems: [MirroringProblem] = []
    var retryAt: Int64?
    for object in held {
      let row = rows[object.name]?.row
      // An object that is only tried again keeps its age.
      let heldAt = fresh.contains(object.name) ? nil : rows[object.name]?.heldAt
      let dueAt = try hold(
        row == nil && mirror.quarantinedCount > 0 ? joined(object, of: mirror, in: transaction) : (object, row), heldAt,
        of: mirror, in: transaction)
      retryAt = min(dueAt, retryAt ?? dueAt)
      if row.map({ !object.problem.isKnown(from: $0) }) ?? true || fresh.contains(object.name) {
        problems.append(object.problem)
      }
    }
    // The server's own writes that were refused belong to no object to hold back.
    problems += refused.map(\.problem).filter { !names.contains($0.recordName) }
    return (problems, retryAt)
  }

  private struct HeldObject {
    let name: String
    var parts: [HistoryTransaction]
    let problem: MirroringProblem
  }

  /// Groups the changes by object, in the order in which the objects were met.
  private func held(_ leftOut: [LeftOutChange], _ refused: [ExportWrites.Refusal], sent: [HistoryTransaction])
    -> [HeldObject]
  {
    var order: [String] = []
    var objects: [String: HeldObject] = [:]
    func add(_ change: HistoryChange, _ origin: ChangeOrigin, _ problem: MirroringProblem) {
      if objects[change.objectID] == nil {
        order.append(change.objectID)
        objects[change.objectID] = HeldObject(name: change.objectID, parts: [], problem: problem)
      }
      objects[change.objectID]?.parts.append(origin.part([change]))
    }
    // A refused record takes all changes of its object along, those left out earlier too.
    let whole = Set(refused.filter { !$0.write.isLink }.map(\.write.item.recordName))
    for item in leftOut where !whole.contains(item.change.objectID) { add(item.change, item.origin, item.problem) }
    for refusal in refused {
      for part in parts(of: refusal, sent: sent) {
        for change in part.changes { add(change, ChangeOrigin(part), refusal.problem) }
      }
    }
    return order.compactMap { objects[$0] }
  }

  /// The changes from which a refused write resulted.
  func changes(of refusal: ExportWrites.Refusal, sent: [HistoryTransaction]) -> [HistoryChange] {
    parts(of: refusal, sent: sent).flatMap(\.changes)
  }

  /// The changes from which a refused write resulted, by the transactions that made them.
  private func parts(of refusal: ExportWrites.Refusal, sent: [HistoryTransaction]) -> [HistoryTransaction] {
    let record = refusal.write.item.record
    /// The origin of the last change that relates these objects.
    func origin(relating names: Set<String>) -> ChangeOrigin {
      sent.last { $0.changes.contains { names.isSubset(of: $0.names) } }.map(ChangeOrigin.init) ?? ChangeOrigin()
    }
    if refusal.write.isLink {
      guard let parts = LinkRecord(record), let link = model.links.resolve(parts) else { return [] }
      let isSaved = if case .save = refusal.write.item { true } else { false }
      let change = HistoryChange(
        changeType: .update, entity: link.entity.name, objectID: link.objectID,
        relationships: [
          NamedValue(
            name: link.relationship.name,
            value: .toManyDelta(add: isSaved ? [link.targetID] : [], remove: isSaved ? [] : [link.targetID]))
        ])
      return [origin(relating: [link.objectID, link.targetID]).part([change])]
    }
    var own: [HistoryTransaction] = []
    for transaction in sent where Exporter.exports(author: transaction.author) {
      var changes = transaction.changes.filter { $0.objectID == record.recordName }
      if let deletion = changes.lastIndex(where: { $0.changeType == .delete }) {
        own = []
        changes.removeFirst(deletion)
      }
      if !changes.isEmpty { own.append(ChangeOrigin(transaction).part(changes)) }
    }
    for change in pointers(set: refusal.write, besides: own.flatMap(\.changes)) {
      own.append(origin(relating: [record.recordName]).part([change]))
    }
    return own
  }

  /// The record's to-one values that changes of other objects set: a parent's to-many, or the other end of a pair.
  private func pointers(set write: PlannedWrite, besides own: [HistoryChange]) -> [HistoryChange] {
    guard case .save(let record, let changedKeys) = write.item,
      let entity = model.index.entity(
        recordType: record.recordType, entityName: record.fields.string(ReservedName.entityName))
    else { return [] }
    let named = Set(own.flatMap(\.relationships).map(\.name))
    let changed = Set(changedKeys)
    let pointers = entity.mirroredToOnes.compactMap { relationship -> NamedValue<RelationshipValue>? in
      guard case .field(let field) = relationship.storage, changed.contains(field), !named.contains(relationship.name)
      else { return nil }
      let target = record.fields.string(field)
      // The client need not repeat a value that the server cleared.
      return target == nil && write.isServersOwn ? nil : NamedValue(name: relationship.name, value: .toOne(target))
    }
    if pointers.isEmpty { return [] }
    return [
      HistoryChange(
        changeType: .update, entity: entity.name, objectID: record.recordName,
        relationships: pointers.sorted { $0.name < $1.name })
    ]
  }

  /// Puts an object that other objects' changes bring up behind its changes that are already held back.
  private func joined(_ object: HeldObject, of mirror: StoredMirror, in transaction: any ShardTransaction) throws -> (
    HeldObject, StoredQuarantine?
  ) {
    guard let row = try transaction.quarantined(object.name, of: mirror.key) else { return (object, nil) }
    // An operator may restore an unreadable row, so it is not overwritten.
    guard let earlier = try heldChanges(row, retriedIn: transaction) else {
      return (HeldObject(name: object.name + "~", parts: object.parts, problem: object.problem), nil)
    }
    return (HeldObject(name: object.name, parts: earlier.held.parts + object.parts, problem: object.problem), row)
  }

  /// - Returns: when the object is due: milliseconds since 1970.
  private func hold(
    _ held: (object: HeldObject, row: StoredQuarantine?), _ heldAt: Int64?, of mirror: StoredMirror,
    in transaction: any ShardTransaction
  ) throws -> Int64 {
    let (object, row) = held
    let now = context.clock.now
    let attempts = (row?.attempts ?? 0) + 1
    let problem = object.problem
    let payload = HeldTransactions(
      HeldChanges.compacted(object.parts).map { ChangeOrigin($0).part($0.changes, at: heldAt ?? now) })
    let stored = StoredQuarantine(
      mirror: mirror.key, name: object.name, entity: payload.changes.last?.entity ?? problem.entity,
      cause: problem.cause.rawValue, code: problem.code.rawValue,
      cocoaErrorCode: problem.cocoaErrorCode?.rawValue, reason: problem.reason, firstAt: row?.firstAt ?? now,
      lastAt: now, attempts: attempts,
      dueAt: problem.cause.delay(afterAttempts: attempts).map { now + $0 } ?? StoredQuarantine.never,
      schemaVersion: schema.version)
    // An asset whose content is gone can't be counted; the next try reports it.
    let assets = try payload.assets.filter { try transaction.hasContent(of: $0) }
    try transaction.putQuarantined(stored, changes: payload.encoded(), assets: assets)
    return stored.dueAt
  }
}

extension MirroringProblem {
  fileprivate func isKnown(from row: StoredQuarantine) -> Bool { row.code == code.rawValue && row.reason == reason }

  /// The problem that a row stores.
  init(_ row: StoredQuarantine) {
    self.init(
      recordName: row.name, entity: row.entity, code: ServerErrorCode(rawValue: row.code) ?? .internalError,
      cocoaErrorCode: row.cocoaErrorCode.flatMap(CocoaErrorCode.init(rawValue:)), reason: row.reason,
      cause: QuarantineCause(rawValue: row.cause) ?? .other)
  }
}

extension PlannedWrite {
  var isLink: Bool { LinkRecord.isLink(recordType: item.record.recordType) }
}

extension HistoryChange {
  /// The objects that a change mentions: their held-back changes go before it.
  package var names: [String] {
    relationships.reduce(into: [objectID]) { names, relationship in
      switch relationship.value {
      case .toOne(let target): if let target { names.append(target) }
      case .toMany(let targets): names += targets
      case .toManyDelta(let added, let removed): names += added + removed
      }
    }
  }
}
