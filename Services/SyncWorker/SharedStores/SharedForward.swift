// Exports a shared store: the home forwards accepted transactions to the owners' shards, in order and once each.

import Assets
import History
import MessagePack
import Mirroring
import ObjectModel
import ObjectPlane
package import RecordStore
import ServiceBus
import Records
import ServiceKit
import WebServices
import ZoneCommit

/// Forwards a shared store's transactions after its export position, and the waiting parts of earlier ones.
///
/// Each owner gets its parts independently of the others. The position moves when every part has been offered once; in
/// the same commit a refused part becomes a waiting part (`WaitingParts`). If that commit fails, the parts are sent
/// again: a guest recognises transactions that it has, so each is done once.
package struct SharedForward: Sendable {
  package let store: any ShardStore
  package let context: SharedContext
  package let mirrorKey: Int64
  /// The end of waiting for owners; nil: as long as exports may take.
  var deadline: ContinuousClock.Instant?

  package init(
    store: any ShardStore, context: SharedContext, mirrorKey: Int64, deadline: ContinuousClock.Instant? = nil
  ) {
    self.store = store
    self.context = context
    self.mirrorKey = mirrorKey
    self.deadline = deadline
  }

  package struct Outcome: Sendable {
    /// The store's position afterwards.
    var forwardedNumber: Int64
    package var moreComing: Bool
    /// Covers the owners' writes.
    var written = SharedImportToken()
    /// Owners that may lack changes of the store: their records are behind the client's.
    var behind: Set<String> = []
    /// Transactions with waiting parts.
    var waiting: Set<Int64> = []
    var error: RecordError?
    /// When waiting parts are tried again (milliseconds since 1970).
    package var retryAt: Int64?
  }

  /// Limits of one batch.
  private static let transactionLimit = 100
  private static let byteLimit = 4_000_000

  /// The part of the store's state that a batch needs.
  private struct Backlog: Sendable {
    var mirror: StoredMirror
    var database: DatabaseID
    var outgoing: [OutgoingTransaction] = []
    var unreadable: [Int64] = []
    /// The position after the batch.
    var end: Int64
    /// Too many parts wait for a further transaction to be taken.
    var isFull = false
  }

  /// Forwards a batch.
  /// - Returns: nil when the store is gone or its model unknown.
  /// - Throws: `Unreached`, and errors of the store.
  package func run() async throws -> Outcome? {
    guard let backlog = try await store.read({ snapshot in try self.backlog(in: snapshot) }) else { return nil }
    let mirror = backlog.mirror
    guard !backlog.outgoing.isEmpty || backlog.end > mirror.exportedTransactionNumber else {
      return Outcome(forwardedNumber: mirror.exportedTransactionNumber, moreComing: false)
    }
    let schema = try await context.schemas.schema(of: backlog.database.container, backlog.database.environment)
    guard let model = schema.mirrorModels[mirror.modelHash] else {
      context.log.warning(
        "a shared store's model is unknown; the store is not forwarded until it is set up again",
        ["mirror": .integer(mirrorKey)])
      return nil
    }
    let home = SharedHome(
      mirror: mirror, database: backlog.database, context: context,
      deadline: deadline ?? .now + SharedHome.exportPatience)
    let names = Set(backlog.outgoing.lazy.flatMap(\.transaction.changes).flatMap(\.names))
    let (places, away) = try await home.located(names.sorted())
    let parts = SharedParts(backlog.outgoing, places, isComplete: away.isEmpty, model: model.index)
    try await offer(parts.outgoing.flatMap(\.transaction.assets), of: backlog)
    let sending = PartSending(home: home, model: model.index, parts: parts)
    let sent = await askAll(parts.parts.keys.sorted()) { owner throws(RecordError) in await sending.send(to: owner) }
    var result = ForwardResult(mirror: mirror, now: context.clock.now)
    for (change, timestamp, zone, reason) in parts.lost { result.lose(change, timestamp, zone, reason) }
    for number in backlog.unreadable { result.note(unreadable: number) }
    var held = parts.held
    var told = Outcome(forwardedNumber: backlog.end, moreComing: false)
    if !held.isEmpty {
      told.behind = Set(away.map(\.owner))
      told.error = away.first?.error
    }
    for (owner, answer) in sent {
      guard case .success(let outcome) = answer else { continue }
      for taken in outcome.taken { result.add(taken) }
      for (change, timestamp, zone, reason) in outcome.lost { result.lose(change, timestamp, zone, reason) }
      for part in outcome.left { held[part.place, default: []] += part.changes }
      if let error = outcome.error {
        told.behind.insert(owner)
        told.error = error
      }
      // Dropped because without the token only a wait for the owner's writes is lost.
      if let token = outcome.syncToken.flatMap({ try? SyncToken($0, as: .database) }) {
        told.written[owner] = SyncToken(.importBatch, token.positions)
      }
      // Dropped because the guest keeps the changes until the next import asks again.
      if outcome.hasKept { try? await home.collect(from: owner, into: store) }
    }
    told.waiting = Set(held.keys.map { parts.outgoing[$0].number })
    // When all parts waited before and still wait, there is nothing to commit.
    if backlog.isFull, held.count == parts.outgoing.count {
      throw Unreached(
        owners: told.behind, error: told.error ?? RecordError(.tryAgainLater, WaitingParts.reason, retryAfter: 1))
    }
    return try await commit(result, parts.outgoing, held, told, through: backlog)
  }

  private func backlog(in snapshot: any ShardSnapshot) throws -> Backlog? {
    guard let mirror = try snapshot.mirror(key: mirrorKey),
      let database = try snapshot.database(key: mirror.databaseKey)
    else { return nil }
    var backlog = Backlog(
      mirror: mirror, database: database.id, end: max(mirror.exportedTransactionNumber, mirror.purgedTransactionNumber))
    let (waiting, isAll, damaged) = try WaitingParts.read(of: mirror, in: snapshot)
    if !damaged.isEmpty {
      context.log.error(
        "changes that wait for an owner can't be read",
        ["mirror": .integer(mirrorKey), "transaction": .integer(damaged[0])])
    }
    backlog.outgoing = waiting
    guard isAll else {
      backlog.end = mirror.exportedTransactionNumber
      backlog.isFull = true
      return backlog
    }
    let rows: [StoredTransaction]
    do {
      rows = try snapshot.transactions(
        of: mirror.key, after: backlog.end, limit: Self.transactionLimit, byteLimit: Self.byteLimit)
    } catch StoreError.corrupt(let reason) {
      context.log.error(
        "a history transaction is damaged",
        ["mirror": .integer(mirrorKey), "transaction": .integer(backlog.end + 1), "reason": .text(reason)])
      backlog.end += 1
      backlog.unreadable = [backlog.end]
      return backlog
    }
    for row in rows {
      do {
        backlog.outgoing.append(
          OutgoingTransaction(number: row.number, transaction: try HistoryTransaction(decoding: row.payload)))
      } catch {
        // Dropped because the event tells of it.
        backlog.unreadable.append(row.number)
      }
      backlog.end = row.number
    }
    return backlog
  }

  /// Offers large values to owners' shards, from the folder of uploads.
  private func offer(_ assets: [Asset], of backlog: Backlog) async throws(RecordError) {
    if assets.isEmpty { return }
    do throws(AssetError) {
      let (shard, expiry) = (store.shard, AssetLifetime.uploadExpiry(at: context.clock.now))
      let user = Caller(userRecordName: backlog.mirror.userRecordName)
      let party = user.party(in: backlog.database.container)
      _ = try await context.object.assets.apart(of: party) { store throws(AssetError) in
        try store.offer(assets, of: shard, until: expiry)
      }
    } catch {
      throw RecordError(storing: error, log: context.log)
    }
  }

  /// - Parameter held: indices of the waiting changes, by index of the transaction in `outgoing`.
  private func commit(
    _ result: ForwardResult, _ outgoing: [OutgoingTransaction], _ held: [Int: [Int]], _ told: Outcome,
    through backlog: Backlog
  ) async throws -> Outcome {
    let identifier = context.random.uuid()
    let now = context.clock.now
    let outcome = try await store.enqueue { transaction -> Outcome? in
      guard var mirror = try transaction.mirror(key: mirrorKey), mirror.incarnation == backlog.mirror.incarnation else {
        return nil
      }
      // Another run has forwarded the same batch in the meantime and told of it.
      let isCurrent = mirror.exportedTransactionNumber == backlog.mirror.exportedTransactionNumber
      guard try isCurrent && outgoing.allSatisfy({ try WaitingParts.isCurrent($0, mirror, in: transaction) }) else {
        var outcome = told
        outcome.forwardedNumber = mirror.exportedTransactionNumber
        outcome.moreComing = true
        return outcome
      }
      mirror.exportedTransactionNumber = backlog.end
      try transaction.update(mirror)
      var outcome = told
      for (place, item) in outgoing.enumerated() {
        let changes = (held[place] ?? []).sorted().map { item.transaction.changes[$0] }
        guard let dueAt = try WaitingParts.put(changes, of: item, at: now, mirror, in: transaction) else { continue }
        outcome.retryAt = min(dueAt, outcome.retryAt ?? dueAt)
      }
      if let event = try result.store(identifier, of: mirror, in: transaction) {
        let exported = RecentExports.Run(
          after: backlog.mirror.exportedTransactionNumber, through: backlog.end, eventNumber: event,
          eventIdentifier: identifier)
        context.object.recentExports.note(exported, of: MirrorID(shard: store.shard, key: mirrorKey))
      }
      outcome.moreComing = backlog.end < mirror.lastTransactionNumber
      return outcome
    }.value
    if result.isEvent { context.object.noticed(MirrorID(shard: store.shard, key: mirrorKey)) }
    return outcome ?? Outcome(forwardedNumber: .max, moreComing: false)
  }
}

/// Sends owners their parts.
private struct PartSending: Sendable {
  let home: SharedHome
  let model: ModelIndex
  let parts: SharedParts

  /// The result of sending one owner its parts.
  struct Outcome: Sendable {
    var taken: [ForwardOutcome] = []
    /// Parts that the owner has not taken yet.
    var left: [SharedParts.Part] = []
    var lost: [(change: HistoryChange, timestamp: Int64, zone: Zone.ID?, reason: String)] = []
    /// The reason why parts are left.
    var error: RecordError?
    var syncToken: String?
    var hasKept = false
  }

  /// Limits of one request.
  private static let transactionLimit = 100
  private static let byteLimit = 4_000_000

  func send(to owner: String) async -> Outcome {
    var outcome = Outcome()
    var rest = (parts.parts[owner] ?? [])[...]
    while !rest.isEmpty, outcome.error == nil {
      var (chunk, byteCount) = ([SharedParts.Part](), 0)
      while let next = rest.first, chunk.isEmpty || (chunk.count < Self.transactionLimit && byteCount < Self.byteLimit)
      {
        byteCount += parts.transaction(next).encoded().count
        chunk.append(next)
        rest = rest.dropFirst()
      }
      await send(chunk, to: owner, &outcome)
    }
    outcome.left += rest
    return outcome
  }

  private func send(_ chunk: [SharedParts.Part], to owner: String, _ outcome: inout Outcome) async {
    do throws(RecordError) {
      try await send(chunk.map(parts.transaction), to: owner, &outcome)
    } catch {
      switch true {
      case error.isAbsence: for part in chunk { lose(part, owner, error, &outcome) }
      // One part's objects were moved or were never shared: sent singly, the other parts still succeed.
      case error.isRefusedGraph where chunk.count > 1: await sendOneByOne(chunk, to: owner, &outcome)
      case error.isRefusedGraph: await sendAgain(chunk[0], error, to: owner, &outcome)
      default:
        outcome.left += chunk
        outcome.error = error.asAway
      }
    }
  }

  private func send(_ transactions: [HistoryTransaction], to owner: String, _ outcome: inout Outcome)
    async throws(RecordError)
  {
    let body: [UInt8]
    do {
      body = try MessagePackEncoder().encode(ForwardTransactions(transactions: transactions.map { $0.encoded() }))
    } catch {
      throw RecordError(.internalError, "the request can't be written")
    }
    let answer = try await home.ask(owner, .forward, body: body).decoded(as: ForwardOutcome.self)
    outcome.taken.append(answer)
    outcome.syncToken = answer.syncToken ?? outcome.syncToken
    if answer.hasKept == true { outcome.hasKept = true }
  }

  private func sendOneByOne(_ chunk: [SharedParts.Part], to owner: String, _ outcome: inout Outcome) async {
    for part in chunk {
      if outcome.error == nil { await send([part], to: owner, &outcome) } else { outcome.left.append(part) }
    }
  }

  /// Locates the objects once more and resends: their owner may have moved them or stopped sharing them.
  private func sendAgain(_ part: SharedParts.Part, _ refusal: RecordError, to owner: String, _ outcome: inout Outcome)
    async
  {
    let transaction = parts.transaction(part)
    let names = Set(transaction.changes.flatMap(\.names)).sorted()
    do throws(RecordError) {
      let (places, away) = try await home.located(names)
      if let failure = away.first { throw failure.error }
      let again = SharedParts(
        [OutgoingTransaction(number: 0, transaction: transaction)], places, isComplete: true, model: model)
      outcome.lost += again.lost
      for (next, list) in again.parts {
        for piece in list {
          if next == owner {
            try await send([again.transaction(piece)], to: owner, &outcome)
          } else {
            // The object belongs to another owner now, who gets it with the next batch.
            outcome.left.append(SharedParts.Part(place: part.place, changes: piece.changes.map { part.changes[$0] }))
            outcome.error = RecordError(.tryAgainLater, WaitingParts.reason, retryAfter: 1)
          }
        }
      }
    } catch {
      guard error.isAbsence || error.isRefusedGraph else {
        outcome.left.append(part)
        outcome.error = error.asAway
        return
      }
      lose(part, owner, refusal, &outcome)
    }
  }

  private func lose(_ part: SharedParts.Part, _ owner: String, _ error: RecordError, _ outcome: inout Outcome) {
    let transaction = parts.transaction(part)
    guard Exporter.exports(author: transaction.author) else { return }
    for change in transaction.changes {
      outcome.lost.append((change, transaction.timestamp, Zone.ID(zoneName: "", ownerName: owner), error.reason))
    }
  }
}
