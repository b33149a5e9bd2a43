// A record's past states across its moves: each is in the zone of its time.

import Mirroring
package import RecordStore
package import Records

extension ShardSnapshot {
  /// The zones a record was in before this one, oldest first, each once; nil stands for a zone that is gone.
  package func formerZones(of record: Record?, in zone: StoredZone) throws -> [StoredZone?] {
    // A link has no receipt of its own: it moved with its ends.
    let bearer =
      try record.flatMap { LinkRecord($0) }.map { try self.record(named: $0.ends.first, in: zone.key)?.record }
      ?? record
    guard let record = bearer, record.fields[ReservedName.moveReceipt] != nil,
      let database = try database(key: zone.databaseKey)
    else { return [] }
    var names: [String] = []
    for move in MoveReceipts(of: record, in: database.incarnation).moves
    where move.zoneName != zone.zoneName && !names.contains(move.zoneName) {
      names.append(move.zoneName)
    }
    return try names.map { name in try self.zone(named: name, in: database.key).flatMap { $0.isDeleted ? nil : $0 } }
  }

  /// The sequence after which all states of a record are kept, in any zone; `.max` if one of its zones is gone.
  /// A zone's horizon before the record's arrival does not matter.
  package func horizon(of record: Record, in zone: StoredZone) throws -> Int64 {
    guard let database = try database(key: zone.databaseKey) else { return .max }
    var horizon: Int64 = 0
    var entry: Int64 = 0
    let moves = MoveReceipts(of: record, in: database.incarnation).moves
    for (zoneName, left) in moves.map({ ($0.zoneName, $0.sequence) }) + [(zone.zoneName, .max)] {
      guard let visited = try self.zone(named: zoneName, in: database.key),
        let known = try self.horizon(of: visited.key)
      else { return .max }
      if known > entry { horizon = max(horizon, known) }
      entry = left
    }
    return horizon
  }

  /// The state of a record at a sequence, in any zone; nil if it was not alive then or nothing is kept of it.
  package func formerState(of record: Record, in zone: StoredZone, at sequence: Int64) throws -> Record? {
    for former in try formerZones(of: record, in: zone).compactMap(\.self) {
      if let state = try state(of: record.recordName, in: former.key, at: sequence), !state.isDeleted {
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
