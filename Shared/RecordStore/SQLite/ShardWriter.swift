// The thread that writes a shard: group commit, fencing, and background work between groups.

import Assets
import Crypto
import SQLite
import Synchronization

/// The state of a shard's writer thread. Not Sendable, because only that thread makes and uses it.
///
/// A group consists of the bodies that wait and, across a network and while it is small, of those that arrive while
/// these run. The next group gathers while the previous commit is synced, so no timer is needed. Bodies are taken one
/// by one, and parties take turns. A body that arrives during a large group waits for that group only. Work without a
/// waiting caller is done in slices between groups (`SlicePacing`).
final class ShardWriter {
  private let core: ShardCore
  private let tenure: any ShardTenure
  private let transaction: SQLiteTransaction
  private let clock = ContinuousClock()

  /// After a failure the caches are invalid, and are read again before the next group.
  private var mustReload = true
  /// After a failed slice of background work, the next one waits until so many groups are committed, and twice as many
  /// after each further failure. Each failure makes the next group read its caches again.
  private var heldGroupCount = 0
  private var nextHoldCount = 1
  private var slices = SlicePacing()
  /// Bodies that were taken and come next: one that needs a group of its own, or those whose look-ups were fetched.
  private var taken: [any QueuedBody] = []
  /// The look-ups of the group's bodies that cost a round trip of their own.
  private var unexpectedLookupCount = 0

  init(
    core: ShardCore, tenure: any ShardTenure, keys: KeyRing, assets: (any AssetStore)?, surroundings: StoreSurroundings
  ) {
    self.core = core
    self.tenure = tenure
    transaction = SQLiteTransaction(
      ShardSession(
        shard: core.shard, connection: tenure.connection, keys: keys,
        fetched: tenure.fetchedBodyLimit > 1 ? FetchedRows() : nil, extent: core.extent),
      committedMirrors: core.committedMirrors, assets: assets, keepsPastStates: core.options.keepsPastStates,
      makeIncarnation: surroundings.makeIncarnation, now: surroundings.now)
    let report = surroundings.report
    transaction.onPassedOver = { [core] problem in
      core.statistics.update { $0.passedOverRecords += 1 }
      report(problem)
    }
  }

  /// Commits groups until the queue is closed and empty. Then empties the log and closes the file.
  func run() {
    // Loaded before the first group, because deleted zones may have waited for the sweep since the last owner.
    do {
      try transaction.reload()
      mustReload = false
    } catch {
      // Dropped because the first group tries again and reports the error to its callers.
    }
    working: while true {
      switch next() {
      case .body(let body):
        commitGroup(body)
        rest()
        slices.noteSave()
      case .background: doSlice()
      case .end: break working
      }
    }
    core.readers.close()
    tenure.close()
  }

  private func rest() {
    if core.failure == nil { tenure.rest() }
  }

  /// True when rows of deleted zones or of other shards' databases, unnoted objects or unfinished indexes wait.
  private var hasBackgroundWork: Bool {
    core.failure == nil && heldGroupCount == 0
      && (transaction.doomed?.isEmpty == false || !transaction.fillingDatabases.isEmpty
        || !transaction.indexes.unfinished.isEmpty || core.extent.mayCut)
  }

  private enum Next {
    case body(any QueuedBody)
    /// Background work waits, and its next slice is due.
    case background
    case end
  }

  private func next() -> Next {
    if !taken.isEmpty { return .body(taken.removeFirst()) }
    if hasBackgroundWork, !core.queue.isClosed {
      if let patience = slices.patience(at: clock.now), let body = core.queue.take(atMost: 1, within: patience).first {
        return .body(body)
      }
      if !core.queue.isClosed { return .background }
    }
    return core.queue.take(atMost: 1)?.first.map(Next.body) ?? .end
  }

  // MARK: Groups

  /// An error that ends a group before its commit, for all its bodies.
  private struct GroupFailure: Error {
    let error: StoreError
  }

  /// Runs a body and further waiting ones until the group is large enough, and commits them.
  private func commitGroup(_ first: any QueuedBody) {
    if let refusal = core.refusal { return first.settle(refusal) }
    var limit = bodyLimit(running: 1)
    var isLastRound = false
    var ran: [any QueuedBody] = []
    var refusals: [(any Error)?] = []
    do {
      let start = clock.now
      try begin()
      if tenure.fetchedBodyLimit > 1 { try take(behind: first) }
      var next: (any QueuedBody)? = first
      while let body = next {
        ran.append(body)
        refusals.append(try run(body))
        if ran.count >= limit, !isLastRound, joinsOnceMore {
          // Bodies that arrived meanwhile join. Further ones belong to the next group, so this one ends however fast
          // they come.
          limit = bodyLimit(running: ran.count)
          isLastRound = true
        }
        next = body.runsAlone || ran.count >= limit ? nil : try another(isLastRound: isLastRound)
      }
      try transaction.groupEnds()
      let middle = clock.now
      let synced = Connection.secondsInSync
      try commit()
      if heldGroupCount > 0 { heldGroupCount -= 1 }
      count(
        ran.count, refused: refusals.count { $0 != nil }, start: start, middle: middle, end: clock.now,
        synced: Connection.secondsInSync - synced)
      for (body, refusal) in zip(ran, refusals) { body.settle(refusal) }
    } catch {
      let failure = abandonGroup(error)
      // If no group can begin, all waiting bodies get the error, so that they need not fail one by one.
      if ran.isEmpty {
        ran = [first] + taken + core.queue.takeWaiting(atMost: max(limit - 1 - taken.count, 0))
        taken = []
      }
      for body in ran { body.settle(failure) }
    }
  }

  /// A commit across a network costs as much as several bodies, and one of a file does not.
  private var joinsOnceMore: Bool { tenure.fetchedBodyLimit > 1 }

  /// The number of bodies in a group that has run or begun some and takes all that wait.
  private func bodyLimit(running count: Int) -> Int {
    min(core.options.groupBodyLimit, count + taken.count + core.queue.count)
  }

  /// The next body of the group; nil when the group is large enough, no body waits, or the next one needs its own
  /// group.
  private func another(isLastRound: Bool) throws -> (any QueuedBody)? {
    let options = core.options
    let recordLimit = isLastRound ? options.joinedRecordLimit : options.groupRecordLimit
    let byteLimit = isLastRound ? options.joinedByteLimit : options.groupByteLimit
    if transaction.recordCount >= recordLimit || transaction.byteCount >= byteLimit { return nil }
    if taken.isEmpty { try take() }
    // A body that removes files must not share a transaction that another body can still undo.
    guard let body = taken.first, !body.runsAlone else { return nil }
    taken.removeFirst()
    return body
  }

  /// Takes the bodies that come next, and fetches what they are going to look up.
  /// - Parameter first: a body that was taken before them.
  private func take(behind first: (any QueuedBody)? = nil) throws {
    taken += core.queue.takeWaiting(atMost: max(tenure.fetchedBodyLimit - taken.count, 0))
    if tenure.fetchedBodyLimit > 1 { try transaction.fetch(([first].compactMap(\.self) + taken).flatMap(\.lookups)) }
  }

  private func begin() throws {
    try tenure.begin(transaction)
    if mustReload {
      try transaction.reload()
      mustReload = false
    }
    transaction.groupBegins()
  }

  private func commit() throws {
    try tenure.commit()
    transaction.groupCommitted()
    transaction.session.fetched?.removeAll()
    core.isRaised.store(true, ordering: .sequentiallyConsistent)
    core.noteReach()
  }

  /// Runs one body, and undoes it alone when it throws.
  /// - Returns: the error of the body; nil when it returned.
  /// - Throws: an error that fails the whole group.
  private func run(_ body: any QueuedBody) throws -> (any Error)? {
    transaction.bodyBegins()
    let missCount = transaction.session.fetched?.missCount
    let thrown = body.run(in: transaction)
    if let missCount { unexpectedLookupCount += (transaction.session.fetched?.missCount ?? 0) - missCount }
    let failure = transaction.bodyFailure ?? thrown ?? transaction.preparation
    if let error = failure as? any EngineError, error.spoilsTransaction { throw error }
    // SQLite rolls back by itself when it cannot write, and the writes of earlier bodies are lost as well.
    guard tenure.connection.isInTransaction else {
      throw GroupFailure(error: .io("shard \(core.shard): the transaction was lost"))
    }
    guard let failure else {
      try transaction.bodyEnds()
      return nil
    }
    if try transaction.undoBody() { try begin() }
    return (failure as? any EngineError)?.storeError(shard: core.shard) ?? failure
  }

  /// Rolls the group back.
  /// - Returns: the error for its bodies.
  private func abandonGroup(_ error: any Error) -> StoreError {
    mustReload = true
    transaction.session.fetched?.removeAll()
    var isFinal = false
    let failure: StoreError
    switch error {
    case let error as any EngineError:
      failure = error.storeError(shard: core.shard)
      isFinal = error.endsWriting
    case let error as GroupFailure: failure = error.error
    case let error as StoreError:
      failure = error
      if case .fenced = failure { isFinal = true }
    case let error as UnsyncedFolder:
      failure = StoreError(error.reason)
      isFinal = true
    default: failure = .io("shard \(core.shard): \(error)")
    }
    do {
      try tenure.rollback()
    } catch {
      // Dropped because the group has its failure; a connection that cannot roll back is unusable.
      isFinal = true
    }
    if isFinal { core.fail(failure) }
    core.note(failure)
    core.statistics.update { $0.failedGroups += 1 }
    return failure
  }

  /// - Parameter synced: the seconds of the commit that its log's sync took.
  private func count(
    _ bodies: Int, refused: Int, start: ContinuousClock.Instant, middle: ContinuousClock.Instant,
    end: ContinuousClock.Instant, synced: Double
  ) {
    defer { unexpectedLookupCount = 0 }
    core.statistics.update { statistics in
      statistics.commitBodies.note(Double(bodies))
      statistics.commitDurations.note(start.duration(to: end).seconds)
      statistics.syncDurations.note(synced)
      statistics.commits += 1
      statistics.bodies += bodies
      statistics.refusedBodies += refused
      statistics.unexpectedLookups += unexpectedLookupCount
      statistics.records += transaction.recordCount
      statistics.forgottenTransactions += transaction.forgottenTransactionCount
      statistics.recordBytes += transaction.byteCount
      statistics.largestGroup = max(statistics.largestGroup, bodies)
      statistics.bodySeconds += start.duration(to: middle).seconds
      statistics.commitSeconds += middle.duration(to: end).seconds
      statistics.note(logPages: tenure.logPageCount)
    }
  }

  // MARK: Background work

  private func doSlice() {
    let start = clock.now
    fillPlacements()
    cut()
    sweepIfDoomed()
    advanceIndexes()
    slices.note(from: start, to: clock.now)
  }

  /// Notes a slice of the objects of a database that got its first store.
  private func fillPlacements() {
    guard hasBackgroundWork, !transaction.fillingDatabases.isEmpty else { return }
    let count = inSlice({ try $0.fillPlacements(&$1) }, isDone: \.fillingDatabases.isEmpty)
    core.statistics.update { statistics in
      statistics.placementSlices += 1
      statistics.placedRecords += count
    }
  }

  /// Removes a part of the databases that a division has given to another shard.
  private func cut() {
    guard hasBackgroundWork, core.extent.mayCut else { return }
    _ = inBackground { try $0.removeOthers(limit: Self.cutZoneLimit) }
  }

  /// The zones that a commit gives to the sweep.
  private static let cutZoneLimit = 100

  /// Removes a slice of a deleted zone's rows, once the objects in it are noted.
  private func sweepIfDoomed() {
    guard hasBackgroundWork, transaction.doomed?.isEmpty == false, transaction.fillingDatabases.isEmpty else { return }
    let count = inBackground { try $0.sweep(limit: core.options.sweepLimit) }
    core.statistics.update { $0.sweptRecords += count }
  }

  /// Adds a slice of records to a new index, or removes a slice of a dropped one's entries.
  private func advanceIndexes() {
    guard hasBackgroundWork, !transaction.indexes.unfinished.isEmpty else { return }
    let count = inSlice({ try $0.advanceIndexes(&$1) }, isDone: \.indexes.unfinished.isEmpty)
    core.statistics.update { statistics in
      statistics.indexSlices += 1
      statistics.indexedRecords += count
    }
  }

  /// Commits steps of work that goes through records by name, until the time or budget of a slice is used up or the
  /// work is done.
  /// - Returns: the sum of the steps' counts; 0 when the slice failed.
  private func inSlice(
    _ step: (SQLiteTransaction, inout IndexBudget) throws -> Int, isDone: (SQLiteTransaction) -> Bool
  ) -> Int {
    let options = core.options
    let deadline = clock.now.advanced(by: core.queue.count > 0 ? options.indexSliceTime : options.idleIndexSliceTime)
    return inBackground { transaction in
      var count = 0
      var rest = IndexBudget(
        recordCount: options.indexSliceLimit, nameCount: options.indexSliceNameLimit,
        byteCount: options.indexSliceByteLimit)
      repeat {
        let share = Self.indexStep.limited(to: rest)
        var left = share
        count += try step(transaction, &left)
        rest.spend(from: share, to: left)
      } while !rest.isSpent && !isDone(transaction) && clock.now < deadline
      return count
    }
  }

  /// The budget of a step between two looks at the clock.
  private static let indexStep = IndexBudget(recordCount: 64, nameCount: 1024, byteCount: 256 * 1024)

  private static let longestHoldCount = 1024

  /// Commits a slice of background work.
  /// - Returns: the count of the slice; 0 when it failed.
  private func inBackground(_ slice: (SQLiteTransaction) throws -> Int) -> Int {
    do {
      try begin()
      transaction.bodyBegins()
      let count = try slice(transaction)
      try transaction.bodyEnds()
      try transaction.groupEnds()
      try commit()
      nextHoldCount = 1
      rest()
      return count
    } catch {
      // Dropped because no caller waits for it. The next write meets the same failure and reports it.
      _ = abandonGroup(error)
      heldGroupCount = nextHoldCount
      nextHoldCount = min(nextHoldCount * 2, Self.longestHoldCount)
      return 0
    }
  }
}
