// A store's place among the shards of a worker.

/// A store among all shards of a worker: row keys are unique only within a shard.
package struct MirrorID: Hashable, Sendable {
  package let shard: Int
  package let key: Int64

  package init(shard: Int, key: Int64) {
    self.shard = shard
    self.key = key
  }
}
