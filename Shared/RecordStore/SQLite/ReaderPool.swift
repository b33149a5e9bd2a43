// Threads for reads, a few for all shards of a store, so that no read blocks Swift's cooperative threads.

import Glibc
import SQLite
import Synchronization

/// A read from the pool's side.
protocol QueuedRead: Sendable {
  /// Runs the read, and hands its result to the caller unless the read was cut short. A read that was cut short runs
  /// again, so it must not change anything.
  /// - Returns: false when the read was cut short.
  func run(in snapshot: SQLiteSnapshot, isCutShort: () -> Bool) -> Bool
  /// Hands the caller an error, which may be SQLite's own.
  func fail(_ error: any Error)
}

struct ReadJob: Sendable {
  let read: any QueuedRead
  let readers: ShardReaders
  /// The end of the time that the caller waits for the read.
  let expiry: ContinuousClock.Instant
  /// The party that the read belongs to (`ShardStore.turns`).
  let party: String
  /// The read was cut short once, or is known to take long. It runs on a thread for long reads.
  var isLong = false
}

/// The pool's threads. They end with the pool.
///
/// A read begins on a thread for brief reads, and may stay there while no other read waits for one. A read that takes
/// longer while others wait is cut short and begins again on a thread for long reads, so that large searches do not
/// hold up the rest. Parties take turns on both kinds. One party's reads occupy at most half of the threads for brief
/// reads, and leave one for long reads free. The threads give way to those of saves and answers: otherwise each step of
/// a save waits for large searches.
final class ReaderPool: Sendable {
  private let brief: BlockingQueue<ReadJob>
  private let long: BlockingQueue<ReadJob>
  private let whole: BlockingQueue<@Sendable () -> Void>
  private let briefTime: Duration
  private let isBriefAwaited: @Sendable () -> Bool
  fileprivate let idle: IdleSessions

  /// - Parameter idleLimit: of sessions that are kept for later reads, for each open shard; nil for any number.
  init(_ options: StoreOptions, idleLimit: Int? = nil) throws(StoreError) {
    idle = IdleSessions(idleLimit.map { IdleSessions.Limit(perShard: $0, least: options.readerThreadCount) })
    let brief = try BlockingQueue<ReadJob>(
      limit: options.readLimit, partyLimit: options.partyReadLimit,
      underWayLimit: max(1, options.readerThreadCount / 2))
    let long = try BlockingQueue<ReadJob>(
      limit: options.longReadLimit, partyLimit: options.partyLongReadLimit,
      underWayLimit: max(1, options.longReaderThreadCount - 1))
    let whole = try BlockingQueue<@Sendable () -> Void>(limit: options.readLimit)
    self.brief = brief
    self.long = long
    self.whole = whole
    briefTime = options.briefReadTime
    isBriefAwaited = { brief.count > 0 }
    do {
      for _ in 0..<options.readerThreadCount { try Self.start(brief, "reads") }
      for _ in 0..<options.longReaderThreadCount { try Self.start(long, "long reads") }
      for _ in 0..<options.wholeReaderThreadCount {
        try WorkerThread.start("whole reads", givesWay: true) {
          while let jobs = whole.take(atMost: 1) { for job in jobs { job() } }
        }
      }
    } catch {
      brief.close()
      long.close()
      whole.close()
      throw error
    }
  }

  deinit {
    brief.close()
    long.close()
    whole.close()
  }

  private static func start(_ queue: BlockingQueue<ReadJob>, _ name: String) throws(StoreError) {
    try WorkerThread.start(name, givesWay: true) {
      while let jobs = queue.take(atMost: 1) {
        for job in jobs {
          job.readers.perform(job)
          queue.finished(of: job.party)
        }
      }
    }
  }

  /// The reads that wait for a thread.
  var waitingCount: Int { brief.count + long.count }

  /// - Returns: false when too many reads wait.
  func submit(_ job: ReadJob) -> Bool { (job.isLong ? long : brief).push(job, of: job.party) == .pushed }

  /// Runs a copy or a check of a whole shard on a thread for such work.
  /// - Returns: false when too many wait.
  func submitWhole(_ job: @escaping @Sendable () -> Void) -> Bool { whole.push(job) == .pushed }

  /// Starts the watch over the time that the job may take.
  func begin(_ job: ReadJob, _ watch: StatementWatch) {
    watch.begin(
      until: job.isLong ? job.expiry : min(.now + briefTime, job.expiry), atLatest: job.expiry,
      isAwaited: isBriefAwaited)
  }
}

/// A shard's read connections, and a gate that keeps reads out while the writer needs the file for itself.
final class ShardReaders: Sendable {
  private enum Admission {
    case admitted
    case deferred
    case crowded
    case closed
  }

  private struct State {
    var activeCount = 0
    /// The watches of the current reads.
    var watches: [ObjectIdentifier: StatementWatch] = [:]
    /// The watches of reads of the whole shard. The value says whether the read may finish even if the log grows too
    /// long.
    var wholes: [ObjectIdentifier: Bool] = [:]
    var isPaused = false
    var isClosed = false
    /// Reads that arrived while the gate was closed.
    var deferred: [ReadJob] = []
    /// The number of reads that began again as long ones, and of those that were given up.
    var longReadCounts = (begun: 0, givenUp: 0)
  }

  private let shard: Int
  private let makeSession: @Sendable () throws -> ShardSession
  private let pool: ReaderPool
  private let state = Mutex(State())
  /// Wakes the writer in `pause` or `close` when the last read has ended.
  private let drained: BlockingQueue<Bool>
  /// The most reads that wait while the gate is closed.
  private let deferredLimit: Int

  /// - Parameter makeSession: connects, on the thread that reads.
  init(
    shard: Int, pool: ReaderPool, deferredLimit: Int, makeSession: @escaping @Sendable () throws -> ShardSession
  ) throws(StoreError) {
    self.shard = shard
    self.makeSession = makeSession
    self.deferredLimit = deferredLimit
    self.pool = pool
    drained = try BlockingQueue(limit: 1)
    pool.idle.opened(id)
  }

  deinit { closeIdle() }

  private var id: ObjectIdentifier { ObjectIdentifier(self) }

  private func closeIdle() { for session in pool.idle.closed(id) { session.connection.close() } }

  /// Lets the reads of all the store's shards connect anew. Any thread may call it.
  /// - Parameter generation: that of a lost session; nil: in any case.
  func discardIdle(_ generation: Int? = nil) { pool.idle.discard(generation) }

  private func newSession() throws -> ShardSession {
    let generation = pool.idle.generation
    let session = try makeSession()
    session.generation = generation
    return session
  }

  /// The reads of all the store's shards that wait for a thread.
  var waitingCount: Int { pool.waitingCount }

  /// The number of reads that began again as long ones, and of those that were given up.
  var longReadCounts: (begun: Int, givenUp: Int) { state.withLock { $0.longReadCounts } }

  /// Queues a read.
  /// - Parameters:
  ///   - time: the most time that the read may take, including its wait.
  ///   - party: the party that the read belongs to.
  ///   - isLong: whether the read is known to take long.
  func submit(_ read: any QueuedRead, within time: Duration, of party: String, isLong: Bool = false) {
    submit(ReadJob(read: read, readers: self, expiry: .now + time, party: party, isLong: isLong))
  }

  private func submit(_ job: ReadJob) {
    if !pool.submit(job) { job.read.fail(StoreError.overloaded(shard: shard)) }
  }

  // MARK: On a reader thread

  fileprivate func perform(_ job: ReadJob) {
    if .now >= job.expiry { return job.read.fail(StoreError.overloaded(shard: shard)) }
    let admission = state.withLock { state -> Admission in
      if state.isClosed { return .closed }
      if state.isPaused {
        if state.deferred.count >= deferredLimit { return .crowded }
        state.deferred.append(job)
        return .deferred
      }
      state.activeCount += 1
      return .admitted
    }
    switch admission {
    case .closed: job.read.fail(StoreError.closed(shard: shard))
    case .deferred: break
    case .crowded: job.read.fail(StoreError.overloaded(shard: shard))
    case .admitted:
      do {
        perform(job, try pool.idle.take(of: id) ?? newSession())
      } catch {
        finish(nil)
        job.read.fail(error)
      }
    }
  }

  private func perform(_ job: ReadJob, _ session: ShardSession) {
    let hidden = session.extent.others
    do {
      try session.connection.beginRead()
    } catch {
      session.connection.close()
      finish(nil)
      return job.read.fail(error)
    }
    let watch = session.watch
    pool.begin(job, watch)
    state.withLock { state in
      state.watches[ObjectIdentifier(watch)] = watch
      if state.isClosed { watch.stop() }
    }
    let isDone = job.read.run(in: SQLiteSnapshot(session, hiding: hidden)) { watch.isOver || session.connection.isLost }
    // A lost connection says nothing of the next one. Without a server, that one fails.
    let runsAgain = watch.end() || session.connection.isLost
    // Whatever ended this one has mostly ended the others, or they wait for a server that is no primary any more.
    if session.connection.isLost { discardIdle(session.generation) }
    state.withLock { state in state.watches[ObjectIdentifier(watch)] = nil }
    end(session)
    if isDone { return }
    if state.withLock({ $0.isClosed }) {
      job.read.fail(StoreError.closed(shard: shard))
    } else if runsAgain {
      submit(job)
    } else if job.isLong || .now >= job.expiry {
      state.withLock { $0.longReadCounts.givenUp += 1 }
      job.read.fail(StoreError.tooSlow(shard: shard))
    } else {
      state.withLock { $0.longReadCounts.begun += 1 }
      submit(ReadJob(read: job.read, readers: self, expiry: job.expiry, party: job.party, isLong: true))
    }
  }

  // MARK: Whole shards

  /// The number of attempts to read a whole shard. The last one may finish even if the log grows too long.
  private static let wholeAttemptCount = 3
  private static let gatePause: useconds_t = 2000

  /// Reads the whole shard on the calling thread. If the log grows too long meanwhile, the read begins again, up to
  /// `wholeAttemptCount` attempts.
  /// - Throws: `StoreError.tooSlow` when the last attempt was cut short as well; `StoreError.closed`;
  ///   `CancellationError`; errors of `body`.
  func readWhole<Value>(_ cancellation: ReadCancellation, _ body: (SQLiteSnapshot) throws -> Value) throws -> Value {
    for attempt in 1...Self.wholeAttemptCount {
      try enterGate(cancellation)
      let session: ShardSession
      do {
        session = try makeSession()
      } catch {
        finish(nil)
        throw error
      }
      let watch = session.watch
      let id = ObjectIdentifier(watch)
      watch.begin(until: .now + .seconds(1_000_000), atLatest: .now + .seconds(1_000_000)) { false }
      state.withLock { state in
        state.watches[id] = watch
        state.wholes[id] = attempt == Self.wholeAttemptCount
        if state.isClosed { watch.stop() }
      }
      cancellation.stops(watch)
      let result = Result {
        try session.connection.beginRead(idlingFor: PostgreSQLConfiguration.longTime)
        return try body(SQLiteSnapshot(session))
      }
      let isOver = watch.isOver
      watch.end()
      let isClosed = state.withLock { state in
        state.watches[id] = nil
        state.wholes[id] = nil
        return state.isClosed
      }
      session.connection.close()
      finish(nil)
      if cancellation.isCancelled { throw CancellationError() }
      if isClosed { throw StoreError.closed(shard: shard) }
      if !isOver { return try result.get() }
    }
    throw StoreError.tooSlow(shard: shard)
  }

  private func enterGate(_ cancellation: ReadCancellation) throws {
    while true {
      if cancellation.isCancelled { throw CancellationError() }
      let isIn = try state.withLock { state in
        if state.isClosed { throw StoreError.closed(shard: shard) }
        if state.isPaused { return false }
        state.activeCount += 1
        return true
      }
      if isIn { return }
      usleep(Self.gatePause)
    }
  }

  private func end(_ session: ShardSession) {
    do {
      try session.endRead()
      finish(session.connection.isLost ? nil : session)
    } catch {
      // Dropped because the read has its answer; a connection that cannot end a transaction is not used again.
      session.connection.close()
      finish(nil)
    }
  }

  private func finish(_ session: ShardSession?) {
    let surplus = session.map { pool.idle.put($0, of: id) } ?? []
    for session in surplus { session.connection.close() }
    let isDrained = state.withLock { state in
      state.activeCount -= 1
      return state.activeCount == 0 && (state.isPaused || state.isClosed)
    }
    if isDrained { _ = drained.push(true) }
  }

  // MARK: On the writer's thread

  /// Makes new reads wait until `resume`, provided that the current reads end in time.
  /// - Parameters:
  ///   - patience: the time in which the current reads have to end.
  ///   - interruptionPatience: the further time in which reads that are cut short then have to end; they begin again
  ///     after `resume`. nil cuts no read short.
  ///   - cutsShort: whether to cut short even the last attempt of a read of the whole shard.
  /// - Returns: true when no read is running. If it is false, no read is kept waiting.
  func pause(
    within patience: Duration, thenInterruptingWithin interruptionPatience: Duration? = nil, cutsShort: Bool = false
  ) -> Bool {
    // Waiting for a read of the whole shard that may go on would be in vain.
    if state.withLock({ $0.wholes.values.contains { isKept in interruptionPatience == nil || isKept && !cutsShort } }) {
      return false
    }
    var deadline = ContinuousClock.now.advanced(by: patience)
    var interruptionPatience = interruptionPatience
    state.withLock { $0.isPaused = true }
    while state.withLock({ $0.activeCount > 0 }) {
      let rest = ContinuousClock.now.duration(to: deadline)
      if rest <= .zero {
        guard let extra = interruptionPatience else {
          resume()
          return false
        }
        interruptionPatience = nil
        deadline += extra
        for watch in state.withLock({ Array($0.watches.values) }) { watch.interrupt() }
        continue
      }
      // The signal can stem from an earlier pause that was given up, so the count decides.
      _ = drained.take(atMost: 1, within: rest)
    }
    return true
  }

  /// Opens the gate for the reads that waited.
  func resume() {
    let deferred = state.withLock { state in
      state.isPaused = false
      defer { state.deferred = [] }
      return state.deferred
    }
    for job in deferred { submit(job) }
  }

  /// Refuses new reads, ends the current ones and closes every connection.
  func close() {
    let watches = state.withLock { state in
      state.isClosed = true
      return Array(state.watches.values)
    }
    for watch in watches { watch.stop() }
    while state.withLock({ $0.activeCount > 0 }) { _ = drained.take(atMost: 1) }
    let deferred = state.withLock { state in
      defer { state.deferred = [] }
      return state.deferred
    }
    closeIdle()
    for job in deferred { job.read.fail(StoreError.closed(shard: shard)) }
  }
}
