// Which zones the new objects of a save go to, decided in the transaction that appends it (E3, T-E05, T-E06).

import History
import Mirroring
import ObjectModel
import RecordStore
import Records

/// Assigns objects to zones where a database has objects in others than the default one; elsewhere it costs a comparison.
///
/// What is saved and not exported is looked at, too: its objects are assigned together with those that are connected with them now.
enum ZoneChoice {
  /// Transactions of a backlog that are looked at by each save. What a longer one connects across zones is left out of the export.
  private static let backlogLimit = 100

  /// - Parameter transactions: with their places in the request; those that are not stored yet.
  /// - Throws: `BAD_REQUEST` with 134060 or 2988, naming the place, the objects and their zones; nothing is stored then.
  static func make(
    for transactions: [(place: Int, transaction: HistoryTransaction)], of mirror: StoredMirror, _ model: ModelIndex, in transaction: any ShardTransaction
  ) throws {
    let locator = try ObjectLocator(of: mirror, in: transaction)
    if locator.isSingle || transactions.isEmpty { return }
    let defaultZone = mirror.defaultZoneName.map { Zone.ID(zoneName: $0, ownerName: locator.owner) }
    var assignment = ZoneAssignment(model: model, defaultZone: defaultZone) { objectID in try locator.home(of: objectID) }
    _ = try PendingTransactions.forEach(of: mirror, rowLimit: backlogLimit, in: transaction) { _, pending in
      do {
        try assignment.add(pending, place: "an earlier transaction")
      } catch is ZoneAssignment.Refusal {
        // Dropped because it was accepted: the export leaves out what it can't write.
      }
    }
    for held in try held(about: transactions.map(\.transaction), of: mirror, in: transaction) {
      do {
        try assignment.add(held, place: "changes that are held back")
      } catch is ZoneAssignment.Refusal {
        // Dropped because it was accepted: it waits, and says why.
      }
    }
    do {
      for (place, saved) in transactions { try assignment.add(saved, place: "transactions[\(place)]") }
      for (objectID, zoneID) in try assignment.assignments() {
        let zone = try transaction.zone(named: zoneID.zoneName, in: mirror.databaseKey)
        // What is saved for a zone that ended, by a store that has not heard of it, is the export's to judge.
        if let zone, try ZoneStanding(of: mirror, to: zone, in: transaction).refusal != nil { continue }
        try transaction.place(objectID, in: zone.flatMap { $0.isDeleted ? nil : $0 }?.key ?? transaction.makeZone(named: zoneID.zoneName, in: mirror.databaseKey).key)
      }
    } catch let refusal as ZoneAssignment.Refusal {
      throw refusal.recordError
    }
  }

  /// What is held back of the objects that a save names: what they are connected with waits with it.
  private static func held(about transactions: [HistoryTransaction], of mirror: StoredMirror, in transaction: any ShardTransaction) throws -> [HistoryTransaction] {
    if mirror.quarantinedCount == 0 { return [] }
    return try Set(transactions.lazy.flatMap(\.changes).flatMap(\.names)).sorted().compactMap { name in
      guard let row = try transaction.quarantined(name, of: mirror.key) else { return nil }
      do {
        return try transaction.quarantinedChanges(row.key).map { try HistoryTransaction(decoding: $0) }
      } catch StoreError.corrupt {
        // Dropped because the export tells of what can't be read.
        return nil
      } catch is StoredFormatError {
        // Dropped as above.
        return nil
      }
    }
  }
}
