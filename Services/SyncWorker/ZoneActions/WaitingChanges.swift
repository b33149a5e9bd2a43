// Assigns unexported objects to the zones of their related objects when a graph moves.

import History
import Mirroring
import ObjectPlane
import RecordStore
import Records
import ZoneCommit

/// Looks through the waiting changes of a database's stores, in the commit of a move.
///
/// Changes of objects with records need nothing: an export finds each record's present zone (`ObjectLocator`).
/// Participants' stores wait like the owner's, and follow as far as their users have access.
struct WaitingChanges {
  let database: StoredDatabase
  let schema: EnvironmentSchema
  let transaction: any ShardTransaction
  /// Milliseconds since 1970.
  let now: Int64

  /// Stores of the shard that one read returns.
  private static let pageCount = 500
  /// Transactions looked at per store. An export leaves out connections across zones in a longer backlog.
  private static let transactionLimit = 1000
  private static let heldLimit = 10_000

  /// - Parameter moved: names of records.
  /// - Returns: keys of the stores with changes to try again.
  func follow(_ moved: Set<String>) throws -> [Int64] {
    for mirror in try mirrors({ try transaction.mirrorsAwaitingExport(afterKey: $0, limit: Self.pageCount) }) {
      try assign(of: mirror)
    }
    var woken: [Int64] = []
    for mirror in try mirrors({ try transaction.mirrorsWithQuarantine(afterKey: $0, limit: Self.pageCount) }) {
      if mirror.exportedTransactionNumber >= mirror.lastTransactionNumber { try assign(of: mirror) }
      let held = try transaction.quarantined(of: mirror.key, afterKey: 0, limit: Self.heldLimit).map(\.name).filter(
        moved.contains)
      if !held.isEmpty, try transaction.retryQuarantined(.names(held), of: mirror.key, at: now) > 0 {
        woken.append(mirror.key)
      }
    }
    return woken
  }

  private func mirrors(_ page: (Int64) throws -> [Int64]) throws -> [StoredMirror] {
    var found: [StoredMirror] = []
    var last: Int64 = 0
    while case let keys = try page(last), let end = keys.last {
      found += try keys.compactMap { try transaction.mirror(key: $0) }.filter {
        $0.databaseKey == database.key && ($0.scope == .private || $0.isGuest)
      }
      last = end
    }
    return found
  }

  private func assign(of mirror: StoredMirror) throws {
    guard let model = schema.mirrorModels[mirror.modelHash] else { return }
    let locator = try ObjectLocator(of: mirror, in: transaction)
    // An assigned object without a record there goes to the zone of an object that it is connected with now.
    var assignment = ZoneAssignment(model: model.index, defaultZone: nil) { objectID in
      try locator.isAssigned(objectID) ? .nowhere : locator.home(of: objectID)
    }
    func add(_ waiting: HistoryTransaction) throws {
      do {
        try assignment.add(waiting, place: "")
      } catch is ZoneAssignment.Refusal {
        // Dropped because the change was accepted: the export leaves out the rest and reports why.
      }
    }
    _ = try PendingTransactions.forEach(of: mirror, rowLimit: Self.transactionLimit, in: transaction) { _, pending in
      try add(pending)
    }
    for row in try mirror.quarantinedCount == 0
      ? [] : transaction.quarantined(of: mirror.key, afterKey: 0, limit: Self.heldLimit)
    {
      // Dropped because the export reports changes that can't be read.
      if let held = try unlessDamaged({
        try transaction.quarantinedChanges(row.key).flatMap { try? HeldTransactions(decoding: $0) }
      })?.flatMap({ $0 }) {
        for part in held.parts { try add(part) }
      }
    }
    for (objectID, zoneID) in assignment.connected() {
      guard let zone = try transaction.zone(named: zoneID.zoneName, in: mirror.databaseKey), !zone.isDeleted else {
        continue
      }
      if try zone.zoneName != mirror.defaultZoneName || locator.isAssigned(objectID) {
        try transaction.place(objectID, in: zone.key)
      }
    }
  }
}
