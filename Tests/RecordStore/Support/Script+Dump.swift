// All that a snapshot shows, as lines that two engines must agree on.

import Indexing
import Records
@testable import RecordStore

extension Script {
  /// The whole content of a snapshot, read in pages of `limit`.
  static func dump(_ snapshot: any ShardSnapshot, limit: Int) throws -> [String] {
    var lines = ["\(try snapshot.counts())", "\(try snapshot.mirrorsAwaitingExport(afterKey: 0, limit: 99))"]
    for owner in 0..<3 {
      guard let database = try snapshot.database(Sample.database("\(owner)")) else { continue }
      lines.append("\(database) \(String(describing: try snapshot.database(key: database.key)))")
      lines.append("\(try names.map { try snapshot.placements(of: $0, in: database.key) })")
      for zone in try snapshot.zones(in: database.key, after: 0, limit: 99) {
        lines.append("\(zone) \(String(describing: try snapshot.zone(key: zone.key)))")
        lines += try dumpZone(zone.key, snapshot, limit: limit)
        lines += try dumpIndexes(of: database.key, in: zone.key, snapshot, limit: limit)
        lines += try dumpRedirects(in: zone, snapshot, limit: limit)
        lines += try dumpSharing(in: zone, snapshot, limit: limit)
      }
      for mirror in 0..<3 {
        lines.append("\(String(describing: try snapshot.mirror("mirror \(mirror)", in: database.key)))")
      }
      lines += try snapshot.subscriptions(in: database.key, afterKey: 0, limit: limit).map { "\($0)" }
      lines += try dumpJournal(of: database.key, snapshot, limit: limit)
      for user in 0..<3 {
        lines.append(
          "\(try snapshot.subscriptions(of: "user \(user)", scope: .private, in: database.key, limit: limit))")
        let shared = try snapshot.subscription("subscription 1", of: "user \(user)", scope: .shared, in: database.key)
        lines.append(String(describing: shared))
      }
    }
    for mirror in try snapshot.mirrors(afterKey: 0, limit: 99) {
      lines.append("\(mirror) \(try snapshot.transactions(of: mirror.key, after: 0, limit: limit))")
      lines.append("\(try snapshot.consumers(of: mirror.key))")
      for id in 0..<40 {
        let name = id % 2 == 0 ? Sample.uuid(id) : "id \(id)"
        lines.append("\(String(describing: try snapshot.transaction(withID: name, of: mirror.key)))")
        lines.append("\(String(describing: try snapshot.settledTransaction(withID: name, of: mirror.key)))")
        lines.append("\(String(describing: try snapshot.transactionNumber(of: name, in: mirror.key)))")
      }
      lines.append(
        """
        \(try snapshot.events(of: mirror.key, after: 1, kind: nil, limit: limit)) \
        \(try snapshot.events(of: mirror.key, after: 0, kind: .export, limit: 99))
        """
      )
    }
    lines.append(
      """
      \(try snapshot.mirrorsWithQuarantine(afterKey: 0, limit: 99)) \
      \(String(describing: try snapshot.nextQuarantineDue()))
      """
    )
    for mirror in try snapshot.mirrorsWithQuarantine(afterKey: 0, limit: 99) {
      let held = try snapshot.quarantined(of: mirror, afterKey: 0, limit: 99)
      lines.append(
        """
        \(held) \(try snapshot.quarantined(of: mirror, dueBy: 99, limit: limit)) \
        \(try held.map { try snapshot.quarantinedChanges($0.key) })
        """
      )
    }
    for key in 0..<60 {
      lines.append("\(String(describing: try snapshot.outcome(of: names[key % names.count] + "\(key)")))")
    }
    return lines
  }

  /// The entries of every index in a zone, upwards and downwards; the indexes must be ready.
  private static func dumpIndexes(of database: Int64, in zone: Int64, _ snapshot: any ShardSnapshot, limit: Int) throws
    -> [String]
  {
    var lines = ["\(try snapshot.recordCount(in: zone)) live"]
    for index in try snapshot.indexes(in: database) {
      lines.append("\(index)")
      for range in [
        IndexRange(lower: [], upper: [0xff]), IndexRange(lower: [], upper: Array("title".utf8)), IndexKey.everything,
      ] {
        lines.append("\(try snapshot.entryCount(of: index.key, in: zone, range: range, limit: 5))")
        for isDescending in [false, true] {
          var scan = IndexScan(index: index.key, zone: zone, range: range, isDescending: isDescending)
          while case let page = try snapshot.indexedRecords(scan, limit: limit), let last = page.last {
            // Hashes, because a description of each record in each order would take a quarter of the tests' time.
            lines += page.map { "\($0.key) \($0.stored.record.recordName) \($0.stored.hashValue)" }
            scan.after = IndexPosition(key: last.key, recordName: last.stored.record.recordName)
          }
        }
      }
    }
    return lines
  }

  private static func dumpZone(_ zone: Int64, _ snapshot: any ShardSnapshot, limit: Int) throws -> [String] {
    var lines: [String] = []
    var sequence: Int64 = 0
    while case let page = try snapshot.changes(in: zone, after: sequence, limit: limit), let last = page.last {
      lines += page.map { "\($0)" }
      sequence = last.sequence
    }
    var end = Int64.max
    while case let page = try snapshot.changesBackwards(in: zone, after: sequence / 2, before: end, limit: limit),
      let last = page.last
    {
      lines += page.map { "\($0.sequence)" }
      end = last.sequence
    }
    for type in types {
      var name: String?
      while case let page = try snapshot.records(ofType: type, in: zone, afterName: name, limit: limit),
        let last = page.last
      {
        lines += page.map(\.record.recordName)
        name = last.record.recordName
      }
    }
    lines.append(
      """
      horizon \(String(describing: try snapshot.horizon(of: zone))), \
      \(String(describing: try snapshot.firstReplacement(in: zone, after: 999)))
      """
    )
    var name: String?
    while case let page = try snapshot.records(in: zone, afterName: name, limit: limit), let last = page.last {
      lines += page.map { "\($0.record.recordName) \($0.sequence)" }
      name = last.record.recordName
    }
    for (index, name) in names.enumerated() {
      lines += try snapshot.pastStates(of: name, in: zone, after: sequence / 3, limit: limit, byteLimit: .max).map {
        "\($0)"
      }
      lines.append("\(String(describing: try snapshot.pastState(of: name, in: zone, replacedAfter: 1000)))")
      lines.append("\(String(describing: try snapshot.state(of: name, in: zone, at: sequence / 2)))")
      for action in Reference.Action.allCases {
        lines.append(
          """
          \(try snapshot.sources(boundTo: name, by: action, in: zone, limit: 99)) \
          \(try snapshot.sourceCount(boundTo: name, by: action, in: zone))
          """
        )
      }
      lines.append("\(String(describing: try snapshot.record(withShortGUID: shortGUID(index, in: zone))))")
      lines.append(
        """
        \(try snapshot.references(to: name, in: zone)) \(String(describing: try snapshot.record(named: name, in: zone)))
        """
      )
    }
    return lines
  }
}
