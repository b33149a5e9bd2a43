// Background work on the shards that a worker holds.

package import RecordStore
package import Records
package import ServiceKit

/// Background work on a shard that this worker holds.
package protocol ShardWork: Sendable {
  /// Runs from the shard's opening until cancellation. The shard closes after the return. An early return is fine.
  func run(on store: any ShardStore) async
}

extension ShardWork {
  /// Logs a failed round of work. A fenced or closed shard belongs to another worker and is not logged; the next round
  /// tries again after any other error.
  package func report(_ message: StaticString, _ error: any Error, on store: any ShardStore, to log: Log) {
    switch error {
    case is CancellationError, StoreError.fenced, StoreError.closed: break
    default: log.error(message, ["shard": .integer(Int64(store.shard)), "error": .text(String(describing: error))])
    }
  }
}

/// The shards that this worker holds at the moment.
package protocol OpenShards: Sendable {
  /// The store of a database's shard; nil unless the shard is open here.
  func openStore(of database: DatabaseID) async -> (any ShardStore)?
}
