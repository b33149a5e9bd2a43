// Sessions for reads, at most so many, which stay open between reads.

import Synchronization

/// Lends sessions to threads that read.
public final class SnapshotPool: Sendable {
  /// A session between two reads.
  ///
  /// Unchecked because one thread at a time has the session. The lock of `state` protects its transfer.
  private struct IdleSession: @unchecked Sendable {
    let session: Session
  }

  private struct State {
    var idle: [IdleSession] = []
    var activeCount = 0
    /// Counts the calls of `discard`. A session of an earlier one is not used again.
    var generation = 0
    var isClosed = false
  }

  private struct Lease {
    let session: Session
    let generation: Int
    /// The session idled before.
    let isUsed: Bool
  }

  private let configuration: SessionConfiguration
  private let limit: Int
  private let state = Mutex(State())

  /// - Parameter limit: the most sessions at a time.
  public init(_ configuration: SessionConfiguration, limit: Int) {
    var configuration = configuration
    configuration.isReadOnly = true
    self.configuration = configuration
    self.limit = limit
  }

  /// Runs `body` in a read-only transaction that sees one state, which includes every commit acknowledged before the
  /// call. Blocks the calling thread. If the session was lost while it idled, `body` runs again in a new one.
  /// - Throws: `crowded` when all sessions are in use, `connectionLost` after `close`, and what `body` throws.
  public func read<Value>(_ body: (Session) throws -> Value) throws -> Value {
    let lease = try take()
    do {
      return try run(body, lease)
    } catch let error as PostgreSQLError where error.kind == .connectionLost && lease.isUsed {
      // Whatever ended this one has mostly ended the others, too.
      discard()
    }
    return try run(body, take())
  }

  /// Closes the idle sessions, and those in use when their reads end. Later reads connect anew: to the present
  /// primary, when the earlier one has lost its role.
  public func discard() {
    let idle = state.withLock { state in
      state.generation += 1
      defer { state.idle = [] }
      return state.idle
    }
    for idle in idle { idle.session.close() }
  }

  /// Discards the sessions, and refuses later reads.
  public func close() {
    state.withLock { $0.isClosed = true }
    discard()
  }

  /// The number of open sessions.
  public var sessionCount: Int { state.withLock { $0.idle.count + $0.activeCount } }

  private func run<Value>(_ body: (Session) throws -> Value, _ lease: Lease) throws -> Value {
    defer { putBack(lease) }
    return try lease.session.transaction(.snapshot) { try body(lease.session) }
  }

  private func take() throws(PostgreSQLError) -> Lease {
    let (idle, generation) = try state.withLock { state throws(PostgreSQLError) in
      guard !state.isClosed else {
        throw PostgreSQLError(.connectionLost, command: "read", message: "the pool is closed")
      }
      let idle = state.idle.popLast()
      guard idle != nil || state.activeCount < limit else {
        throw PostgreSQLError(.crowded, command: "read", message: "all \(limit) sessions are in use")
      }
      state.activeCount += 1
      return (idle, state.generation)
    }
    if let idle { return Lease(session: idle.session, generation: generation, isUsed: true) }
    do throws(PostgreSQLError) {
      return Lease(session: try Session(configuration), generation: generation, isUsed: false)
    } catch {
      state.withLock { $0.activeCount -= 1 }
      throw error
    }
  }

  private func putBack(_ lease: Lease) {
    let idle = IdleSession(session: lease.session)
    let isKept = state.withLock { state in
      state.activeCount -= 1
      guard idle.session.isOpen, lease.generation == state.generation, !state.isClosed else { return false }
      state.idle.append(idle)
      return true
    }
    if !isKept { idle.session.close() }
  }
}
