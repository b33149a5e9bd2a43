// Assigns a save's new objects to zones, in the transaction that appends it (E3, T-E05, T-E06).

package import History
import Mirroring
package import ObjectModel
package import RecordStore
import Records
import ZoneCommit

/// Assigns objects to zones in a database with objects outside the default zone; elsewhere it costs a comparison.
///
/// It includes the unexported transactions: their objects go together with objects that the save connects with them.
package enum ZoneChoice {
  /// Transactions of a backlog that each save reads, and their bytes. The export leaves out what a longer one connects
  /// across zones.
  private static let backlogLimit = 100
  private static let backlogByteLimit = Limit.exportByteCount

  /// - Parameter transactions: the transactions that are not stored yet, with their places in the request.
  /// - Throws: `BAD_REQUEST` with 134060 or 2988, naming the place, the objects and their zones; nothing is stored.
  package static func make(
    for transactions: [(place: Int, transaction: HistoryTransaction)], of mirror: StoredMirror, _ model: ModelIndex,
    in transaction: any ShardTransaction
  ) throws {
    let locator = try ObjectLocator(of: mirror, in: transaction, readsRecords: false)
    if locator.isSingle || transactions.isEmpty { return }
    let defaultZone = mirror.defaultZoneName.map { Zone.ID(zoneName: $0, ownerName: locator.owner) }
    var assignment = ZoneAssignment(model: model, defaultZone: defaultZone) { objectID in try locator.home(of: objectID)
    }
    _ = try PendingTransactions.forEach(
      of: mirror, rowLimit: backlogLimit, byteLimit: backlogByteLimit, in: transaction
    ) { _, pending in
      do {
        try assignment.add(pending, place: "an earlier transaction")
      } catch is ZoneAssignment.Refusal {
        // Dropped because the transaction was accepted: the export leaves out changes that it can't write.
      }
    }
    for held in try held(about: transactions.map(\.transaction), of: mirror, in: transaction) {
      do {
        try assignment.add(held, place: "changes that are held back")
      } catch is ZoneAssignment.Refusal {
        // Dropped because the transaction was accepted: its changes wait with their reason.
      }
    }
    do {
      for (place, saved) in transactions { try assignment.add(saved, place: "transactions[\(place)]") }
      for (objectID, zoneID) in try assignment.assignments() {
        let zone = try transaction.zone(named: zoneID.zoneName, in: mirror.databaseKey)
        // The export judges a save for an ended zone by a store that has not heard of the end.
        if let zone, try ZoneStanding(of: mirror, to: zone, in: transaction).refusal != nil { continue }
        try transaction.place(
          objectID,
          in: zone.flatMap { $0.isDeleted ? nil : $0 }?.key
            ?? transaction.makeZone(named: zoneID.zoneName, in: mirror.databaseKey).key)
      }
    } catch let refusal as ZoneAssignment.Refusal {
      throw refusal.recordError
    }
  }

  /// The held-back changes of the objects that a save names: objects connected with these wait along.
  private static func held(
    about transactions: [HistoryTransaction], of mirror: StoredMirror, in transaction: any ShardTransaction
  ) throws -> [HistoryTransaction] {
    if mirror.quarantinedCount == 0 { return [] }
    return try Set(transactions.lazy.flatMap(\.changes).flatMap(\.names)).sorted().flatMap {
      name -> [HistoryTransaction] in
      guard let row = try transaction.quarantined(name, of: mirror.key) else { return [] }
      do {
        return try transaction.quarantinedChanges(row.key).map { try HeldTransactions(decoding: $0).parts } ?? []
      } catch StoreError.corrupt {
        // Dropped because the export reports the unreadable row.
        return []
      } catch is StoredFormatError {
        // Dropped as above.
        return []
      }
    }
  }
}
