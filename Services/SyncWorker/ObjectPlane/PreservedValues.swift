// Adds to deletions in history the values that the model preserves, whether or not the client sent them (H1, T-H05).

import History
import Mirroring
import ObjectModel
import RecordStore
import ZoneCommit

enum PreservedValues {
  /// True if a transaction deletes an object with preserved attributes and does not bring their values itself.
  static func areAsked(by transactions: [HistoryTransaction], _ model: MirrorModel) -> Bool {
    transactions.contains { $0.changes.contains { !names(of: $0, model).isEmpty } }
  }

  /// Fills in tombstones from the objects' records and the transactions before.
  static func added(
    to transactions: [HistoryTransaction], of mirror: StoredMirror, _ run: ExportRun, in snapshot: any ShardSnapshot
  ) throws -> [HistoryTransaction] {
    do {
      return try added(to: transactions, of: mirror, run, isolatesErrors: false, in: snapshot)
    } catch  where ExportFailure(error) == .poisoned {
      // Dropped because the export reports the error; judged one by one, the other changes still give their values.
      return try added(to: transactions, of: mirror, run, isolatesErrors: true, in: snapshot)
    }
  }

  private static func added(
    to transactions: [HistoryTransaction], of mirror: StoredMirror, _ run: ExportRun, isolatesErrors: Bool,
    in snapshot: any ShardSnapshot
  ) throws -> [HistoryTransaction] {
    let locator = try ObjectLocator(of: mirror, in: snapshot)
    var zones = try locator.zones(of: transactions).map { zone in
      (
        key: zone.key,
        exporter: run.exporter(
          of: mirror, from: locator.source(in: zone), elsewhere: locator.elsewhere(than: zone),
          isolatesErrors: isolatesErrors)
      )
    }
    let deleted = Set(transactions.flatMap(\.changes).filter { !names(of: $0, run.model).isEmpty }.map(\.objectID))
    for pending in try run.pending(about: deleted, isWide: false, of: mirror, in: snapshot) {
      for index in zones.indices { try zones[index].exporter.apply(pending) }
    }
    let deserializer = Deserializer(run.model.index)
    var result = transactions
    for index in transactions.indices {
      for (position, change) in transactions[index].changes.enumerated() {
        let names = names(of: change, run.model)
        guard !names.isEmpty, let key = try locator.zone(of: change.objectID)?.key,
          let zone = zones.firstIndex(where: { $0.key == key }),
          let record = try zones[zone].exporter.currentRecord(named: change.objectID),
          let entity = deserializer.entity(of: record)
        else { continue }
        // Dropped because the import reports a record that does not fit its model; its tombstone stays empty.
        guard let object = try? deserializer.object(entity, from: record) else { continue }
        result[index].changes[position] = HistoryChange(
          changeType: .delete, entity: change.entity, objectID: change.objectID,
          tombstone: object.attributes.filter { names.contains($0.name) })
      }
      for zone in zones.indices { try zones[zone].exporter.apply(transactions[index]) }
    }
    return result
  }

  /// The preserved attributes of a deletion without a tombstone.
  private static func names(of change: HistoryChange, _ model: MirrorModel) -> Set<String> {
    guard change.changeType == .delete, change.tombstone.isEmpty, let entity = model.index.entity(named: change.entity)
    else { return [] }
    return entity.preservedAttributeNames.intersection(entity.mirroredAttributes.map(\.name))
  }
}
