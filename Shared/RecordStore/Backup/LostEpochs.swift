// Tells whether a shard that is opened has lost what clients have seen, and renews it then.

/// The epochs of a shard whose work is lost if the shard is found with an earlier one.
struct LostEpochs: Sendable {
  /// The last of them; 0 when nothing is lost.
  var bound: Int64 = 0
  private var now: @Sendable () -> Int64 = { 0 }

  init() {}

  /// - Parameter now: the current time in milliseconds since 1970.
  init(below bound: Int64, now: @escaping @Sendable () -> Int64) {
    self.bound = bound
    self.now = now
  }

  /// Renews a shard that is older, or has just been made, within the transaction that takes it over.
  /// - Parameter epoch: of the shard as it is found.
  func renew(_ shard: Int, epoch: Int64, in connection: StoreConnection) throws {
    if epoch >= bound { return }
    // The clock may be wrong. The renewed epoch is above the lost ones all the same.
    try ShardRenewal(shard: shard, startedAt: nil, now: max(now(), bound)).run(in: connection)
  }
}
