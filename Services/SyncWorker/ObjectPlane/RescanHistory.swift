// A store whose zone lost what it had exported (H10): its history is looked through for objects without a record.

import History
import Mirroring
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices

extension StoreCall {
  /// Until when (milliseconds since 1970) everything that was saved is gone with the store's zone.
  private static func goneUntil(of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws -> Int64 {
    let zone = try mirror.defaultZoneName.flatMap { try snapshot.zone(named: $0, in: mirror.databaseKey) }
    if try ZoneStanding(of: mirror, to: zone, in: snapshot).refusal != nil { return .max }
    guard let zone, zone.endSequence > 0 else { return .min }
    let hold = try snapshot.zoneHolds(of: mirror.key).first { $0.zoneName == zone.zoneName && $0.endSequence == zone.endSequence }
    return hold.flatMap { $0.decision == ZonePolicy.delete.rawValue ? $0.heldAt : nil } ?? .min
  }

  /// Exports every object of the kept history that the zone has neither a record nor a tombstone of. Said again it finds nothing left to do.
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
        // What was saved before a zone went with its objects is not lost: it is gone.
        let cutoff = try Self.goneUntil(of: current, in: snapshot)
        let rows = try snapshot.transactions(of: current.key, after: after, limit: HistoryRequest.pageLimit, byteLimit: Limit.exportByteCount)
        for row in rows where row.appendedAt > cutoff {
          try rescan.add(try decoded(row, of: current)) { try locator.row(of: $0) != nil || locator.isEnded($0) }
        }
        return (rescan, rows.last?.number)
      }
      rescan = scanned
      guard let end else { break }
      last = end
    }
    context.log.info("a store's history was scanned for what its zone lacks", ["store": .text(storeIdentifier), "objects": .integer(Int64(rescan.missingCount))])
    for batch in rescan.batches(objectLimit: Limit.exportItemCount) {
      var part = run
      part.resent = batch
      var outcome = try await export(part)
      outcome.publish(by: context)
      // What was saved meanwhile is a run's to end.
      part.resent = []
      while outcome.running != nil {
        part.running = outcome.running
        outcome = try await export(part)
        outcome.publish(by: context)
      }
    }
  }
}
