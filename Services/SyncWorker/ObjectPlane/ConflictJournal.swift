// Records lost changes in the commit that loses them.

import History
package import Mirroring
package import RecordStore
import Records
import ZoneCommit

/// The conflict journal of one database, for the body of a commit. Exports, purges and roll-backs append to it;
/// `ConflictCall` lists and settles its entries.
package struct ConflictJournal {
  package let transaction: any ShardTransaction
  package let databaseKey: Int64
  /// Milliseconds since 1970.
  package let now: Int64

  package init(transaction: any ShardTransaction, databaseKey: Int64, now: Int64) {
    self.transaction = transaction
    self.databaseKey = databaseKey
    self.now = now
  }

  /// The most bytes in an entry. A larger loss becomes several entries.
  private static let entryByteCount = 4_194_304

  /// - Parameter zoneName: the object's zone, also if the object is gone.
  /// - Returns: the number of the entry, or of the first of several.
  @discardableResult
  package func append(_ loss: ConflictLoss, inZone zoneName: String) throws -> Int64 {
    let zone = try transaction.zone(named: zoneName, in: databaseKey)
    return try append(loss.compacted, zoneName, zone?.incarnation ?? 0)
  }

  /// The most rows, and bytes of their changes, that one commit takes out of the quarantine.
  private static let heldPageCount = 100
  private static let heldPageByteCount = Limit.exportByteCount

  /// Moves quarantined changes of a store that is being removed here, because nothing will export them: a page of them.
  /// - Returns: true if none is left.
  func takeHeld(of mirror: StoredMirror) throws -> Bool {
    guard mirror.quarantinedCount > 0, let zoneName = mirror.defaultZoneName else { return true }
    let rows = try transaction.quarantined(of: mirror.key, afterKey: 0, limit: Self.heldPageCount)
    var byteCount = 0
    for row in rows {
      guard byteCount < Self.heldPageByteCount else { return false }
      if let payload = try unlessDamaged({ try transaction.quarantinedChanges(row.key) }) ?? nil {
        byteCount += payload.count
        // Dropped because changes that can't be read can't be restored either.
        if let held = try? HeldTransactions(decoding: payload) {
          try append(
            ConflictLoss(
              kind: .unexported, objectID: row.name, entity: row.entity, lost: held.changes,
              edit: Stamp(timestamp: held.timestamp, userRecordName: mirror.userRecordName, deviceID: mirror.deviceID)),
            inZone: zoneName)
        }
      }
      try transaction.removeQuarantined(row.name, of: mirror.key)
    }
    return rows.count < Self.heldPageCount
  }

  /// Appends a loss that may be in the journal already: an entry of the object with the same content stands for it.
  package func appendOnce(_ loss: ConflictLoss, inZone zoneName: String) throws {
    var known: [StoredConflict] = []
    var last: Int64 = 0
    while case let page = try transaction.conflicts(
      in: databaseKey, afterNumber: last, ConflictFilter(recordName: loss.objectID), limit: 100), let end = page.last
    {
      known += page.filter {
        $0.kind == loss.kind.rawValue && $0.userRecordName == loss.edit.userRecordName
          && $0.deviceID == loss.edit.deviceID
      }
      last = end.number
    }
    _ = try append(loss.compacted, zoneName, 0, unlessIn: known)
  }

  private func append(
    _ loss: ConflictLoss, _ zoneName: String, _ incarnation: UInt64, unlessIn known: [StoredConflict] = []
  ) throws -> Int64 {
    let content = loss.content
    let payload = content.encoded()
    if payload.count > Self.entryByteCount, let halves = loss.halves {
      let first = try append(halves.0, zoneName, incarnation, unlessIn: known)
      _ = try append(halves.1, zoneName, incarnation, unlessIn: known)
      return first
    }
    if let same = try known.first(where: { try transaction.conflictContent($0.number, in: databaseKey) == payload }) {
      return same.number
    }
    // Content that is gone can't be counted. A restore reports its absence.
    let assets = try content.assets.filter { try transaction.hasContent(of: $0) }
    return try transaction.appendConflict(
      StoredConflict(
        databaseKey: databaseKey, zoneName: zoneName, zoneIncarnation: incarnation, recordName: loss.objectID,
        entity: loss.entity, kind: loss.kind.rawValue,
        state: loss.state.rawValue, userRecordName: loss.edit.userRecordName, deviceID: loss.edit.deviceID, at: now),
      content: payload, assets: assets)
  }
}

extension ConflictLoss {
  /// nil if the entry is gone, or a later release wrote its kind.
  /// - Throws: `StoreError.corrupt` or `StoredFormatError` for damaged content.
  package init?(_ stored: StoredConflict, in snapshot: any ShardSnapshot) throws {
    guard let kind = ConflictKind(rawValue: stored.kind),
      let content = try snapshot.conflictContent(stored.number, in: stored.databaseKey)
    else { return nil }
    self.init(
      kind: kind, objectID: stored.recordName, entity: stored.entity,
      content: try HistoryTransaction(decoding: content), user: stored.userRecordName,
      device: stored.deviceID)
  }
}

extension ShardSnapshot {
  /// Conflicts that wait for a decision and that the store's user sees: in the public database their own.
  func openConflictCount(for mirror: StoredMirror) throws -> Int {
    try openConflictCount(in: mirror.databaseKey, of: mirror.scope == .public ? mirror.userRecordName : nil)
  }

  /// Numbers of an object's conflicts that await a decision, ascending, at most 100.
  func openConflicts(of objectID: String, for mirror: StoredMirror) throws -> [Int64] {
    let filter = ConflictFilter(
      recordName: objectID, state: ConflictState.open.rawValue,
      userRecordName: mirror.scope == .public ? mirror.userRecordName : nil)
    return try conflicts(in: mirror.databaseKey, afterNumber: 0, filter, limit: 100).map(\.number)
  }
}
