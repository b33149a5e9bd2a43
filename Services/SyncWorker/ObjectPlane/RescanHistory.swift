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
  /// The time (milliseconds since 1970) up to which all saves are gone with the store's zone.
  private static func goneUntil(of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws -> Int64 {
    let zone = try mirror.defaultZoneName.flatMap { try snapshot.zone(named: $0, in: mirror.databaseKey) }
    if try ZoneStanding(of: mirror, to: zone, in: snapshot).refusal != nil { return .max }
    guard let zone, zone.endSequence > 0 else { return .min }
    let hold = try snapshot.zoneHolds(of: mirror.key).first {
      $0.zoneName == zone.zoneName && $0.endSequence == zone.endSequence
    }
    return hold.flatMap { $0.decision == ZonePolicy.delete.rawValue ? $0.heldAt : nil } ?? .min
  }

  /// Exports every object of the kept history that has no record or tombstone in the zone. Repeating it is harmless.
  func rescanHistory() async throws(RecordError) {
    let mirror = try await locate()
    try await exportEverything(of: mirror)
    let run = try await exportRun(for: mirror)
    var rescan = HistoryRescan()
    var last = mirror.purgedTransactionNumber
    while last < mirror.lastTransactionNumber {
      let (earlier, after) = (rescan, last)
      let (scanned, end) = try await read { snapshot -> (HistoryRescan, Int64?) in
        let current = try self.mirror(in: snapshot)
        guard current.incarnation == mirror.incarnation else { throw missing }
        let locator = try ObjectLocator(of: current, in: snapshot)
        var rescan = earlier
        // Saves from before the zone's end are gone with their objects and not lost.
        let cutoff = try Self.goneUntil(of: current, in: snapshot)
        let rows = try snapshot.transactions(
          of: current.key, after: after, limit: HistoryRequest.pageLimit, byteLimit: Limit.exportByteCount)
        for row in rows where row.appendedAt > cutoff {
          try rescan.add(try decoded(row, of: current)) { try locator.row(of: $0) != nil || locator.isEnded($0) }
        }
        return (rescan, rows.last?.number)
      }
      rescan = scanned
      guard let end else { break }
      last = end
    }
    context.log.info(
      "a store's history was scanned for objects that its zone lacks",
      ["store": .text(storeIdentifier), "objects": .integer(Int64(rescan.missingCount))])
    for batch in rescan.batches(objectLimit: Limit.exportItemCount) {
      var part = run
      part.resent = batch
      var outcome = try await export(part)
      outcome.publish(by: context)
      // Saves that came meanwhile are for the run to finish.
      part.resent = []
      while outcome.running != nil {
        part.running = outcome.running
        outcome = try await export(part)
        outcome.publish(by: context)
      }
    }
  }
}
