// The export of a shared store: what its home has accepted goes to its owners' shards, in order and once, and the home's event tells of it.

import Assets
import History
import MessagePack
import Mirroring
import RecordStore
import Records
import ServiceKit
import WebServices

/// Forwards a shared store's transactions after its export position. An owner's guest knows a transaction that it has, so that whatever is sent
/// again after a crash is done once; the position moves when every owner has his part.
struct SharedForward: Sendable {
  let store: any ShardStore
  let context: PlaneContext
  let mirrorKey: Int64

  struct Outcome: Sendable {
    /// The store's position afterwards.
    var forwardedNumber: Int64
    var moreComing: Bool
    /// Covers what owners wrote.
    var written = SharedImportToken()
  }

  /// Some owners did not take their parts; the others have theirs.
  struct Unreached: Error {
    let owners: Set<String>
    let error: RecordError
  }

  /// Of a batch.
  private static let transactionLimit = 100
  private static let byteLimit = 4_000_000
  /// For owners to export what they got.
  private static let patience = Duration.seconds(40)

  /// What was read of the store.
  private struct Backlog: Sendable {
    var mirror: StoredMirror
    var database: DatabaseID
    var transactions: [HistoryTransaction] = []
    var unreadable: [Int64] = []
    /// The position when they are forwarded.
    var end: Int64
  }

  /// Forwards a batch.
  /// - Returns: nil: the store is gone, or its model unknown.
  /// - Throws: `Unreached`; what the store throws.
  func run() async throws -> Outcome? {
    guard let backlog = try await store.read({ snapshot in try self.backlog(in: snapshot) }) else { return nil }
    let mirror = backlog.mirror
    guard backlog.end > mirror.exportedTransactionNumber else { return Outcome(forwardedNumber: mirror.exportedTransactionNumber, moreComing: false) }
    let schema = try await context.schemas.schema(of: backlog.database.container, backlog.database.environment)
    guard let model = schema.mirrorModels[mirror.modelHash] else {
      context.log.warning("a shared store's model is unknown: it is not forwarded until it is set up again", ["mirror": .integer(mirrorKey)])
      return nil
    }
    let home = SharedHome(mirror: mirror, database: backlog.database, context: context)
    let names = Set(backlog.transactions.lazy.flatMap(\.changes).flatMap(\.names))
    let (places, away) = try await home.located(names.sorted())
    let parts = SharedParts(backlog.transactions, places, isComplete: away.isEmpty, model: model.index)
    try offer(parts.parts.values.flatMap { $0 }.flatMap(\.assets))
    let answers = await home.askAll(parts.parts.keys.sorted()) { [parts = parts.parts] owner throws(RecordError) in
      try await send(parts[owner] ?? [], to: owner, home)
    }
    var result = ForwardResult(mirror: mirror, now: context.clock.now)
    for (change, timestamp, zone, reason) in parts.lost { result.lose(change, timestamp, zone, reason) }
    for number in backlog.unreadable { result.note(unreadable: number) }
    var unreached: (owners: Set<String>, error: RecordError)?
    for (owner, answer) in answers {
      switch answer {
      case .success(let outcome): result.add(outcome, of: parts.parts[owner] ?? [], places, owner)
      case .failure(let error) where error.isAbsence || error.isRefusedGraph: result.refuse(parts.parts[owner] ?? [], error, owner, places)
      case .failure(let error): unreached = ((unreached?.owners ?? []).union([owner]), error.asAway)
      }
    }
    if parts.isHeld, let first = away.first { unreached = ((unreached?.owners ?? []).union(away.map(\.owner)), unreached?.error ?? first.error) }
    if let unreached { throw Unreached(owners: unreached.owners, error: unreached.error) }
    var outcome = try await commit(result, through: backlog)
    for (owner, answer) in answers {
      // Dropped because a token that can't be read only means that nobody waits for what it covers.
      guard case .success(let told) = answer, let token = told.syncToken.flatMap({ try? SyncToken($0, as: .database) }) else { continue }
      outcome.written[owner] = SyncToken(.importBatch, token.positions)
    }
    return outcome
  }

  private func backlog(in snapshot: any ShardSnapshot) throws -> Backlog? {
    guard let mirror = try snapshot.mirror(key: mirrorKey), let database = try snapshot.database(key: mirror.databaseKey) else { return nil }
    var backlog = Backlog(mirror: mirror, database: database.id, end: max(mirror.exportedTransactionNumber, mirror.purgedTransactionNumber))
    let rows: [StoredTransaction]
    do {
      rows = try snapshot.transactions(of: mirror.key, after: backlog.end, limit: Self.transactionLimit, byteLimit: Self.byteLimit)
    } catch StoreError.corrupt(let reason) {
      context.log.error("a history transaction is damaged", ["mirror": .integer(mirrorKey), "transaction": .integer(backlog.end + 1), "reason": .text(reason)])
      backlog.end += 1
      backlog.unreadable = [backlog.end]
      return backlog
    }
    for row in rows {
      do {
        backlog.transactions.append(try HistoryTransaction(decoding: row.payload))
      } catch {
        // Dropped because the event tells of it.
        backlog.unreadable.append(row.number)
      }
      backlog.end = row.number
    }
    return backlog
  }

  /// Owners' shards take large values from where uploads are.
  private func offer(_ assets: [Asset]) throws(RecordError) {
    if assets.isEmpty { return }
    do throws(AssetError) {
      _ = try context.assets.offer(Array(Set(assets)), of: store.shard, until: AssetLifetime.uploadExpiry(at: context.clock.now))
    } catch {
      throw RecordError(storing: error, log: context.log)
    }
  }

  private func send(_ transactions: [HistoryTransaction], to owner: String, _ home: SharedHome) async throws(RecordError) -> ForwardOutcome {
    let body: [UInt8]
    do {
      body = try MessagePackEncoder().encode(ForwardTransactions(transactions: transactions.map { $0.encoded() }))
    } catch {
      throw RecordError(.internalError, "the request can't be written")
    }
    return try await home.ask(owner, "POST", ["forward"], body: body, within: Self.patience).decoded(as: ForwardOutcome.self)
  }

  private func commit(_ result: ForwardResult, through backlog: Backlog) async throws -> Outcome {
    let identifier = context.random.uuid()
    let outcome = try await store.enqueue { transaction -> Outcome? in
      guard var mirror = try transaction.mirror(key: mirrorKey), mirror.incarnation == backlog.mirror.incarnation else { return nil }
      // Somebody else forwarded the same meanwhile, and told of it.
      guard mirror.exportedTransactionNumber == backlog.mirror.exportedTransactionNumber else {
        return Outcome(forwardedNumber: mirror.exportedTransactionNumber, moreComing: mirror.exportedTransactionNumber < mirror.lastTransactionNumber)
      }
      mirror.exportedTransactionNumber = backlog.end
      try transaction.update(mirror)
      try result.store(identifier, of: mirror, in: transaction)
      return Outcome(forwardedNumber: backlog.end, moreComing: backlog.end < mirror.lastTransactionNumber)
    }.value
    if result.isEvent { context.noticed(MirrorID(shard: store.shard, key: mirrorKey)) }
    return outcome ?? Outcome(forwardedNumber: .max, moreComing: false)
  }
}

/// What became of a batch: one event, and entries of the journal for what its user is to have again one day.
private struct ForwardResult: Sendable {
  let mirror: StoredMirror
  /// Milliseconds since 1970.
  let now: Int64
  private var savedCount = 0
  private var deletedCount = 0
  private var problems: [MirroringProblem] = []
  private var losses: [(loss: ConflictLoss, zone: Zone.ID)] = []

  init(mirror: StoredMirror, now: Int64) {
    self.mirror = mirror
    self.now = now
  }

  var isEvent: Bool { savedCount + deletedCount > 0 || !problems.isEmpty }

  private static let nowhere = Zone.ID(zoneName: "", ownerName: "")

  mutating func lose(_ change: HistoryChange, _ timestamp: Int64, _ zone: Zone.ID?, _ reason: String) {
    if !problems.contains(where: { $0.recordName == change.objectID }) {
      problems.append(MirroringProblem(recordName: change.objectID, entity: change.entity, code: .zoneNotFound, reason: reason, cause: .zoneEnded))
    }
    keep([change], .unexported, timestamp, zone)
  }

  mutating func note(unreadable number: Int64) {
    problems.append(
      MirroringProblem(recordName: mirror.identifier, entity: "", code: .internalError, reason: "transaction \(number) can't be read", cause: .damaged))
  }

  /// - Parameter sent: what the owner got.
  mutating func add(_ outcome: ForwardOutcome, of sent: [HistoryTransaction], _ places: SharedPlaces, _ owner: String) {
    savedCount += outcome.savedCount
    deletedCount += outcome.deletedCount
    for told in outcome.problems {
      let problem = told.problem
      problems.append(problem)
      let kind: ConflictKind
      switch problem.cause {
      case .permission: kind = .reverted
      case .zoneEnded: kind = .unexported
      default: continue
      }
      let own = sent.flatMap { transaction in transaction.changes.filter { $0.objectID == problem.recordName }.map { (transaction.timestamp, $0) } }
      keep(own.map(\.1), kind, own.last?.0 ?? now, places.objects[problem.recordName]?.zone ?? Zone.ID(zoneName: "", ownerName: owner))
    }
  }

  /// An owner took nothing of it, and never will.
  mutating func refuse(_ sent: [HistoryTransaction], _ error: RecordError, _ owner: String, _ places: SharedPlaces) {
    for transaction in sent where Exporter.exports(author: transaction.author) {
      for change in transaction.changes {
        lose(change, transaction.timestamp, places.objects[change.objectID]?.zone ?? Zone.ID(zoneName: "", ownerName: owner), error.reason)
      }
    }
  }

  private mutating func keep(_ changes: [HistoryChange], _ kind: ConflictKind, _ timestamp: Int64, _ zone: Zone.ID?) {
    guard let last = changes.last else { return }
    let edit = Stamp(timestamp: timestamp, userRecordName: mirror.userRecordName, deviceID: mirror.deviceID)
    if let index = losses.firstIndex(where: { $0.loss.objectID == last.objectID && $0.loss.kind == kind }) {
      let earlier = losses[index].loss
      losses[index].loss = ConflictLoss(
        kind: kind, objectID: last.objectID, entity: last.entity, lost: HeldChanges.compacted(earlier.lost + changes), edit: edit)
    } else {
      losses.append(
        (ConflictLoss(kind: kind, objectID: last.objectID, entity: last.entity, lost: HeldChanges.compacted(changes), edit: edit), zone ?? Self.nowhere))
    }
  }

  /// - Parameter identifier: of the event.
  func store(_ identifier: String, of mirror: StoredMirror, in transaction: any ShardTransaction) throws {
    let journal = ConflictJournal(transaction: transaction, databaseKey: mirror.databaseKey, now: now)
    for (loss, zone) in losses { try journal.append(loss, inZone: SharedZoneName.text(zone)) }
    guard isEvent else { return }
    let told = Array(problems.prefix(RunningExport.problemLimit))
    let event = StoredEvent(
      identifier: identifier, kind: .export, startedAt: now, endedAt: now, succeeded: told.isEmpty,
      errorJSON: told.isEmpty ? nil : MirrorErrors.partialFailure(told), savedCount: savedCount, deletedCount: deletedCount)
    _ = try transaction.put(event, of: mirror.key)
  }
}

/// How a journal at home names a zone that is somebody else's: no zone of the user's own can be called so.
enum SharedZoneName {
  private static let separator: Character = "\u{1f}"

  static func text(_ zone: Zone.ID) -> String { "\(zone.zoneName)\(separator)\(zone.ownerName)" }

  /// nil for a zone of the user's own.
  static func zone(_ text: String) -> Zone.ID? {
    let parts = text.split(separator: separator, maxSplits: 1, omittingEmptySubsequences: false)
    return parts.count == 2 ? Zone.ID(zoneName: String(parts[0]), ownerName: String(parts[1])) : nil
  }
}
