// The rows of a worker's lists for operators: stores, zones, subscriptions, duplicates, quarantine and events.

import JSON
import ObjectPlane
import RecordStore
import Records
import WebServices
import ZoneActions
import ZoneCommit

extension WorkerReports {
  /// The most events of one mirrored store in a list.
  private static let eventLimit = 20

  static func row(_ database: StoredDatabase?, _ write: (inout JSONWriter) -> Void) -> [UInt8] {
    var output = JSONWriter()
    output.beginObject()
    if let database {
      output.member("container", database.id.container.rawValue)
      output.member("environment", database.id.environment.rawValue)
      output.member("owner", database.id.owner)
    }
    write(&output)
    output.endObject()
    return output.bytes
  }

  /// The first stores in the filter's databases, each with its database.
  private static func mirrors(
    in snapshot: any ShardSnapshot, of filter: DatabaseFilter, _ page: (_ after: Int64) throws -> [StoredMirror]
  ) throws -> [(database: StoredDatabase, mirror: StoredMirror)] {
    var found: [(database: StoredDatabase, mirror: StoredMirror)] = []
    var last: Int64 = 0
    while found.count < rowLimit, case let mirrors = try page(last), let end = mirrors.last?.key {
      for mirror in mirrors where found.count < rowLimit {
        if let database = try snapshot.database(key: mirror.databaseKey), filter.matches(database) {
          found.append((database, mirror))
        }
      }
      last = end
    }
    return found
  }

  /// The first databases that match the filter.
  private static func databases(in snapshot: any ShardSnapshot, _ filter: DatabaseFilter) throws -> [StoredDatabase] {
    var (found, last) = ([StoredDatabase](), Int64(0))
    while found.count < rowLimit, case let databases = try snapshot.databases(afterKey: last, limit: rowLimit),
      let end = databases.last?.key
    {
      found += databases.filter { filter.matches($0) }
      last = end
    }
    return Array(found.prefix(rowLimit))
  }

  static func mirrors(in snapshot: any ShardSnapshot, _ filter: DatabaseFilter) throws -> [[UInt8]] {
    try mirrors(in: snapshot, of: filter) { try snapshot.mirrors(afterKey: $0, limit: rowLimit) }.map {
      database, mirror in
      row(database) { output in
        output.member("scope", mirror.scope.rawValue)
        output.member("store", mirror.deviceID)
        output.member("user", mirror.userRecordName)
        if let device = mirror.deviceName { output.member("device", device) }
        output.member("modelHash", mirror.modelHash)
        output.member("transactions", mirror.lastTransactionNumber)
        output.member("exported", mirror.exportedTransactionNumber)
        output.member("imported", mirror.importedSequence)
        output.member("sequence", database.sequence)
        output.member("createdAt", mirror.createdAt)
      }
    }
  }

  static func zones(in snapshot: any ShardSnapshot, _ filter: DatabaseFilter) throws -> [[UInt8]] {
    var rows: [[UInt8]] = []
    for database in try databases(in: snapshot, filter) where rows.count < rowLimit {
      let zones = try snapshot.zones(in: database.key, after: 0, limit: rowLimit - rows.count)
      var audiences: [Int64: Int] = [:]
      for zone in zones where database.hasShares && !zone.isDeleted {
        let audience = try snapshot.audience(ofZone: zone.zoneName, of: database.key)
        if !audience.isEmpty { audiences[zone.key] = audience.count }
      }
      for zone in zones {
        rows.append(
          row(database) { output in
            output.member("zone", zone.zoneName)
            output.member("sequence", zone.sequence)
            output.member("deleted", zone.isDeleted)
            if let count = audiences[zone.key] { output.member("members", count) }
          })
      }
    }
    return rows
  }

  static func subscriptions(in snapshot: any ShardSnapshot, _ filter: DatabaseFilter) throws -> [[UInt8]] {
    var rows: [[UInt8]] = []
    for database in try databases(in: snapshot, filter) where rows.count < rowLimit && database.subscriptionEdition != 0
    {
      for subscription in try snapshot.subscriptions(in: database.key, afterKey: 0, limit: rowLimit - rows.count) {
        rows.append(
          row(database) { output in
            output.member("scope", subscription.scope.rawValue)
            output.member("user", subscription.userRecordName)
            output.member("subscription", subscription.identifier)
            // Dropped because `verify` reports a subscription that can't be read.
            let dictionary = try? JSONValue(parsing: subscription.payload)
            output.member("type", dictionary?["subscriptionType"]?.string ?? "")
            if let recordType = dictionary?["query"]?["recordType"]?.string { output.member("recordType", recordType) }
            output.member("firesOnce", dictionary?["firesOnce"]?.bool ?? false)
          })
      }
    }
    return rows
  }

  static func duplicates(in snapshot: any ShardSnapshot, _ filter: DatabaseFilter) throws -> [[UInt8]] {
    try DuplicateGroup.all(in: snapshot, limit: rowLimit).filter { group in
      group.database.map { filter.matches($0) } ?? false
    }.map { group in
      row(group.database) { group.writeMembers(to: &$0) }
    }
  }

  static func quarantine(in snapshot: any ShardSnapshot, _ filter: DatabaseFilter) throws -> [[UInt8]] {
    var rows: [[UInt8]] = []
    let found = try mirrors(in: snapshot, of: filter) { after in
      try snapshot.mirrorsWithQuarantine(afterKey: after, limit: rowLimit).compactMap { try snapshot.mirror(key: $0) }
    }
    for (database, mirror) in found where rows.count < rowLimit {
      for object in try snapshot.quarantined(of: mirror.key, afterKey: 0, limit: rowLimit - rows.count) {
        rows.append(
          row(database) { output in
            output.member("store", mirror.deviceID)
            output.member("user", mirror.userRecordName)
            QuarantinedObject(object).writeMembers(to: &output)
          })
      }
    }
    return rows
  }

  static func events(in snapshot: any ShardSnapshot, _ filter: DatabaseFilter, after: Int64) throws -> [[UInt8]] {
    var rows: [[UInt8]] = []
    for (database, mirror) in try mirrors(
      in: snapshot, of: filter, { try snapshot.mirrors(afterKey: $0, limit: rowLimit) }) where rows.count < rowLimit
    {
      let events = try snapshot.events(of: mirror.key, after: 0, kind: nil, limit: rowLimit).filter {
        $0.endedAt ?? $0.startedAt > after
      }
      for event in events.suffix(eventLimit) {
        rows.append(
          row(database) { output in
            output.member("store", mirror.deviceID)
            output.member("user", mirror.userRecordName)
            write(event, to: &output)
          })
      }
    }
    return rows
  }

  private static func write(_ event: StoredEvent, to output: inout JSONWriter) {
    output.member("identifier", event.identifier)
    output.member("type", "\(event.kind)")
    output.member("startedAt", event.startedAt)
    if let endedAt = event.endedAt { output.member("endedAt", endedAt) }
    output.member("succeeded", event.succeeded)
    output.member("savedCount", event.savedCount)
    output.member("deletedCount", event.deletedCount)
    if let error = event.errorJSON {
      output.key("error")
      output.raw(error)
    }
  }
}
