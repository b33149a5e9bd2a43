// An operator's report on duplicates: groups of records that violate a unique constraint.

import Indexing
package import JSON
package import RecordStore
import Records
import ZoneCommit

/// A group of records of one zone that share a key of a unique index.
package struct DuplicateGroup: Sendable {
  package let database: StoredDatabase?
  let zoneName: String
  let index: FieldIndex
  /// The first names, ascending, without merged records.
  let names: [String]
  /// The number of records in the group, at most `DuplicateGroup.countLimit`.
  let count: Int
  /// Merged records that await their removal.
  let mergingCount: Int

  static let countLimit = 1000
  private static let nameLimit = 10
  private static let keyPage = 100

  /// The groups of a shard, at most `limit`: databases in their order, then zones and keys.
  package static func all(in snapshot: any ShardSnapshot, limit: Int) throws -> [DuplicateGroup] {
    var groups: [DuplicateGroup] = []
    var last: Int64 = 0
    while case let indexes = try snapshot.indexes(afterKey: last, limit: 200), let end = indexes.last {
      for index in indexes where index.index.kind == .unique {
        let database = try snapshot.database(key: index.databaseKey)
        for zone in try snapshot.liveZones(of: index.databaseKey) {
          try add(to: &groups, index, zone, database, in: snapshot, limit: limit)
          if groups.count >= limit { return groups }
        }
      }
      last = end.key
    }
    return groups
  }

  private static func add(
    to groups: inout [DuplicateGroup], _ index: StoredIndex, _ zone: StoredZone, _ database: StoredDatabase?,
    in snapshot: any ShardSnapshot, limit: Int
  ) throws {
    var last: [UInt8] = []
    while case let keys = try snapshot.sharedKeys(of: index.key, in: zone.key, after: last, limit: keyPage),
      let end = keys.last
    {
      for key in keys where groups.count < limit {
        let names = try snapshot.indexedNames(
          of: index.key, in: zone.key, range: IndexRange(key: key), limit: countLimit)
        let kept = try names.filter { try snapshot.redirect(of: $0, in: zone.key)?.isPending != true }
        groups.append(
          DuplicateGroup(
            database: database, zoneName: zone.zoneName, index: index.index, names: Array(kept.prefix(nameLimit)),
            count: kept.count,
            mergingCount: names.count - kept.count))
      }
      if keys.count < keyPage || groups.count >= limit { return }
      last = end
    }
  }

  package func writeMembers(to output: inout JSONWriter) {
    output.member("zone", zoneName)
    output.member("recordType", index.recordType)
    output.member("fields", index.key.name)
    output.member("count", count)
    output.member("merging", mergingCount)
    output.key("records")
    output.beginArray()
    for name in names { output.string(name) }
    output.endArray()
  }
}
