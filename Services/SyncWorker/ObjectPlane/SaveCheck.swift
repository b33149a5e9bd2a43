// Checks a save against the store's state in the transaction that appends it, so that no earlier save is missed.

package import History
import Mirroring
package import RecordStore
package import Records
import WebServices
import ZoneCommit

/// Checks that need the store before a save is appended. A save without updates needs none in a private database with
/// all objects in one zone, no rejecting rules of uniqueness and no forgotten saves.
package struct SaveCheck: Sendable {
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

  /// A repeated save was checked when it was new. If the store has forgotten the saves of that time, a save that may
  /// be a repetition is refused, because it could undo later changes of others.
  /// - Throws: the refusal, which names the place; nothing is stored then.
  func callAsFunction(of mirror: StoredMirror, in transaction: any ShardTransaction) throws {
    let hasZones = try transaction.database(key: mirror.databaseKey)?.hasPlacements == true
    let mayConflict = run.schema.uniqueRules?.rejecting.isEmpty == false
    guard let current = try transaction.mirror(key: mirror.key),
      hasUpdates || hasZones || permissions != nil || mayConflict || current.forgottenAt > 0
    else { return }
    let new = try transactions.enumerated().filter {
      try transaction.transactionNumber(of: $0.element.transactionID, in: mirror.key) == nil
    }
    .map { (place: $0.offset, transaction: $0.element) }
    try Self.checkAge(of: new, current)
    if hasUpdates { try KnownObjects(mirror: current, transaction: transaction).check(new) }
    if let permissions { try PermissionCheck.check(new, of: current, run, permissions, in: transaction) }
    if hasZones { try ZoneChoice.make(for: new, of: current, run.model.index, in: transaction) }
    if mayConflict { try run.checkUniqueness(of: new.map(\.transaction), of: current, in: transaction) }
  }
}

extension SaveCheck {
  /// - Throws: `CONFLICT` naming the place, for a transaction that is not newer than the forgotten saves.
  package static func checkAge(of new: [(place: Int, transaction: HistoryTransaction)], _ mirror: StoredMirror)
    throws(RecordError)
  {
    guard mirror.forgottenAt > 0 else { return }
    for (place, saved) in new where saved.timestamp <= mirror.forgottenAt + EditTime.tolerance {
      throw RecordError(
        .conflict,
        """
        transactions[\(place)]: it dates from \(MirrorDate.text(saved.timestamp)), and the server no longer knows the \
        store's transactions until \(MirrorDate.text(mirror.forgottenAt)), so it can't tell whether this one is new: \
        import, and save missing changes as a new transaction
        """
      )
    }
  }
}

/// Refuses updates of objects that nobody knows: the export would hold them back for ever (E9).
private struct KnownObjects {
  let mirror: StoredMirror
  let transaction: any ShardTransaction
  let backlog: SaveBacklog

  init(mirror: StoredMirror, transaction: any ShardTransaction) {
    self.mirror = mirror
    self.transaction = transaction
    backlog = SaveBacklog(of: mirror, in: transaction)
  }

  /// - Parameter transactions: the transactions that are not stored yet, with their places in the request.
  /// - Throws: `NOT_FOUND` naming the place, the entity and the object; nothing is stored then.
  func check(_ transactions: [(place: Int, transaction: HistoryTransaction)]) throws {
    guard let zoneName = mirror.defaultZoneName else { return }
    // The store has objects of an ended zone which nobody else has any more.
    let zone = try transaction.zone(named: zoneName, in: mirror.databaseKey)
    if try ZoneStanding(of: mirror, to: zone, in: transaction).mayHaveMore { return }
    // Their presence is enough: a save may name thousands of large records, and others wait for the writer.
    let locator = try ObjectLocator(of: mirror, in: transaction, readsRecords: false)
    var known: Set<String> = []
    var updates: [(place: Int, index: Int, change: HistoryChange)] = []
    for (place, saved) in transactions where Exporter.exports(author: saved.author) {
      for (index, change) in saved.changes.enumerated()
      where known.insert(change.objectID).inserted && change.changeType == .update {
        updates.append((place, index, change))
      }
    }
    if let database = try transaction.database(key: mirror.databaseKey)?.id {
      try transaction.expect(updates.map { .presence($0.change.objectID, zone: zoneName, database: database) })
    }
    for (place, index, change) in updates where try !isKnown(change.objectID, locator) {
      throw RecordError(
        .notFound,
        "transactions[\(place)]: changes[\(index)]: \(change.entity) \(change.objectID): there is no such object")
    }
  }

  /// True if the object is stored, deleted, held back, or saved and not exported.
  private func isKnown(_ objectID: String, _ locator: ObjectLocator) throws -> Bool {
    do {
      if try locator.isStored(objectID) { return true }
      if let zone = try locator.lastZone(of: objectID),
        try ZoneStanding(of: mirror, to: zone, in: transaction).mayHaveMore
      {
        return true
      }
    } catch StoreError.corrupt {
      // Dropped because the record exists; the export reports the damage.
      return true
    }
    if mirror.quarantinedCount > 0, try transaction.quarantined(objectID, of: mirror.key) != nil { return true }
    return try backlog.mayHave(objectID)
  }
}
