// The earlier states of records, kept for as long as the store is configured to (point-in-time reads, audit).

import Records

/// A state of a record, or a tombstone, that a later state replaced.
public struct PastState: Hashable, Sendable {
  public let stored: StoredRecord
  /// The sequence of the next state. This one held from `stored.sequence` up to but excluding `until`.
  public let until: Int64
  /// The time of the replacement by the server's clock, in milliseconds since 1970.
  public let replacedAt: Int64

  public init(stored: StoredRecord, until: Int64, replacedAt: Int64) {
    self.stored = stored
    self.until = until
    self.replacedAt = replacedAt
  }
}

extension ShardSnapshot {
  /// The record or tombstone as of `sequence` of its database; nil when it did not exist yet.
  ///
  /// For a sequence before the zone's `horizon` the result can be wrong, because states of that time are forgotten.
  public func state(of recordName: String, in zone: Int64, at sequence: Int64) throws -> StoredRecord? {
    let state =
      try pastStates(of: recordName, in: zone, after: sequence, limit: 1, byteLimit: 0).first?.stored
      ?? record(named: recordName, in: zone)
    return state.flatMap { $0.sequence <= sequence ? $0 : nil }
  }
}
