// What an export holds back, and takes out again: objects whose changes could not be written, one row each (E9).

import History
import Mirroring
import ObjectModel
import RecordStore
import Records
import ServiceKit
import WebServices

/// An object's changes that were held back and are tried again with this batch.
struct RetriedObject {
  let row: StoredQuarantine
  var changes: [HistoryChange]
  /// When the newest of them was held back: milliseconds since 1970.
  let heldAt: Int64
  /// What the last of them knew of others'.
  let edit: HistoryTransaction.Edit?
}

extension ExportRun {
  /// Rows that are tried in one batch because their time has come.
  private static let retryLimit = 100

  /// What was held back of the objects that a batch changes, so that their changes stay in order, and what is due.
  /// - Returns: the changes, and whether more is due.
  func retried(with batch: [HistoryTransaction], of mirror: StoredMirror, in transaction: any ShardTransaction) throws -> (objects: [RetriedObject], moreDue: Bool) {
    if mirror.quarantinedCount == 0 { return ([], false) }
    var objects: [RetriedObject] = []
    var seen: Set<String> = []
    var byteCount = 0
    func take(_ row: StoredQuarantine) throws {
      guard seen.insert(row.name).inserted else { return }
      if KeptChanges.isName(row.name) {
        // Whoever asked for all to be tried again did not mean what is given up.
        _ = try transaction.retryQuarantined(.names([row.name]), of: mirror.key, at: StoredQuarantine.never)
        return
      }
      guard let changes = try heldChanges(row, retriedIn: transaction) else { return }
      byteCount += changes.byteCount
      objects.append(
        RetriedObject(row: row, changes: changes.transaction.changes, heldAt: changes.transaction.timestamp, edit: changes.transaction.edit))
    }
    for transactionInBatch in batch {
      let isExported = Exporter.exports(author: transactionInBatch.author)
      // An import deletes what is held back, and says nothing else of it.
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
    let later = batch.lazy.filter { Exporter.exports(author: $0.author) }.flatMap(\.changes)
    for index in objects.indices { objects[index].changes = HeldChanges.overtaken(objects[index].changes, by: Array(later), model.index) }
    return (objects, takenCount < due.count || due.count == Self.retryLimit)
  }

  /// What is tried again of an object, without the relationships that others set from their side since it was held back.
  func retry(of object: RetriedObject, _ locator: ObjectLocator, in snapshot: any ShardSnapshot) throws -> HistoryTransaction {
    let changes = try HeldChanges.yielding(object.changes, model.index) { owner, field in
      try locator.source(of: owner).pointers(to: owner).filter { $0.field == field }.map(\.source)
    } isNewer: { name, field in
      guard let zone = try locator.zone(of: name), let row = try locator.row(of: name), !row.isDeleted,
        row.record.modified.timestamp > object.heldAt
      else { return false }
      let pointer = row.record.fields.string(field)
      guard let then = try snapshot.pastStates(of: name, in: zone.key, after: 0, limit: Self.pastLimit).first(where: { $0.replacedAt > object.heldAt }) else {
        // Nobody knows what it was then. Whoever has found another owner keeps him.
        return pointer.map { $0 != object.row.name } ?? false
      }
      return then.stored.record.fields.string(field) != pointer
    }
    var transaction = HistoryTransaction(transactionID: "", timestamp: 0, changes: changes)
    transaction.edit = object.edit
    return transaction
  }

  /// Past states of one record that are looked through.
  private static let pastLimit = 1000

  /// nil for what can't be read: it stays where it is.
  func heldChanges(_ row: StoredQuarantine, in snapshot: any ShardSnapshot) throws -> (transaction: HistoryTransaction, byteCount: Int)? {
    func unreadable(_ error: any Error) {
      context.log.error(
        "changes that were held back can't be read", ["mirror": .integer(mirrorKey), "quarantine": .integer(row.key), "error": .text(String(describing: error))])
    }
    do {
      guard let payload = try snapshot.quarantinedChanges(row.key) else { return nil }
      return (try HistoryTransaction(decoding: payload), payload.count)
    } catch StoreError.corrupt(let reason) {
      unreadable(StoreError.corrupt(reason))
    } catch let error as StoredFormatError {
      unreadable(error)
    }
    return nil
  }

  /// As the other; what can't be read is not tried again by itself.
  private func heldChanges(_ row: StoredQuarantine, retriedIn transaction: any ShardTransaction) throws -> (transaction: HistoryTransaction, byteCount: Int)? {
    if let held = try heldChanges(row, in: transaction) { return held }
    if row.dueAt != StoredQuarantine.never { _ = try transaction.retryQuarantined(.names([row.name]), of: row.mirror, at: StoredQuarantine.never) }
    return nil
  }

  /// Holds back what was left out, and forgets what went through.
  /// - Parameter sent: what was exported, with what was retried before it.
  /// - Returns: what the event is to tell: not what is known from an earlier try; and when the first is due.
  func settle(
    _ leftOut: [LeftOutChange], _ refused: [ExportWrites.Refusal], retried: [RetriedObject], sent: [HistoryTransaction], of mirror: StoredMirror,
    in transaction: any ShardTransaction
  ) throws -> (problems: [MirroringProblem], retryAt: Int64?) {
    if leftOut.isEmpty, refused.isEmpty, retried.isEmpty { return ([], nil) }
    let held = held(leftOut, refused, sent: sent)
    let names = Set(held.map(\.name))
    for object in retried where !names.contains(object.row.name) { try transaction.removeQuarantined(object.row.name, of: mirror.key) }
    let rows = Dictionary(retried.map { ($0.row.name, $0) }, uniquingKeysWith: { first, _ in first })
    let fresh = Set(sent.dropFirst(retried.count).flatMap(\.changes).map(\.objectID))
    var problems: [MirroringProblem] = []
    var retryAt: Int64?
    for object in held {
      let row = rows[object.name]?.row
      // What is only tried again is as old as it was.
      let heldAt = fresh.contains(object.name) ? nil : rows[object.name]?.heldAt
      let edit = sent.last { transaction in transaction.edit != nil && transaction.changes.contains { $0.objectID == object.name } }?.edit
      let dueAt = try hold(
        row == nil && mirror.quarantinedCount > 0 ? joined(object, of: mirror, in: transaction) : (object, row), heldAt, edit, of: mirror, in: transaction)
      retryAt = min(dueAt, retryAt ?? dueAt)
      if row.map({ !object.problem.isKnown(from: $0) }) ?? true || fresh.contains(object.name) {
        problems.append(object.problem)
      }
    }
    // Refused, and nobody's change to hold back: what the server itself would have done.
    problems += refused.map(\.problem).filter { !names.contains($0.recordName) }
    return (problems, retryAt)
  }

  private struct HeldObject {
    let name: String
    var changes: [HistoryChange]
    let problem: MirroringProblem
  }

  /// By object, in the order they were met.
  private func held(_ leftOut: [LeftOutChange], _ refused: [ExportWrites.Refusal], sent: [HistoryTransaction]) -> [HeldObject] {
    var order: [String] = []
    var objects: [String: HeldObject] = [:]
    func add(_ changes: [HistoryChange], _ problem: MirroringProblem) {
      for change in changes {
        if objects[change.objectID] == nil {
          order.append(change.objectID)
          objects[change.objectID] = HeldObject(name: change.objectID, changes: [], problem: problem)
        }
        objects[change.objectID]?.changes.append(change)
      }
    }
    // A record that is refused takes all that was done to its object with it, what was left out of that before included.
    let whole = Set(refused.filter { !$0.write.isLink }.map(\.write.item.recordName))
    for item in leftOut where !whole.contains(item.change.objectID) { add([item.change], item.problem) }
    for refusal in refused { add(changes(of: refusal, sent: sent), refusal.problem) }
    return order.compactMap { objects[$0] }
  }

  /// The changes that a refused write came of.
  func changes(of refusal: ExportWrites.Refusal, sent: [HistoryTransaction]) -> [HistoryChange] {
    let record = refusal.write.item.record
    if refusal.write.isLink {
      guard let parts = LinkRecord(record), let link = model.links.resolve(parts) else { return [] }
      let isSaved = if case .save = refusal.write.item { true } else { false }
      return [
        HistoryChange(
          changeType: .update, entity: link.entity.name, objectID: link.objectID,
          relationships: [
            NamedValue(name: link.relationship.name, value: .toManyDelta(add: isSaved ? [link.targetID] : [], remove: isSaved ? [] : [link.targetID]))
          ])
      ]
    }
    var own: [HistoryChange] = []
    for change in sent.lazy.filter({ Exporter.exports(author: $0.author) }).flatMap(\.changes) where change.objectID == record.recordName {
      if change.changeType == .delete { own = [] }
      own.append(change)
    }
    return own + pointers(set: refusal.write, besides: own)
  }

  /// To-one relationships that changes of other objects set: a parent's set, or the other end of a pair.
  private func pointers(set write: PlannedWrite, besides own: [HistoryChange]) -> [HistoryChange] {
    guard case .save(let record, let changedKeys) = write.item,
      let entity = model.index.entity(recordType: record.recordType, entityName: record.fields.string(ReservedName.entityName))
    else { return [] }
    let named = Set(own.flatMap(\.relationships).map(\.name))
    let changed = Set(changedKeys)
    let pointers = entity.mirroredToOnes.compactMap { relationship -> NamedValue<RelationshipValue>? in
      guard case .field(let field) = relationship.storage, changed.contains(field), !named.contains(relationship.name) else { return nil }
      let target = record.fields.string(field)
      // What the server cleared is not the client's to do again.
      return target == nil && write.isServersOwn ? nil : NamedValue(name: relationship.name, value: .toOne(target))
    }
    if pointers.isEmpty { return [] }
    return [HistoryChange(changeType: .update, entity: entity.name, objectID: record.recordName, relationships: pointers.sorted { $0.name < $1.name })]
  }

  /// An object that comes with changes of others: behind what is held back of it already.
  private func joined(_ object: HeldObject, of mirror: StoredMirror, in transaction: any ShardTransaction) throws -> (HeldObject, StoredQuarantine?) {
    guard let row = try transaction.quarantined(object.name, of: mirror.key) else { return (object, nil) }
    // What can't be read is not overwritten: an operator may restore it.
    guard let earlier = try heldChanges(row, retriedIn: transaction) else {
      return (HeldObject(name: object.name + "~", changes: object.changes, problem: object.problem), nil)
    }
    return (HeldObject(name: object.name, changes: earlier.transaction.changes + object.changes, problem: object.problem), row)
  }

  /// - Parameter edit: of the last of the changes: what they are compared with when they go through.
  private func hold(
    _ held: (object: HeldObject, row: StoredQuarantine?), _ heldAt: Int64?, _ edit: HistoryTransaction.Edit?, of mirror: StoredMirror,
    in transaction: any ShardTransaction
  ) throws -> Int64 {
    let (object, row) = held
    let now = context.clock.now
    let attempts = (row?.attempts ?? 0) + 1
    let problem = object.problem
    let changes = HeldChanges.compacted(object.changes)
    var payload = HistoryTransaction(transactionID: "", timestamp: heldAt ?? now, changes: changes)
    payload.edit = edit
    let stored = StoredQuarantine(
      mirror: mirror.key, name: object.name, entity: changes.last?.entity ?? problem.entity, cause: problem.cause.rawValue, code: problem.code.rawValue,
      cocoaErrorCode: problem.cocoaErrorCode?.rawValue, reason: problem.reason, firstAt: row?.firstAt ?? now, lastAt: now, attempts: attempts,
      dueAt: problem.cause.delay(afterAttempts: attempts).map { now + $0 } ?? StoredQuarantine.never, schemaVersion: schema.version)
    // What nobody has any more can't be counted; that is told when it is tried again.
    let assets = try payload.assets.filter { try transaction.hasContent(of: $0) }
    try transaction.putQuarantined(stored, changes: payload.encoded(), assets: assets)
    return stored.dueAt
  }
}

extension MirroringProblem {
  fileprivate func isKnown(from row: StoredQuarantine) -> Bool { row.code == code.rawValue && row.reason == reason }

  /// What is stored of a problem.
  init(_ row: StoredQuarantine) {
    self.init(
      recordName: row.name, entity: row.entity, code: ServerErrorCode(rawValue: row.code) ?? .internalError,
      cocoaErrorCode: row.cocoaErrorCode.flatMap(CocoaErrorCode.init(rawValue:)), reason: row.reason, cause: QuarantineCause(rawValue: row.cause) ?? .other)
  }
}

extension PlannedWrite {
  var isLink: Bool { LinkRecord.isLink(recordType: item.record.recordType) }
}

extension HistoryChange {
  /// The objects that a change says something of: what is held back of them is to be known before.
  var names: [String] {
    relationships.reduce(into: [objectID]) { names, relationship in
      switch relationship.value {
      case .toOne(let target): if let target { names.append(target) }
      case .toMany(let targets): names += targets
      case .toManyDelta(let added, let removed): names += added + removed
      }
    }
  }
}
