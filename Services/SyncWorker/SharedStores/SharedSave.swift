// The client save of a shared store: checked with the owners of what it names, made durable at home, then forwarded.

import Assets
import History
import JSON
import MessagePack
import Mirroring
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices

extension SharedHome {
  /// Where objects are.
  /// - Parameter made: those that are made now, and need not be anywhere.
  /// - Throws: `TRY_AGAIN_LATER` when another was found nowhere and an owner did not answer.
  func locate(_ names: [String], made: Set<String> = []) async throws(RecordError) -> SharedPlaces {
    let (places, away) = try await located(names)
    if let failure = away.first, names.contains(where: { places.objects[$0] == nil && !made.contains($0) }) { throw failure.error }
    return places
  }

  /// The same as far as owners answer.
  /// - Returns: besides, those who don't, and why.
  func located(_ names: [String]) async throws(RecordError) -> (places: SharedPlaces, away: [(owner: String, error: RecordError)]) {
    if names.isEmpty { return (SharedPlaces(), []) }
    let body: [UInt8]
    do {
      body = try MessagePackEncoder().encode(LocateObjects(objectIDs: names))
    } catch {
      throw RecordError(.internalError, "the request can't be written")
    }
    var places = SharedPlaces()
    var away: [(owner: String, error: RecordError)] = []
    let owners = try await owners().map(\.name)
    let answers = await askAll(owners) { owner throws(RecordError) in
      try await ask(owner, "GET", ["locate"], body: body).decoded(as: LocatedObjects.self)
    }
    for (owner, answer) in answers {
      switch answer {
      case .success(let located): places.add(located, of: owner)
      // Dropped because an owner who knows nothing of the user has nothing of the store's.
      case .failure(let error) where error.isAbsence: break
      case .failure(let error): away.append((owner, error.asAway))
      }
    }
    return (places, away)
  }
}

extension [HistoryTransaction] {
  /// The objects that they insert.
  var made: Set<String> { Set(lazy.flatMap(\.changes).filter { $0.changeType == .insert }.map(\.objectID)) }
}

extension SharedCall {
  func save(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let waitsForExport: Bool
    switch call.request.query["wait"] {
    case nil: waitsForExport = false
    case "export": waitsForExport = true
    default: throw RecordError(.badRequest, "wait must be export")
    }
    let mirror = try await call.locate()
    let (model, _) = try await call.model(of: mirror)
    let transactions = try read(try JSONValue.request(call.body), model, mirror)
    let rows = transactions.map {
      StoreCall.SavedRow(
        transactionID: $0.transactionID, author: $0.author, payload: $0.encoded(), isEncrypted: model.index.isEncrypted($0.changes), assets: $0.assets)
    }
    let (new, pending) = try await call.read { snapshot -> (Set<String>, [HistoryTransaction]) in
      let new = try transactions.filter { try snapshot.transaction(withID: $0.transactionID, of: mirror.key) == nil }
      var pending: [HistoryTransaction] = []
      _ = try PendingTransactions.forEach(of: mirror, rowLimit: Self.backlogLimit, in: snapshot) { _, transaction in pending.append(transaction) }
      return (Set(new.map(\.transactionID)), pending)
    }
    try await check(transactions, new: new, after: pending, model, home(of: mirror))
    let at = call.now
    let append = call.store.enqueue { transaction in try StoreCall.append(rows, to: mirror, at: at, in: transaction) }
    startNext()
    let appended = try await call.value(of: append)
    var exported: (event: StoredEvent?, written: SharedImportToken)?
    if waitsForExport {
      exported = try await forwarded(through: appended.last, mirror)
    } else {
      await call.exports.signal(.backlog(mirrorKey: mirror.key), on: call.store.shard)
    }
    return PlaneAnswer(
      body: StoreAnswer.saved(
        zip(rows, appended.numbers).map { ($0.transactionID, $1) }, historyToken: mirror.historyToken(appended.last), event: exported?.event.map { call.event($0) },
        syncToken: exported?.written.text))
  }

  /// Transactions of a backlog that a save is compared with.
  private static let backlogLimit = 100

  private func read(_ json: JSONValue, _ model: MirrorModel, _ mirror: StoredMirror) throws(RecordError) -> [HistoryTransaction] {
    let reader = TransactionReader(
      model: model.index, entityNames: model.entityNames(inConfiguration: mirror.configuration), now: call.now, assets: call.assetReader)
    var transactions = try reader.transactions(json)
    for index in transactions.indices {
      // What the store knew of each owner's database that one's guest has noted.
      transactions[index].edit = EditTime.edit(transactions[index].timestamp, savedAt: call.now, base: -1)
    }
    var large = LargeValues(
      assets: call.context.assets, expiry: AssetLifetime.uploadExpiry(at: call.now), thresholdByteCount: call.context.assetThresholdByteCount)
    return try large.moved(out: transactions, log: call.context.log)
  }

  /// - Throws: `NOT_FOUND` for updates of what nobody has heard of, 134060 and 2988 for objects that have no zone or two, `ACCESS_DENIED` (10) for
  ///   what the user may not write, all naming the place.
  private func check(
    _ transactions: [HistoryTransaction], new: Set<String>, after pending: [HistoryTransaction], _ model: MirrorModel, _ home: SharedHome
  ) async throws(RecordError) {
    let concerned = pending + transactions.filter { new.contains($0.transactionID) }
    let places = try await home.locate(Set(concerned.lazy.flatMap(\.changes).flatMap(\.names)).sorted(), made: concerned.made)
    var assignment = SharedAssignment(places, model: model.index)
    for earlier in pending {
      // Dropped because it was accepted: whoever forwards it says what became of it.
      try? assignment.add(earlier, place: "an earlier transaction")
    }
    for (place, transaction) in transactions.enumerated() where new.contains(transaction.transactionID) {
      let isExported = Exporter.exports(author: transaction.author)
      let made = Set(transaction.changes.lazy.filter { $0.changeType == .insert }.map(\.objectID))
      for (index, change) in transaction.changes.enumerated() where isExported && change.changeType == .update {
        guard !made.contains(change.objectID), !assignment.isKnown(change.objectID) else { continue }
        throw RecordError(.notFound, "transactions[\(place)]: changes[\(index)]: \(change.entity) \(change.objectID): there is no such object")
      }
      do {
        try assignment.add(transaction, place: "transactions[\(place)]")
      } catch let refusal as ZoneAssignment.Refusal {
        throw refusal.recordError
      } catch {
        throw RecordError(storing: error, log: call.context.log)
      }
      for (index, change) in transaction.changes.enumerated() where isExported {
        guard let problem = assignment.problem(of: change) else { continue }
        throw RecordError(problem.code, "transactions[\(place)]: changes[\(index)]: \(change.entity) \(change.objectID): \(problem.reason)")
      }
    }
  }

  // MARK: Forwarding

  /// Waits until a transaction is with its owners.
  /// - Returns: the event of the run that did it (nil: it had nothing to do), and a token that covers what it wrote; nil when it did not come to an
  ///   end within 30 s.
  private func forwarded(
    through number: Int64, _ mirror: StoredMirror
  ) async throws(RecordError) -> (event: StoredEvent?, written: SharedImportToken)? {
    let deadline = call.now + Self.exportWait
    var written = SharedImportToken()
    while call.now <= deadline {
      if let until = call.throttledUntil(mirror) {
        if until > deadline { return nil }
        await call.context.pause(.milliseconds(until - call.now))
        continue
      }
      guard let outcome = try await forward(mirror) else { return nil }
      written.positions.merge(outcome.written.positions) { _, later in later }
      if outcome.forwardedNumber >= number {
        return (try await call.read { snapshot in try snapshot.latestEvent(of: mirror.key, kind: .export) }, written)
      }
    }
    return nil
  }

  /// Milliseconds.
  private static let exportWait: Int64 = 30_000

  /// Forwards a batch. When it fails, everybody waits for the time that is due.
  func forward(_ mirror: StoredMirror) async throws(RecordError) -> SharedForward.Outcome? {
    let forwarding = SharedForward(store: call.store, context: call.context, mirrorKey: mirror.key)
    do {
      return try await forwarding.run()
    } catch {
      await call.exports.signal(.failed(mirrorKey: mirror.key, ExportFailure(error), running: nil, isDrain: false), on: call.store.shard)
      throw RecordError(storing: error, log: call.context.log)
    }
  }

  /// Forwards what is saved, as far as owners take it.
  /// - Returns: those who don't: what they have is behind what the client has.
  func forwardEverything(_ mirror: StoredMirror) async throws(RecordError) -> Set<String> {
    var current = mirror
    while current.exportedTransactionNumber < mirror.lastTransactionNumber {
      let forwarding = SharedForward(store: call.store, context: call.context, mirrorKey: mirror.key)
      do {
        guard let outcome = try await forwarding.run() else { return [] }
        current.exportedTransactionNumber = outcome.forwardedNumber
      } catch let failure as SharedForward.Unreached {
        await call.exports.signal(.backlog(mirrorKey: mirror.key), on: call.store.shard)
        return failure.owners
      } catch {
        throw RecordError(storing: error, log: call.context.log)
      }
    }
    return []
  }
}
