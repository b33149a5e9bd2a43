// Threads that read: the store's own few, shared by its shards, so that no read blocks Swift's cooperative threads.

import SQLite
import Synchronization

/// A read as the pool sees it.
protocol QueuedRead: Sendable {
  func run(in snapshot: SQLiteSnapshot)
  func fail(_ error: any Error)
}

struct ReadJob: Sendable {
  let read: any QueuedRead
  let readers: ShardReaders
}

/// The threads. They end when the pool is let go.
final class ReaderPool: Sendable {
  private let queue: BlockingQueue<ReadJob>

  /// - Parameter limit: how many reads may wait; more are refused.
  init(threadCount: Int, limit: Int) throws(StoreError) {
    let queue = try BlockingQueue<ReadJob>(limit: limit)
    self.queue = queue
    for _ in 0..<threadCount {
      try WorkerThread.start {
        while let jobs = queue.take(atMost: 1) {
          for job in jobs { job.readers.perform(job) }
        }
      }
    }
  }

  deinit { queue.close() }

  /// false: too many reads are waiting.
  func submit(_ job: ReadJob) -> Bool { queue.push(job) == .pushed }
}

/// A shard's read connections, and the gate in front of them.
final class ShardReaders: Sendable {
  /// A connection between two reads.
  ///
  /// @unchecked: a session belongs to one thread at a time; it is handed on under the lock of `state`, and SQLite's multi-thread mode
  /// asks for no more.
  private struct IdleSession: @unchecked Sendable {
    let session: ShardSession
  }

  private enum Admission {
    case session(IdleSession)
    case newSession
    case deferred
    case closed
  }

  private struct State {
    var idle: [IdleSession] = []
    var activeCount = 0
    var isPaused = false
    var isClosed = false
    /// Reads that came while the gate was closed.
    var deferred: [ReadJob] = []
  }

  private let file: ShardFile
  private let pool: ReaderPool
  private let state = Mutex(State())
  /// Tells the writer that waits in `pause` or `close` that the last read has ended.
  private let drained: BlockingQueue<Bool>

  init(file: ShardFile, pool: ReaderPool) throws(StoreError) {
    self.file = file
    self.pool = pool
    drained = try BlockingQueue(limit: 1)
  }

  func submit(_ read: any QueuedRead) {
    if !pool.submit(ReadJob(read: read, readers: self)) { read.fail(StoreError.overloaded(shard: file.shard)) }
  }

  // MARK: On a reader thread

  fileprivate func perform(_ job: ReadJob) {
    let admission = state.withLock { state -> Admission in
      if state.isClosed { return .closed }
      if state.isPaused {
        state.deferred.append(job)
        return .deferred
      }
      state.activeCount += 1
      return state.idle.popLast().map(Admission.session) ?? .newSession
    }
    switch admission {
    case .closed: job.read.fail(StoreError.closed(shard: file.shard))
    case .deferred: break
    case .session(let idle): perform(job.read, idle.session)
    case .newSession:
      do {
        perform(job.read, ShardSession(shard: file.shard, connection: try file.reader()))
      } catch {
        finish(nil)
        job.read.fail((error as? SQLiteError).map { StoreError($0, shard: file.shard) } ?? error)
      }
    }
  }

  private func perform(_ read: any QueuedRead, _ session: ShardSession) {
    do {
      try session.connection.beginReadTransaction()
    } catch {
      session.connection.close()
      finish(nil)
      return read.fail(StoreError(error, shard: file.shard))
    }
    read.run(in: SQLiteSnapshot(session))
    do {
      try session.connection.commit()
      finish(session)
    } catch {
      // Dropped because the read has its answer; a connection that can't end a transaction is not used again.
      session.connection.close()
      finish(nil)
    }
  }

  private func finish(_ session: ShardSession?) {
    let idle = session.map(IdleSession.init)
    let isDrained = state.withLock { state in
      if let idle { state.idle.append(idle) }
      state.activeCount -= 1
      return state.activeCount == 0 && (state.isPaused || state.isClosed)
    }
    if isDrained { _ = drained.push(true) }
  }

  // MARK: On the writer's thread

  /// Keeps new reads waiting until `resume`, if those under way end soon.
  /// - Returns: whether none is under way now; if not, nothing is kept waiting.
  func pause(within patience: Duration) -> Bool {
    let deadline = ContinuousClock.now.advanced(by: patience)
    state.withLock { $0.isPaused = true }
    while state.withLock({ $0.activeCount > 0 }) {
      let rest = ContinuousClock.now.duration(to: deadline)
      if rest <= .zero {
        resume()
        return false
      }
      // It may be from an earlier pause that was given up: the count decides.
      _ = drained.take(atMost: 1, within: rest)
    }
    return true
  }

  /// Lets the reads go on that waited.
  func resume() {
    let deferred = state.withLock { state in
      state.isPaused = false
      defer { state.deferred = [] }
      return state.deferred
    }
    for job in deferred { submit(job.read) }
  }

  /// Refuses reads from now on and closes every connection.
  func close() {
    state.withLock { $0.isClosed = true }
    while state.withLock({ $0.activeCount > 0 }) { _ = drained.take(atMost: 1) }
    let (idle, deferred) = state.withLock { state in
      defer { (state.idle, state.deferred) = ([], []) }
      return (state.idle, state.deferred)
    }
    for idle in idle { idle.session.connection.close() }
    for job in deferred { job.read.fail(StoreError.closed(shard: file.shard)) }
  }
}
