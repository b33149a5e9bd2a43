// Explains for an app or an operator why an object is in its state: the call `explain`.

import History
import JSON
package import Mirroring
package import RecordStore
package import Records
import ServiceBus
package import WebServices
package import ZoneCommit

extension StoreCall {
  /// `GET objects/{objectID}/explain`: also for an object without a record, or one with an unknown model.
  package func explain(_ objectID: String) async throws(RecordError) -> PlaneAnswer {
    let store = await facts(of: try await locate(), quarantined: 0)
    let permissions = try await context.schemas.schema(of: request.database.container, request.database.environment)
      .permissions(of: request.caller, in: request.database)
    let explanation = try await read { snapshot in
      try Explanation(
        of: objectID, in: try mirror(in: snapshot), store, mayRead: { permissions?.mayRead($0) ?? true }, in: snapshot)
    }
    guard !explanation.facts.isUnknown else {
      throw RecordError(
        .notFound, "Neither this store nor its zone knows an object \(objectID.prefix(Limit.nameByteCount))")
    }
    return PlaneAnswer(body: explanation.answer(lastExport: explanation.lastExport.map(event)).json)
  }
}

/// The facts on an object in one state of the shard.
package struct Explanation: Sendable {
  let objectID: String
  let zoneID: Zone.ID?
  package let facts: SyncFacts
  package let lastExport: StoredEvent?
  /// Of the stored record or its tombstone.
  let tag: RecordChangeTag?

  package init(
    of objectID: String, in mirror: StoredMirror, _ store: StoreFacts, mayRead: (Record) -> Bool = { _ in true },
    in snapshot: any ShardSnapshot
  ) throws {
    self.objectID = objectID
    let locator = try ObjectLocator(of: mirror, in: snapshot)
    var stored = SyncFacts.Stored.nothing
    do {
      let row = try locator.visibleRow(of: objectID).flatMap { $0.isDeleted || mayRead($0.record) ? $0 : nil }
      stored = row.map { $0.isDeleted ? .tombstone : .record } ?? .nothing
      tag = row.map { RecordChangeTag(sequence: $0.sequence) }
    } catch StoreError.corrupt {
      // Dropped because a record exists; the log names the damage, and the export reports it to a store that writes it.
      stored = .record
      tag = nil
    }
    var pending: [Int64] = []
    _ = try PendingTransactions.forEach(of: mirror, rowLimit: 100_000, in: snapshot) { row, transaction in
      if transaction.changes.contains(where: { $0.objectID == objectID }) { pending.append(row.number) }
    }
    lastExport = try snapshot.latestEvent(of: mirror.key, kind: .export)
    zoneID = try mirror.defaultZoneName == nil && locator.zone(of: objectID) == nil ? nil : locator.zoneID(of: objectID)
    var store = store
    // A batch takes at most this many transactions.
    if let first = pending.first, first > mirror.exportedTransactionNumber + Int64(Limit.exportItemCount) {
      store.isExporting = false
    }
    store.quarantinedCount = mirror.quarantinedCount
    store.pendingCount = mirror.lastTransactionNumber - mirror.exportedTransactionNumber
    let held = mirror.quarantinedCount == 0 ? nil : try snapshot.quarantined(objectID, of: mirror.key)
    facts = SyncFacts(
      stored: stored, pendingTransactions: pending,
      problem: held.map(MirroringProblem.init) ?? MirrorErrors.problem(of: objectID, in: lastExport?.errorJSON),
      isHeld: held != nil,
      conflicts: try snapshot.openConflicts(of: objectID, for: mirror), store: store)
  }

  package var zoneName: String? { zoneID?.zoneName }

  package func answer(lastExport: MirrorEvent?) -> ExplainAnswer {
    ExplainAnswer(objectID: objectID, zoneID: zoneID, facts: facts, tag: tag, lastExport: lastExport)
  }
}
