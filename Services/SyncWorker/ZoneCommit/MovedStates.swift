// A record's past states across its moves: each is in the zone of its time.

import Mirroring
package import RecordStore
package import Records

extension ShardSnapshot {
  /// The zones a record was in before this one, oldest first, each once; nil stands for a zone that is gone, or that
  /// the record did not leave.
  package func formerZones(of record: Record?, in zone: StoredZone) throws -> [StoredZone?] {
    // A link has no receipt of its own: it moved with its ends.
    let bearer =
      try record.flatMap { LinkRecord($0) }.map { try self.record(named: $0.ends.first, in: zone.key)?.record }
      ?? record
    guard let record, let bearer, bearer.fields[ReservedName.moveReceipt] != nil,
      let database = try database(key: zone.databaseKey)
    else { return [] }
    var names: [String] = []
    for move in MoveReceipts(of: bearer, in: database.incarnation).moves
    where move.zoneName != zone.zoneName && !names.contains(move.zoneName) {
      names.append(move.zoneName)
    }
    return try names.map { name in
      guard let former = try self.zone(leftBy: bearer, named: name, for: zone) else { return nil }
      if record.recordName == bearer.recordName { return former }
      // The name of a link that was made here may be another record's there.
      let isLinks =
        try self.record(named: record.recordName, in: former.key).map {
          $0.isDeleted && $0.record.recordType == record.recordType
        } ?? true
      return isLinks ? former : nil
    }
  }

  /// A zone that a receipt names, if the record left it for this one. Clients write receipts, too, so the server's own
  /// traces decide: the tombstones lead from there to here.
  private func zone(leftBy record: Record, named zoneName: String, for zone: StoredZone) throws -> StoredZone? {
    guard let former = try self.zone(named: zoneName, in: zone.databaseKey), !former.isDeleted else { return nil }
    var place = former
    for _ in 0..<Self.hopLimit {
      guard let row = try self.record(named: record.recordName, in: place.key), row.isDeleted,
        let name = Tombstone.movedTo(row.record),
        let next = try self.zone(named: name, in: zone.databaseKey), !next.isDeleted
      else { return nil }
      if next.key == zone.key { return former }
      place = next
    }
    return nil
  }

  /// The sequence after which all states of a record are kept, in any zone; `.max` if one of its zones is gone, or is
  /// none that the record left.
  /// A zone's horizon before the record's arrival does not matter.
  package func horizon(of record: Record, in zone: StoredZone) throws -> Int64 {
    guard let database = try database(key: zone.databaseKey) else { return .max }
    var horizon: Int64 = 0
    var entry: Int64 = 0
    let moves = MoveReceipts(of: record, in: database.incarnation).moves
    for (zoneName, left) in moves.map({ ($0.zoneName, $0.sequence) }) + [(zone.zoneName, .max)] {
      let visited = try zoneName == zone.zoneName ? zone : self.zone(leftBy: record, named: zoneName, for: zone)
      guard let visited, let known = try self.horizon(of: visited.key) else { return .max }
      if known > entry { horizon = max(horizon, known) }
      entry = left
    }
    return horizon
  }

  /// The state of a record at a sequence, in any zone; nil if it was not alive then or nothing is kept of it.
  package func formerState(of record: Record, in zone: StoredZone, at sequence: Int64) throws -> Record? {
    for former in try formerZones(of: record, in: zone).compactMap(\.self) {
      if let state = try state(of: record.recordName, in: former.key, at: sequence), !state.isDeleted,
        state.record.recordType == record.recordType
      {
        return state.record
      }
    }
    return nil
  }

  /// The zone that has the record now; the same zone unless the record was moved.
  package func presentZone(of recordName: String, from zone: StoredZone) throws -> StoredZone {
    var zone = zone
    // Moves may form a circle.
    for _ in 0..<Self.hopLimit {
      guard let row = try record(named: recordName, in: zone.key), row.isDeleted,
        let name = Tombstone.movedTo(row.record),
        let next = try self.zone(named: name, in: zone.databaseKey), !next.isDeleted,
        try record(named: recordName, in: next.key) != nil
      else { return zone }
      zone = next
    }
    return zone
  }

  private static var hopLimit: Int { 32 }
}
