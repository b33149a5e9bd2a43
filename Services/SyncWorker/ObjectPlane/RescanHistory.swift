// Searches a store's history for objects without a record, after its zone lost exported records (H10).

import History
import Mirroring
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices
import ZoneCommit

extension StoreCall {
  /// Bytes of changes that a rescan has in memory, as their history stores them.
  private static let rescanByteLimit = 8 << 20

  /// The time (milliseconds since 1970) up to which all saves are gone with the store's zone.
  private static func goneUntil(of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws -> Int64 {
    let zone = try mirror.defaultZoneName.flatMap { try snapshot.zone(named: $0, in: mirror.databaseKey) }
    switch try ZoneStanding(of: mirror, to: zone, in: snapshot) {
    case .letGo(let hold): return hold.heldAt
    case let standing: return standing.refusal == nil ? .min : .max
    }
  }

  /// Exports every object of the kept history that has no record or tombstone in the zone. Repeating it is harmless.
  func rescanHistory() async throws(RecordError) {
    let mirror = try await locate()
    // The objects of a home are in other users' databases, whose guests scan their own histories.
    if mirror.isHome { return }
    try await exportEverything(of: mirror)
    var run = try await exportRun(for: mirror)
    var rescan = HistoryRescan()
    try await forEachTransaction(of: mirror, after: mirror.purgedTransactionNumber, through: .max) { row in
      rescan.note(row.transaction, number: row.number) { !row.missing.contains($0) }
    }
    context.log.info(
      "a store's history was scanned for objects that its zone lacks",
      ["store": .text(storeIdentifier), "objects": .integer(Int64(rescan.missingCount))])
    while var round = rescan.nextRound(objectLimit: Limit.exportItemCount, byteLimit: Self.rescanByteLimit) {
      for span in round.spans {
        try await forEachTransaction(of: mirror, after: span.lowerBound - 1, through: span.upperBound) { row in
          round.add(row.transaction)
        }
      }
      for batch in round.batches where !batch.isEmpty { try await resend(batch, in: &run) }
    }
  }

  /// Exports changes once more, and ends the run.
  private func resend(_ changes: [HistoryTransaction], in run: inout ExportRun) async throws(RecordError) {
    run.resent = changes
    while true {
      let outcome = try await export(run)
      outcome.publish(by: context)
      // Saves that came meanwhile are for the run to finish.
      run.resent = []
      run.advance(after: outcome)
      if outcome.running == nil { return }
    }
  }

  /// A transaction of the kept history.
  private struct ScannedTransaction: Sendable {
    let number: Int64
    let transaction: HistoryTransaction
    /// The names of its objects that have neither record nor tombstone.
    let missing: Set<String>
  }

  /// Visits a part of the store's history, page by page. Saves from before the zone's end are left out: they are gone
  /// with their objects, and not lost.
  private func forEachTransaction(
    of mirror: StoredMirror, after start: Int64, through end: Int64, _ visit: (ScannedTransaction) -> Void
  ) async throws(RecordError) {
    var last = start
    while last < min(end, mirror.lastTransactionNumber) {
      let after = last
      let (rows, lastRead) = try await read { snapshot -> ([ScannedTransaction], Int64?) in
        let current = try self.mirror(in: snapshot)
        guard current.incarnation == mirror.incarnation else { throw missing }
        let locator = try ObjectLocator(of: current, in: snapshot)
        let cutoff = try Self.goneUntil(of: current, in: snapshot)
        let rows = try snapshot.transactions(
          of: current.key, after: after, limit: Int(min(Int64(HistoryRequest.pageLimit), end - after)),
          byteLimit: Limit.exportByteCount)
        let scanned = try rows.filter { $0.number <= end && $0.appendedAt > cutoff }.map { row in
          let transaction = try decoded(row, of: current)
          let names = Set(transaction.changes.map(\.objectID))
          return ScannedTransaction(
            number: row.number, transaction: transaction,
            missing: try names.filter { try locator.row(of: $0) == nil && !locator.isEnded($0) })
        }
        return (scanned, rows.last?.number)
      }
      rows.forEach(visit)
      guard let lastRead else { return }
      last = lastRead
    }
  }
}
