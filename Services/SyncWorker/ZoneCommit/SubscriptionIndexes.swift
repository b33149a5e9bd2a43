// Keeps the indexes of databases' subscriptions in memory between saves.

import RecordStore
import Records
import ServiceKit
import Synchronization
import WebServices

/// Indexes by database, each good for one edition of its subscriptions and one version of the schema.
///
/// The edition is random, so that an index made in a commit that failed is never taken for another one.
package final class SubscriptionIndexes: Sendable {
  private struct Known {
    let edition: UInt64
    let schemaVersion: Int64
    let index: SubscriptionIndex
  }

  private let known = Mutex<[DatabaseID: Known]>([:])

  package init() {
  }

  /// The table is emptied when it holds this many databases.
  private static let limit = 10_000

  /// The latest index made for a database; nil when none is in memory.
  func latest(of database: DatabaseID) -> SubscriptionIndex? { known.withLock { $0[database]?.index } }

  /// The index of a database as the transaction sees it.
  func index(of database: StoredDatabase, schema: EnvironmentSchema, in snapshot: any ShardSnapshot, log: Log) throws
    -> SubscriptionIndex
  {
    let earlier = known.withLock { $0[database.id] }
    if let earlier, earlier.edition == database.subscriptionEdition, earlier.schemaVersion == schema.version {
      return earlier.index
    }
    let rows = try snapshot.subscriptions(in: database.key, afterKey: 0, limit: Limit.subscriptionsPerDatabase)
    let index = SubscriptionIndex(
      rows, owner: database.id.owner, schema: schema.schemaIndex,
      earlier: earlier?.schemaVersion == schema.version ? earlier?.index : nil)
    for row in index.unreadable {
      log.warning(
        "a subscription no longer fits the schema and never fires",
        [
          "subscription": .text(row.identifier), "user": .text(row.userRecordName),
          "container": .text(database.id.container.rawValue),
        ])
    }
    known.withLock { known in
      if known.count >= Self.limit { known.removeAll() }
      known[database.id] = Known(edition: database.subscriptionEdition, schemaVersion: schema.version, index: index)
    }
    return index
  }
}
