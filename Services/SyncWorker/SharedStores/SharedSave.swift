// Saves to a shared store: checks the transactions with the owners, stores them at home, then forwards them.

import Assets
import History
import JSON
import MessagePack
import Mirroring
import ObjectPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices
import ZoneCommit

extension SharedHome {
  /// Locates objects.
  /// - Throws: `TRY_AGAIN_LATER` when an object was found nowhere and an owner did not answer.
  func locate(_ names: [String]) async throws(RecordError) -> SharedPlaces {
    let (places, away) = try await located(names)
    if let failure = away.first, names.contains(where: { places.objects[$0] == nil }) { throw failure.error }
    return places
  }

  /// Locates objects as far as owners answer.
  /// - Returns: the places, and the owners who did not answer, with their errors.
  func located(_ names: [String]) async throws(RecordError) -> (
    places: SharedPlaces, away: [(owner: String, error: RecordError)]
  ) {
    if names.isEmpty { return (SharedPlaces(), []) }
    var questions: [[UInt8]] = []
    do {
      for start in stride(from: 0, to: names.count, by: LocateObjects.limit) {
        questions.append(
          try MessagePackEncoder().encode(
            LocateObjects(objectIDs: Array(names[start..<min(start + LocateObjects.limit, names.count)]))))
      }
    } catch {
      throw RecordError(.internalError, "the request can't be written")
    }
    var places = SharedPlaces()
    var away: [(owner: String, error: RecordError)] = []
    let list = try await ownerList()
    let answers = await askAll(list.owners.map(\.name)) { [questions] owner throws(RecordError) in
      var located: [LocatedObjects] = []
      for body in questions {
        located.append(try await ask(owner, .locateObjects, body: body).decoded(as: LocatedObjects.self))
      }
      return located
    }
    // A list from memory may lack an owner who alone has an object.
    if !list.isCurrent {
      away.append(
        (
          "",
          RecordError(
            .tryAgainLater, "The zones that are shared with the user are not known at the moment", retryAfter: 1)
        ))
    }
    for (owner, answer) in answers {
      switch answer {
      case .success(let located): for found in located { places.add(found, of: owner) }
      // Dropped because an owner who knows nothing of the user has nothing of the store's.
      case .failure(let error) where error.isAbsence: break
      case .failure(let error): away.append((owner, error.asAway))
      }
    }
    return (places, away)
  }
}

/// Saved transactions of a shared store that no owner has yet, from the history and from the waiting parts.
struct SharedPending: Sendable {
  private var transactions: [HistoryTransaction] = []
  /// The objects that they change.
  private(set) var objects: Set<String> = []
  /// False when more transactions wait than a save is checked against.
  private(set) var isAll: Bool

  /// Transactions read for one save.
  private static let limit = 1000

  init(of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws {
    let (waiting, isAll, unreadable) = try WaitingParts.read(of: mirror, in: snapshot)
    self.isAll = isAll && unreadable.isEmpty
    for item in waiting { add(item.transaction) }
    var pending: [HistoryTransaction] = []
    if try !PendingTransactions.forEach(
      of: mirror, rowLimit: Self.limit, in: snapshot, { _, transaction in pending.append(transaction) })
    {
      self.isAll = false
    }
    for transaction in pending { add(transaction) }
  }

  private mutating func add(_ transaction: HistoryTransaction) {
    transactions.append(transaction)
    for change in transaction.changes { objects.insert(change.objectID) }
  }

  /// The pending transactions that share an object with the saved ones, directly or through one another, in order.
  func concerning(_ saved: [HistoryTransaction]) -> [HistoryTransaction] {
    var places: [String: [Int]] = [:]
    for (index, transaction) in transactions.enumerated() {
      for name in Set(transaction.changes.flatMap(\.names)) { places[name, default: []].append(index) }
    }
    var isChosen = Array(repeating: false, count: transactions.count)
    var next = saved.flatMap(\.changes).flatMap(\.names)
    // Each name is taken once, with the transactions that it leads to.
    while let name = next.popLast() {
      for index in places.removeValue(forKey: name) ?? [] where !isChosen[index] {
        isChosen[index] = true
        next += transactions[index].changes.flatMap(\.names).filter { places[$0] != nil }
      }
    }
    return zip(transactions, isChosen).compactMap { $1 ? $0 : nil }
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
    let transactions = try await read(try JSONValue.request(call.body), model, mirror)
    let rows = transactions.map {
      StoreCall.SavedRow(
        transactionID: $0.transactionID, author: $0.author, payload: $0.encoded(),
        isEncrypted: model.index.isEncrypted($0.changes), assets: $0.assets)
    }
    let (new, pending) = try await call.read { snapshot -> (Set<String>, SharedPending) in
      let new = try transactions.enumerated().filter {
        try snapshot.transactionNumber(of: $0.element.transactionID, in: mirror.key) == nil
      }
      if let current = try snapshot.mirror(key: mirror.key) {
        try SaveCheck.checkAge(of: new.map { (place: $0.offset, transaction: $0.element) }, current)
      }
      return (Set(new.map(\.element.transactionID)), try SharedPending(of: mirror, in: snapshot))
    }
    // Leaves the caller's executor, which may be the bus's own thread: a small save is checked after all that wait.
    let refusal = await withTaskExecutorPreference(globalConcurrentExecutor) { () async -> RecordError? in
      do throws(RecordError) {
        try await check(transactions, new: new, after: pending, model, home(of: mirror))
        return nil
      } catch {
        return error
      }
    }
    if let refusal { throw refusal }
    let at = call.now
    let append = call.store.enqueue { transaction in try StoreCall.append(rows, to: mirror, at: at, in: transaction) }
    startNext()
    let appended = try await call.value(of: append)
    var exported: (event: StoredEvent?, written: SharedImportToken)?
    if waitsForExport {
      exported = try await forwarded(appended.numbers, mirror)
    } else {
      call.exports.signal(.backlog(mirrorKey: mirror.key), on: call.store.shard)
    }
    return PlaneAnswer(
      body: StoreAnswer.saved(
        zip(rows, appended.numbers).map { ($0.transactionID, $1) }, historyToken: mirror.historyToken(appended.last),
        event: exported?.event.map { call.event($0) },
        syncToken: exported?.written.text))
  }

  private func read(_ json: JSONValue, _ model: MirrorModel, _ mirror: StoredMirror) async throws(RecordError)
    -> [HistoryTransaction]
  {
    let reader = TransactionReader(
      model: model.index, entityNames: model.entityNames(inConfiguration: mirror.configuration), now: call.now,
      assets: call.assetReader)
    var transactions = try reader.transactions(json)
    for index in transactions.indices {
      // A base of -1: each owner's guest fills in the sequence that the store knew.
      transactions[index].edit = EditTime.edit(transactions[index].timestamp, savedAt: call.now, base: -1)
    }
    var large = LargeValues(
      assets: call.context.assets, expiry: AssetLifetime.uploadExpiry(at: call.now),
      thresholdByteCount: call.context.assetThresholdByteCount)
    return try await large.moved(
      out: transactions, into: call.store.shard, of: call.request.party, log: call.context.log)
  }

  /// - Throws: `NOT_FOUND` for updates of unknown objects, 134060 and 2988 for objects with no zone or with two,
  ///   `ACCESS_DENIED` (10) for changes that the user may not make; each names the place.
  private func check(
    _ transactions: [HistoryTransaction], new: Set<String>, after pending: SharedPending, _ model: MirrorModel,
    _ home: SharedHome
  ) async throws(RecordError) {
    let saved = transactions.filter { new.contains($0.transactionID) }
    let earlier = pending.concerning(saved)
    let made = (earlier + saved).made
    let (places, away) = try await home.located(
      Set((earlier + saved).lazy.flatMap(\.changes).flatMap(\.names)).sorted())
    let names = Set(saved.lazy.flatMap(\.changes).flatMap(\.names))
    func isOpen(_ name: String) -> Bool {
      places.objects[name] == nil && !made.contains(name) && !pending.objects.contains(name)
    }
    if let failure = away.first, names.contains(where: isOpen) { throw failure.error }
    if let name = names.first(where: places.isAmbiguous) {
      throw RecordError(
        .conflict,
        """
        \(name.prefix(Limit.nameByteCount)): two owners share an object of that name: the server can't tell which one \
        the change means
        """
      )
    }
    var assignment = SharedAssignment(places, model: model.index)
    for transaction in earlier {
      // Dropped because the transaction was accepted: its forwarding reports the refusal.
      try? assignment.add(transaction, place: "an earlier transaction")
    }
    for (place, transaction) in transactions.enumerated() where new.contains(transaction.transactionID) {
      let isExported = Exporter.exports(author: transaction.author)
      let made = Set(transaction.changes.lazy.filter { $0.changeType == .insert }.map(\.objectID))
      for (index, change) in transaction.changes.enumerated() where isExported && change.changeType == .update {
        // With more pending than was read, every object is believed to exist: forwarding reports the errors.
        let isKnown =
          made.contains(change.objectID) || assignment.isKnown(change.objectID)
          || pending.objects.contains(change.objectID) || !pending.isAll
        if isKnown { continue }
        throw RecordError(
          .notFound,
          "transactions[\(place)]: changes[\(index)]: \(change.entity) \(change.objectID): there is no such object")
      }
      // A change connected with a waiting object goes where that object goes.
      func waits(_ name: String) -> Bool {
        !away.isEmpty && places.objects[name] == nil && pending.objects.contains(name)
      }
      var placed = transaction
      placed.changes.removeAll { $0.names.contains(where: waits) }
      do {
        try assignment.add(placed, place: "transactions[\(place)]")
      } catch let refusal as ZoneAssignment.Refusal {
        if case .noZone = refusal {
          if let failure = away.first { throw failure.error }
          if !pending.isAll { continue }
        }
        throw refusal.recordError
      } catch {
        throw RecordError(storing: error, log: call.context.log)
      }
      for (index, change) in transaction.changes.enumerated() where isExported {
        guard let problem = assignment.problem(of: change) else { continue }
        throw RecordError(
          problem.code,
          "transactions[\(place)]: changes[\(index)]: \(change.entity) \(change.objectID): \(problem.reason)")
      }
    }
  }

  // MARK: Forwarding

  /// Waits until transactions are with their owners.
  /// - Returns: the event of the run that forwarded them (nil when the run did nothing or is forgotten) and a token
  ///   that covers its writes; nil when forwarding does not end within 30 s.
  private func forwarded(
    _ numbers: [Int64], _ mirror: StoredMirror
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
      if outcome.forwardedNumber >= numbers.max() ?? 0 {
        if !outcome.waiting.isDisjoint(with: numbers) {
          throw outcome.error ?? RecordError(.tryAgainLater, WaitingParts.reason, retryAfter: 1)
        }
        let event = try await call.read { snapshot in
          try numbers.max().flatMap { try call.context.recentExports.event(of: $0, call.id(of: mirror), in: snapshot) }
        }
        return (event, written)
      }
    }
    return nil
  }

  /// Milliseconds.
  private static let exportWait: Int64 = 30_000

  /// Forwards a batch. A failure delays every run until the retry is due.
  func forward(_ mirror: StoredMirror) async throws(RecordError) -> SharedForward.Outcome? {
    let forwarding = SharedForward(store: call.store, context: context, mirrorKey: mirror.key)
    do {
      let outcome = try await withTaskExecutorPreference(globalConcurrentExecutor) { try await forwarding.run() }
      if let retryAt = outcome?.retryAt { call.exports.signal(.retryDue(at: retryAt), on: call.store.shard) }
      return outcome
    } catch {
      call.exports.signal(
        .failed(mirrorKey: mirror.key, ExportFailure(error), running: nil, isDrain: false), on: call.store.shard)
      throw RecordError(storing: error, log: call.context.log)
    }
  }

  /// Forwards the saved transactions as far as owners take them.
  /// - Returns: the owners who don't; their records are behind the client's.
  func forwardEverything(_ home: SharedHome) async throws(RecordError) -> Set<String> {
    let mirror = home.mirror
    if mirror.exportedTransactionNumber >= mirror.lastTransactionNumber, mirror.quarantinedCount == 0 { return [] }
    let forwarding = SharedForward(store: call.store, context: context, mirrorKey: mirror.key, deadline: home.deadline)
    do {
      while let outcome = try await forwarding.run() {
        if let retryAt = outcome.retryAt { call.exports.signal(.retryDue(at: retryAt), on: call.store.shard) }
        if outcome.forwardedNumber >= mirror.lastTransactionNumber { return outcome.behind }
      }
    } catch let failure as Unreached {
      call.exports.signal(.backlog(mirrorKey: mirror.key), on: call.store.shard)
      // Any owner may be concerned by transactions that were not read.
      return Set(try await home.owners().map(\.name)).union(failure.owners)
    } catch {
      throw RecordError(storing: error, log: call.context.log)
    }
    return []
  }
}
