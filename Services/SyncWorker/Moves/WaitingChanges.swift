// What stores have saved and not exported when a graph moves: objects that nobody has yet go where those are that they belong to.

import History
import Mirroring
import RecordStore
import Records

/// Looks through what waits in the stores of a database, in the commit of a move.
///
/// Changes of objects that have records need nothing: an export looks for its objects where they are by then (`ObjectLocator`). What participants'
/// stores have here waits like that of the owner's own, and follows as far as their users see.
struct WaitingChanges {
  let database: StoredDatabase
  let schema: EnvironmentSchema
  let transaction: any ShardTransaction
  /// Milliseconds since 1970.
  let now: Int64

  /// Stores of the shard that are looked at in turn.
  private static let pageCount = 500
  /// Transactions of one store: what a longer backlog connects across zones its export leaves out.
  private static let transactionLimit = 1000
  private static let heldLimit = 10_000

  /// - Parameter moved: names of records.
  /// - Returns: keys of stores that have something to try again.
  func follow(_ moved: Set<String>) throws -> [Int64] {
    for mirror in try mirrors({ try transaction.mirrorsAwaitingExport(afterKey: $0, limit: Self.pageCount) }) { try assign(of: mirror) }
    var woken: [Int64] = []
    for mirror in try mirrors({ try transaction.mirrorsWithQuarantine(afterKey: $0, limit: Self.pageCount) }) {
      if mirror.exportedTransactionNumber >= mirror.lastTransactionNumber { try assign(of: mirror) }
      let held = try transaction.quarantined(of: mirror.key, afterKey: 0, limit: Self.heldLimit).map(\.name).filter(moved.contains)
      if !held.isEmpty, try transaction.retryQuarantined(.names(held), of: mirror.key, at: now) > 0 { woken.append(mirror.key) }
    }
    return woken
  }

  private func mirrors(_ page: (Int64) throws -> [Int64]) throws -> [StoredMirror] {
    var found: [StoredMirror] = []
    var last: Int64 = 0
    while case let keys = try page(last), let end = keys.last {
      found += try keys.compactMap { try transaction.mirror(key: $0) }.filter { $0.databaseKey == database.key && ($0.scope == .private || $0.isGuest) }
      last = end
    }
    return found
  }

  private func assign(of mirror: StoredMirror) throws {
    guard let model = schema.mirrorModels[mirror.modelHash] else { return }
    let locator = try ObjectLocator(of: mirror, in: transaction)
    // One that was assigned, and has no record there, goes wherever it is connected with something now.
    var assignment = ZoneAssignment(model: model.index, defaultZone: nil) { objectID in
      try locator.isAssigned(objectID) ? .nowhere : locator.home(of: objectID)
    }
    func add(_ waiting: HistoryTransaction) throws {
      do {
        try assignment.add(waiting, place: "")
      } catch is ZoneAssignment.Refusal {
        // Dropped because it was accepted: the export leaves out what it can't write, and says why.
      }
    }
    _ = try PendingTransactions.forEach(of: mirror, rowLimit: Self.transactionLimit, in: transaction) { _, pending in try add(pending) }
    for row in try mirror.quarantinedCount == 0 ? [] : transaction.quarantined(of: mirror.key, afterKey: 0, limit: Self.heldLimit) {
      // Dropped because what can't be read is told of by the export.
      if let held = try unlessDamaged({ try transaction.quarantinedChanges(row.key).flatMap { try? HistoryTransaction(decoding: $0) } })?.flatMap({ $0 }) {
        try add(held)
      }
    }
    for (objectID, zoneID) in assignment.connected() {
      guard let zone = try transaction.zone(named: zoneID.zoneName, in: mirror.databaseKey), !zone.isDeleted else { continue }
      if try zone.zoneName != mirror.defaultZoneName || locator.isAssigned(objectID) { try transaction.place(objectID, in: zone.key) }
    }
  }
}
