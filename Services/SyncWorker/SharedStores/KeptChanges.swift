// What a guest gives up of what its user saved: it keeps that until its home has written it into the journal, where its user can see it.

import History
import MessagePack
import Mirroring
import RecordStore
import Records
import ServiceKit

/// Rows of a guest's quarantine that are never tried again: undone for want of permission, out of its user's reach, or lost to somebody else's
/// edit.
///
/// Their names begin with a character that no object's can have, so that no later change of the object takes them up.
enum KeptChanges {
  private static let mark: Character = "\u{1f}"

  static func isName(_ name: String) -> Bool { name.first == mark }
  fileprivate static func makeName(_ random: any RandomSource) -> String { "\(mark)\(random.uuid())" }

  /// What a home's journal says of a row.
  static func kind(of cause: Int) -> ConflictKind {
    switch QuarantineCause(rawValue: cause) {
    case .permission: .reverted
    case .deleted: .lostObject
    case .other: .lostValue
    default: .unexported
    }
  }
}

extension ExportRun {
  /// Keeps an object's changes for the guest's home.
  /// - Parameter timestamp: when they were made, by their device.
  func keep(
    _ changes: [HistoryChange], timestamp: Int64, _ problem: MirroringProblem, of mirror: StoredMirror, in transaction: any ShardTransaction
  ) throws {
    guard let last = changes.last else { return }
    let payload = HistoryTransaction(transactionID: "", timestamp: timestamp, changes: HeldChanges.compacted(changes))
    let at = context.clock.now
    let row = StoredQuarantine(
      mirror: mirror.key, name: KeptChanges.makeName(context.random), entity: last.entity, cause: problem.cause.rawValue, code: problem.code.rawValue,
      cocoaErrorCode: problem.cocoaErrorCode?.rawValue, reason: problem.reason, firstAt: at, lastAt: at, attempts: 1, dueAt: StoredQuarantine.never,
      schemaVersion: schema.version)
    // What nobody has any more can't be counted; the journal tells of it.
    try transaction.putQuarantined(row, changes: payload.encoded(), assets: payload.assets.filter { try transaction.hasContent(of: $0) })
  }

  /// Keeps what a guest's user loses to somebody else's edit or deletion: the database's journal, which has it too, is its owner's.
  func keep(_ loss: ConflictLoss, of mirror: StoredMirror, in transaction: any ShardTransaction) throws {
    guard mirror.isGuest, loss.edit.userRecordName == mirror.userRecordName, loss.edit.deviceID == mirror.deviceID else { return }
    let cause: QuarantineCause
    switch loss.kind {
    case .lostObject: cause = .deleted
    case .lostValue, .undecided: cause = .other
    case .unexported, .reverted: return
    }
    let problem = MirroringProblem(recordName: loss.objectID, entity: loss.entity, code: .conflict, reason: "lost to another device's change", cause: cause)
    try keep(loss.lost, timestamp: loss.edit.timestamp, problem, of: mirror, in: transaction)
  }
}

// MARK: At the owner's

extension StoreCall {
  /// `GET held`: what the guest keeps, page by page; with `all` also what its exports hold back, for its end.
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
          // Dropped because what can't be read nobody can keep; the log has it.
          payload = nil
        }
        // Dropped because what can't be decoded has no object that could be looked for.
        let name = payload.flatMap { try? HistoryTransaction(decoding: $0) }?.changes.last?.objectID ?? row.name
        let zoneName = try locator.zone(of: name)?.zoneName ?? locator.lostZone(of: name) ?? ""
        page.rows.append(HeldChangesPage.Row(key: row.key, name: row.name, attempts: row.attempts, cause: row.cause, zoneName: zoneName, payload: payload))
        byteCount += payload?.count ?? 0
      }
      return page
    }
    return try encodedAnswer(page)
  }

  private static let heldLimit = 500

  /// `POST held/acknowledge`: rows that are in the home's journal.
  func acknowledgeHeld(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let asked: AcknowledgeHeld = try decodedBody()
    let commit = store.enqueue { transaction in
      let mirror = try mirror(in: transaction)
      for row in asked.rows {
        // One that was tried again meanwhile says something else.
        guard let current = try transaction.quarantined(row.name, of: mirror.key), current.key == row.key, current.attempts == row.attempts else { continue }
        try transaction.removeQuarantined(row.name, of: mirror.key)
      }
    }
    startNext()
    try await value(of: commit)
    return try encodedAnswer(asked)
  }

  /// Whether the guest keeps something for its home's journal.
  func hasKept() async throws(RecordError) -> Bool {
    try await read { snapshot in
      let mirror = try mirror(in: snapshot)
      if mirror.quarantinedCount == 0 { return false }
      var last: Int64 = 0
      while case let rows = try snapshot.quarantined(of: mirror.key, afterKey: last, limit: Self.heldLimit), let end = rows.last {
        if rows.contains(where: { KeptChanges.isName($0.name) }) { return true }
        last = end.key
      }
      return false
    }
  }
}

// MARK: At home

extension SharedHome {
  /// Writes what a guest keeps into the home's journal and lets go of it there. Whatever is done twice is in the journal once.
  /// - Parameter all: also what its exports hold back.
  func collect(from owner: String, all: Bool = false, into store: any ShardStore) async throws(RecordError) {
    var last: Int64 = 0
    while true {
      let page = try await ask(owner, "GET", ["held"], query: ["after": String(last), "all": String(all)]).decoded(as: HeldChangesPage.self)
      if !page.rows.isEmpty {
        try await journal(page.rows, of: owner, into: store)
        let rows = page.rows.map { AcknowledgeHeld.Row(key: $0.key, name: $0.name, attempts: $0.attempts) }
        let body: [UInt8]
        do {
          body = try MessagePackEncoder().encode(AcknowledgeHeld(rows: rows))
        } catch {
          throw RecordError(.internalError, "the request can't be written")
        }
        try await ask(owner, "POST", ["held", "acknowledge"], body: body).check()
      }
      guard page.moreComing, page.last > last else { return }
      last = page.last
    }
  }

  private func journal(_ rows: [HeldChangesPage.Row], of owner: String, into store: any ShardStore) async throws(RecordError) {
    let (mirror, now) = (mirror, context.clock.now)
    do {
      try await store.enqueue { transaction in
        let journal = ConflictJournal(transaction: transaction, databaseKey: mirror.databaseKey, now: now)
        for row in rows {
          // Dropped because what can't be read nobody can keep; the owner's log has it.
          guard let payload = row.payload, let held = try? HistoryTransaction(decoding: payload), let last = held.changes.last else { continue }
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
