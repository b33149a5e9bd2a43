import RecordStore

extension ShardSnapshot {
  /// The kept states of a record, ascending by sequence. The last one is current, unless `limit` cuts it off.
  func states(of recordName: String, in zone: Int64, limit: Int = .max) throws -> [StoredRecord] {
    let past = try pastStates(of: recordName, in: zone, after: 0, limit: limit, byteLimit: .max).map(\.stored)
    guard past.count < limit, let present = try record(named: recordName, in: zone) else { return past }
    return past + [present]
  }
}
