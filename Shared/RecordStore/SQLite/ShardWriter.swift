// The thread that writes a shard: group commit, fencing.

import SQLite
import Synchronization

/// Everything a shard's writer thread owns. Not Sendable: it is made and used there.
///
/// A group is whatever waits: the next group gathers while the previous commit is synced, so that no timer is needed. Its bodies are taken one by
/// one, a party's turn after the other: whoever comes while a group runs that has no end to it waits for that group only.
/// Work that nobody waits for is done in slices between groups (`SlicePacing`).
final class ShardWriter {
  private let core: ShardCore
  private let connection: Connection
  private let transaction: SQLiteTransaction
  private let checkpoints: ShardCheckpoints
  private let clock = ContinuousClock()

  /// Caches are wrong after a failure and must be read again before the next group.
  private var mustReload = true
  /// A slice of background work failed: the next one waits until so many groups were committed, each time twice as many, because after a
  /// failure the next group has to read again what is cached.
  private var heldGroupCount = 0
  private var nextHoldCount = 1
  private var slices = SlicePacing()
  /// A body that was taken and has to be alone in its group: the next one.
  private var setAside: (any QueuedBody)?

  /// - Parameter report: told of what work in the background had to pass over.
  init(
    core: ShardCore, connection: Connection, file: ShardFile, checkpoints: ShardCheckpoints, makeIncarnation: @escaping () -> UInt64,
    now: @escaping () -> Int64, report: @escaping (String) -> Void
  ) {
    self.core = core
    self.connection = connection
    self.checkpoints = checkpoints
    transaction = SQLiteTransaction(
      ShardSession(shard: core.shard, connection: connection, keys: file.keys), committedMirrors: core.committedMirrors, assets: file.assets,
      keepsPastStates: core.options.keepsPastStates, makeIncarnation: makeIncarnation, now: now)
    transaction.onPassedOver = { [core] problem in
      core.statistics.update { $0.passedOverRecords += 1 }
      report(problem)
    }
  }

  /// Commits until the queue is closed and empty; then empties the log and closes the file.
  func run() {
    // Before the first group: deleted zones may be waiting for the sweep since the last owner.
    do {
      try transaction.reload()
      mustReload = false
    } catch {
      // Dropped because the first group tries again, and has somebody to tell.
    }
    working: while true {
      switch next() {
      case .body(let body):
        commitGroup(body)
        checkpoints.runIfDue()
        slices.noteSave()
      case .background: doSlice()
      case .end: break working
      }
    }
    core.readers.close()
    checkpoints.close()
  }

  /// Whether rows of deleted zones, objects to be noted or records for new indexes wait.
  private var hasBackgroundWork: Bool {
    core.failure == nil && heldGroupCount == 0
      && (transaction.doomed?.isEmpty == false || !transaction.fillingDatabases.isEmpty || !transaction.indexes.unfinished.isEmpty)
  }

  private enum Next {
    case body(any QueuedBody)
    /// Background work waits, and it is time for a slice of it.
    case background
    case end
  }

  private func next() -> Next {
    if let body = setAside.take() { return .body(body) }
    if hasBackgroundWork, !core.queue.isClosed {
      if let patience = slices.patience(at: clock.now), let body = core.queue.take(atMost: 1, within: patience).first { return .body(body) }
      if !core.queue.isClosed { return .background }
    }
    return core.queue.take(atMost: 1)?.first.map(Next.body) ?? .end
  }

  // MARK: Groups

  /// What ends a group before its commit, for everybody in it.
  private struct GroupFailure: Error {
    let error: StoreError
  }

  /// Runs a body and those that wait, until the group is large enough, and commits them.
  private func commitGroup(_ first: any QueuedBody) {
    if let refusal = core.refusal { return first.settle(refusal) }
    // Those that come meanwhile are for the next group: this one has an end, however fast they come.
    let limit = min(core.options.groupBodyLimit, 1 + core.queue.count)
    var ran: [any QueuedBody] = []
    var refusals: [(any Error)?] = []
    do {
      let start = clock.now
      try begin()
      var next: (any QueuedBody)? = first
      while let body = next {
        ran.append(body)
        refusals.append(try run(body))
        next = body.runsAlone || ran.count >= limit ? nil : another()
      }
      try transaction.groupEnds()
      let middle = clock.now
      let synced = Connection.secondsInSync
      try commit()
      if heldGroupCount > 0 { heldGroupCount -= 1 }
      count(ran.count, refused: refusals.count { $0 != nil }, start: start, middle: middle, end: clock.now, synced: Connection.secondsInSync - synced)
      for (body, refusal) in zip(ran, refusals) { body.settle(refusal) }
    } catch {
      let failure = abandonGroup(error)
      // Where no group can begin, everybody in it is told, and nobody tries by himself.
      if ran.isEmpty { ran = [first] + core.queue.takeWaiting(atMost: limit - 1) }
      for body in ran { body.settle(failure) }
    }
  }

  /// The next body of the group; nil when it is large enough, or nobody else waits.
  private func another() -> (any QueuedBody)? {
    if transaction.recordCount >= core.options.groupRecordLimit || transaction.byteCount >= core.options.groupByteLimit { return nil }
    guard let body = core.queue.takeWaiting(atMost: 1).first else { return nil }
    // What removes files has to know that nothing it goes by is undone.
    if !body.runsAlone { return body }
    setAside = body
    return nil
  }

  private func begin() throws {
    try connection.beginImmediateTransaction()
    if mustReload {
      try transaction.reload()
      mustReload = false
    }
    let epoch = try transaction.meta(.epoch)
    if epoch == core.epoch - 1, !core.isRaised.load(ordering: .relaxed) {
      try transaction.setMeta(.epoch, core.epoch)
    } else if epoch != core.epoch {
      throw GroupFailure(error: .fenced(shard: core.shard, epoch: epoch))
    }
    transaction.groupBegins()
  }

  private func commit() throws {
    try connection.commit()
    transaction.groupCommitted()
    core.isRaised.store(true, ordering: .sequentiallyConsistent)
  }

  /// Runs one body, and undoes it alone when it throws.
  /// - Returns: what it threw.
  /// - Throws: what the whole group fails with.
  private func run(_ body: any QueuedBody) throws -> (any Error)? {
    transaction.bodyBegins()
    let thrown = body.run(in: transaction)
    let failure = transaction.bodyFailure ?? thrown
    if let error = failure as? SQLiteError, !error.isConstraintViolation { throw error }
    // SQLite rolls back by itself when it can't write: what earlier bodies wrote is gone too.
    guard connection.isInTransaction else { throw GroupFailure(error: .io("shard \(core.shard): the transaction was lost")) }
    guard let failure else {
      try transaction.bodyEnds()
      return nil
    }
    if try transaction.undoBody() { try begin() }
    return (failure as? SQLiteError).map { StoreError($0, shard: core.shard) } ?? failure
  }

  /// Rolls the group back.
  /// - Returns: what its bodies are told.
  private func abandonGroup(_ error: any Error) -> StoreError {
    mustReload = true
    var isFinal = false
    let failure: StoreError
    switch error {
    case let error as SQLiteError:
      failure = StoreError(error, shard: core.shard)
      // After a failed sync the kernel may have dropped what it could not write, and says so only once.
      isFinal = error.isSyncError || error.isCorruption || error.isReadError
    case let error as GroupFailure:
      failure = error.error
      if case .fenced = failure { isFinal = true }
    case let error as StoreError: failure = error
    case let error as UnsyncedFolder:
      failure = StoreError(error.reason)
      isFinal = true
    default: failure = .io("shard \(core.shard): \(error)")
    }
    do {
      try connection.rollback()
    } catch {
      // Dropped because the group has its failure; a connection that can't even roll back is of no more use.
      isFinal = true
    }
    if isFinal { core.fail(failure) }
    core.statistics.update { $0.failedGroups += 1 }
    return failure
  }

  /// - Parameter synced: seconds of the commit in which its log was synced.
  private func count(
    _ bodies: Int, refused: Int, start: ContinuousClock.Instant, middle: ContinuousClock.Instant, end: ContinuousClock.Instant, synced: Double
  ) {
    core.statistics.update { statistics in
      statistics.commitBodies.note(Double(bodies))
      statistics.commitDurations.note(start.duration(to: end).seconds)
      statistics.syncDurations.note(synced)
      statistics.commits += 1
      statistics.bodies += bodies
      statistics.refusedBodies += refused
      statistics.records += transaction.recordCount
      statistics.forgottenTransactions += transaction.forgottenTransactionCount
      statistics.recordBytes += transaction.byteCount
      statistics.largestGroup = max(statistics.largestGroup, bodies)
      statistics.bodySeconds += start.duration(to: middle).seconds
      statistics.commitSeconds += middle.duration(to: end).seconds
      statistics.note(logPages: connection.logPageCount)
    }
  }

  // MARK: Background work

  private func doSlice() {
    let start = clock.now
    fillPlacements()
    sweepIfDoomed()
    advanceIndexes()
    slices.note(from: start, to: clock.now)
  }

  /// Notes a slice of the objects of a database that has got its first store.
  private func fillPlacements() {
    guard hasBackgroundWork, !transaction.fillingDatabases.isEmpty else { return }
    let count = inSlice({ try $0.fillPlacements(&$1) }, isDone: \.fillingDatabases.isEmpty)
    core.statistics.update { statistics in
      statistics.placementSlices += 1
      statistics.placedRecords += count
    }
  }

  /// Removes a slice of a deleted zone's rows, once the objects that were in it are noted.
  private func sweepIfDoomed() {
    guard hasBackgroundWork, transaction.doomed?.isEmpty == false, transaction.fillingDatabases.isEmpty else { return }
    let count = inBackground { try $0.sweep(limit: core.options.sweepLimit) }
    core.statistics.update { $0.sweptRecords += count }
  }

  /// Fills a slice of records into a new index, or removes one of an index that was dropped.
  private func advanceIndexes() {
    guard hasBackgroundWork, !transaction.indexes.unfinished.isEmpty else { return }
    let count = inSlice({ try $0.advanceIndexes(&$1) }, isDone: \.indexes.unfinished.isEmpty)
    core.statistics.update { statistics in
      statistics.indexSlices += 1
      statistics.indexedRecords += count
    }
  }

  /// Commits steps of what goes through records by name, until the time or the budget of a slice is over, or all is done.
  /// - Returns: what the steps counted; 0 when the slice failed.
  private func inSlice(_ step: (SQLiteTransaction, inout IndexBudget) throws -> Int, isDone: (SQLiteTransaction) -> Bool) -> Int {
    let options = core.options
    let deadline = clock.now.advanced(by: core.queue.count > 0 ? options.indexSliceTime : options.idleIndexSliceTime)
    return inBackground { transaction in
      var count = 0
      var rest = IndexBudget(recordCount: options.indexSliceLimit, nameCount: options.indexSliceNameLimit, byteCount: options.indexSliceByteLimit)
      repeat {
        let share = Self.indexStep.limited(to: rest)
        var left = share
        count += try step(transaction, &left)
        rest.spend(from: share, to: left)
      } while !rest.isSpent && !isDone(transaction) && clock.now < deadline
      return count
    }
  }

  /// Between two looks at the clock.
  private static let indexStep = IndexBudget(recordCount: 64, nameCount: 1024, byteCount: 256 * 1024)

  private static let longestHoldCount = 1024

  /// Commits a slice of work that nobody waits for.
  /// - Returns: what it counted; 0 when it failed.
  private func inBackground(_ slice: (SQLiteTransaction) throws -> Int) -> Int {
    do {
      try begin()
      transaction.bodyBegins()
      let count = try slice(transaction)
      try transaction.bodyEnds()
      try transaction.groupEnds()
      try commit()
      nextHoldCount = 1
      checkpoints.runIfDue()
      return count
    } catch {
      // Dropped because nobody waits for it: whoever writes next meets the same failure and hears of it.
      _ = abandonGroup(error)
      heldGroupCount = nextHoldCount
      nextHoldCount = min(nextHoldCount * 2, Self.longestHoldCount)
      return 0
    }
  }
}
