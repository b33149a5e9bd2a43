// A user's storage limit, checked in the transaction that writes, against the store's own count.

import History
import Mirroring
import RecordStore
import Records
import ServiceBus
import WebServices

/// The bytes that each of a user's private databases may hold, assets included. The public database has no quota.
///
/// Writes that shrink a full database are never refused: deletions, and updates to smaller values.
struct StorageQuota: Hashable, Sendable {
  let byteCount: Int64

  /// - Parameter standard: bytes for a user without a quota of their own (`--user-quota`); 0: no limit.
  /// - Returns: nil without a limit: nothing is checked then.
  init?(of caller: Caller, in database: DatabaseID, standard: Int64) { self.init(caller.standing, in: database, standard: standard) }

  /// The same for a user without a request.
  init?(_ standing: UserStanding?, in database: DatabaseID, standard: Int64) {
    let byteCount = standing?.quotaByteCount ?? standard
    guard byteCount > 0, !database.isPublic else { return nil }
    self.byteCount = byteCount
  }

  /// The error for writes that make the database grow beyond its quota; nil if they fit.
  func problem(growth: Int64, of database: StoredDatabase?) -> RecordError? {
    let used = database?.byteCount ?? 0
    guard growth > 0, growth > byteCount - used else { return nil }
    return RecordError(.quotaExceeded, "The database holds \(used) of \(byteCount) bytes and has no room for \(growth) more")
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
  func ownersQuota() async -> StorageQuota? {
    let database = request.database
    if request.caller.userRecordName == database.owner { return StorageQuota(of: request.caller, in: database, standard: context.userQuota) }
    let standing = database.isPublic ? nil : await context.schemas.standing(of: database.owner, database.container, database.environment)
    return StorageQuota(standing, in: database, standard: context.userQuota)
  }
}

extension StoredRecord {
  /// The row's share of its database's bytes.
  var countedByteCount: Int64 { isDeleted ? 0 : record.countedByteCount }
}

extension StorageQuota {
  /// Refuses transactions whose export would exceed the quota.
  ///
  /// The growth is estimated by their values, which is a little less than their records will count. Only if the
  /// estimate is too large does the check read the existing records, for the bytes they give back.
  /// - Throws: `QUOTA_EXCEEDED`.
  func check(_ changes: [HistoryChange], of mirror: StoredMirror, in transaction: any ShardTransaction) throws {
    let database = try transaction.database(key: mirror.databaseKey)
    var growth = changes.reduce(0) { $0 + $1.countedByteCount }
    if problem(growth: growth, of: database) == nil { return }
    let locator = try ObjectLocator(of: mirror, in: transaction)
    for change in changes {
      guard let stored = try locator.row(of: change.objectID), !stored.isDeleted else { continue }
      growth -= change.changeType == .delete ? stored.countedByteCount : change.replacedByteCount(of: stored.record)
    }
    if let problem = problem(growth: growth, of: database) { throw problem }
  }
}

extension Record {
  /// An upper bound of the record's count, computed without encoding it.
  var mostCountedByteCount: Int64 { assets.reduce(Int64(fields.byteCount + recordName.utf8.count) * 2 + 1000) { $0 + $1.byteCount } }
}

extension HistoryChange {
  /// The approximate count of the change's own values in its record.
  fileprivate var countedByteCount: Int64 {
    if changeType == .delete { return 0 }
    let values = attributes.reduce(0) { $0 + $1.value.countedByteCount + Int64($1.name.utf8.count) }
    let targets = relationships.reduce(0) { count, relationship in
      switch relationship.value {
      case .toOne: count + 1
      case .toMany(let targets): count + targets.count
      case .toManyDelta(let added, _): count + added.count
      }
    }
    return values + Int64(targets * Self.nameByteCount + (changeType == .insert ? Self.recordByteCount : 0))
  }

  /// The present count of the fields that the change sets.
  fileprivate func replacedByteCount(of record: Record) -> Int64 {
    attributes.reduce(0) { count, attribute in
      let name = ReservedName.fieldPrefix + attribute.name
      return [name, name + ReservedName.assetSuffix].reduce(count) { count, name in
        guard let field = record.fields[name] else { return count }
        return count + Int64(name.utf8.count) + field.value.countedByteCount
      }
    }
  }

  /// The estimated bytes of a record's name.
  private static let nameByteCount = 36
  /// The estimated bytes of a record without fields.
  private static let recordByteCount = 100
}

extension AttributeValue {
  fileprivate var countedByteCount: Int64 {
    switch self {
    case .null: 0
    case .integer, .double, .boolean, .date: 9
    case .decimal(let text), .string(let text), .uuid(let text), .uri(let text): Int64(text.utf8.count)
    case .binary(let bytes): Int64(bytes.count)
    case .asset(let asset): asset.byteCount
    case .composite(let elements): elements.reduce(0) { $0 + $1.value.countedByteCount + Int64($1.name.utf8.count) }
    }
  }
}

extension FieldValue {
  fileprivate var countedByteCount: Int64 {
    switch self {
    case .string(let text): Int64(text.utf8.count)
    case .bytes(let bytes): Int64(bytes.count)
    case .asset(let asset): asset.byteCount
    case .list(_, let values): values.reduce(0) { $0 + $1.countedByteCount }
    case .int64, .double, .timestamp, .reference, .location: 9
    }
  }
}
