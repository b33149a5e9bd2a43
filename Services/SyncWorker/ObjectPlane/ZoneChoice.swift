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
  /// Transactions of a backlog that are looked at. What a longer one connects across zones is left out of the export.
  private static let backlogLimit = 1000

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
    do {
      for (place, saved) in transactions { try assignment.add(saved, place: "transactions[\(place)]") }
      for (objectID, zoneID) in try assignment.assignments() {
        guard let zone = try transaction.zone(named: zoneID.zoneName, in: mirror.databaseKey), !zone.isDeleted else { continue }
        try transaction.place(objectID, in: zone.key)
      }
    } catch let refusal as ZoneAssignment.Refusal {
      throw refusal.recordError
    }
  }
}
