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
  /// Rows of held-back changes that one commit looks at, and how many bytes of their changes it reads. An object beyond
  /// them stays assigned where it was, and the export leaves out what connects it with the moved graph.
  private static let heldLimit = 10_000
  private static let heldByteLimit = 4 << 20

  /// The rest of a commit's limits, for the stores together.
  private struct HeldBudget {
    var rowCount = WaitingChanges.heldLimit
    var byteCount = WaitingChanges.heldByteLimit
    var isSpent: Bool { rowCount <= 0 || byteCount <= 0 }
  }

  /// - Parameter moved: names of records.
  /// - Returns: keys of the stores with changes to try again.
  func follow(_ moved: Set<String>) throws -> [Int64] {
    var budget = HeldBudget()
    for mirror in try mirrors({ try transaction.mirrorsAwaitingExport(afterKey: $0, limit: Self.pageCount) }) {
      try assign(of: mirror, within: &budget)
    }
    var lookedAtCount = 0
    var woken: [Int64] = []
    for mirror in try mirrors({ try transaction.mirrorsWithQuarantine(afterKey: $0, limit: Self.pageCount) }) {
      if mirror.exportedTransactionNumber >= mirror.lastTransactionNumber {
        try assign(of: mirror, within: &budget)
      }
      // The others are tried again when they are due.
      let rows = try transaction.quarantined(of: mirror.key, afterKey: 0, limit: Self.heldLimit - lookedAtCount)
      lookedAtCount += rows.count
      let held = rows.map(\.name).filter(moved.contains)
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

  private func assign(of mirror: StoredMirror, within budget: inout HeldBudget) throws {
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
    try forEachHeld(of: mirror, within: &budget) { held in
      for part in held.parts { try add(part) }
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

  private func forEachHeld(
    of mirror: StoredMirror, within budget: inout HeldBudget, _ visit: (HeldTransactions) throws -> Void
  ) throws {
    if mirror.quarantinedCount == 0 { return }
    var last: Int64 = 0
    while !budget.isSpent {
      let rows = try transaction.quarantined(
        of: mirror.key, afterKey: last, limit: min(Self.heldPageCount, budget.rowCount))
      guard let end = rows.last else { return }
      last = end.key
      for row in rows {
        budget.rowCount -= 1
        // Dropped because the export reports changes that can't be read.
        guard budget.byteCount > 0,
          let payload = try unlessDamaged({ try transaction.quarantinedChanges(row.key) }) ?? nil
        else { continue }
        budget.byteCount -= payload.count
        // Dropped because of the same.
        if let held = try? HeldTransactions(decoding: payload) { try visit(held) }
      }
    }
  }

  private static let heldPageCount = 100
}
