// Hands a guest's kept changes to its home, which writes them into its journal.

import History
import MessagePack
import Mirroring
import ObjectPlane
import RecordStore
import ServiceBus
import Records
import ServiceKit
import ZoneCommit

extension StoreCall {
  /// `GET held`: a page of the kept changes; with `all` also the changes that exports hold back, before the guest is
  /// removed.
  func listHeld() async throws(RecordError) -> PlaneAnswer {
    let after = Int64(try integer("after", default: 0, minimum: 0, maximum: .max))
    let isAll = try flag("all")
    let page = try await read { snapshot -> HeldChangesPage in
      let mirror = try mirror(in: snapshot)
      let locator = try ObjectLocator(of: mirror, in: snapshot)
      var page = HeldChangesPage()
      var byteCount = 0
      for row in try snapshot.quarantined(of: mirror.key, afterKey: after, limit: Self.heldLimit + 1) {
        guard page.rowCount < Self.heldLimit, byteCount < Self.pageByteCount else {
          page.moreComing = true
          break
        }
        page.last = row.key
        page.rowCount += 1
        guard isAll || KeptChanges.isName(row.name) else { continue }
        let payload: [UInt8]?
        do {
          payload = try snapshot.quarantinedChanges(row.key)
        } catch StoreError.corrupt {
          // Dropped because an unreadable payload can't be kept; the log has it.
          payload = nil
        }
        // Dropped because a payload that can't be decoded names no object to look for.
        let name = payload.flatMap { try? HeldTransactions(decoding: $0) }?.changes.last?.objectID ?? row.name
        let zoneName = try locator.zone(of: name)?.zoneName ?? locator.lostZone(of: name) ?? ""
        page.rows.append(
          HeldChangesPage.Row(
            key: row.key, name: row.name, attempts: row.attempts, firstAt: row.firstAt, cause: row.cause,
            zoneName: zoneName, payload: payload))
        byteCount += payload?.count ?? 0
      }
      return page
    }
    return try PlaneAnswer(forProcess: page)
  }

  private static let heldLimit = 500

  /// `POST held/acknowledge`: removes rows that the home's journal has.
  func acknowledgeHeld(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let asked: AcknowledgeHeld = try decodedBody()
    let commit = store.enqueue { transaction in
      let mirror = try mirror(in: transaction)
      for row in asked.rows {
        // A row that was tried again in the meantime has other content, and so has one that went and came again.
        guard let current = try transaction.quarantined(row.name, of: mirror.key), current.key == row.key,
          current.attempts == row.attempts, row.firstAt ?? current.firstAt == current.firstAt
        else { continue }
        try transaction.removeQuarantined(row.name, of: mirror.key)
      }
    }
    startNext()
    try await value(of: commit)
    return try PlaneAnswer(forProcess: asked)
  }

  /// True when the guest keeps changes for the home's journal.
  func hasKept() async throws(RecordError) -> Bool {
    try await read { snapshot in
      let mirror = try mirror(in: snapshot)
      if mirror.quarantinedCount == 0 { return false }
      var last: Int64 = 0
      while case let rows = try snapshot.quarantined(of: mirror.key, afterKey: last, limit: Self.heldLimit),
        let end = rows.last
      {
        if rows.contains(where: { KeptChanges.isName($0.name) }) { return true }
        last = end.key
      }
      return false
    }
  }
}

extension SharedHome {
  /// Writes a guest's kept changes into the home's journal, then releases them. A repetition adds no second entry.
  /// - Parameter all: also takes the changes that the guest's exports hold back.
  func collect(from owner: String, all: Bool = false, into store: any ShardStore) async throws(RecordError) {
    var last: Int64 = 0
    while true {
      let page = try await ask(owner, .listHeld, query: ["after": String(last), "all": String(all)]).decoded(
        as: HeldChangesPage.self)
      if !page.rows.isEmpty {
        try await journal(page.rows, of: owner, into: store)
        let rows = page.rows.map {
          AcknowledgeHeld.Row(key: $0.key, name: $0.name, attempts: $0.attempts, firstAt: $0.firstAt)
        }
        let body: [UInt8]
        do {
          body = try MessagePackEncoder().encode(AcknowledgeHeld(rows: rows))
        } catch {
          throw RecordError(.internalError, "the request can't be written")
        }
        try await ask(owner, .acknowledgeHeld, body: body).check()
      }
      guard page.moreComing, page.last > last else { return }
      last = page.last
    }
  }

  private func journal(_ rows: [HeldChangesPage.Row], of owner: String, into store: any ShardStore)
    async throws(RecordError)
  {
    let (mirror, now) = (mirror, context.clock.now)
    do {
      try await store.enqueue { transaction in
        let journal = ConflictJournal(transaction: transaction, databaseKey: mirror.databaseKey, now: now)
        for row in rows {
          // Dropped because an unreadable payload can't be kept; the owner's log has it.
          guard let payload = row.payload, let held = try? HeldTransactions(decoding: payload),
            let last = held.changes.last
          else { continue }
          let loss = ConflictLoss(
            kind: KeptChanges.kind(of: row.cause), objectID: last.objectID, entity: last.entity, lost: held.changes,
            edit: Stamp(timestamp: held.timestamp, userRecordName: mirror.userRecordName, deviceID: mirror.deviceID))
          try journal.appendOnce(loss, inZone: SharedZoneName.text(Zone.ID(zoneName: row.zoneName, ownerName: owner)))
        }
      }.value
    } catch {
      throw RecordError(storing: error, log: context.log)
    }
  }
}
