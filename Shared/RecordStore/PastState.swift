// What a record was before: states that later ones replaced, kept for as long as the store is told to (point-in-time, audit).

import Records

/// A state of a record, or its tombstone, that a later one replaced.
public struct PastState: Hashable, Sendable {
  public let stored: StoredRecord
  /// The sequence of the state that came next: this one held from `stored.sequence` on and before it.
  public let until: Int64
  /// When it was replaced, by the server's clock: milliseconds since 1970.
  public let replacedAt: Int64

  public init(stored: StoredRecord, until: Int64, replacedAt: Int64) {
    self.stored = stored
    self.until = until
    self.replacedAt = replacedAt
  }
}

extension ShardSnapshot {
  /// The record or its tombstone as it was when the database had given out `sequence`; nil when it was not there yet.
  ///
  /// What is answered for a sequence before the zone's `horizon` may be wrong: states of that time are forgotten.
  public func state(of recordName: String, in zone: Int64, at sequence: Int64) throws -> StoredRecord? {
    let state = try pastStates(of: recordName, in: zone, after: sequence, limit: 1).first?.stored ?? record(named: recordName, in: zone)
    return state.flatMap { $0.sequence <= sequence ? $0 : nil }
  }

  /// Every state of a record that is kept, ascending by sequence; the last is the present one.
  public func states(of recordName: String, in zone: Int64, limit: Int = .max) throws -> [StoredRecord] {
    let past = try pastStates(of: recordName, in: zone, after: 0, limit: limit).map(\.stored)
    guard past.count < limit, let present = try record(named: recordName, in: zone) else { return past }
    return past + [present]
  }
}
