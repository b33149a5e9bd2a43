// A user's storage limit, checked in the transaction that writes, against the store's own count.

import History
import Mirroring
package import RecordStore
package import Records
package import ServiceBus
import WebServices

/// The bytes that each of a user's private databases may hold, assets included. The public database has no quota.
///
/// Writes that shrink a full database are never refused: deletions, and updates to smaller values.
package struct StorageQuota: Hashable, Sendable {
  let byteCount: Int64

  /// - Parameter standard: bytes for a user without a quota of their own (`--user-quota`); 0: no limit.
  /// - Returns: nil without a limit: nothing is checked then.
  package init?(of caller: Caller, in database: DatabaseID, standard: Int64) {
    self.init(caller.standing, in: database, standard: standard)
  }

  /// The same for a user without a request.
  package init?(_ standing: UserStanding?, in database: DatabaseID, standard: Int64) {
    let byteCount = standing?.quotaByteCount ?? standard
    guard byteCount > 0, !database.isPublic else { return nil }
    self.byteCount = byteCount
  }

  /// The error for writes that make the database grow beyond its quota; nil if they fit.
  package func problem(growth: Int64, of database: StoredDatabase?) -> RecordError? {
    let used = database?.byteCount ?? 0
    guard growth > 0, growth > byteCount - used else { return nil }
    return RecordError(
      .quotaExceeded, "The database holds \(used) of \(byteCount) bytes and has no room for \(growth) more")
  }
}

extension StorageQuota {
  /// Refuses the writes of a body if the database has grown by them beyond its quota.
  /// - Parameter earlier: the database before.
  /// - Throws: `QUOTA_EXCEEDED`.
  func checkGrowth(since earlier: StoredDatabase, in transaction: any ShardTransaction) throws {
    let growth = try (transaction.database(key: earlier.key)?.byteCount ?? 0) - earlier.byteCount
    if let problem = problem(growth: growth, of: earlier) { throw problem }
  }
}

extension DatabaseCall {
  /// The quota of the database's owner, for writes of any user.
  package func ownersQuota() async -> StorageQuota? {
    let database = request.database
    if request.caller.userRecordName == database.owner {
      return StorageQuota(of: request.caller, in: database, standard: context.commits.userQuota)
    }
    let standing =
      database.isPublic
      ? nil : await context.schemas.standing(of: database.owner, database.container, database.environment)
    return StorageQuota(standing, in: database, standard: context.commits.userQuota)
  }
}

extension StoredRecord {
  /// The row's share of its database's bytes.
  package var countedByteCount: Int64 { isDeleted ? 0 : record.countedByteCount }
}

extension Record {
  /// An upper bound of the record's count, computed without encoding it.
  var mostCountedByteCount: Int64 {
    assets.reduce(Int64(fields.byteCount + recordName.utf8.count) * 2 + 1000) { $0 + $1.byteCount }
  }
}

extension FieldValue {
  /// The value's share of its record's bytes.
  package var countedByteCount: Int64 {
    switch self {
    case .string(let text): Int64(text.utf8.count)
    case .bytes(let bytes): Int64(bytes.count)
    case .asset(let asset): asset.byteCount
    case .list(_, let values): values.reduce(0) { $0 + $1.countedByteCount }
    case .int64, .double, .timestamp, .reference, .location: 9
    }
  }
}
