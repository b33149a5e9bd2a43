// The quota's check of a save, before its export writes records.

import History
import Mirroring
import RecordStore
import Records
import ZoneCommit

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
