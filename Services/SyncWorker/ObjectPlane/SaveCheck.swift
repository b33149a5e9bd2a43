// What a save may say, as far as only the store knows: decided in the transaction that appends it, so that no earlier save is missed.

import History
import Mirroring
import RecordStore
import Records

/// Refuses updates of objects that nobody has ever heard of (semantics 6 would leave them out for ever).
struct SaveCheck {
  let mirror: StoredMirror
  let transaction: any ShardTransaction

  /// Whether a transaction says anything that has to be checked.
  static func concerns(_ transactions: [HistoryTransaction]) -> Bool {
    transactions.contains { $0.changes.contains { $0.changeType == .update } }
  }

  /// - Parameter transactions: with their places in the request; those that are not stored yet.
  /// - Throws: `NOT_FOUND` naming the place, the entity and the object; nothing is stored then.
  func check(_ transactions: [(place: Int, transaction: HistoryTransaction)]) throws {
    guard let zoneName = mirror.defaultZoneName else { return }
    let zone = try transaction.zone(named: zoneName, in: mirror.databaseKey).flatMap { $0.isDeleted ? nil : $0 }
    var known: Set<String> = []
    for (place, saved) in transactions where Exporter.exports(author: saved.author) {
      for (index, change) in saved.changes.enumerated() {
        if change.changeType == .update, !known.contains(change.objectID), try !isKnown(change.objectID, zone) {
          throw try refusal(of: change.objectID, "transactions[\(place)]: changes[\(index)]: \(change.entity)")
        }
        known.insert(change.objectID)
      }
    }
  }

  /// Stored, deleted, held back, or saved and not exported.
  private func isKnown(_ objectID: String, _ zone: StoredZone?) throws -> Bool {
    do {
      if let zone, try transaction.record(named: objectID, in: zone.key) != nil { return true }
    } catch StoreError.corrupt {
      // Dropped because there is something: what is wrong with it the export says.
      return true
    }
    if mirror.quarantinedCount > 0, try transaction.quarantined(objectID, of: mirror.key) != nil { return true }
    return try isPending(objectID)
  }

  /// Transactions read for one question. Of a store with a longer backlog everything is believed: the export holds back what is wrong.
  private static let pendingLimit = 1000

  private func isPending(_ objectID: String) throws -> Bool {
    let count = mirror.lastTransactionNumber - mirror.exportedTransactionNumber
    if count == 0 { return false }
    if count > Self.pendingLimit { return true }
    var last = mirror.exportedTransactionNumber
    var byteCount = 0
    while last < mirror.lastTransactionNumber {
      let rows: [StoredTransaction]
      do {
        rows = try transaction.transactions(of: mirror.key, after: last, limit: 100, byteLimit: Limit.exportByteCount)
      } catch StoreError.corrupt {
        // Dropped because what is in it nobody knows: the object may be.
        return true
      }
      guard let end = rows.last?.number else { return false }
      byteCount += rows.reduce(0) { $0 + $1.payload.count }
      for row in rows {
        // Dropped because the export reports it, and the object may be in it.
        guard let saved = try? HistoryTransaction(decoding: row.payload) else { return true }
        if saved.changes.contains(where: { $0.objectID == objectID }) { return true }
      }
      if byteCount > Limit.requestByteCount { return true }
      last = end
    }
    return false
  }

  private func refusal(of objectID: String, _ place: String) throws -> RecordError {
    for zone in try transaction.mirroredZones(of: mirror, after: 0) where !zone.isDeleted {
      guard try transaction.record(named: objectID, in: zone.key) != nil else { continue }
      return RecordError(.badRequest, "\(place) \(objectID): the object is in zone '\(zone.zoneName)', which the store does not export to", cocoaErrorCode: .mirroring)
    }
    return RecordError(.notFound, "\(place) \(objectID): there is no such object")
  }
}
