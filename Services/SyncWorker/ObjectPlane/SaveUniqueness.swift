// Applies the policy `reject` at a client's save (D6), in the transaction that appends it, to the objects as they
// would be afterwards.

import History
import Mirroring
import ObjectModel
import RecordStore
import Records
import ZoneCommit

/// A save that would make duplicates: nothing of it is stored.
struct UniquenessViolation: Error {
  /// At least one, in the order of the save.
  let conflicts: [UniqueConflict]
}

extension ExportRun {
  /// - Parameter saved: transactions that are not stored yet.
  /// - Throws: `UniquenessViolation` or store errors. Duplicates among waiting saves only show at the export, which
  ///   holds them back.
  func checkUniqueness(of saved: [HistoryTransaction], of mirror: StoredMirror, in transaction: any ShardTransaction)
    throws
  {
    guard let rules = schema.uniqueRules, !rules.rejecting.isEmpty else { return }
    do {
      try checkUniqueness(of: saved, by: rules, of: mirror, isolatesErrors: false, in: transaction)
    } catch  where !(error is UniquenessViolation) && ExportFailure(error) == .poisoned {
      // Dropped because the export reports the error; judged one by one, the other changes are still checked.
      try checkUniqueness(of: saved, by: rules, of: mirror, isolatesErrors: true, in: transaction)
    }
  }

  private func checkUniqueness(
    of saved: [HistoryTransaction], by rules: UniqueRules, of mirror: StoredMirror, isolatesErrors: Bool,
    in transaction: any ShardTransaction
  ) throws {
    let names = concerned(by: rules, in: saved)
    if names.isEmpty { return }
    let locator = try ObjectLocator(of: mirror, in: transaction)
    // With a longer backlog, the export judges the waiting transactions.
    let isShort = mirror.lastTransactionNumber - mirror.exportedTransactionNumber <= Self.backlogLimit
    let pending = isShort ? try pending(about: Set(names), isWide: false, of: mirror, in: transaction) : []
    let judged = (pending + saved).map { $0.onlyAttributes(of: Set(names)) }
    let zones = try locator.zones(of: saved)
    var conflicts: [UniqueConflict] = []
    // Without a zone, only the save itself is checked.
    for zone in zones.isEmpty ? [nil] : zones.map(Optional.some) {
      let source = locator.source(in: zone)
      var exporter = exporter(
        of: mirror, from: source, elsewhere: locator.elsewhere(than: zone), isolatesErrors: isolatesErrors)
      for transaction in judged { try exporter.apply(transaction) }
      let inZone = try names.filter { try locator.zone(of: $0)?.key == zone?.key }
      var planned: [String: Record?] = [:]
      for name in inZone { planned[name] = .some(try exporter.currentRecord(named: name)) }
      var check = UniqueCheck(rules, planned: planned, in: zone, transaction)
      if database.isPublic { check.mayName = schema.permissions(ofAbsentUser: mirror.userRecordName).mayRead }
      for name in inZone {
        guard let record = planned[name] ?? nil else { continue }
        let earlier = try source.row(named: name).flatMap { $0.isDeleted ? nil : $0.record }
        if let conflict = try check.conflict(of: record, replacing: earlier) { conflicts.append(conflict) }
      }
    }
    if !conflicts.isEmpty { throw UniquenessViolation(conflicts: conflicts) }
  }

  private static let backlogLimit: Int64 = 100

  /// The objects of a save whose record types have rejecting rules, each once, in the save's order.
  private func concerned(by rules: UniqueRules, in saved: [HistoryTransaction]) -> [String] {
    var seen: Set<String> = []
    return saved.filter { Exporter.exports(author: $0.author) }.flatMap(\.changes).compactMap { change in
      guard let type = model.index.entity(named: change.entity)?.recordType, rules.rejecting.contains(type),
        seen.insert(change.objectID).inserted
      else { return nil }
      return change.objectID
    }
  }
}

extension HistoryTransaction {
  /// The changes of these objects with attributes only: relationships and other objects make no duplicates.
  fileprivate func onlyAttributes(of names: Set<String>) -> HistoryTransaction {
    var transaction = self
    transaction.changes = changes.filter { names.contains($0.objectID) }.map { change in
      HistoryChange(
        changeType: change.changeType, entity: change.entity, objectID: change.objectID, attributes: change.attributes)
    }
    return transaction
  }
}
