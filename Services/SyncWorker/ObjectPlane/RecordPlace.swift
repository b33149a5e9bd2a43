// The place of a record in a shard.

/// The zone and name of a record.
struct RecordPlace: Hashable, Sendable {
  /// The key of the zone's row.
  let zone: Int64
  let name: String
}
