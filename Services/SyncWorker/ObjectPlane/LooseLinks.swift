// Link records that lead nowhere: a scrub finds them, and removes them if the operator asks for it.

import Mirroring
package import RecordStore
import Records
import ServiceBus
import ServiceKit
package import ZoneCommit

/// Finds a shard's link records with a missing object.
///
/// A client holds such a link until its object arrives, and every new device receives it. A young link, or one whose
/// object has quarantined changes, may still get its object.
package struct LooseLinks: Sendable {
  package let store: any ShardStore
  package let context: CommitContext

  package init(store: any ShardStore, context: CommitContext) {
    self.store = store
    self.context = context
  }

  package struct Report: Hashable, Sendable {
    package var looseCount = 0
    package var removedCount = 0
  }

  /// The least age of a loose link, in milliseconds: after that time its object does not arrive any more.
  static let age: Int64 = 86_400_000
  /// Link records that one read looks at.
  private static let pageCount = 500
  private static let databaseCount = 100

  /// - Parameter removes: the server deletes the loose links, and every store imports the deletions.
  package func run(removes: Bool) async throws -> Report {
    var report = Report()
    var last: Int64 = 0
    while true {
      let after = last
      let databases = try await store.read { try $0.databases(afterKey: after, limit: Self.databaseCount) }
      for database in databases {
        let zones = try await store.read { try $0.liveZones(of: database.key) }
        for zone in zones { try await look(in: zone, of: database, removes: removes, &report) }
      }
      guard databases.count == Self.databaseCount, let end = databases.last?.key else { return report }
      last = end
    }
  }

  private func look(in zone: StoredZone, of database: StoredDatabase, removes: Bool, _ report: inout Report)
    async throws
  {
    let before = context.clock.now - Self.age
    var last: String?
    while true {
      let after = last
      let (loose, end) = try await store.read { snapshot -> ([String], String?) in
        let page = try snapshot.records(
          ofType: ReservedName.linkRecordType, in: zone.key, afterName: after, limit: Self.pageCount)
        let loose = try page.filter { try Self.isLoose($0, in: zone, before: before, snapshot) }
        return (loose.map(\.record.recordName), page.count == Self.pageCount ? page.last?.record.recordName : nil)
      }
      report.looseCount += loose.count
      if removes, !loose.isEmpty {
        report.removedCount += try await remove(loose, in: zone, of: database, before: before)
      }
      guard let end else { return }
      last = end
    }
  }

  private static func isLoose(
    _ stored: StoredRecord, in zone: StoredZone, before time: Int64, _ snapshot: any ShardSnapshot
  ) throws -> Bool {
    guard stored.record.modified.timestamp < time, let link = LinkRecord(stored.record) else { return false }
    return try [link.ends.first, link.ends.second].contains { name in
      if try snapshot.record(named: name, in: zone.key)?.isDeleted == false { return false }
      return try !isExpected(name, in: zone.databaseKey, snapshot)
    }
  }

  /// True if a store of the database has quarantined changes of the object, which may still make it.
  private static func isExpected(_ name: String, in database: Int64, _ snapshot: any ShardSnapshot) throws -> Bool {
    var last: Int64 = 0
    while true {
      let keys = try snapshot.mirrorsWithQuarantine(afterKey: last, limit: pageCount)
      for key in keys where try snapshot.mirror(key: key)?.databaseKey == database {
        if try snapshot.quarantined(name, of: key) != nil { return true }
      }
      guard keys.count == pageCount, let end = keys.last else { return false }
      last = end
    }
  }

  /// - Returns: the number of removed links. Links that lead somewhere by now stay.
  private func remove(_ names: [String], in zone: StoredZone, of database: StoredDatabase, before time: Int64)
    async throws -> Int
  {
    let schema = try await context.schemas.schema(of: database.id.container, database.id.environment)
    let terms = CommitTerms(
      .looseLinks, Stamp(timestamp: context.clock.now, userRecordName: database.id.owner), schema, shard: store.shard,
      context)
    let (count, effects) = try await store.enqueue { transaction -> (Int, ZoneEffects) in
      guard let zone = try transaction.zone(key: zone.key), !zone.isDeleted else { return (0, ZoneEffects()) }
      let commit = try terms.begin(in: transaction.row(ofDatabase: zone.databaseKey), transaction)
      let writer = commit.serversWriter(to: zone)
      var count = 0
      for name in names {
        guard let stored = try transaction.record(named: name, in: zone.key), !stored.isDeleted else { continue }
        guard try Self.isLoose(stored, in: zone, before: time, transaction) else { continue }
        _ = try writer.delete(stored, modified: terms.stamp)
        count += 1
      }
      return (count, try commit.finish())
    }.value
    effects.publish(by: context)
    return count
  }
}
