// The way of an object to and from one store, with times, for `explain`: saved, exported, imported.

import History
package import JSON
import Mirroring
package import RecordStore
import Records
import WebServices
import ZoneCommit

/// What a store knows about the latest changes of an object. It reads kept rows; nothing is written for it.
package struct ObjectWay: Sendable {
  private struct Step {
    let name: String
    /// Milliseconds since 1970; nil for something that has not happened yet.
    let at: Int64?
    var device = ""
    /// The number of the saved transaction.
    var transaction: Int64?
    /// The names of an update's attributes and relationships.
    var properties: [String] = []
    /// The place of the exported or imported change in its zone.
    var sequence: Int64?
    var isDeleted = false
    var reason: String?
  }

  /// The latest changes of the record that are told.
  private static let changeLimit = 20
  /// The latest transactions of the store in which the object is looked for.
  private static let transactionLimit: Int64 = 1000
  private static let failureLimit = 5

  private var steps: [Step] = []

  /// - Parameter zoneName: nil: the object has no zone.
  package init(of objectID: String, zoneName: String?, in mirror: StoredMirror, _ snapshot: any ShardSnapshot) throws {
    try addSaves(of: objectID, mirror, snapshot)
    let events = try snapshot.events(of: mirror.key, after: 0, kind: nil, limit: StoredEvent.keptCount * 2)
    if let zone = try zoneName.flatMap({ try snapshot.zone(named: $0, in: mirror.databaseKey) }) {
      addExports(
        try Self.changes(of: objectID, in: zone.key, snapshot), mirror, events.filter { $0.kind == .import })
    }
    for event in events.filter({ $0.endedAt != nil && !$0.succeeded }).suffix(Self.failureLimit) {
      // Dropped because a failure without a readable reason is told without one.
      let error = event.errorJSON.flatMap { try? JSONValue(parsing: $0) }
      steps.append(
        Step(
          name: "failed", at: event.endedAt, device: mirror.deviceID,
          reason: "\(event.kind): \(error?["reason"]?.string ?? "without a reason")"))
    }
  }

  private struct Change {
    let sequence: Int64
    let isDeleted: Bool
    let stamp: Stamp
  }

  /// The latest changes of a record, oldest first. States are read one by one, because they may be large.
  private static func changes(of recordName: String, in zone: Int64, _ snapshot: any ShardSnapshot) throws -> [Change] {
    var changes: [Change] = []
    var next = try snapshot.record(named: recordName, in: zone)
    while let state = next, changes.count < changeLimit {
      changes.append(Change(sequence: state.sequence, isDeleted: state.isDeleted, stamp: state.record.modified))
      next = try snapshot.state(of: recordName, in: zone, at: state.sequence - 1)
    }
    return changes.reversed()
  }

  private mutating func addSaves(of objectID: String, _ mirror: StoredMirror, _ snapshot: any ShardSnapshot) throws {
    var last = max(mirror.purgedTransactionNumber, mirror.lastTransactionNumber - Self.transactionLimit)
    while case let rows = try snapshot.transactions(of: mirror.key, after: last, limit: 100, byteLimit: 1 << 20),
      let end = rows.last?.number
    {
      for row in rows {
        let changes = try HistoryTransaction(decoding: row.payload).changes.filter { $0.objectID == objectID }
        guard let change = changes.last else { continue }
        steps.append(
          Step(
            name: "saved", at: row.appendedAt, device: mirror.deviceID, transaction: row.number,
            properties: change.updatedProperties, isDeleted: change.changeType == .delete))
      }
      last = end
    }
  }

  /// - Parameter imports: the store's imports, oldest first.
  private mutating func addExports(_ changes: [Change], _ mirror: StoredMirror, _ imports: [StoredEvent]) {
    var arrivals: [String: Step] = [:]
    for change in changes {
      let stamp = change.stamp
      steps.append(
        Step(
          name: "exported", at: stamp.timestamp, device: stamp.deviceID, sequence: change.sequence,
          isDeleted: change.isDeleted))
      if stamp.deviceID == mirror.deviceID { continue }
      // An import that ended after the change delivered it; one import delivers several changes.
      let event = imports.first { $0.succeeded && $0.endedAt ?? 0 >= stamp.timestamp }
      arrivals[event?.identifier ?? ""] = Step(
        name: event == nil ? "awaited" : "imported", at: event?.endedAt, device: mirror.deviceID,
        sequence: change.sequence, isDeleted: change.isDeleted)
    }
    steps += arrivals.values.sorted { $0.sequence ?? 0 < $1.sequence ?? 0 }
  }

  /// Writes an array of objects.
  package func write(to writer: inout JSONWriter) {
    writer.beginArray()
    for step in steps {
      writer.beginObject()
      writer.member("step", step.name)
      if let at = step.at { writer.member("at", at) }
      writer.member("store", step.device)
      if let transaction = step.transaction { writer.member("transaction", transaction) }
      if !step.properties.isEmpty {
        writer.key("properties")
        writer.beginArray()
        for name in step.properties { writer.string(name) }
        writer.endArray()
      }
      if let sequence = step.sequence {
        writer.member("sequence", sequence)
        writer.member("recordChangeTag", RecordChangeTag(sequence: sequence).text)
      }
      if step.isDeleted { writer.member("isDeleted", true) }
      if let reason = step.reason { writer.member("reason", reason) }
      writer.endObject()
    }
    writer.endArray()
  }
}
