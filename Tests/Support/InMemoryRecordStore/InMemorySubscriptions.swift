// The oracle's subscriptions.

import RecordStore
import Records

extension InMemoryTransaction {
  func subscription(_ identifier: String, of userRecordName: String, scope: DatabaseScope, in database: Int64) throws
    -> StoredSubscription?
  {
    try subscriptions(of: userRecordName, scope: scope, in: database, limit: .max).first { $0.identifier == identifier }
  }

  func subscriptions(of userRecordName: String, scope: DatabaseScope, in database: Int64, limit: Int) throws
    -> [StoredSubscription]
  {
    rows.subscriptions.filter { $0.databaseKey == database && $0.userRecordName == userRecordName && $0.scope == scope }
      .sorted { $0.identifier.precedes($1.identifier) }.first(limit)
  }

  func subscriptions(in database: Int64, afterKey key: Int64, limit: Int) throws -> [StoredSubscription] {
    rows.subscriptions.filter { $0.databaseKey == database && $0.key > key }.sorted { $0.key < $1.key }.first(limit)
  }

  func subscriptionCount(in database: Int64) throws -> Int { rows.subscriptions.count { $0.databaseKey == database } }
}
