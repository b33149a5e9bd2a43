// Takes transactions from a shared store's home: each is appended and exported once, however often it is sent.

import Assets
import History
import Mirroring
import ObjectPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices
import ZoneCommit

extension StoreCall {
  /// Answers when the export of the transactions is committed.
  /// - Throws: 134060 or 2988 for changes that connect zones or that belong to no shared object; nothing is stored
  ///   then. `TRY_AGAIN_LATER` when the export does not end in time; the export goes on.
  func takeForwarded(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let asked: ForwardTransactions = try decodedBody()
    let mirror = try await locate()
    let (model, schema) = try await model(of: mirror)
    var transactions: [HistoryTransaction] = []
    for payload in asked.transactions {
      do {
        transactions.append(try HistoryTransaction(decoding: payload))
      } catch {
        throw RecordError(.badRequest, "transactions[\(transactions.count)] can't be read")
      }
    }
    try await date(&transactions, of: mirror)
    let run = ExportRun(
      mirrorKey: mirror.key, shard: store.shard, database: request.database, model: model, schema: schema,
      context: context, quota: await ownersQuota(),
      recent: Dictionary(
        transactions.map { ($0.transactionID, RecentTransaction(transaction: $0, payload: $0.encoded())) },
        uniquingKeysWith: { first, _ in first }))
    let saved = transactions
    let at = now
    let index = model.index
    @Sendable func row(_ transaction: HistoryTransaction) -> SavedRow {
      SavedRow(
        transactionID: transaction.transactionID, author: transaction.author, payload: transaction.encoded(),
        isEncrypted: index.isEncrypted(transaction.changes),
        assets: transaction.assets)
    }
    try await context.assets.prepare(saved.flatMap(\.assets), for: store.shard, of: request.party, log: context.log)
    let append = store.enqueue { transaction -> (last: Int64, since: Int64, event: Int64) in
      guard let current = try transaction.mirror(key: mirror.key) else { throw Self.wasRemoved }
      var new: [(place: Int, transaction: HistoryTransaction)] = []
      var since: Int64?
      for (place, sent) in saved.enumerated() {
        for part in try Self.pieces(of: sent, in: current, transaction) {
          if let earlier = try EarlierPart(part.transactionID, of: current.key, in: transaction) {
            since = min(earlier.appendedAt, since ?? .max)
          } else {
            new.append((place, part))
          }
        }
      }
      try ZoneChoice.make(for: new, of: current, index, in: transaction)
      let known = try transaction.latestEvent(of: current.key, kind: .export)?.number ?? 0
      do {
        let appended = try Self.append(new.map { row($0.transaction) }, to: mirror, at: at, in: transaction)
        return (appended.last, since ?? at, since == nil ? known : 0)
      } catch let error as RecordError where error.isAbsence {
        throw Self.wasRemoved
      }
    }
    let export =
      throttledUntil(mirror) == nil ? store.enqueue { transaction in try run.callAsFunction(transaction) } : nil
    startNext()
    let followed = await follow(export, of: mirror, waits: true)
    let appended = try await value(of: append)
    guard let exported = try await exported(through: appended.last, of: nil, mirror, run, after: followed) else {
      throw RecordError(.tryAgainLater, "The owner's database has not processed the saved changes yet", retryAfter: 1)
    }
    var outcome = try await outcome(of: mirror, since: appended.since, after: appended.event)
    outcome.syncToken = exported.syncToken
    outcome.hasKept = try await hasKept()
    return try PlaneAnswer(forProcess: outcome)
  }

  /// The guest was reset or removed during the request. The error must not suggest that its user has lost access.
  private static let wasRemoved = RecordError(
    .tryAgainLater, "the guest was reset or removed while the request was under way", retryAfter: 1)

  /// Returns the pieces under which a transaction is looked up and stored: the transaction, and one piece for each
  /// object that an earlier delivery lacked because the home found only later that it is in this database.
  private static func pieces(
    of sent: HistoryTransaction, in mirror: StoredMirror, _ snapshot: any ShardSnapshot
  ) throws -> [HistoryTransaction] {
    guard let earlier = try EarlierPart(sent.transactionID, of: mirror.key, in: snapshot) else { return [sent] }
    let late = Dictionary(grouping: sent.changes.filter { !earlier.changed($0.objectID) }, by: \.objectID)
    return [sent]
      + late.keys.sorted().map { name in
        var piece = HistoryTransaction(
          transactionID: "\(sent.transactionID)\u{1f}\(name)", timestamp: sent.timestamp, author: sent.author,
          changes: late[name] ?? [])
        piece.edit = sent.edit
        return piece
      }
  }

  /// Fills in an edit's base where the home could not: the sequence of this database that the store knew.
  private func date(_ transactions: inout [HistoryTransaction], of mirror: StoredMirror) async throws(RecordError) {
    let progress = await imports.delivery(to: held(mirror))
    let last = try await read { snapshot in try snapshot.database(key: mirror.databaseKey)?.sequence ?? 0 }
    for index in transactions.indices {
      guard let edit = transactions[index].edit else { continue }
      let known =
        progress?.position(at: transactions[index].timestamp, storeSetUpAt: mirror.createdAt) ?? mirror.importedSequence
      transactions[index].edit = HistoryTransaction.Edit(
        base: edit.base < 0 ? known : min(edit.base, last), time: edit.time)
    }
  }

  /// Sums up the export of transactions; a repeated delivery gets the same answer.
  /// - Parameters:
  ///   - time: when the first transaction was appended (milliseconds since 1970). Another worker with another clock may
  ///     have exported it: only the figures depend on that, because the guest keeps the changes that are given up.
  ///   - number: of the last event before that, 0 when unknown.
  private func outcome(of mirror: StoredMirror, since time: Int64, after number: Int64) async throws(RecordError)
    -> ForwardOutcome
  {
    try await read { snapshot in
      var outcome = ForwardOutcome()
      let events = try snapshot.events(of: mirror.key, after: number, kind: .export, limit: 2 * StoredEvent.keptCount)
      for event in events where event.startedAt >= time {
        outcome.savedCount += event.savedCount
        outcome.deletedCount += event.deletedCount
        outcome.problems += MirrorErrors.problems(in: event.errorJSON).map(ForwardOutcome.Problem.init)
      }
      return outcome
    }
  }
}

/// The part of a transaction that a guest received before, whether or not the guest's history still has it.
private struct EarlierPart {
  /// Milliseconds since 1970.
  let appendedAt: Int64
  /// True for an object that the earlier part changed.
  let changed: (String) -> Bool

  init?(_ transactionID: String, of mirror: Int64, in snapshot: any ShardSnapshot) throws {
    if let row = try snapshot.transaction(withID: transactionID, of: mirror) {
      appendedAt = row.appendedAt
      // Dropped because the export reports it: an unreadable row counts as changing every object.
      let objects = (try? HistoryTransaction(decoding: row.payload)).map { Set($0.changes.map(\.objectID)) }
      changed = { objects?.contains($0) ?? true }
    } else if let settled = try snapshot.settledTransaction(withID: transactionID, of: mirror) {
      appendedAt = settled.appendedAt
      changed = settled.changed
    } else {
      return nil
    }
  }
}
