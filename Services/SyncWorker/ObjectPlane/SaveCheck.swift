// What a save may say, as far as only the store knows: decided in the transaction that appends it, so that no earlier save is missed.

import History
import Mirroring
import RecordStore
import Records

/// What has to be asked of the store before a save is appended. In a private database whose objects are all in one zone, where nothing is
/// unique, and for a save without updates, that is nothing.
struct SaveCheck: Sendable {
  private let transactions: [HistoryTransaction]
  private let run: ExportRun
  /// nil in a private database.
  private let permissions: RecordPermissions?
  private let hasUpdates: Bool

  init(_ transactions: [HistoryTransaction], run: ExportRun, permissions: RecordPermissions?) {
    self.transactions = transactions
    self.run = run
    self.permissions = permissions
    hasUpdates = transactions.contains { $0.changes.contains { $0.changeType == .update } }
  }

  /// A save that is sent again was checked when it was new.
  /// - Throws: what refuses it, naming the place; nothing is stored then.
  func callAsFunction(of mirror: StoredMirror, in transaction: any ShardTransaction) throws {
    let hasZones = try transaction.database(key: mirror.databaseKey)?.hasPlacements == true
    let mayConflict = run.schema.uniqueRules?.rejecting.isEmpty == false
    guard hasUpdates || hasZones || permissions != nil || mayConflict, let current = try transaction.mirror(key: mirror.key) else { return }
    let new = try transactions.enumerated().filter { try transaction.transaction(withID: $0.element.transactionID, of: mirror.key) == nil }
      .map { (place: $0.offset, transaction: $0.element) }
    if hasUpdates { try KnownObjects(mirror: current, transaction: transaction).check(new) }
    if let permissions { try PermissionCheck.check(new, of: current, run, permissions, in: transaction) }
    if hasZones { try ZoneChoice.make(for: new, of: current, run.model.index, in: transaction) }
    if mayConflict { try run.checkUniqueness(of: new.map(\.transaction), of: current, in: transaction) }
  }
}

/// Refuses updates of objects that nobody has ever heard of (semantics 6 would leave them out for ever).
private struct KnownObjects {
  let mirror: StoredMirror
  let transaction: any ShardTransaction

  /// - Parameter transactions: with their places in the request; those that are not stored yet.
  /// - Throws: `NOT_FOUND` naming the place, the entity and the object; nothing is stored then.
  func check(_ transactions: [(place: Int, transaction: HistoryTransaction)]) throws {
    guard let zoneName = mirror.defaultZoneName else { return }
    // Of a zone that is gone the store has objects which nobody else has any more.
    if try ZoneStanding(of: mirror, to: transaction.zone(named: zoneName, in: mirror.databaseKey), in: transaction) != .whole { return }
    let locator = try ObjectLocator(of: mirror, in: transaction)
    var known: Set<String> = []
    for (place, saved) in transactions where Exporter.exports(author: saved.author) {
      for (index, change) in saved.changes.enumerated() {
        if change.changeType == .update, !known.contains(change.objectID), try !isKnown(change.objectID, locator) {
          throw RecordError(.notFound, "transactions[\(place)]: changes[\(index)]: \(change.entity) \(change.objectID): there is no such object")
        }
        known.insert(change.objectID)
      }
    }
  }

  /// Stored, deleted, held back, or saved and not exported.
  private func isKnown(_ objectID: String, _ locator: ObjectLocator) throws -> Bool {
    do {
      if try locator.row(of: objectID) != nil { return true }
      if let zone = try locator.lastZone(of: objectID), try ZoneStanding(of: mirror, to: zone, in: transaction) != .whole { return true }
    } catch StoreError.corrupt {
      // Dropped because there is something: what is wrong with it the export says.
      return true
    }
    if mirror.quarantinedCount > 0, try transaction.quarantined(objectID, of: mirror.key) != nil { return true }
    return try isPending(objectID)
  }

  /// Transactions read for one question. Of a store with a longer backlog everything is believed: the export holds back what is wrong.
  private static let pendingLimit = 1000

  private func isPending(_ objectID: String) throws -> Bool {
    let count = mirror.lastTransactionNumber - mirror.exportedTransactionNumber
    if count == 0 { return false }
    if count > Self.pendingLimit { return true }
    var last = mirror.exportedTransactionNumber
    var byteCount = 0
    while last < mirror.lastTransactionNumber {
      let rows: [StoredTransaction]
      do {
        rows = try transaction.transactions(of: mirror.key, after: last, limit: 100, byteLimit: Limit.exportByteCount)
      } catch StoreError.corrupt {
        // Dropped because what is in it nobody knows: the object may be.
        return true
      }
      guard let end = rows.last?.number else { return false }
      byteCount += rows.reduce(0) { $0 + $1.payload.count }
      for row in rows {
        // Dropped because the export reports it, and the object may be in it.
        guard let saved = try? HistoryTransaction(decoding: row.payload) else { return true }
        if saved.changes.contains(where: { $0.objectID == objectID }) { return true }
      }
      if byteCount > Limit.requestByteCount { return true }
      last = end
    }
    return false
  }
}
