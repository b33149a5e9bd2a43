// What a store has still to do, and how far it has come.

import RecordStore
import Records
import ServiceBus
import WebServices

extension StoreCall {
  func status() async throws(RecordError) -> PlaneAnswer {
    let state = try await read { snapshot -> (mirror: StoredMirror, lastExport: StoredEvent?, lastImport: StoredEvent?) in
      let mirror = try mirror(in: snapshot)
      return (mirror, try snapshot.latestEvent(of: mirror.key, kind: .export), try snapshot.latestEvent(of: mirror.key, kind: .import))
    }
    let pending = state.mirror.lastTransactionNumber - state.mirror.exportedTransactionNumber
    let position = await imports.position(of: state.mirror.key) ?? 0
    var isCaughtUp = pending == 0
    if isCaughtUp { isCaughtUp = try await !hasNews(for: state.mirror, after: position) }
    let status = StoreStatus(
      pendingUploads: pending, quarantined: state.mirror.quarantinedCount, lastExport: state.lastExport.map(event),
      lastImport: state.lastImport.map(event), caughtUp: isCaughtUp)
    return PlaneAnswer(body: status.json)
  }

  /// Whether somebody else changed a record after a position; records beyond the first few hundred are taken for news unseen.
  private func hasNews(for mirror: StoredMirror, after position: Int64) async throws(RecordError) -> Bool {
    try await read { snapshot in
      for zone in try snapshot.mirroredZones(of: mirror, after: position) where !zone.isDeleted {
        let rows: [StoredRecord]
        do {
          rows = try snapshot.changes(in: zone.key, after: position, limit: Self.newsLimit)
        } catch StoreError.corrupt {
          // Dropped because whoever imports it is told, and an operator by the log.
          return true
        }
        if rows.count == Self.newsLimit || rows.contains(where: { $0.origin != mirror.key || $0.sequenceOfOthers > position }) { return true }
      }
      return false
    }
  }

  private static let newsLimit = 500
}
